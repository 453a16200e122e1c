from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ids import TopicPartition
from penstock.spark.batch import ShuffledBatch
from penstock.spark.vectors import Vector
from penstock.spark.worker.shuffle_input import ShuffleInput

ZERO, ONE = TopicPartition("lines", 0), TopicPartition("lines", 1)
SOURCES = [ZERO, ONE]


def batch_of(*rows: tuple[int, int, int]) -> ShuffledBatch:
    """Rows of (source, offset, timestamp)."""
    return ShuffledBatch.of_rows([(b"k", f"{s}-{offset}".encode(), at, (), s, offset) for s, offset, at in rows])


def test_should_merge_sources_by_time_and_keep_the_order_of_each() -> None:
    batch = batch_of((0, 0, 5), (0, 1, 3), (0, 2, 9), (1, 0, 1), (1, 1, 6)).in_time_order({})
    assert list(zip(batch.sources, batch.offsets)) == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]


def test_should_leave_out_the_first_records_of_a_source_that_was_begun() -> None:
    batch = batch_of((0, 7, 1), (0, 7, 2), (0, 7, 3)).in_time_order({0: (7, 2)})
    assert batch.timestamps.tolist() == [3]


def test_should_leave_out_only_records_of_the_offset_that_was_begun() -> None:
    """The offset was compacted away meanwhile, or gives fewer records than it did."""
    gone = batch_of((0, 8, 1), (0, 9, 2)).in_time_order({0: (7, 2)})
    fewer = batch_of((0, 7, 1), (0, 8, 2), (1, 7, 3)).in_time_order({0: (7, 2)})
    assert (gone.offsets.tolist(), fewer.offsets.tolist()) == ([8, 9], [8, 7])


def test_should_commit_the_ends_when_nothing_waits() -> None:
    fed = ShuffleInput(SOURCES, None)
    fed.take(batch_of((0, 3, 1), (1, 5, 2)), {ZERO: 4, ONE: 8})
    assert fed.commit(0, "times").metadata == "times|2|lines=4,8"


def test_should_commit_the_first_that_waits_of_each_source() -> None:
    fed = ShuffleInput(SOURCES, None)
    fed.take(batch_of((0, 3, 1), (0, 4, 3), (1, 5, 2), (1, 6, 4)), {ZERO: 9, ONE: 9})
    assert fed.commit(2, "").metadata == "|2|lines=4,6"


def test_should_say_how_many_records_of_an_offset_were_consumed() -> None:
    fed = ShuffleInput(SOURCES, None)
    fed.take(batch_of((0, 3, 1), (0, 3, 1), (0, 3, 1)), {ZERO: 4, ONE: 0})
    assert fed.commit(2, "").metadata == "|1|lines=3+1,0"
    assert fed.commit(1, "").metadata == "|2|lines=3+2,0"
    assert fed.commit(0, "").metadata == "|3|lines=4,0"


def test_should_keep_the_times_of_the_last_commit_in_a_turn_that_brings_nothing() -> None:
    fed = ShuffleInput(SOURCES, None)
    fed.take(batch_of((0, 0, 1)), {ZERO: 1, ONE: 0})
    fed.commit(0, "times")
    fed.take(None, {ZERO: 2, ONE: 0})
    assert fed.commit(0, None).metadata == "times|1|lines=2,0"


@settings(max_examples=100)
@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 20)), max_size=12),
    stops=st.lists(st.integers(0, 40), max_size=6),
)
def test_should_consume_each_record_once_when_closed_and_reopened_between_any_two_turns(
    rows: list[tuple[int, int, int]], stops: list[int]
) -> None:
    """Each row is an input record of a source that becomes one to three records at some time."""
    log: dict[int, list[tuple[int, int, int]]] = {0: [], 1: []}
    offsets = {0: 0, 1: 0}
    for source, copies, timestamp in rows:
        log[source] += [(source, offsets[source], timestamp)] * copies
        offsets[source] += 1
    ends = {ZERO: offsets[0], ONE: offsets[1]}
    committed, consumed = None, []
    for stop in [*stops, 1000]:
        fed = ShuffleInput(SOURCES, committed)
        starts = list(Vector.of(committed, SOURCES).positions.values()) or [0, 0]
        batch = fed.take(batch_of(*(row for s in (0, 1) for row in log[s] if row[1] >= starts[s])), ends)
        done = min(stop, len(batch))
        consumed += list(zip(batch.sources, batch.offsets))[:done]
        committed = fed.commit(len(batch) - done, "")
    assert sorted(consumed) == sorted((source, offset) for source in log for source, offset, _ in log[source])

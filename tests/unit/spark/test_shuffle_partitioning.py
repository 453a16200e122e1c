"""What crosses the shuffle as columns is what would cross it record by record; a count of it counts the same."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.columns.columns import ProducedColumns, RawColumns, records_of
from penstock.columns.text import TextColumn
from penstock.ids import TopicPartition
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import UpstreamWork
from penstock.spark.plan import Plan
from penstock.spark.worker.upstream import SortedByTarget, sort_by_target
from penstock.topology.specs import Subtopology

PARTITIONS = 3
SOURCES = [TopicPartition("lines", partition) for partition in range(2)]
SUBTOPOLOGY = Subtopology(0, (), {}, (), {}, ("lines",), ("words",), {}, {})

ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"longer-key", None]),
        st.sampled_from([b"v", b"w", None]),
        st.integers(0, 9),
        st.sampled_from([(), (("h", b"1"),)]),
    ),
    max_size=30,
)
SKIP = st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 30), max_size=2)


def plan(counted: bool) -> Plan:
    return Plan({0: SUBTOPOLOGY}, {"lines": 2, "words": PARTITIONS}, {"words": 0}, frozenset({"words"} if counted else ()))


def produced(topic: str, source: int, rows: Any, headers: bool = True) -> ProducedColumns:
    keys, values, times, some = ([row[i] for row in rows] for i in range(4))
    offsets = [number // 2 for number in range(len(rows))]  # two outputs of each input record
    origin = RawColumns("lines", source, offsets, times, keys, values)
    return ProducedColumns(topic, None, keys, values, times, some if headers else None, origin, offsets)


def as_text(made: ProducedColumns) -> ProducedColumns:
    """The same with keys that Arrow holds."""
    keys = TextColumn.of(made.keys).as_bytes()
    return ProducedColumns(made.topic, None, keys, made.values, made.timestamps, made.headers, made.origin, made.offsets)


def sort(made: list[ProducedColumns], skip: dict[int, int], counted: bool, columns: bool) -> dict[Any, ShuffledBatch]:
    work = UpstreamWork(0, 0, (), {TopicPartition("words", p): {SOURCES[0]: at} for p, at in skip.items()})
    found = SortedByTarget(plan(counted).counted)
    if columns:
        sort_by_target(plan(counted), work, made, [None] * len(made), found)
        return found.batches()
    records = [
        (record, (TopicPartition("lines", columns.origin.partition), offset))  # type: ignore[union-attr]
        for columns in made
        for record, offset in zip(records_of([columns]), columns.offsets or ())
    ]
    sort_by_target(plan(counted), work, [record for record, _ in records], [origin for _, origin in records], found)
    return found.batches()


def rows_of(batch: ShuffledBatch) -> list[Any]:
    headers = batch.headers or [()] * len(batch)
    columns = (batch.keys.to_pylist(), batch.values.to_pylist(), batch.timestamps.tolist(), headers)
    return list(zip(*columns, batch.sources.tolist(), batch.offsets.tolist()))


@settings(deadline=None)
@given(first=ROWS, second=ROWS, skip=SKIP)
def test_should_sort_columns_as_records(first: Any, second: Any, skip: dict[int, int]) -> None:
    made = [produced("words", 0, first), produced("words", 1, second)]
    as_columns, as_records = (sort(made, skip, False, columns) for columns in (True, False))
    assert {t: rows_of(b) for t, b in as_columns.items()} == {t: rows_of(b) for t, b in as_records.items()}


@settings(deadline=None)
@given(first=ROWS, second=ROWS, skip=SKIP)
@example([(b"a", b"v", 1, ()), (b"a", b"v", 1, ()), (b"a", b"v", 0, ())], [(b"a", b"v", 0, (("h", b"1"),))], {1: 1})
def test_should_count_the_same_in_the_same_order(first: Any, second: Any, skip: dict[int, int]) -> None:
    made = [produced("words", 0, first), produced("words", 1, second)]
    as_columns, as_records = (sort(made, skip, True, columns) for columns in (True, False))
    assert as_columns.keys() == as_records.keys()
    for target, batch in as_columns.items():
        assert counts(ShuffledBatch.from_bytes(batch.to_bytes())) == counts(as_records[target])


def counts(batch: ShuffledBatch) -> list[Any]:
    """For each key: how often, the latest time, the headers of the last record; in the order of the last records."""
    ordered = batch.in_time_order({})
    assert ordered.weights is not None
    found: dict[Any, Any] = {}
    totals: defaultdict[Any, int] = defaultdict(int)
    latest: defaultdict[Any, int] = defaultdict(int)
    for (key, value, time, headers, *_), weight in zip(rows_of(ordered), ordered.weights.tolist()):
        if key is None or value is None:
            key, headers = "incomplete", ()
        totals[key] += weight
        latest[key] = max(latest[key], time)
        found.pop(key, None)
        found[key] = headers
    incomplete = (totals.pop("incomplete", 0), found.pop("incomplete", None))
    return [incomplete, *((key, totals[key], latest[key], headers) for key, headers in found.items())]


def test_should_let_other_outputs_ride_along() -> None:
    made = [
        produced("words", 0, [(b"a", b"v", 1, ())]),
        produced("elsewhere", 0, [(b"k", b"x", 2, (("h", b"1"),)), (None, None, 3, ())]),
        produced("else-where", 0, [(b"k", b"y", 4, (("h", None), ("h", b"")))]),
    ]
    for columns, counted in itertools.product((True, False), repeat=2):
        batches = [ShuffledBatch.from_bytes(b.to_bytes()) for b in sort(made, {}, counted, columns=columns).values()]
        own, riding = zip(*(batch.without_side() for batch in batches))
        assert sum(map(len, own)) == 1
        assert [tuple(output) for rode in riding if rode is not None for output in records_of(rode.side_outputs())] == [
            ("elsewhere", None, b"k", b"x", 2, (("h", b"1"),)),
            ("elsewhere", None, None, None, 3, ()),
            ("else-where", None, b"k", b"y", 4, (("h", None), ("h", b""))),
        ]


def test_should_not_let_outputs_ride_along_that_were_written_before() -> None:
    made = [produced("elsewhere", 0, [(b"k", str(number).encode(), number, ()) for number in range(6)])]
    for columns in (True, False):
        (batch,) = sort(made, {0: 2}, False, columns=columns).values()
        assert batch.values.to_pylist() == [b"4", b"5"]  # two outputs of each input record
        assert not sort(made, {0: 3}, False, columns=columns)


@settings(deadline=None)
@given(rows=ROWS, skip=SKIP)
def test_should_take_keys_that_arrow_holds(rows: Any, skip: dict[int, int]) -> None:
    made = [produced("words", 0, [row for row in rows if row[0] is not None])]
    for counted in (True, False):
        plain, arrow = (sort(some, skip, counted, True) for some in (made, [as_text(one) for one in made]))
        assert {t: rows_of(b) for t, b in plain.items()} == {t: rows_of(b) for t, b in arrow.items()}

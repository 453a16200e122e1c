"""The staged history of partitions is read in the order of time, and each partition is followed in its topic from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.kafka.follow import Taken
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.staged_history import StagedPartition, history_rows
from penstock.spark.worker.history_follower import HistoryFollower
from tests.unit.kafka.test_follow import Consumer, message

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    made = Consumer(None)
    monkeypatch.setattr("penstock.kafka.follow.open_client", lambda *given: made)
    return made


def staged(folder: Path, name: str, times: list[int], end: int, per_file: int = 40) -> StagedPartition:
    """History with a row at each of these times, in files and row groups of some rows."""
    files = []
    for start in range(0, len(times), per_file):
        part = times[start : start + per_file]
        values = pa.array([str(time).encode() for time in part], pa.binary())
        headers = pa.array([[{"key": "h", "value": b"1"}] if time % 2 else None for time in part])
        path = str(folder / f"{name}-{start:05}.parquet")
        table = pa.table({"timestamp": pa.array(part, pa.int64()), "key": values, "value": values, "headers": headers})
        pq.write_table(table, path, row_group_size=7)
        files.append((path, len(part)))
    return StagedPartition(tuple(files), end, "1f")


def times(taken: Taken, partition: TopicPartition) -> list[int]:
    return taken.columns[partition].timestamps if partition in taken.columns else []


def test_should_read_partitions_up_to_a_common_time_and_then_their_topics(consumer: Consumer, tmp_path: Path) -> None:
    history = {
        A: staged(tmp_path, "a", list(range(100)), 5),
        B: staged(tmp_path, "b", list(range(0, 1000, 10)), 0),
    }
    follower = HistoryFollower({}, None, history)
    follower.follow({A: history[A].first, B: history[B].first, C: 7})
    consumer.messages.append(message(C, 7))
    found: dict[TopicPartition, list[int]] = {A: [], B: []}
    reached, offsets = 0, []
    while follower.reads_history(A) or follower.reads_history(B):
        follower.wait(0.1)
        taken = follower.take(30)
        both = times(taken, A) + times(taken, B)
        assert min(both) >= reached, "no task is ahead of the others"
        reached = max(both)
        offsets += list(taken.columns[A].offsets) if A in taken.columns else []
        for partition in found:
            found[partition] += times(taken, partition)
    assert found == {A: list(range(100)), B: list(range(0, 1000, 10))}
    assert offsets == list(range(-95, 5))
    assert dict(follower.positions) == {A: 5, B: 0, C: 8}
    consumer.messages.append(message(A, 5))
    follower.wait(0.1)
    assert list(follower.take(10).columns[A].offsets) == [5]


def test_should_go_on_in_the_middle_of_a_file_with_headers(consumer: Consumer, tmp_path: Path) -> None:
    history = {A: staged(tmp_path, "a", list(range(100)), 5)}
    follower = HistoryFollower({}, None, history)
    at = history[A].position(A, OffsetAndMetadata(5, "|history=53,1f"))
    follower.follow({A: at})
    assert follower.lags == {A: 47}
    taken = follower.take(3)
    assert times(taken, A) == [53, 54, 55]
    assert taken.columns[A].headers == [(("h", b"1"),), (), (("h", b"1"),)]
    follower.rest()
    follower.follow({A: taken.ranges[A].end})
    assert times(follower.take(2), A) == [56, 57]
    follower.rest()
    follower.follow({A: history[A].first})
    assert times(follower.take(2), A) == [0, 1]


def test_should_read_nothing_of_a_paused_partition_nor_beyond_a_limit(consumer: Consumer, tmp_path: Path) -> None:
    history = {A: staged(tmp_path, "a", list(range(100)), 5), B: staged(tmp_path, "b", list(range(100)), 5)}
    follower = HistoryFollower({}, None, history)
    follower.follow({A: history[A].first, B: history[B].first}, {A: 0, B: -90})
    follower.pause(frozenset({A}))
    assert times(follower.take(1000), A) == []
    assert follower.is_at_end(B)
    assert not follower.is_at_end(A)
    assert follower.waiting == 0
    follower.pause(frozenset())
    while follower.waiting:
        assert not times(follower.take(50), B)
    assert follower.is_at_end(A)
    assert follower.lags == {A: 0, B: 0}
    assert not consumer.assigned, "no topic is followed before history is read to its end"


def test_should_refuse_files_that_are_gone_and_rows_of_another_table(tmp_path: Path) -> None:
    gone = StagedPartition(((str(tmp_path / "gone.parquet"), 3),), 5, "1f")
    follower = HistoryFollower({}, None, {A: gone})
    follower.follow({A: gone.first})
    with pytest.raises(StreamsError, match=r"staged history of a-0 cannot be read.*history.dir"):
        follower.take(10)
    for text in ("|history=3,2f", "|history=9,1f"):
        with pytest.raises(StreamsError, match="history of a-0 has changed"):
            gone.position(A, OffsetAndMetadata(5, text))


@pytest.mark.parametrize(
    "text", ["", "AgAA", "|rows=7", "|history=", "|history=x,1f", "|history=1", "|history=" + "9" * 30 + ",1f"]
)
def test_should_take_other_metadata_for_a_position_in_the_topic(text: str) -> None:
    assert history_rows(OffsetAndMetadata(7, text)) is None
    assert StagedPartition((("x", 3),), 5, "1f").position(A, OffsetAndMetadata(7, text)) == 7


def test_should_find_the_first_row_at_or_after_a_time(tmp_path: Path) -> None:
    history = staged(tmp_path, "a", [0, 10, 10, 20, *range(30, 100)], 5)
    found: Any = [history.offset_at(time) for time in (-5, 0, 1, 10, 11, 30, 99, 100)]
    assert [None if at is None else at - history.first for at in found] == [0, 0, 1, 1, 3, 4, 73, None]

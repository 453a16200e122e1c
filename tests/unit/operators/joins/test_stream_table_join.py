from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StreamsError, TopologyError
from penstock.operators import KStreamKTableJoin
from penstock.serdes.serde import Serdes
from penstock.state.buffers import RocksDBTimeOrderedKeyValueBufferBuilder
from penstock.state.store import ValueAndTimestamp, VersionedRecord
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner
from tests.unit.state.contexts import FakeStoreContext


def _join(key: Any, stream: Any, table: Any) -> str:
    return f"{stream}+{table}"


@pytest.fixture
def table() -> FakeTable:
    table = FakeTable()
    table.rows = {"k": ValueAndTimestamp("row", 100)}
    return table


def test_should_join_with_the_row_at_the_records_time(table: FakeTable) -> None:
    runner = Runner(KStreamKTableJoin(table, _join, left_join=False), FakeContext())

    assert runner.pipe("k", "a", 5) == [("k", "a+row", 5)]
    assert runner.pipe("j", "a", 5) == []


def test_should_give_records_without_a_row_in_a_left_join(table: FakeTable) -> None:
    runner = Runner(KStreamKTableJoin(table, _join, left_join=True), FakeContext())

    assert runner.pipe("j", "a", 5) == [("j", "a+None", 5)]
    assert runner.pipe(None, "a", 5) == [(None, "a+None", 5)]


@pytest.mark.parametrize(("key", "value", "left_join"), [(None, "a", False), ("k", None, False), ("k", None, True)])
def test_should_drop_nulls(table: FakeTable, key: Any, value: Any, left_join: bool) -> None:
    runner = Runner(KStreamKTableJoin(table, _join, left_join), FakeContext())

    assert runner.pipe(key, value, 5) == []
    assert runner.context.dropped == ["null join key or value"]


def test_should_look_up_a_versioned_table_as_of_the_records_time() -> None:
    table = FakeTable(versioned=True)
    table.rows = {"k": [VersionedRecord("old", 10, 20), VersionedRecord("new", 20)]}
    runner = Runner(KStreamKTableJoin(table, _join, left_join=True), FakeContext())

    assert runner.pipe("k", "a", 25) == [("k", "a+new", 25)]
    assert runner.pipe("k", "b", 19) == [("k", "b+old", 19)]
    assert runner.pipe("k", "c", 9) == [("k", "c+None", 9)]


def _with_grace(path: Path, table: FakeTable, grace: int, context: FakeContext | None = None, left: bool = True) -> Runner:
    buffer = RocksDBTimeOrderedKeyValueBufferBuilder("buffer", Serdes.string(), Serdes.string(), grace, "join").build()
    buffer.init(FakeStoreContext(path), buffer)
    context = context or FakeContext()
    context.stores["buffer"] = buffer
    return Runner(KStreamKTableJoin(table, _join, left, grace, "buffer"), context)


def test_should_wait_for_the_table_within_the_grace_period(tmp_path: Path) -> None:
    table = FakeTable(versioned=True)
    runner = _with_grace(tmp_path, table, 10)

    assert runner.pipe("k", "a", 5) == []
    table.rows = {"k": [VersionedRecord("late row", 4)]}
    assert runner.pipe("k", "b", 14) == []
    assert runner.pipe("k", "c", 15) == [("k", "a+late row", 5)]
    assert runner.pipe("k", "too late", 4) == [("k", "too late+late row", 4)]
    runner.context.stores["buffer"].close()


def test_should_refuse_to_hold_back_a_record_without_a_key(tmp_path: Path) -> None:
    runner = _with_grace(tmp_path, FakeTable(versioned=True), 10)

    with pytest.raises(StreamsError, match="without a key"):
        runner.pipe(None, "a", 5)
    runner.context.stores["buffer"].close()


def test_should_forward_with_the_context_a_record_came_with(tmp_path: Path) -> None:
    context = FakeContext()
    runner = _with_grace(tmp_path, FakeTable(versioned=True), 10, context)
    seen: list[Any] = []
    context.on_forward = lambda record: seen.append((record.headers, context.record_context))
    runner.pipe("k", "a", 5, headers=(("h", b"1"),))
    runner.pipe("k", "b", 15)

    ((headers, record_context),) = seen
    assert headers == (("h", b"1"),)
    assert (record_context.offset, record_context.timestamp) == (0, 5)
    runner.context.stores["buffer"].close()


def test_should_keep_stream_time_when_the_task_moves(tmp_path: Path) -> None:
    table = FakeTable(versioned=True)
    runner = _with_grace(tmp_path, table, 10)
    runner.pipe("k", "a", 50)
    buffer = runner.context.stores["buffer"]
    buffer.commit({})
    buffer.close()
    moved = FakeContext()
    moved.metadata = dict(runner.context.metadata)
    after = _with_grace(tmp_path, table, 10, moved)

    assert after.pipe("k", "late", 39) == [("k", "late+None", 39)]
    assert after.pipe("k", "b", 60) == [("k", "a+None", 50)]
    moved.stores["buffer"].close()


def test_should_refuse_a_grace_period_on_a_table_without_versions(tmp_path: Path, table: FakeTable) -> None:
    with pytest.raises(TopologyError, match="must be versioned"):
        _with_grace(tmp_path, table, 10)

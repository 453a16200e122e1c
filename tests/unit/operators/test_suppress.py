from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.change import Change
from penstock.errors import BufferFullError
from penstock.operators import KTableSuppressProcessorSupplier, SuppressedInternal, window_end_time
from penstock.serdes.serde import Serdes
from penstock.serdes.windowed import WindowedSerdes
from penstock.state.buffers import InMemoryTimeOrderedKeyValueChangeBufferBuilder
from penstock.state.store import ValueAndTimestamp
from penstock.windows import TimeWindow, Windowed
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner
from tests.unit.state.contexts import FakeStoreContext


@dataclass(frozen=True)
class Bounds:
    record_limit: int = 2**63 - 1
    byte_limit: int = 2**63 - 1
    is_strict: bool = True


def _runner(suppressed: SuppressedInternal, path: Path, key_serde: Any = None, context: FakeContext | None = None) -> Runner:
    buffer = InMemoryTimeOrderedKeyValueChangeBufferBuilder("store", key_serde or Serdes.string(), Serdes.string()).build()
    buffer.init(FakeStoreContext(path), buffer)
    context = context or FakeContext()
    context.stores["store"] = buffer
    return Runner(KTableSuppressProcessorSupplier(suppressed, "store", FakeTable()), context)


def _change(new: str | None, old: str | None = None) -> Change[str]:
    return Change(new, old)


def test_should_emit_the_last_change_once_it_has_waited(tmp_path: Path) -> None:
    runner = _runner(SuppressedInternal("s", 10), tmp_path)

    assert runner.pipe("a", _change("1"), 5) == []
    assert runner.pipe("a", _change("2", "1"), 9) == []
    assert runner.pipe("b", _change("x"), 14) == []
    assert runner.pipe("c", _change("y"), 15) == [("a", Change("2", "1"), 9)]


def test_should_emit_at_once_without_a_wait(tmp_path: Path) -> None:
    runner = _runner(SuppressedInternal("s", 0), tmp_path)

    assert runner.pipe("a", _change("1"), 5) == [("a", Change("1", None), 5)]
    # Older than stream time: due at once as well.
    assert runner.pipe("b", _change("2"), 3) == [("b", Change("2", None), 3)]


def test_should_emit_a_window_when_its_end_and_grace_have_passed(tmp_path: Path) -> None:
    suppressed = SuppressedInternal("s", 5, Bounds(), window_end_time, safe_to_drop_tombstones=True)
    runner = _runner(suppressed, tmp_path, WindowedSerdes.time_windowed(Serdes.string(), 10))
    windowed = Windowed("k", TimeWindow(0, 10))

    assert runner.pipe(windowed, _change("1"), 3) == []
    assert runner.pipe(windowed, _change("2", "1"), 8) == []
    assert runner.pipe(Windowed("k", TimeWindow(10, 20)), _change("3"), 14) == []
    assert runner.pipe(Windowed("k", TimeWindow(10, 20)), _change("4", "3"), 15) == [(windowed, Change("2", "1"), 8)]


def test_should_drop_tombstones_of_final_results_only(tmp_path: Path) -> None:
    final = _runner(SuppressedInternal("s", 0, Bounds(), safe_to_drop_tombstones=True), tmp_path)
    limited = _runner(SuppressedInternal("s", 0, Bounds()), tmp_path)

    assert final.pipe("a", _change(None, "1"), 5) == []
    assert limited.pipe("a", _change(None, "1"), 5) == [("a", Change(None, "1"), 5)]


def test_should_emit_the_oldest_early_when_full(tmp_path: Path) -> None:
    runner = _runner(SuppressedInternal("s", 100, Bounds(record_limit=2, is_strict=False)), tmp_path)
    runner.pipe("a", _change("1"), 1)
    runner.pipe("b", _change("2"), 2)

    assert runner.pipe("a", _change("3", "1"), 3) == []
    assert runner.pipe("c", _change("4"), 4) == [("a", Change("3", "1"), 3)]


def test_should_emit_early_when_the_bytes_are_too_many(tmp_path: Path) -> None:
    # A record of one byte takes 8 + 1 for time and key, 25 for the context and 1 for the value.
    runner = _runner(SuppressedInternal("s", 100, Bounds(byte_limit=70, is_strict=False)), tmp_path)
    runner.pipe("a", _change("1"), 1)
    assert runner.pipe("b", _change("2"), 2) == []

    assert runner.pipe("b", _change("3"), 2) == []
    assert runner.pipe("b", _change("4x"), 2) == [("a", Change("1", None), 1)]


def test_should_fail_when_full_and_told_to_shut_down(tmp_path: Path) -> None:
    runner = _runner(SuppressedInternal("s", 100, Bounds(record_limit=1)), tmp_path)
    runner.pipe("a", _change("1"), 1)

    with pytest.raises(BufferFullError, match=r"node buffer exceeded its max capacity. Currently \[2/1\] records"):
        runner.pipe("b", _change("2"), 2)


def test_should_forward_with_the_context_the_change_came_with(tmp_path: Path) -> None:
    context = FakeContext()
    runner = _runner(SuppressedInternal("s", 10), tmp_path, context=context)
    headers = (("h", b"1"),)
    seen: list[Any] = []
    context.on_forward = lambda record: seen.append((record.headers, context.record_context))
    runner.pipe("a", _change("1"), 5, headers=headers)
    runner.pipe("b", _change("2"), 15)

    ((forwarded_headers, forwarded_context),) = seen
    assert forwarded_headers == headers
    assert (forwarded_context.offset, forwarded_context.timestamp) == (0, 5)
    assert context.record_context is not None
    assert context.record_context.offset == 1


def test_should_keep_stream_time_when_the_task_moves(tmp_path: Path) -> None:
    runner = _runner(SuppressedInternal("s", 10), tmp_path)
    runner.pipe("a", _change("1"), 50)
    moved = FakeContext()
    moved.metadata = dict(runner.context.metadata)
    after = _runner(SuppressedInternal("s", 10), tmp_path, context=moved)

    assert after.pipe("b", _change("2"), 40) == [("b", Change("2", None), 40)]


def test_should_see_what_was_emitted_and_not_what_is_held_back(tmp_path: Path) -> None:
    parent = FakeTable("parent")
    supplier = KTableSuppressProcessorSupplier(SuppressedInternal("s", 100), "store", parent)
    runner = _runner(SuppressedInternal("s", 100), tmp_path)
    runner.pipe("a", _change("new", "old"), 1)
    runner.pipe("n", _change("first"), 1)
    parent.rows = {"a": ValueAndTimestamp("new", 1), "b": ValueAndTimestamp("through", 2), "n": ValueAndTimestamp("first", 1)}
    view = supplier.view()
    getter = view.get()
    getter.init(runner.context)

    assert parent.sends_old_values
    assert view.store_names == ("store", "parent-store")
    assert getter.get("a") == ValueAndTimestamp("old", -1)
    assert getter.get("n") is None
    assert getter.get("b") == ValueAndTimestamp("through", 2)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.change import Change
from penstock.errors import ProcessorStateError
from penstock.metrics.registry import Metrics
from penstock.record import RawRecord, Record, RecordContext
from penstock.serdes.serde import Serdes
from penstock.state.buffers import (
    Eviction,
    InMemoryTimeOrderedKeyValueChangeBuffer,
    InMemoryTimeOrderedKeyValueChangeBufferBuilder,
)
from penstock.state.store import ValueAndTimestamp
from tests.unit.state.contexts import FakeStoreContext

Buffer = InMemoryTimeOrderedKeyValueChangeBuffer[Any, Any]
STORE = "suppress-store"


def _open(context: FakeStoreContext, **builder_serdes: Any) -> Buffer:
    serdes = {"key_serde": Serdes.string(), "value_serde": Serdes.string(), **builder_serdes}
    buffer = InMemoryTimeOrderedKeyValueChangeBufferBuilder(STORE, **serdes).build()
    buffer.init(context, buffer)
    return buffer


def _put(buffer: Buffer, time: int, key: str, new: str | None, old: str | None = None, offset: int = 0) -> None:
    context = RecordContext(time, offset, 0, "topic")
    buffer.put(time, Record(key, Change(new, old), time), context)


def _evict_all(buffer: Buffer) -> list[Eviction]:
    evicted: list[Eviction] = []
    buffer.evict_while(lambda: True, evicted.append)
    return evicted


@pytest.fixture
def context(tmp_path: Path) -> FakeStoreContext:
    return FakeStoreContext(tmp_path)


def test_should_evict_by_time_and_then_by_key_bytes(context: FakeStoreContext) -> None:
    buffer = _open(context)
    for time, key in ((2, "b"), (1, "z"), (2, "a"), (1, "y")):
        _put(buffer, time, key, "v")

    assert [eviction.key for eviction in _evict_all(buffer)] == ["y", "z", "a", "b"]
    assert buffer.num_records == 0
    assert buffer.buffer_size == 0
    assert buffer.min_timestamp == 2**63 - 1


def test_should_keep_its_place_and_its_prior_value_when_a_key_changes_again(context: FakeStoreContext) -> None:
    buffer = _open(context)
    _put(buffer, 1, "k", "first", old="before")
    _put(buffer, 5, "j", "other")
    _put(buffer, 9, "k", "second", old="first", offset=3)

    assert buffer.prior_value_for_buffered("k") == (True, ValueAndTimestamp("before", -1))
    first = _evict_all(buffer)[0]
    assert (first.key, first.value, first.record_context.offset) == ("k", Change("second", "first"), 3)
    assert first.record.timestamp == 9


def test_should_tell_a_key_that_was_not_there_before_from_one_that_is_not_buffered(context: FakeStoreContext) -> None:
    buffer = _open(context)
    _put(buffer, 1, "new", "v")

    assert buffer.prior_value_for_buffered("new") == (True, None)
    assert buffer.prior_value_for_buffered("absent") == (False, None)


def test_should_still_hold_a_record_while_it_is_handed_out(context: FakeStoreContext) -> None:
    buffer = _open(context)
    _put(buffer, 1, "k", "v", old="before")
    seen: list[Any] = []

    buffer.evict_while(lambda: True, lambda eviction: seen.append(buffer.prior_value_for_buffered(eviction.key)))

    assert seen == [(True, ValueAndTimestamp("before", -1))]
    assert buffer.prior_value_for_buffered("k") == (False, None)


def test_should_stop_evicting_when_the_predicate_does(context: FakeStoreContext) -> None:
    buffer = _open(context)
    for time in range(5):
        _put(buffer, time, f"k{time}", "v")
    evicted: list[Eviction] = []

    buffer.evict_while(lambda: buffer.min_timestamp <= 2, evicted.append)

    assert [eviction.key for eviction in evicted] == ["k0", "k1", "k2"]
    assert (buffer.num_records, buffer.min_timestamp) == (2, 3)


def test_should_count_bytes_as_java_does(context: FakeStoreContext) -> None:
    buffer = _open(context)
    record_context = RecordContext(5, 7, 1, "t", (("a", b"1"), ("né", None)))
    buffer.put(5, Record("k", Change("new", "old"), 5), record_context)

    # 8 for the time, 1 for the key, 31 for the value whose old and prior value are one.
    assert buffer.buffer_size == 8 + 1 + 31


def test_should_log_each_changed_key_once_at_a_flush(context: FakeStoreContext) -> None:
    buffer = _open(context)
    context.wall_clock_ms = 77
    _put(buffer, 1, "a", "v1")
    _put(buffer, 2, "a", "v2", old="v1")
    _put(buffer, 3, "b", "w")
    assert context.changes == []

    buffer.flush_cache()

    logged = {change.key: change for change in context.changes}
    assert len(context.changes) == 2
    assert logged[b"a"].headers == (("v", b"\x03"),)
    assert logged[b"a"].timestamp == 77
    value = logged[b"a"].value
    assert value is not None
    assert value.endswith((1).to_bytes(8, "big"))
    buffer.flush_cache()
    assert len(context.changes) == 2


def test_should_log_a_tombstone_without_headers_for_what_was_evicted(context: FakeStoreContext) -> None:
    buffer = _open(context)
    _put(buffer, 1, "a", "v")
    buffer.flush_cache()
    _evict_all(buffer)
    buffer.flush_cache()

    assert (context.changes[-1].key, context.changes[-1].value, context.changes[-1].headers) == (b"a", None, ())


def test_should_log_nothing_without_logging(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path, logged=False)
    builder = InMemoryTimeOrderedKeyValueChangeBufferBuilder(STORE, Serdes.string(), Serdes.string()).with_logging_disabled()
    buffer = builder.build()
    buffer.init(context, buffer)
    _put(buffer, 1, "a", "v")
    buffer.flush_cache()

    assert context.changes == []
    assert builder.log_config == {}
    assert not builder.logging_enabled


def test_should_use_default_serdes_where_none_were_given(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path, key_serde=Serdes.string(), value_serde=Serdes.long())
    buffer = _open(context, key_serde=None, value_serde=None)
    buffer.set_serdes_if_null(context)
    buffer.put(1, Record("k", Change(5, None), 1), RecordContext(1, 0, 0, "t"))

    assert _evict_all(buffer)[0].value == Change(5, None)


def test_should_refuse_to_restore_another_partition(context: FakeStoreContext) -> None:
    buffer = _open(context)

    with pytest.raises(ProcessorStateError, match="partition 1"):
        buffer.restore([RawRecord("clog", 1, 0, 0, b"k", None)])


def test_should_measure_how_full_it_is_at_debug_level(tmp_path: Path) -> None:
    metrics = Metrics("DEBUG")
    buffer = _open(FakeStoreContext(tmp_path, metrics=metrics))
    _put(buffer, 1, "k", "v")

    assert metrics.value("suppression-buffer-count-max", "stream-state-metrics") == 1


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 20)),
        st.tuples(st.just("evict"), st.just(""), st.integers(0, 20)),
        st.tuples(st.just("flush"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


@given(steps=_steps)
@hypothesis_settings(max_examples=60, deadline=None)
def test_should_be_the_same_after_a_restore(steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    context = FakeStoreContext(tmp_path_factory.getbasetemp())
    buffer = _open(context)
    for number, (step, key, time) in enumerate(steps):
        if step == "put":
            _put(buffer, time, key, f"v{number}", old=None if number % 3 else f"o{number}", offset=number)
        elif step == "evict":
            buffer.evict_while(lambda limit=time: buffer.min_timestamp <= limit, lambda _: None)  # type: ignore[misc]
        else:
            buffer.flush_cache()
    buffer.flush_cache()
    restored = _open(FakeStoreContext(tmp_path_factory.getbasetemp()))
    restored.restore(context.changelog_records(STORE))

    assert (restored.num_records, restored.buffer_size, restored.min_timestamp) == (
        buffer.num_records,
        buffer.buffer_size,
        buffer.min_timestamp,
    )
    for key in "abcd":
        assert restored.prior_value_for_buffered(key) == buffer.prior_value_for_buffered(key)
    assert [(e.key, e.value, e.record_context.offset) for e in _evict_all(restored)] == [
        (e.key, e.value, e.record_context.offset) for e in _evict_all(buffer)
    ]


def test_should_restore_the_place_of_a_key_that_left_and_came_back_between_two_flushes(context: FakeStoreContext) -> None:
    buffer = _open(context)
    _put(buffer, 0, "a", "v")
    buffer.flush_cache()
    _evict_all(buffer)
    _put(buffer, 9, "a", "w")
    buffer.flush_cache()
    restored = _open(context)
    restored.restore(context.changelog_records(STORE))

    assert restored.min_timestamp == 9

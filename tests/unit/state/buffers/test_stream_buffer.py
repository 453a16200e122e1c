from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.record import Record, RecordContext
from penstock.serdes.serde import Serdes
from penstock.state.buffers import Eviction, RocksDBTimeOrderedKeyValueBuffer, RocksDBTimeOrderedKeyValueBufferBuilder
from tests.unit.state.contexts import FakeStoreContext

Buffer = RocksDBTimeOrderedKeyValueBuffer[Any, Any]
STORE = "KSTREAM-JOIN-0000000005-Buffer"


@pytest.fixture
def context(tmp_path: Path) -> FakeStoreContext:
    return FakeStoreContext(tmp_path)


def _open(context: FakeStoreContext, grace: int = 10) -> Buffer:
    builder = RocksDBTimeOrderedKeyValueBufferBuilder(STORE, Serdes.string(), Serdes.string(), grace, "join")
    buffer = builder.build()
    buffer.init(context, buffer)
    return buffer


@pytest.fixture
def buffer(context: FakeStoreContext) -> Iterator[Buffer]:
    buffer = _open(context)
    yield buffer
    buffer.close()


def _put(buffer: Buffer, timestamp: int, key: str = "k", value: str = "v") -> bool:
    return buffer.put(timestamp, Record(key, value, timestamp), RecordContext(timestamp, 0, 0, "topic"))


def _evict(buffer: Buffer) -> list[tuple[str, str, int]]:
    evicted: list[Eviction] = []
    buffer.evict_while(lambda: True, evicted.append)
    return [(eviction.key, eviction.value, eviction.record_context.timestamp) for eviction in evicted]


def test_should_hand_out_what_is_a_grace_period_behind(buffer: Buffer) -> None:
    for timestamp in (5, 3, 12):
        assert _put(buffer, timestamp, value=f"v{timestamp}")
    assert _evict(buffer) == []

    _put(buffer, 15)

    assert _evict(buffer) == [("k", "v3", 3), ("k", "v5", 5)]
    assert buffer.num_records == 2


def test_should_refuse_what_is_later_than_the_grace_period(buffer: Buffer) -> None:
    _put(buffer, 100)

    assert _put(buffer, 90)
    assert not _put(buffer, 89)


def test_should_keep_records_of_the_same_key_and_time(buffer: Buffer) -> None:
    _put(buffer, 1, value="first")
    _put(buffer, 1, value="second")
    _put(buffer, 11)

    assert _evict(buffer) == [("k", "first", 1), ("k", "second", 1)]


def test_should_log_the_bytes_java_logs(context: FakeStoreContext, buffer: Buffer) -> None:
    _put(buffer, 5)
    _put(buffer, 15)
    _evict(buffer)

    put, _, tombstone = context.changes
    assert put.key.hex() == "00" + "0000000000000005" + "6b" + "00000001"
    assert put.value is not None
    topic_context = "0000000000000005" + "0000000000000000" + "00000005746f706963" + "00000000" + "00000000"
    assert put.value.hex() == topic_context + "ffffffff" + "ffffffff" + "0000000176" + "0000000000000000"
    assert put.headers == ()
    assert (tombstone.key, tombstone.value) == (put.key, None)


def test_should_not_overwrite_a_record_after_it_was_reopened(context: FakeStoreContext, buffer: Buffer) -> None:
    _put(buffer, 1, value="first")
    size = buffer.buffer_size
    buffer.commit({})
    buffer.close()
    reopened = _open(context)
    reopened.observed_stream_time = 1

    assert (reopened.num_records, reopened.buffer_size, reopened.min_timestamp) == (1, size, 1)
    _put(reopened, 1, value="second")
    _put(reopened, 11)
    assert _evict(reopened) == [("k", "first", 1), ("k", "second", 1)]
    reopened.close()


def test_should_be_the_same_after_a_restore(context: FakeStoreContext, buffer: Buffer, tmp_path: Path) -> None:
    for timestamp in (5, 3, 12, 14):
        _put(buffer, timestamp, value=f"v{timestamp}")
    _evict(buffer)
    restored = _open(FakeStoreContext(tmp_path / "other"))
    restored.restore(context.changelog_records(STORE))

    assert (restored.num_records, restored.observed_stream_time) == (buffer.num_records, 14)
    _put(restored, 22)
    assert _evict(restored) == [("k", "v5", 5), ("k", "v12", 12)]
    restored.close()


def test_should_lose_what_was_not_committed(context: FakeStoreContext, buffer: Buffer) -> None:
    _put(buffer, 1)
    buffer.close()
    reopened = _open(context)

    assert reopened.num_records == 0
    reopened.close()

"""The buffer behind a stream-table join with a grace period: stream records on disk, in the order of time.

An entry's key is `0x00 + int64 time + key + int32 number`; its value is a buffer value with nothing but a new value. The
changelog has the same key, and behind the value eight bytes that Java leaves for a buffer time and sets to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.ids import TopicPartition
from penstock.record import NO_TIMESTAMP, RawRecord, Record, RecordContext
from penstock.state.buffers.time_ordered import MAX_LONG, BufferBuilder, Eviction, TimeOrderedKeyValueBuffer
from penstock.state.buffers.values import BufferValue, Reader
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.engines.store_format import StoreFormat
from penstock.state.keys.prefixed_window import TimeFirstWindowKeySchema
from penstock.state.store import StateStore, StateStoreContext
from penstock.windows import Duration, to_ms

K = TypeVar("K")
V = TypeVar("V")

_NO_BUFFER_TIME = bytes(8)
_MAX_NUMBER = 0x7FFFFFFF


class RocksDBTimeOrderedKeyValueBuffer(TimeOrderedKeyValueBuffer[K, V], Generic[K, V]):
    """Holds records back until stream time is a grace period past them."""

    def __init__(
        self, store_name: str, key_serde: Any, value_serde: Any, grace_period_ms: int, topic: str, logging_enabled: bool
    ) -> None:
        super().__init__(store_name, key_serde, value_serde, logging_enabled)
        self._engine = RocksDBStore(store_name, store_format=StoreFormat("time-ordered-buffer"))
        self._grace_ms = grace_period_ms
        self._topic = topic
        self.observed_stream_time = NO_TIMESTAMP
        self._counted = False
        self._num_records = 0
        self._number = 0

    @property
    def persistent(self) -> bool:
        """What was committed survives `close`."""
        return True

    @property
    def is_open(self) -> bool:
        return self._engine.is_open

    @property
    def num_records(self) -> int:
        self._count()
        return self._num_records

    @property
    def buffer_size(self) -> int:
        """About how many bytes they take, counted as Java counts."""
        self._count()
        return self._buffer_size

    @property
    def min_timestamp(self) -> int:
        """No record that is held back is older."""
        self._count()
        return self._min_timestamp

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._context = context
        self._engine.open_store(context)
        context.register(root, self.restore)
        self._forget()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        self._engine.commit(changelog_offsets)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._engine.committed_offset(partition)

    def close(self) -> None:
        self._engine.close()

    def put(self, time: int, record: Record[K, V], record_context: RecordContext) -> bool:
        """Hold back a record; False if its grace period is already over."""
        timestamp = record.timestamp
        if self.observed_stream_time - self._grace_ms > timestamp:
            return False
        self._count()
        self._number = self._number + 1 & _MAX_NUMBER
        record_key = self._serialize_key(self._topic, record.key)
        key = TimeFirstWindowKeySchema.to_store_key_binary(record_key, timestamp, self._number)
        value = BufferValue(None, None, self._serialize_value(self._topic, record.value), record_context)
        data = value.serialize()
        self._engine.put(key, data)
        if self._logging_enabled:
            self._log(key, data + _NO_BUFFER_TIME)
        self.observed_stream_time = max(self.observed_stream_time, timestamp)
        self._num_records += 1
        self._buffer_size += _record_size(key, value)
        self._min_timestamp = min(self._min_timestamp, timestamp)
        return True

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Hand out the records whose grace period is over, oldest first; each is removed after the callback."""
        self._count()
        due_time = self.observed_stream_time - self._grace_ms
        if self._min_timestamp > due_time or not predicate():
            return
        key_from = TimeFirstWindowKeySchema.to_store_key_binary(b"", max(0, self._min_timestamp), 0)[:-4]
        key_to = TimeFirstWindowKeySchema.to_store_key_binary(b"", due_time + 1, 0)[:-4]
        with self._engine.scan(key_from, key_to, to_inclusive=False) as entries:
            for key, data in entries:
                if not predicate():
                    break
                value = Reader(data).buffer_value()
                record_key = self._deserialize_key(self._topic, TimeFirstWindowKeySchema.extract_store_key_bytes(key))
                self._min_timestamp = TimeFirstWindowKeySchema.extract_store_timestamp(key)
                callback(Eviction(record_key, self._deserialize_value(self._topic, value.new_value), value.context))
                self._engine.put(key, None)
                if self._logging_enabled:
                    self._log(key, None)
                self._num_records -= 1
                self._buffer_size -= _record_size(key, value)
            else:
                self._min_timestamp = due_time + 1
        if self._num_records == 0:
            self._min_timestamp = MAX_LONG

    def restore(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back."""
        self._engine.restore_batch(records)
        for record in records:
            if record.key is not None:
                timestamp = TimeFirstWindowKeySchema.extract_store_timestamp(record.key)
                self.observed_stream_time = max(self.observed_stream_time, timestamp)
        self._forget()

    def _forget(self) -> None:
        self._counted = False
        self._num_records = 0
        self._buffer_size = 0
        self._min_timestamp = MAX_LONG
        self._number = 0

    def _count(self) -> None:
        """After opening, see what is there: a number that is in use again would overwrite a record of the same key and time."""
        if self._counted:
            return
        self._counted = True
        with self._engine.all() as entries:
            for key, data in entries:
                self._num_records += 1
                self._buffer_size += _record_size(key, Reader(data).buffer_value())
                self._number = max(self._number, TimeFirstWindowKeySchema.extract_store_sequence(key))
                if self._min_timestamp == MAX_LONG:
                    self._min_timestamp = TimeFirstWindowKeySchema.extract_store_timestamp(key)

    def _log(self, key: bytes, data: bytes | None) -> None:
        self._context.log_change(self._name, key, data, self._context.current_system_time_ms())


class RocksDBTimeOrderedKeyValueBufferBuilder(BufferBuilder[RocksDBTimeOrderedKeyValueBuffer[Any, Any]]):
    """Makes the buffer of one stream-table join; `topic` is what serdes are told."""

    def __init__(self, store_name: str, key_serde: Any, value_serde: Any, grace: Duration, topic: str) -> None:
        super().__init__(store_name, key_serde, value_serde)
        self._grace_ms = to_ms(grace, "grace")
        self._topic = topic

    def build(self) -> RocksDBTimeOrderedKeyValueBuffer[Any, Any]:
        return RocksDBTimeOrderedKeyValueBuffer(
            self.name, self._key_serde, self._value_serde, self._grace_ms, self._topic, self._enable_logging
        )


def _record_size(key: bytes, value: BufferValue) -> int:
    return len(key) + value.resident_memory_size_estimate()

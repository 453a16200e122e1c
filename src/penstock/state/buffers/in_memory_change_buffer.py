"""The buffer behind `suppress`: the last change of each key, oldest first, in memory and in a changelog."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from penstock.change import Change
from penstock.errors import ProcessorStateError
from penstock.record import RawRecord, Record, RecordContext
from penstock.state.buffers.changelog import CHANGELOG_HEADERS, read_changelog_record
from penstock.state.buffers.java_hash_set import JavaHashSet
from penstock.state.buffers.metrics import BufferMetrics
from penstock.state.buffers.time_ordered import MAX_LONG, BufferBuilder, Eviction, TimeOrderedKeyValueBuffer
from penstock.state.buffers.values import BufferKey, BufferValue
from penstock.state.store import StateStore, StateStoreContext, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")

_LONG_SIZE = 8
_UNKNOWN_TIMESTAMP = -1


class InMemoryTimeOrderedKeyValueChangeBuffer(TimeOrderedKeyValueBuffer[K, "Change[V]"], Generic[K, V]):
    """Holds one change per key. A later change of the key takes the earlier one's place in the order.

    Changes reach the changelog when `flush_cache` is called, one record for each key that changed since.
    """

    def __init__(self, store_name: str, logging_enabled: bool, key_serde: Any, value_serde: Any) -> None:
        super().__init__(store_name, key_serde, value_serde, logging_enabled)
        self._entries: dict[bytes, tuple[int, BufferValue]] = {}
        # A key removed by a restored tombstone leaves its place in the heap behind: `_entries` says what is alive.
        self._order: list[BufferKey] = []
        self._dirty_keys = JavaHashSet()
        self._open = False

    @property
    def persistent(self) -> bool:
        """Never: it is restored from its changelog."""
        return False

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def num_records(self) -> int:
        return len(self._entries)

    @property
    def buffer_size(self) -> int:
        """About how many bytes they take, counted as Java counts."""
        return self._buffer_size

    @property
    def min_timestamp(self) -> int:
        return self._min_timestamp

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._context = context
        self._partition = context.task_id.partition
        self._topic = context.changelog_for(self._name) or f"{context.application_id}-{self._name}-changelog"
        self._metrics = BufferMetrics(context, self._name)
        context.register(root, self.restore)
        self._update_metrics()
        self._open = True

    def close(self) -> None:
        """Forget everything; what was logged can be restored."""
        self._open = False
        self._entries.clear()
        self._order.clear()
        self._dirty_keys.clear()
        self._buffer_size = 0
        self._min_timestamp = MAX_LONG

    def put(self, time: int, record: Record[K, Change[V]], record_context: RecordContext) -> bool:
        """Hold back the change of a key; always returns True."""
        key: bytes = self._serialize_key(self._topic, record.key)
        change = record.value
        serializer = self._serialize_value
        old = None if change.old_value is None else serializer(self._topic, change.old_value)
        new = None if change.new_value is None else serializer(self._topic, change.new_value)
        buffered = self._entries.get(key)
        prior = old if buffered is None else buffered[1].prior_value
        self._put_entry(time, key, BufferValue(prior, old, new, record_context))
        if self._logging_enabled:
            self._dirty_keys.add(key)
        self._update_metrics()
        return True

    def prior_value_for_buffered(self, key: K) -> tuple[bool, ValueAndTimestamp[V] | None]:
        """Whether a key is held back, and if so the value it had before; its time is not known (-1)."""
        buffered = self._entries.get(self._serialize_key(self._topic, key))
        if buffered is None:
            return False, None
        prior = buffered[1].prior_value
        value = None if prior is None else self._deserialize_value(self._topic, prior)
        return True, None if value is None else ValueAndTimestamp(value, _UNKNOWN_TIMESTAMP)

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Hand out the oldest change and remove it after the callback, as long as the predicate holds."""
        evicted = False
        while self._order and predicate():
            key = self._order[0].key
            value = self._entries[key][1]
            callback(Eviction(self._deserialize_key(self._topic, key), self._change(value), value.context))
            heapq.heappop(self._order)
            del self._entries[key]
            if self._logging_enabled:
                self._dirty_keys.add(key)
            self._buffer_size -= _record_size(key, value)
            self._find_min_timestamp()
            evicted = True
        if evicted:
            self._update_metrics()

    def flush_cache(self) -> None:
        """Write the keys that changed since the last call to the changelog: their entry, or a tombstone where it was evicted."""
        if not self._dirty_keys:
            return
        log_change = self._context.log_change
        now_ms = self._context.current_system_time_ms()
        for key in self._dirty_keys:
            entry = self._entries.get(key)
            if entry is None:
                log_change(self._name, key, None, now_ms)
            else:
                time, value = entry
                data = value.serialize() + time.to_bytes(_LONG_SIZE, "big", signed=True)
                log_change(self._name, key, data, now_ms, CHANGELOG_HEADERS)
        self._dirty_keys.clear()

    def restore(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back, whatever version wrote them."""
        for record in records:
            if record.partition != self._partition:
                raise ProcessorStateError(
                    f"the buffer {self._name} of partition {self._partition} cannot be restored from a record of "
                    f"partition {record.partition} of {record.topic}"
                )
            if record.key is None:
                raise ProcessorStateError(f"{record.topic}-{record.partition} has a record without a key at {record.offset}")
            if record.value is None:
                self._remove_entry(record.key)
                continue
            buffered = self._entries.get(record.key)
            time, value = read_changelog_record(record, None if buffered is None else buffered[1].prior_value)
            # The place in the order is the logged one: the key may have been evicted and have come back between two flushes.
            self._remove_entry(record.key)
            self._put_entry(time, record.key, value)
        self._update_metrics()

    def _put_entry(self, time: int, key: bytes, value: BufferValue) -> None:
        previous = self._entries.get(key)
        if previous is None:
            self._entries[key] = (time, value)
            heapq.heappush(self._order, BufferKey(time, key))
            self._min_timestamp = min(self._min_timestamp, time)
            self._buffer_size += _record_size(key, value)
        else:
            first_time, previous_value = previous
            self._entries[key] = (first_time, value)
            self._buffer_size += _record_size(key, value) - _record_size(key, previous_value)

    def _remove_entry(self, key: bytes) -> None:
        removed = self._entries.pop(key, None)
        if removed is not None:
            self._buffer_size -= _record_size(key, removed[1])
            self._find_min_timestamp()

    def _find_min_timestamp(self) -> None:
        order = self._order
        while order:
            time, key = order[0]
            entry = self._entries.get(key)
            if entry is not None and entry[0] == time:
                self._min_timestamp = time
                return
            heapq.heappop(order)
        self._min_timestamp = MAX_LONG

    def _change(self, value: BufferValue) -> Change[V]:
        deserializer = self._deserialize_value
        new = None if value.new_value is None else deserializer(self._topic, value.new_value)
        old = None if value.old_value is None else deserializer(self._topic, value.old_value)
        return Change(new, old)

    def _update_metrics(self) -> None:
        self._metrics.record(self._buffer_size, len(self._entries))


class InMemoryTimeOrderedKeyValueChangeBufferBuilder(BufferBuilder[InMemoryTimeOrderedKeyValueChangeBuffer[Any, Any]]):
    """Makes the buffer of one `suppress`."""

    def build(self) -> InMemoryTimeOrderedKeyValueChangeBuffer[Any, Any]:
        return InMemoryTimeOrderedKeyValueChangeBuffer(self.name, self.logging_enabled, self._key_serde, self._value_serde)


def _record_size(key: bytes, value: BufferValue) -> int:
    return _LONG_SIZE + len(key) + value.resident_memory_size_estimate()

"""What the typed layers share: serdes, the value format, null checks, metrics and open iterators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from penstock.change import Change
from penstock.record import Record, RecordContext
from penstock.state.iterators import MeteredIterator
from penstock.state.layers.entries_with_headers import EntriesWithHeaders
from penstock.state.layers.metrics import StoreMetrics
from penstock.state.layers.serdes import StoreSerdes
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_formats import ValueFormat
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")


class MeteredStore(WrappedStateStore, Generic[K, V]):
    """What a processor gets: keys and values of the user's types over a store of bytes."""

    kind: ClassVar[str]
    """What queries call the store."""
    timed_methods: ClassVar[tuple[str, ...]]
    """The methods whose latency is measured."""
    iterators_raise_if_closed = False
    value_format: ValueFormat
    _serdes: StoreSerdes
    _metrics: StoreMetrics

    def __init__(
        self,
        wrapped: StateStore,
        value_format: ValueFormat,
        metrics_scope: str,
        key_serde: Any,
        value_serde: Any,
    ) -> None:
        super().__init__(wrapped)
        self.value_format = value_format
        self._metrics_scope = metrics_scope
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._entries: EntriesWithHeaders | None = None
        """Writes and reads keys and values where a serde takes headers and the store keeps them."""

    @property
    def query_kind(self) -> tuple[str, str]:
        return self.kind, self.value_format.shown_as

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Find the serdes and open the wrapped store."""
        self._context = context
        self._find_serdes(context)
        self._metrics = StoreMetrics(context, self._metrics_scope, self._name)
        self._metrics.time_calls(self, self.timed_methods)
        if not self.persistent:
            self._metrics.gauge("num-keys", "The current number of keys in the in-memory store", self._num_entries)
        with self._metrics.restoring():
            super().init(context, root)

    def _find_serdes(self, context: StateStoreContext) -> None:
        serdes = self._serdes = StoreSerdes(context, self._name, self._key_serde, self._value_serde)
        self.serdes_take_headers = serdes.take_headers
        self._raw_key: Callable[[Any], bytes] = serdes.raw_key
        self._key_from: Callable[[bytes], K] = serdes.key_from
        self._raw_from_value = self.value_format.writer(serdes.raw_value)
        value_from = serdes.value_from
        if serdes.take_headers and self.value_format.keeps_headers:
            # Chosen once: stores whose serdes take no headers pay nothing for those that do.
            self._entries = EntriesWithHeaders(context, serdes)
            self._value_from_raw = self.value_format.reader(self._entries.value)
            self._use_headers()
        elif self.value_format.keeps_headers:
            self._value_from_raw = self.value_format.reader(lambda raw, _: value_from(raw))
        else:
            self._value_from_raw = self.value_format.reader(value_from)

    @abstractmethod
    def _use_headers(self) -> None:
        """Replace the methods that write by those that give the serdes the headers of each entry."""

    def _num_entries(self) -> int:
        return -1

    def close(self) -> None:
        """Close the wrapped store; what was not committed is gone."""
        try:
            super().close()
        finally:
            self._metrics.close()

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Call `listener(record)` with the typed change of each entry the cache flushes; False where there is no cache."""
        key_of, value_from = self._flushed_key, self._value_from_raw

        def typed(record: Record[bytes, Change[bytes]]) -> None:
            change = record.value
            listener(
                Record(
                    key_of(record.key),
                    Change(value_from(change.new_value), value_from(change.old_value), change.is_latest),
                    record.timestamp,
                    record.headers,
                )
            )

        return super().set_flush_listener(typed, send_old_values)

    @abstractmethod
    def _flushed_key(self, raw: bytes) -> Any:
        """Return the typed key of a flushed entry."""

    def raw_keys(self, keys: Sequence[K]) -> list[bytes]:
        """Return many keys as bytes."""
        return self._serdes.raw_keys(keys)

    def keys_from(self, raw: Sequence[bytes]) -> list[K]:
        """Return many keys from their bytes."""
        known = {one: self._key_from(one) for one in dict.fromkeys(raw)}
        return [known[one] for one in raw]

    def raw_values(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return many plain values as bytes; None stays None."""
        return self._serdes.raw_values(values)

    def values_from(self, raw: list[bytes]) -> list[Any]:
        """Return many plain values from their bytes."""
        return self._serdes.values_from(raw)

    @property
    def keep(self) -> Callable[[Any], Any]:
        """The function that keeps a value between the records of a batch (`StoreSerdes.keep`)."""
        return self._serdes.keep

    def keep_all(self, values: Sequence[Any]) -> list[Any]:
        """Keep many values; None stays None. Raises what the serde raises."""
        return self._serdes.keep_all(values)

    @property
    def give(self) -> Callable[[Any], Any]:
        """The function that returns the value that `keep` has kept."""
        return self._serdes.give

    def give_all(self, kept: list[Any]) -> list[Any]:
        """Return many kept values; None stays None."""
        return self._serdes.give_all(kept)

    def given(self, kept: list[Any]) -> Sequence[Any]:
        """Return many kept values as a column, which makes them when it is read."""
        return self._serdes.given(kept)

    @property
    def exact_type(self) -> type | None:
        """The type whose values come back from their bytes exactly as they were; None where the serde promises nothing."""
        return self._serdes.exact_type

    def _raw_bound(self, key: K | None) -> bytes | None:
        return None if key is None else self._raw_key(key)

    def _raw_entry(self, key: K, value: Any) -> tuple[bytes, bytes | None]:
        """Return key and value as bytes, written with the headers of the value."""
        assert self._entries is not None
        plain, timestamp, headers = self.value_format.unpack(value)
        raw = self._entries.write(key, plain, headers)
        return raw.key, None if raw.value is None else self.value_format.join(raw.value, timestamp, raw.headers)

    def _deleting(self) -> AbstractContextManager[RecordContext]:
        """Return a context in which a deletion is logged with its own copy of the record's headers."""
        assert self._entries is not None
        return self._entries.deleting()

    def _read_key(self, key: bytes, raw_value: bytes) -> Any:
        """Return a key, read with the headers of its value."""
        assert self._entries is not None
        return self._entries.key(key, self.value_format.split(raw_value)[2])

    def _typed(self, entries: Any, operation: str) -> MeteredIterator[Any, Any]:
        key_from, value_from, read_key = self._key_from, self._value_from_raw, self._read_key
        typed: Any
        if self._entries is None:
            typed = ((key_from(key), value_from(raw)) for key, raw in entries)
        else:
            typed = ((read_key(key, raw), value_from(raw)) for key, raw in entries)
        return self._metered(typed, entries, operation)

    def _windowed(self, entries: Any) -> MeteredIterator[Any, Any]:
        key_from, value_from, read_key = self._key_from, self._value_from_raw, self._read_key
        typed: Any
        if self._entries is None:
            typed = ((Windowed(key_from(found.key), found.window), value_from(raw)) for found, raw in entries)
        else:
            typed = ((Windowed(read_key(found.key, raw), found.window), value_from(raw)) for found, raw in entries)
        return self._metered(typed, entries)

    def _metered(self, typed: Any, entries: Any, operation: str = "fetch") -> MeteredIterator[Any, Any]:
        finished = self._metrics.iterator_opened(operation)
        return MeteredIterator(typed, self._name, entries, self._metrics.opened, finished, self.iterators_raise_if_closed)

    def _refuse_none_key(self) -> NoReturn:
        raise ValueError(f"key cannot be None in store {self._name}")

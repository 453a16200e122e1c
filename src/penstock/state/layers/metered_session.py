"""The typed layer of session stores: serdes, null checks, metrics and open iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.change import Change
from penstock.record import Record
from penstock.state.engines.session_memory import InMemorySessionStore
from penstock.state.iterators import MeteredIterator
from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.metrics import StoreMetrics
from penstock.state.layers.serdes import StoreSerdes
from penstock.state.layers.wrapped_session import Session, WrappedSessionStore
from penstock.state.ranges import SessionRanges
from penstock.state.store import StateStore, StateStoreContext, StoreIterator
from penstock.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")

_METERED = ("put", "remove", "fetch_session", "commit")


class MeteredSessionStore(WrappedSessionStore, SessionRanges[K, V], Generic[K, V]):
    """What a processor gets: keys and aggregates of the user's types over a store of bytes."""

    query_kind = ("session", "plain")
    _serdes: StoreSerdes
    _metrics: StoreMetrics

    def __init__(self, wrapped: Any, metrics_scope: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(wrapped)
        self._metrics_scope = metrics_scope
        self._key_serde = key_serde
        self._value_serde = value_serde

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Find the serdes and open the wrapped store."""
        self._find_serdes(context)
        self._metrics = StoreMetrics(context, self._metrics_scope, self._name)
        self._metrics.time_calls(self, _METERED)
        if not self.persistent:
            self._metrics.gauge("num-keys", "The current number of keys in the in-memory store", self._num_entries)
        with self._metrics.restoring():
            super().init(context, root)

    def _find_serdes(self, context: StateStoreContext) -> None:
        self._serdes = StoreSerdes(context, self._name, self._key_serde, self._value_serde)
        self._raw_key = self._serdes.raw_key
        self._key_from = self._serdes.key_from
        self.serdes_take_headers = self._serdes.take_headers

    def close(self) -> None:
        """Close the wrapped store; what was not committed is gone."""
        try:
            super().close()
        finally:
            self._metrics.close()

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """Call `listener(record)` with the typed change of each entry the cache flushes; False where there is no cache."""
        key_from, value_from = self._key_from, self._value_from_raw

        def typed(record: Record[bytes, Change[bytes]]) -> None:
            session = SessionKeySchema.from_binary(record.key)
            change = record.value
            listener(
                Record(
                    Windowed(key_from(session.key), session.window),
                    Change(value_from(change.new_value), value_from(change.old_value), change.is_latest),
                    record.timestamp,
                    record.headers,
                )
            )

        return super().set_flush_listener(typed, send_old_values)

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """Set the aggregate of a session; None deletes."""
        self._wrapped.put(self._raw_session(session_key), self._raw_from_value(aggregate))

    def remove(self, session_key: Windowed[K]) -> None:
        """Remove a session."""
        self._wrapped.remove(self._raw_session(session_key))

    def raw_keys(self, keys: Sequence[K]) -> list[bytes]:
        """Many keys as bytes."""
        return self._serdes.raw_keys(keys)

    def keys_from(self, raw: Sequence[bytes]) -> list[K]:
        """Many keys from their bytes."""
        known = {one: self._key_from(one) for one in dict.fromkeys(raw)}
        return [known[one] for one in raw]

    def kept_sessions_of(self, bounds: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[tuple[int, int, Any]]]:
        """Start, end and aggregate, as `keep` keeps it, of what `find_sessions` finds for many keys; where `takes_rows`."""
        found = self._wrapped.sessions_of(bounds)
        kept = iter(self._serdes.kept_from([raw for of_key in found.values() for _, _, raw in of_key]))
        return {key: [(start, end, next(kept)) for start, end, _ in of_key] for key, of_key in found.items()}

    def keep(self, aggregate: V | None) -> Any:
        """An aggregate as it is kept between the records of a turn (`StoreSerdes.keep`)."""
        return self._serdes.keep(aggregate)

    def give(self, kept: Any) -> V:
        """The aggregate that `keep` has kept."""
        return self._serdes.give(kept)  # type: ignore[no-any-return]

    def give_all(self, kept: list[Any]) -> list[V | None]:
        """The same of many; None stays None."""
        return self._serdes.give_all(kept)

    def write_sessions_through(self, sessions: Sequence[Session], kept: Sequence[Any], record_times: Sequence[int]) -> None:
        """Set (None removes) what `keep` has kept of many sessions past the cache; the caller tells of the changes itself."""
        self._wrapped.put_sessions(sessions, self._serdes.raw_from_kept(kept), record_times)

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None:
        """The aggregate of exactly this session, or None."""
        aggregate: V | None = self._value_from_raw(self._wrapped.fetch_session(self._raw(key), session_start, session_end))
        return aggregate

    def find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        return self._typed(self._wrapped.find_sessions(self._raw(key), earliest_session_end, latest_session_start, forward))

    def find_sessions_key_range(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int, forward: bool = True
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        raw_from, raw_to = self._raw_bound(key_from), self._raw_bound(key_to)
        return self._typed(
            self._wrapped.find_sessions_key_range(raw_from, raw_to, earliest_session_end, latest_session_start, forward)
        )

    def find_sessions_by_end(self, earliest_session_end: int, latest_session_end: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end in a range of time; only stores that results are emitted from at close can do it."""
        return self._typed(super().find_sessions_by_end(earliest_session_end, latest_session_end))

    def _num_entries(self) -> int:
        engine = self.find_inner(InMemorySessionStore)
        return -1 if engine is None else engine.num_entries()

    def _raw(self, key: K) -> bytes:
        if key is None:
            raise ValueError(f"key cannot be None in store {self._name}")
        raw: bytes = self._raw_key(key)
        return raw

    def _raw_bound(self, key: K | None) -> bytes | None:
        return None if key is None else self._raw(key)

    def _raw_session(self, session_key: Windowed[K]) -> Windowed[bytes]:
        if session_key is None:
            raise ValueError(f"session key cannot be None in store {self._name}")
        if session_key.window is None:
            raise ValueError(f"the window of a session key cannot be None in store {self._name}")
        return Windowed(self._raw(session_key.key), session_key.window)

    def _raw_from_value(self, value: Any) -> bytes | None:
        raw: bytes | None = None if value is None else self._serdes.raw_value(value)
        return raw

    def _value_from_raw(self, raw: bytes | None) -> Any:
        return None if raw is None else self._serdes.value_from(raw)

    def _typed(self, entries: Any) -> StoreIterator[tuple[Windowed[K], V]]:
        key_from, value_from = self._key_from, self._value_from_raw
        typed = ((Windowed(key_from(session.key), session.window), value_from(value)) for session, value in entries)
        return self._metered(typed, entries)

    def _metered(self, typed: Any, entries: Any) -> StoreIterator[Any]:
        finished = self._metrics.iterator_opened("fetch")
        return MeteredIterator(typed, self._name, entries, self._metrics.opened, finished)

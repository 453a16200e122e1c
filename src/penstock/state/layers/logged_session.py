"""Change logging of session stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.wrapped_session import Session, WrappedSessionStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.windows import Windowed


class ChangeLoggingSessionStore(WrappedSessionStore):
    """Logs every put and removal under `key + session end + session start`, at the time of the record being processed."""

    passes_bytes = True
    _context: StateStoreContext
    _log_change: Callable[..., None]

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the wrapped store."""
        self._context = context
        self._log_change = context.log_change
        super().init(context, root)

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        """Set the aggregate of a session; None deletes."""
        self._wrapped.put(session_key, aggregate)
        self._log(session_key, aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        """Remove a session."""
        self._wrapped.remove(session_key)
        self._log(session_key, None)

    def put_sessions(self, sessions: Sequence[Session], aggregates: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the aggregates of many sessions, and log them at once."""
        self._wrapped.put_sessions(sessions, aggregates, record_times)
        self._context.log_columns(self._name, SessionKeySchema.store_keys(sessions), list(aggregates), list(record_times))

    def _log(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        record_context = self._context.record_context
        timestamp = self._context.current_system_time_ms() if record_context is None else record_context.timestamp
        self._log_change(self._name, SessionKeySchema.windowed_to_binary(session_key), aggregate, timestamp)

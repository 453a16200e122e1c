"""Change logging of session stores."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.state.keys.session import SessionKeySchema
from penstock.state.layers.changelog import ChangeLog
from penstock.state.layers.wrapped_session import Session, WrappedSessionStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_formats import ValueFormat
from penstock.windows import Windowed

_binary = SessionKeySchema.windowed_to_binary


class ChangeLoggingSessionStore(WrappedSessionStore):
    """Logs every put and removal under `key + session end + session start`."""

    passes_bytes = True

    def __init__(self, wrapped: StateStore, value_format: ValueFormat) -> None:
        super().__init__(wrapped)
        self._format = value_format

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._changelog = ChangeLog(context, self._name, self._format)
        super().init(context, root)

    def put(self, session_key: Windowed[bytes], aggregate: bytes | None) -> None:
        self._wrapped.put(session_key, aggregate)
        self._changelog.log(_binary(session_key), aggregate)

    def remove(self, session_key: Windowed[bytes]) -> None:
        self._wrapped.remove(session_key)
        self._changelog.log(_binary(session_key), None)

    def put_sessions(self, sessions: Sequence[Session], aggregates: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        self._wrapped.put_sessions(sessions, aggregates, record_times)
        self._changelog.log_many(SessionKeySchema.store_keys(sessions), aggregates, record_times)

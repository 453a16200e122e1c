"""Session stores as the aggregation over sessions sees them, whether they keep headers with each aggregate or not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from penstock.operators.context import OperatorContext
from penstock.operators.forwarding import FlushListener, SessionCacheFlushListener, SessionCacheFlushListenerWithHeaders
from penstock.serdes.record_headers import NEW_HEADERS
from penstock.state.aggregation_with_headers import AggregationWithHeaders
from penstock.windows import Windowed


def plain_sessions(store: Any) -> Any:
    """A store that takes and gives bare aggregates: the store itself, or a view of one that keeps headers."""
    return PlainSessionView(store) if store.gives_headers else store


def session_flush_listener(store: Any, context: OperatorContext) -> FlushListener:
    """The listener that fits what the store's cache hands out."""
    listener = SessionCacheFlushListenerWithHeaders if store.gives_headers else SessionCacheFlushListener
    return listener(context)


class PlainSessionView:
    """Aggregates without their headers; what is put has none."""

    __slots__ = ("_store", "remove", "set_flush_listener")

    takes_rows = False
    gives_headers = True  # to who listens to the cache of the store behind it

    def __init__(self, store: Any) -> None:
        self._store = store
        self.remove = store.remove
        self.set_flush_listener = store.set_flush_listener

    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        """Set the aggregate of a session; None deletes."""
        self._store.put(session_key, None if aggregate is None else AggregationWithHeaders(aggregate, NEW_HEADERS))

    def through_bytes(self, aggregate: Any) -> Any:
        """A copy of the aggregate: the store's serde reads it with headers."""
        return copy.deepcopy(aggregate)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        """The aggregate of exactly this session, or None."""
        found = self._store.fetch_session(key, session_start, session_end)
        return None if found is None else found.aggregation

    def find_sessions(self, *bounds: Any) -> AbstractContextManager[Iterator[tuple[Windowed[Any], Any]]]:
        """Sessions of a key with end >= the first and start <= the second bound."""
        return _bare(self._store.find_sessions(*bounds))

    def find_sessions_by_end(self, *bounds: Any) -> AbstractContextManager[Iterator[tuple[Windowed[Any], Any]]]:
        """Sessions of all keys that end within the bounds."""
        return _bare(self._store.find_sessions_by_end(*bounds))


@contextmanager
def _bare(sessions: Any) -> Iterator[Iterator[tuple[Windowed[Any], Any]]]:
    with sessions:
        yield ((session, found.aggregation) for session, found in sessions)

"""How a table's operators send changes on: at once, or when the record cache in front of their store is flushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.change import Change
from penstock.operators.context import OperatorContext
from penstock.record import Record

FlushListener = Callable[[Record[Any, Change[Any]]], None]


class _AtNode:
    """A listener that forwards from the node it was made at."""

    __slots__ = ("_context", "_node")

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._node = context.current_node


class TimestampedCacheFlushListener(_AtNode):
    """Forwards what a flushed cache entry of a timestamped store changed, from the node that keeps the store."""

    __slots__ = ()

    def __call__(self, record: Record[Any, Change[Any]]) -> None:
        """The new value's own timestamp counts; a deletion takes that of the record that caused it."""
        context = self._context
        change = record.value
        new, old = change.new_value, change.old_value
        with context.at(self._node, context.record_context):
            context.forward(
                Record(
                    record.key,
                    Change(None if new is None else new.value, None if old is None else old.value, change.is_latest),
                    record.timestamp if new is None else new.timestamp,
                    record.headers,
                )
            )


class SessionCacheFlushListener(_AtNode):
    """Forwards what a flushed cache entry of a session store changed; a session's time is its end."""

    __slots__ = ()

    def __call__(self, record: Record[Any, Change[Any]]) -> None:
        """Forward a session with its end as timestamp."""
        context = self._context
        with context.at(self._node, context.record_context):
            context.forward(Record(record.key, record.value, record.key.window.end, record.headers))


class SessionCacheFlushListenerWithHeaders(_AtNode):
    """The same for a session store that keeps headers: a session goes on with those of its aggregate."""

    __slots__ = ()

    def __call__(self, record: Record[Any, Change[Any]]) -> None:
        """Forward a session with its end as timestamp; a deletion has no headers."""
        context = self._context
        change = record.value
        new, old = change.new_value, change.old_value
        with context.at(self._node, context.record_context):
            context.forward(
                Record(
                    record.key,
                    Change(None if new is None else new.aggregation, None if old is None else old.aggregation, change.is_latest),
                    record.key.window.end,
                    () if new is None else new.headers,
                )
            )


class TimestampedTupleForwarder:
    """Forwards changes at once where the store has no cache; where it has one, its flush listener does.

    Without a store nothing is cached (`TimestampedTupleForwarder(None, context, None, send_old_values)`).
    """

    __slots__ = ("_context", "_forward", "_send_old_values", "caching_enabled")

    def __init__(self, store: Any, context: OperatorContext, flush_listener: FlushListener | None, send_old_values: bool) -> None:
        self._context = context
        self._forward = context.forward
        self._send_old_values = send_old_values
        self.caching_enabled = store is not None and bool(store.set_flush_listener(flush_listener, send_old_values))

    @property
    def waits_for_flush(self) -> bool:
        """Whether updates of a key stay in the cache until it is flushed; one without room lets every one through."""
        return self.caching_enabled and self._context.cache.max_cache_size_bytes > 0

    def maybe_forward(self, record: Record[Any, Change[Any]]) -> None:
        """Forward unless the cache will; the old value only goes along where it was asked for."""
        if self.caching_enabled:
            return
        change = record.value
        if not self._send_old_values and change.old_value is not None:
            record = record.with_value(Change(change.new_value, None, change.is_latest))
        self._forward(record)

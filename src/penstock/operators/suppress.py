"""Suppression: holds back the changes of a table until a time has passed, a window has closed, or the buffer is full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.batches.batch_processor import Operator
from penstock.change import Change
from penstock.errors import BufferFullError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.node_metrics import suppression_emit_sensor
from penstock.operators.time_tracker import StreamTime
from penstock.operators.value_getters import KTableValueGetter, KTableValueGetterSupplier, ParentTable
from penstock.record import Record, RecordContext
from penstock.state.buffers import Eviction
from penstock.windows import MAX_TIMESTAMP, Windowed

TimeDefinition = Callable[[RecordContext, Any], int]
"""`(record context, key) -> time`: what a record's place in the buffer is decided by."""


def record_time(context: RecordContext, key: Any) -> int:
    """The record's own time."""
    return context.timestamp


def window_end_time(context: RecordContext, key: Windowed[Any]) -> int:
    """The end of the window in the key."""
    return key.window.end


class BufferBounds(Protocol):
    """What suppression asks of a `BufferConfig`."""

    @property
    def record_limit(self) -> int:
        """How many keys may be held back."""
        ...

    @property
    def byte_limit(self) -> int:
        """How many bytes they may take."""
        ...

    @property
    def is_strict(self) -> bool:
        """Whether a full buffer is an error; otherwise it emits early."""
        ...


@dataclass(frozen=True)
class SuppressedInternal:
    """A `Suppressed` with everything decided: how long to wait from which time, how much room there is.

    `safe_to_drop_tombstones` holds for final results only: nothing was sent before that a tombstone would take back.
    """

    name: str | None
    time_to_wait_ms: int = MAX_TIMESTAMP
    buffer_config: BufferBounds | None = None
    time_definition: TimeDefinition = record_time
    safe_to_drop_tombstones: bool = False


class KTableSuppressProcessorSupplier(Operator):
    """Makes the processor that suppresses; the parent table sends old values for the view of what was emitted."""

    def __init__(self, suppress: SuppressedInternal, store_name: str, parent_ktable: ParentTable) -> None:
        self.suppress = suppress
        self.store_name = store_name
        self._parent = parent_ktable
        parent_ktable.enable_sending_old_values(True)

    def __call__(self) -> KTableSuppressProcessor:
        return KTableSuppressProcessor(self.suppress, self.store_name)

    def view(self) -> SuppressValueGetterSupplier:
        """The table as it has been emitted."""
        return SuppressValueGetterSupplier(self._parent.value_getter_supplier(), self.store_name)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """The old values come from the parent."""
        return self._parent.enable_sending_old_values(force_materialization)


class KTableSuppressProcessor(OperatorProcessor[Any, "Change[Any]", Any, "Change[Any]"]):
    """Buffers each change and emits what has waited long enough, or what the bounds push out.

    It takes no batches: what a change pushes out leaves before the next one comes, and decides what that pushes out.
    """

    def __init__(self, suppress: SuppressedInternal, store_name: str) -> None:
        bounds = suppress.buffer_config
        self._store_name = store_name
        self._max_records = MAX_TIMESTAMP if bounds is None else bounds.record_limit
        self._max_bytes = MAX_TIMESTAMP if bounds is None else bounds.byte_limit
        self._emit_when_full = bounds is not None and not bounds.is_strict
        self._wait_ms = suppress.time_to_wait_ms
        self._buffer_time = suppress.time_definition
        self._safe_to_drop_tombstones = suppress.safe_to_drop_tombstones

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._stream_time = StreamTime(context, self._store_name)
        self._buffer = context.get_state_store(self._store_name)
        self._buffer.set_serdes_if_null(context)
        self._emit_sensor = suppression_emit_sensor(context)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Buffer one change, then emit what is due."""
        expiry_time = self._stream_time.observe(record.timestamp) - self._wait_ms
        buffer = self._buffer
        record_context = self._context.record_context
        if record_context is None:
            record_context = RecordContext(record.timestamp, -1, -1, None, record.headers)
        buffer.put(self._buffer_time(record_context, record.key), record, record_context)
        if buffer.min_timestamp <= expiry_time:
            buffer.evict_while(lambda: buffer.min_timestamp <= expiry_time, self._emit)
        if self._over_capacity():
            if not self._emit_when_full:
                raise BufferFullError(
                    f"{self._context.current_node_name} buffer exceeded its max capacity. Currently "
                    f"[{buffer.num_records}/{self._max_records}] records and [{buffer.buffer_size}/{self._max_bytes}] bytes. "
                    "Give the buffer more room, or let it emit early (emit_early_when_full)."
                )
            buffer.evict_while(self._over_capacity, self._emit)

    def _over_capacity(self) -> bool:
        return bool(self._buffer.num_records > self._max_records or self._buffer.buffer_size > self._max_bytes)

    def _emit(self, eviction: Eviction) -> None:
        change: Change[Any] = eviction.value
        if change.new_value is None and self._safe_to_drop_tombstones:
            return
        context = self._context
        with context.at(context.current_node, eviction.record_context):
            context.forward(eviction.record)
            self._emit_sensor.record()


class SuppressValueGetterSupplier(KTableValueGetterSupplier):
    """Gives access to the suppressed table: what its buffer holds back is seen as it was before."""

    def __init__(self, parent_supplier: KTableValueGetterSupplier, store_name: str) -> None:
        self._parent_supplier = parent_supplier
        self._store_name = store_name

    @property
    def store_names(self) -> tuple[str, ...]:
        """The buffer, and the stores of the parent."""
        return (self._store_name, *self._parent_supplier.store_names)

    def get(self) -> SuppressValueGetter:
        return SuppressValueGetter(self._parent_supplier.get(), self._store_name)


class SuppressValueGetter(KTableValueGetter):
    """Asks the buffer first, then the parent."""

    is_versioned = False

    def __init__(self, parent: KTableValueGetter, store_name: str) -> None:
        self._parent = parent
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        """Take the buffer; its life is the processor's business."""
        self._parent.init(context)
        self._buffer = context.get_state_store(self._store_name)

    def get(self, key: Any, as_of: int | None = None) -> Any:
        """The value that was last emitted, with its timestamp, or None."""
        is_buffered, prior = self._buffer.prior_value_for_buffered(key)
        return prior if is_buffered else self._parent.get(key)

    def close(self) -> None:
        """Close the parent's getter."""
        self._parent.close()

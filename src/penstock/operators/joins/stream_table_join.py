"""The join of a stream with a table, by key.

Each stream record looks up the table's row, in a versioned table as of the record's own time. With a grace period the records
wait in a buffer until stream time is that far past them, so that rows that come late are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.errors import StreamsError, TopologyError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.rows import each_row
from penstock.operators.skipped import skip_record
from penstock.operators.time_tracker import time_key
from penstock.operators.value_getters import KTableValueGetter, KTableValueGetterSupplier
from penstock.record import Record, RecordContext
from penstock.state.buffers import Eviction

Joiner = Callable[[Any, Any, Any], Any]
KeyMapper = Callable[[Any, Any], Any]


class KStreamKTableJoin(Operator):
    """Makes the processor; `buffer_store_name` names the buffer that goes with a grace period."""

    def __init__(
        self,
        value_getter_supplier: KTableValueGetterSupplier,
        joiner: Joiner,
        left_join: bool,
        grace_period_ms: int | None = None,
        buffer_store_name: str | None = None,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.joiner = joiner
        self.left_join = left_join
        self.grace_period_ms = grace_period_ms
        self.buffer_store_name = buffer_store_name

    def __call__(self) -> KStreamKTableJoinProcessor:
        return KStreamKTableJoinProcessor(
            self.value_getter_supplier.get(),
            None,
            self.joiner,
            self.left_join,
            None if self.grace_period_ms is None else self.buffer_store_name,
        )


class KStreamKTableJoinProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """Looks up each record's row; `key_mapper` gives the row's key, without it the record's own key does."""

    def __init__(
        self,
        value_getter: KTableValueGetter,
        key_mapper: KeyMapper | None,
        joiner: Joiner,
        left_join: bool,
        buffer_store_name: str | None,
    ) -> None:
        self._value_getter = value_getter
        self._key_mapper = key_mapper
        self._joiner = joiner
        self._left_join = left_join
        self._buffer_name = buffer_store_name
        self._buffer: Any = None

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context, the table's value getter and the buffer."""
        self._context = context
        self._forward = context.forward
        getter = self._value_getter
        getter.init(context)
        self._get = getter.get
        self._is_versioned = bool(getter.is_versioned)
        if self._buffer_name is not None:
            if not self._is_versioned:
                raise TopologyError(
                    f"the stream-table join {context.current_node_name} has a grace period, so its table must be versioned: "
                    "materialize it with Stores.persistent_versioned_key_value_store"
                )
            self._buffer = context.get_state_store(self._buffer_name)
            self._buffer.set_serdes_if_null(context)
            self._stream_time_key = time_key(f"{self._buffer_name}@stream-time")
            carried = context.processor_metadata_for_key(self._stream_time_key)
            if carried is not None:
                self._buffer.observed_stream_time = max(self._buffer.observed_stream_time, carried)
        self.takes_batches = self._buffer is None and not self._is_versioned

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record, or hold it back."""
        key, value = record.key, record.value
        table_key = key if self._key_mapper is None else self._key_mapper(key, value)
        if value is None or (table_key is None and not self._left_join):
            skip_record(self._context, "null join key or value")
        elif self._buffer is None:
            self._join(record, table_key)
        else:
            self._hold_back(record)

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many records; the rows of all keys are read at once where the table has them in a store."""
        context, joiner, left_join = self._context, self._joiner, self._left_join
        mapper = self._key_mapper
        table_keys, batch = (batch.keys, batch) if mapper is None else each_row(context, batch, mapper)
        rows = self._value_getter.get_rows([key for key in table_keys if key is not None])
        get, done, joined = self._get if rows is None else rows.get, list[int](), list[Any]()
        for number, (table_key, value) in enumerate(zip(table_keys, batch.values)):
            try:
                if value is None or (table_key is None and not left_join):
                    context.enter_row(batch, number)
                    skip_record(context, "null join key or value")
                    continue
                table_value = None
                if table_key is not None:
                    row = get(table_key)
                    table_value = None if row is None else row.value
                if table_value is not None or left_join:
                    joined.append(joiner(batch.keys[number], value, table_value))
                    done.append(number)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(batch, number, exc)
        context.forward_batch((batch if len(done) == len(batch) else batch.take(done)).with_values(joined))

    def _hold_back(self, record: Record[Any, Any]) -> None:
        buffer, context = self._buffer, self._context
        if record.key is None:
            # Only in a left join; the original fails here as well, although without a grace period it takes such a record.
            raise StreamsError(
                f"the left join {context.current_node_name} has a grace period and cannot hold back a record without a key: "
                "filter such records out before the join"
            )
        before = buffer.observed_stream_time
        record_context = context.record_context
        if record_context is None:
            record_context = RecordContext(record.timestamp, -1, -1, None, record.headers)
        if not buffer.put(record.timestamp, record, record_context):
            self._join(record, record.key)
            return
        if buffer.observed_stream_time != before:
            context.add_processor_metadata_key_value(self._stream_time_key, buffer.observed_stream_time)
        buffer.evict_while(_always, self._emit)

    def _emit(self, eviction: Eviction) -> None:
        with self._context.at(self._context.current_node, eviction.record_context):
            self._join(eviction.record, eviction.key)

    def _join(self, record: Record[Any, Any], table_key: Any) -> None:
        if table_key is None:
            row = None
        elif self._is_versioned:
            row = self._get(table_key, record.timestamp)
        else:
            row = self._get(table_key)
        table_value = None if row is None else row.value
        if table_value is not None or self._left_join:
            joined = self._joiner(record.key, record.value, table_value)
            self._forward(Record(record.key, joined, record.timestamp, record.headers))

    def close(self) -> None:
        self._value_getter.close()


def _always() -> bool:
    return True

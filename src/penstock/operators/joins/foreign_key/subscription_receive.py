"""The right side of a foreign-key join, first step: keeps the subscriptions that arrive."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.foreign_key.combined_key import CombinedKey, CombinedKeySchema
from penstock.operators.joins.foreign_key.subscription_wrapper import CURRENT_VERSION, Instruction, SubscriptionWrapper
from penstock.operators.rows import row_by_row
from penstock.operators.skipped import skip_record
from penstock.record import Record
from penstock.serdes.record_headers import record_headers
from penstock.state.value_timestamp_headers import ValueTimestampHeaders

_DELETES = (Instruction.DELETE_KEY_AND_PROPAGATE, Instruction.DELETE_KEY_NO_PROPAGATE)


class SubscriptionReceiveProcessorSupplier(Operator):
    """Makes the processor that keeps subscriptions in the subscription store."""

    def __init__(self, subscription_store_name: str, key_schema: CombinedKeySchema[Any, Any]) -> None:
        self.subscription_store_name = subscription_store_name
        self.key_schema = key_schema

    def __call__(self) -> SubscriptionReceiveProcessor:
        return SubscriptionReceiveProcessor(self.subscription_store_name, self.key_schema)


class SubscriptionReceiveProcessor(BatchProcessor, OperatorProcessor[Any, SubscriptionWrapper, CombinedKey, "Change[Any]"]):
    """Stores or removes a subscription and passes it on with both keys."""

    def __init__(self, subscription_store_name: str, key_schema: CombinedKeySchema[Any, Any]) -> None:
        self._store_name = subscription_store_name
        self._key_schema = key_schema

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._store = context.get_state_store(self._store_name)
        self._key_schema = self._key_schema.of_task(context)
        takes_headers = self._key_schema.takes_headers or self._store.serdes_take_headers
        self._keep = self._store_apart if takes_headers else self._store_subscription
        self.takes_batches = self._store.writes_rows_with_headers and not takes_headers

    def process(self, record: Record[Any, SubscriptionWrapper]) -> None:
        """Keep one subscription."""
        wrapper = record.value
        if record.key is None and wrapper.instruction is not Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE:
            skip_record(self._context, "null foreign key")
            return
        check_version(wrapper)
        new_value = ValueTimestampHeaders(wrapper, record.timestamp, record.headers)
        old_value = None if record.key is None else self._keep(record.key, wrapper, new_value)
        self._context.forward(
            Record(CombinedKey(record.key, wrapper.primary_key), Change(new_value, old_value), record.timestamp, record.headers)
        )

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many subscriptions, which are written at once; what was there before is not read, since nobody asks."""
        keys, wrappers, timestamps = batch.keys, batch.values, batch.timestamps
        kept = [None if wrapper is None or wrapper.instruction in _DELETES else wrapper for wrapper in wrappers]
        try:
            raw_keys = self._key_schema.to_bytes_column(keys, [wrapper.primary_key for wrapper in wrappers])
            raw_values = self._store.raw_rows_with_headers(kept, timestamps, batch.headers)
            is_plain = max(wrapper.version for wrapper in wrappers) <= CURRENT_VERSION
        except Exception:  # noqa: BLE001  (one by one, the handler judges whatever a serializer raises)
            is_plain = False
        if not is_plain or None in keys:
            row_by_row(self._context, batch, self.process)
            return
        self._store.write_rows_with_headers(raw_keys, raw_values, timestamps, batch.headers)
        headers = [()] * len(batch) if batch.headers is None else batch.headers
        self._context.forward_batch(
            batch.with_keys_and_values(
                [CombinedKey(key, wrapper.primary_key) for key, wrapper in zip(keys, wrappers)],
                [Change(ValueTimestampHeaders(*row), None) for row in zip(wrappers, timestamps, headers)],
            )
        )

    def _store_apart(self, foreign_key: Any, wrapper: SubscriptionWrapper, new_value: Any) -> Any:
        """Store with headers apart: what serializers add to them reaches the changelog, and the answer does not carry it."""
        with record_headers(self._context, new_value.headers):
            return self._store_subscription(foreign_key, wrapper, new_value)

    def _store_subscription(self, foreign_key: Any, wrapper: SubscriptionWrapper, new_value: Any) -> Any:
        key = self._key_schema.to_bytes(foreign_key, wrapper.primary_key)
        old_value = self._store.get(key)
        if wrapper.instruction in _DELETES:
            self._store.delete(key)
        else:
            self._store.put(key, new_value)
        return old_value


def check_version(wrapper: SubscriptionWrapper) -> None:
    """Refuse a subscription of a version that this one does not know."""
    if wrapper.version > CURRENT_VERSION:
        raise StreamsError(
            f"a subscription of a foreign-key join has version {wrapper.version}, at most {CURRENT_VERSION} is known: "
            "an application of a newer version writes to the same topic"
        )

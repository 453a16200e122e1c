"""The right side of a foreign-key join: a changed row of the right table answers all that are subscribed to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.foreign_key.combined_key import CombinedKeySchema
from penstock.operators.joins.foreign_key.response_wrapper import SubscriptionResponseWrapper
from penstock.operators.rows import row_by_row
from penstock.operators.skipped import skip_out_of_order, skip_record
from penstock.record import Record


class ForeignTableJoinProcessorSupplier(Operator):
    """Makes the processor that looks up the subscriptions of a changed row."""

    def __init__(self, subscription_store_name: str, key_schema: CombinedKeySchema[Any, Any]) -> None:
        self.subscription_store_name = subscription_store_name
        self.key_schema = key_schema
        self.use_versioned_semantics = False

    def __call__(self) -> ForeignTableJoinProcessor:
        return ForeignTableJoinProcessor(self.subscription_store_name, self.key_schema, self.use_versioned_semantics)

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether changes older than what the right table holds are to be dropped."""
        self.use_versioned_semantics = use_versioned_semantics


class ForeignTableJoinProcessor(BatchProcessor, OperatorProcessor[Any, "Change[Any]", Any, SubscriptionResponseWrapper]):
    """Sends the new value to each subscriber."""

    def __init__(
        self, subscription_store_name: str, key_schema: CombinedKeySchema[Any, Any], use_versioned_semantics: bool
    ) -> None:
        self._store_name = subscription_store_name
        self._key_schema = key_schema
        self._use_versioned_semantics = use_versioned_semantics

    def set_up(self, context: OperatorContext) -> None:
        self._context = context
        self._store = context.get_state_store(self._store_name)
        self._key_schema = self._key_schema.of_task(context)
        self.takes_batches = not self._key_schema.takes_headers

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Answer all subscriptions of one row."""
        if record.key is None:
            skip_record(self._context, "null key")
            return
        if self._use_versioned_semantics and not record.value.is_latest:
            skip_out_of_order(self._context)
            return
        for primary_key, response in self._answers(record.key, record.value):
            self._context.forward(Record(primary_key, response, record.timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many rows, whose answers leave at once."""
        if self._use_versioned_semantics or None in batch.keys:
            row_by_row(self._context, batch, self.process)
            return
        rows: list[int] = []
        answers: list[tuple[Any, SubscriptionResponseWrapper]] = []
        for row, (key, change) in enumerate(zip(batch.keys, batch.values)):
            try:
                of_row = list(self._answers(key, change))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a serializer raises)
                self._context.row_failed(batch, row, exc)
                continue
            rows += [row] * len(of_row)
            answers += of_row
        keys, responses = [key for key, _ in answers], [response for _, response in answers]
        self._context.forward_batch(batch.take(rows).with_keys_and_values(keys, responses))

    def _answers(self, foreign_key: Any, change: Change[Any]) -> Iterator[tuple[Any, SubscriptionResponseWrapper]]:
        """The primary keys of those that are subscribed to a row, and what each is told of it."""
        prefix = self._key_schema.prefix_bytes(foreign_key)
        with self._store.range(prefix, increment(prefix)) as subscriptions:
            for key, subscription in subscriptions:
                # The range includes its end, which is the first key of another prefix.
                if key.startswith(prefix):
                    wrapper = subscription.value
                    response = SubscriptionResponseWrapper(wrapper.hash, change.new_value, wrapper.primary_partition)
                    yield self._key_schema.from_bytes(key).primary_key, response


def increment(data: bytes) -> bytes:
    """The smallest byte string of the same length that is larger; the length in front of a prefix keeps it from overflowing.

    >>> increment(b"a\\xff"), increment(b"ab")
    (b'b\\x00', b'ac')
    """
    return (int.from_bytes(data, "big") + 1).to_bytes(len(data), "big")

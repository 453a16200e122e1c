"""The left side of a foreign-key join, last step: joins an answer with the row it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.batches.serdes import serialize_column
from penstock.errors import StreamsError
from penstock.hashing import murmur3_hash128, murmur3_hash128_column
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.foreign_key.combined_key import TopicSupplier, topic_name
from penstock.operators.joins.foreign_key.response_wrapper import CURRENT_VERSION, SubscriptionResponseWrapper
from penstock.operators.joins.foreign_key.subscription_wrapper import Hash
from penstock.operators.rows import row_by_row
from penstock.operators.value_getters import KTableValueGetterSupplier
from penstock.record import Record
from penstock.serdes.contract import wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.record_headers import with_record_headers
from penstock.serdes.serde import Serializer, as_serializer


class ResponseJoinProcessorSupplier(Operator):
    """Makes the processor that gives the join's result."""

    def __init__(
        self,
        value_getter_supplier: KTableValueGetterSupplier,
        value_serializer: Any,
        value_hash_serde_pseudo_topic: TopicSupplier,
        joiner: Callable[[Any, Any, Any], Any],
        left_join: bool,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.value_serializer: Serializer | None = as_serializer(value_serializer)
        self.value_hash_serde_pseudo_topic = value_hash_serde_pseudo_topic
        self.joiner = joiner
        self.left_join = left_join

    def __call__(self) -> ResponseJoinProcessor:
        return ResponseJoinProcessor(self)


class ResponseJoinProcessor(BatchProcessor, OperatorProcessor[Any, SubscriptionResponseWrapper, Any, Any]):
    """Joins an answer with the current row; an answer to an earlier value of the row is dropped."""

    def __init__(self, supplier: ResponseJoinProcessorSupplier) -> None:
        self._values = supplier.value_getter_supplier.get()
        self._value_serializer = supplier.value_serializer
        self._topic_of = supplier.value_hash_serde_pseudo_topic
        self._joiner = supplier.joiner
        self._left_join = supplier.left_join

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the left table's value getter."""
        self._context = context
        self._topic = topic_name(self._topic_of)
        self._values.init(context)
        serialize = or_default(self._value_serializer, context) or as_serializer(context.value_serde)
        self.takes_batches = not wants_headers(serialize)
        self._serialize: Any = with_record_headers(serialize, context)

    def process(self, record: Record[Any, SubscriptionResponseWrapper]) -> None:
        """Join one answer."""
        response = record.value
        if response.version != CURRENT_VERSION:
            raise StreamsError(
                f"a response of a foreign-key join has version {response.version}, only {CURRENT_VERSION} is known: "
                "an application of another version writes to the same topic"
            )
        found = self._values.get(record.key)
        current_hash = None if found is None else murmur3_hash128(self._serialize(self._topic, found.value) or b"")
        if response.original_value_hash != current_hash:
            self._context.count_dropped()
            return
        result = self._joined(record.key, found, response.foreign_value)
        self._context.forward(Record(record.key, result, record.timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many answers; the rows they belong to are read at once where the table has them in a store."""
        keys, responses = batch.keys, batch.values
        try:
            found, hashes = self._found(list(keys))
            is_plain = all(response.version == CURRENT_VERSION for response in responses)
        except Exception:  # noqa: BLE001  (one by one, the handler judges whatever a serializer raises)
            is_plain = False
        if not is_plain:
            row_by_row(self._context, batch, self.process)
            return
        rows: list[int] = []
        results: list[Any] = []
        for row, (key, response, current, current_hash) in enumerate(zip(keys, responses, found, hashes)):
            if response.original_value_hash != current_hash:
                self._context.count_dropped()
                continue
            try:
                results.append(self._joined(key, current, response.foreign_value))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc)
            else:
                rows.append(row)
        self._context.forward_batch((batch if len(rows) == len(batch) else batch.take(rows)).with_values(results))

    def _found(self, keys: list[Any]) -> tuple[list[Any], list[Hash | None]]:
        """The current row of each key, and the hash of its value."""
        if None in keys:
            raise ValueError("an answer without a key belongs to no row")
        by_key = self._values.get_rows(keys)
        found = list(map(self._values.get if by_key is None else by_key.get, keys))
        values = serialize_column(self._serialize, self._topic, [row.value for row in found if row is not None])
        hashes = iter(murmur3_hash128_column([data or b"" for data in values]))
        return found, [None if row is None else next(hashes) for row in found]

    def _joined(self, key: Any, found: Any, foreign_value: Any) -> Any:
        if foreign_value is None and (not self._left_join or found is None):
            return None
        return self._joiner(key, None if found is None else found.value, foreign_value)

    def close(self) -> None:
        self._values.close()

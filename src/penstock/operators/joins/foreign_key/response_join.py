"""The left side of a foreign-key join, last step: joins an answer with the row it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.columns.operator import Operator
from penstock.errors import StreamsError
from penstock.hashing import murmur3_hash128
from penstock.operators.context import OperatorContext
from penstock.operators.joins.foreign_key.combined_key import TopicSupplier, topic_name
from penstock.operators.joins.foreign_key.response_wrapper import CURRENT_VERSION, SubscriptionResponseWrapper
from penstock.operators.value_getters import KTableValueGetterSupplier
from penstock.processor import Processor
from penstock.record import Record
from penstock.serdes.guessed import or_default
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
        """Each task gets a processor of its own."""
        return ResponseJoinProcessor(self)


class ResponseJoinProcessor(Processor[Any, SubscriptionResponseWrapper, Any, Any]):
    """Joins an answer with the current row; an answer to an earlier value of the row is dropped."""

    def __init__(self, supplier: ResponseJoinProcessorSupplier) -> None:
        self._values = supplier.value_getter_supplier.get()
        self._value_serializer = supplier.value_serializer
        self._topic_of = supplier.value_hash_serde_pseudo_topic
        self._joiner = supplier.joiner
        self._left_join = supplier.left_join

    def init(self, context: Any) -> None:
        """Keep the context and the left table's value getter."""
        self.context = context
        self._context: OperatorContext = context
        self._topic = topic_name(self._topic_of)
        self._values.init(context)
        self._serialize: Any = or_default(self._value_serializer, context) or as_serializer(context.value_serde)

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
        foreign_value = response.foreign_value
        if foreign_value is None and (not self._left_join or found is None):
            result = None
        else:
            result = self._joiner(record.key, None if found is None else found.value, foreign_value)
        self._context.forward(Record(record.key, result, record.timestamp, record.headers))

    def close(self) -> None:
        """Close the value getter."""
        self._values.close()

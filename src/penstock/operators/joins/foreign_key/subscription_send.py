"""The left side of a foreign-key join: turns each change of a row into subscriptions at the foreign keys it names."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.columns.operator import Operator
from penstock.hashing import murmur3_hash128
from penstock.operators.context import OperatorContext
from penstock.operators.joins.foreign_key.combined_key import TopicSupplier, topic_name
from penstock.operators.joins.foreign_key.extractor import ForeignKeyExtractor
from penstock.operators.joins.foreign_key.subscription_wrapper import CURRENT_VERSION, Hash, Instruction, SubscriptionWrapper
from penstock.operators.skipped import skip_out_of_order, skip_record
from penstock.processor import Processor
from penstock.record import Record
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Serializer, as_serializer

_DELETE_KEY_NO_PROPAGATE = Instruction.DELETE_KEY_NO_PROPAGATE
_DELETE_KEY_AND_PROPAGATE = Instruction.DELETE_KEY_AND_PROPAGATE
_PROPAGATE_NULL = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_PROPAGATE_VALUE = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


class SubscriptionSendProcessorSupplier(Operator):
    """Makes the processor that sends subscriptions."""

    def __init__(
        self,
        foreign_key_extractor: ForeignKeyExtractor,
        foreign_key_serde_topic: TopicSupplier,
        value_serde_topic: TopicSupplier,
        foreign_key_serde: Any,
        value_serializer: Any,
        left_join: bool,
    ) -> None:
        self.foreign_key_extractor = foreign_key_extractor
        self.foreign_key_serde_topic = foreign_key_serde_topic
        self.value_serde_topic = value_serde_topic
        self.foreign_key_serializer: Serializer | None = as_serializer(foreign_key_serde)
        self.value_serializer: Serializer | None = as_serializer(value_serializer)
        self.left_join = left_join
        self.use_versioned_semantics = False

    def __call__(self) -> SubscriptionSendProcessor:
        """Each task gets a processor of its own."""
        return SubscriptionSendProcessor(self)

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether changes older than what the left table holds are to be dropped."""
        self.use_versioned_semantics = use_versioned_semantics


class SubscriptionSendProcessor(Processor[Any, Change[Any], Any, SubscriptionWrapper]):
    """Sends what the old and the new value of a row ask for; a hash of the new value goes along to recognise the answer."""

    def __init__(self, supplier: SubscriptionSendProcessorSupplier) -> None:
        self._extract = supplier.foreign_key_extractor
        self._left_join = supplier.left_join
        self._use_versioned_semantics = supplier.use_versioned_semantics
        self._foreign_key_serializer = supplier.foreign_key_serializer
        self._value_serializer = supplier.value_serializer
        self._foreign_key_topic_of = supplier.foreign_key_serde_topic
        self._value_topic_of = supplier.value_serde_topic

    def init(self, context: Any) -> None:
        """Keep the context; the default serdes stand in where none was given."""
        self.context = context
        self._context: OperatorContext = context
        self._foreign_key_topic = topic_name(self._foreign_key_topic_of)
        self._value_topic = topic_name(self._value_topic_of)
        self._serialize_foreign_key: Any = or_default(self._foreign_key_serializer, context) or as_serializer(context.key_serde)
        self._serialize_value: Any = or_default(self._value_serializer, context) or as_serializer(context.value_serde)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Send the subscriptions of one change."""
        if self._use_versioned_semantics and not record.value.is_latest:
            skip_out_of_order(self._context)
        elif self._left_join:
            self._process_left_join(record)
        else:
            self._process_inner_join(record)

    def _process_left_join(self, record: Record[Any, Change[Any]]) -> None:
        old_value, new_value = record.value.old_value, record.value.new_value
        if old_value is None and new_value is None:
            return
        old_key = None if old_value is None else self._extract(record.key, old_value)
        new_key = None if new_value is None else self._extract(record.key, new_value)
        hashed = self._hash(new_value)
        # The new subscription may go to another partition, so it cannot replace the old one there.
        if old_key is not None and self._changed(new_key, old_key):
            self._send(record, old_key, _DELETE_KEY_NO_PROPAGATE, hashed)
        # Sent for a deleted row as well, with a null foreign key: nothing is kept for it, but the answer comes.
        self._send(record, new_key, _PROPAGATE_NULL, hashed)

    def _process_inner_join(self, record: Record[Any, Change[Any]]) -> None:
        old_value, new_value = record.value.old_value, record.value.new_value
        old_key = None if old_value is None else self._extract(record.key, old_value)
        if new_value is None:
            if old_key is not None:
                self._send(record, old_key, _DELETE_KEY_AND_PROPAGATE, None)
            return
        new_key = self._extract(record.key, new_value)
        hashed = self._hash(new_value)
        if new_key is None:
            skip_record(self._context, "null foreign key")
            if old_key is not None:
                self._send(record, old_key, _DELETE_KEY_AND_PROPAGATE, hashed)
        elif old_key is not None and self._changed(new_key, old_key):
            self._send(record, old_key, _DELETE_KEY_NO_PROPAGATE, hashed)
            # A null answer removes the result that the old foreign key may have had.
            self._send(record, new_key, _PROPAGATE_NULL, hashed)
        else:
            # Either a new row, or one that keeps its foreign key: without a match there was no result before.
            self._send(record, new_key, _PROPAGATE_VALUE, hashed)

    def _changed(self, new_key: Any, old_key: Any) -> bool:
        serialize, topic = self._serialize_foreign_key, self._foreign_key_topic
        return bool(serialize(topic, new_key) != serialize(topic, old_key))

    def _hash(self, new_value: Any) -> Hash | None:
        if new_value is None:
            return None
        return murmur3_hash128(self._serialize_value(self._value_topic, new_value) or b"")

    def _send(self, record: Record[Any, Change[Any]], foreign_key: Any, instruction: Instruction, hashed: Hash | None) -> None:
        record_context = self._context.record_context
        partition = self._context.task_id.partition if record_context is None else record_context.partition
        wrapper = SubscriptionWrapper(hashed, instruction, record.key, CURRENT_VERSION, partition)
        self._context.forward(Record(foreign_key, wrapper, record.timestamp, record.headers))

"""The left side of a foreign-key join: turns each change of a row into subscriptions at the foreign keys it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.batches.serdes import serialize_column
from penstock.change import Change
from penstock.hashing import murmur3_hash128, murmur3_hash128_column
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.foreign_key.combined_key import TopicSupplier, topic_name
from penstock.operators.joins.foreign_key.extractor import ForeignKeyExtractor
from penstock.operators.joins.foreign_key.subscription_wrapper import CURRENT_VERSION, Hash, Instruction, SubscriptionWrapper
from penstock.operators.rows import row_by_row
from penstock.operators.skipped import skip_out_of_order, skip_record
from penstock.record import Record
from penstock.serdes.contract import wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.record_headers import with_record_headers
from penstock.serdes.serde import Serializer, as_serializer

_DELETE_KEY_NO_PROPAGATE = Instruction.DELETE_KEY_NO_PROPAGATE
_DELETE_KEY_AND_PROPAGATE = Instruction.DELETE_KEY_AND_PROPAGATE
_PROPAGATE_NULL = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_PROPAGATE_VALUE = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE

Subscriptions = Sequence[tuple[Any, Instruction, Hash | None]]
"""The foreign keys that a change asks something of, what that is, and the hash that goes along."""


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
        return SubscriptionSendProcessor(self)

    def set_use_versioned_semantics(self, use_versioned_semantics: bool) -> None:
        """Whether changes older than what the left table holds are to be dropped."""
        self.use_versioned_semantics = use_versioned_semantics


class SubscriptionSendProcessor(BatchProcessor, OperatorProcessor[Any, Change[Any], Any, SubscriptionWrapper]):
    """Sends what the old and the new value of a row ask for; a hash of the new value goes along to recognise the answer."""

    def __init__(self, supplier: SubscriptionSendProcessorSupplier) -> None:
        self._extract = supplier.foreign_key_extractor
        self._left_join = supplier.left_join
        self._use_versioned_semantics = supplier.use_versioned_semantics
        self._foreign_key_serializer = supplier.foreign_key_serializer
        self._value_serializer = supplier.value_serializer
        self._foreign_key_topic_of = supplier.foreign_key_serde_topic
        self._value_topic_of = supplier.value_serde_topic

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context; the default serdes stand in where none was given."""
        self._context = context
        self._foreign_key_topic = topic_name(self._foreign_key_topic_of)
        self._value_topic = topic_name(self._value_topic_of)
        serialize_key = or_default(self._foreign_key_serializer, context) or as_serializer(context.key_serde)
        serialize_value = or_default(self._value_serializer, context) or as_serializer(context.value_serde)
        self.takes_batches = not (wants_headers(serialize_key) or wants_headers(serialize_value))
        self._serialize_foreign_key: Any = with_record_headers(serialize_key, context)
        self._serialize_value: Any = with_record_headers(serialize_value, context)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        """Send the subscriptions of one change."""
        if self._use_versioned_semantics and not record.value.is_latest:
            skip_out_of_order(self._context)
            return
        for foreign_key, instruction, hashed in self._asked_for(record.key, record.value, self._hash, self._skip):
            self._send(record, foreign_key, instruction, hashed)

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many changes; their values are hashed at once."""
        changes: Sequence[Change[Any]] = batch.values
        context = self._context
        there = [change.new_value for change in changes if change.new_value is not None]
        try:
            hashes = iter(self._hashes(there))
        except Exception:  # noqa: BLE001  (change by change, the handler judges whatever a serializer raises)
            hashes = None
        if hashes is None or self._use_versioned_semantics:
            row_by_row(context, batch, self.process)
            return
        rows: list[int] = []
        keys: list[Any] = []
        wrappers: list[SubscriptionWrapper] = []
        row = 0

        def skip() -> None:
            context.enter_row(batch, row)
            self._skip()

        for row, (key, change, partition) in enumerate(zip(batch.keys, changes, batch.partitions())):
            hashed = None if change.new_value is None else next(hashes)
            try:
                asked_for = self._asked_for(key, change, lambda _: hashed, skip)  # noqa: B023  (called before the next row)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(batch, row, exc)
                continue
            for foreign_key, instruction, along in asked_for:
                rows.append(row)
                keys.append(foreign_key)
                wrappers.append(SubscriptionWrapper(along, instruction, key, CURRENT_VERSION, partition))
        context.forward_batch(batch.take(rows).with_keys_and_values(keys, wrappers))

    def _asked_for(
        self, key: Any, change: Change[Any], hash_of: Callable[[Any], Hash | None], skip: Callable[[], None]
    ) -> Subscriptions:
        return (self._of_left_join if self._left_join else self._of_inner_join)(key, change, hash_of, skip)

    def _of_left_join(
        self, key: Any, change: Change[Any], hash_of: Callable[[Any], Hash | None], skip: Callable[[], None]
    ) -> Subscriptions:
        old_value, new_value = change.old_value, change.new_value
        if old_value is None and new_value is None:
            return ()
        old_key = None if old_value is None else self._extract(key, old_value)
        new_key = None if new_value is None else self._extract(key, new_value)
        moves = old_key is not None and self._changed(new_key, old_key)
        hashed = hash_of(new_value)
        # Sent for a deleted row as well, with a null foreign key: nothing is kept for it, but the answer comes.
        subscription = (new_key, _PROPAGATE_NULL, hashed)
        # The new subscription may go to another partition, so it cannot replace the old one there.
        if moves:
            return (old_key, _DELETE_KEY_NO_PROPAGATE, hashed), subscription
        return (subscription,)

    def _of_inner_join(
        self, key: Any, change: Change[Any], hash_of: Callable[[Any], Hash | None], skip: Callable[[], None]
    ) -> Subscriptions:
        old_value, new_value = change.old_value, change.new_value
        old_key = None if old_value is None else self._extract(key, old_value)
        if new_value is None:
            return () if old_key is None else ((old_key, _DELETE_KEY_AND_PROPAGATE, None),)
        new_key = self._extract(key, new_value)
        moves = new_key is not None and old_key is not None and self._changed(new_key, old_key)
        hashed = hash_of(new_value)
        if new_key is None:
            skip()
            return () if old_key is None else ((old_key, _DELETE_KEY_AND_PROPAGATE, hashed),)
        if moves:
            # A null answer removes the result that the old foreign key may have had.
            return (old_key, _DELETE_KEY_NO_PROPAGATE, hashed), (new_key, _PROPAGATE_NULL, hashed)
        # Either a new row, or one that keeps its foreign key: without a match there was no result before.
        return ((new_key, _PROPAGATE_VALUE, hashed),)

    def _skip(self) -> None:
        skip_record(self._context, "null foreign key")

    def _changed(self, new_key: Any, old_key: Any) -> bool:
        serialize, topic = self._serialize_foreign_key, self._foreign_key_topic
        return bool(serialize(topic, new_key) != serialize(topic, old_key))

    def _hash(self, new_value: Any) -> Hash | None:
        if new_value is None:
            return None
        return murmur3_hash128(self._serialize_value(self._value_topic, new_value) or b"")

    def _hashes(self, values: Sequence[Any]) -> list[Hash]:
        return murmur3_hash128_column(
            [data or b"" for data in serialize_column(self._serialize_value, self._value_topic, values)]
        )

    def _send(self, record: Record[Any, Change[Any]], foreign_key: Any, instruction: Instruction, hashed: Hash | None) -> None:
        record_context = self._context.record_context
        partition = self._context.task_id.partition if record_context is None else record_context.partition
        wrapper = SubscriptionWrapper(hashed, instruction, record.key, CURRENT_VERSION, partition)
        self._context.forward(Record(foreign_key, wrapper, record.timestamp, record.headers))

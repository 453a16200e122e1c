"""The right side of a foreign-key join, second step: answers a subscription with the right table's row."""

from __future__ import annotations

from typing import Any

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.foreign_key.combined_key import CombinedKey
from penstock.operators.joins.foreign_key.response_wrapper import SubscriptionResponseWrapper
from penstock.operators.joins.foreign_key.subscription_receive import check_version
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.operators.value_getters import KTableValueGetterSupplier
from penstock.record import Record


class SubscriptionJoinProcessorSupplier(Operator):
    """Makes the processor that looks up the right table."""

    def __init__(self, foreign_value_getter_supplier: KTableValueGetterSupplier) -> None:
        self.foreign_value_getter_supplier = foreign_value_getter_supplier

    def __call__(self) -> SubscriptionJoinProcessor:
        return SubscriptionJoinProcessor(self.foreign_value_getter_supplier)


class SubscriptionJoinProcessor(BatchProcessor, OperatorProcessor[CombinedKey, "Change[Any]", Any, SubscriptionResponseWrapper]):
    """Answers as the subscription's instruction says."""

    def __init__(self, foreign_value_getter_supplier: KTableValueGetterSupplier) -> None:
        self._foreign_values = foreign_value_getter_supplier.get()

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the right table's value getter."""
        self._context = context
        self._foreign_values.init(context)

    def process(self, record: Record[CombinedKey, Change[Any]]) -> None:
        """Answer one subscription."""
        subscription = record.value.new_value
        assert subscription is not None
        foreign_key = record.key.foreign_key
        found = None if foreign_key is None else self._foreign_values.get(foreign_key)
        answer = self._answer(subscription, found)
        if answer is not None:
            response, timestamp = answer
            self._context.forward(Record(record.key.primary_key, response, timestamp, record.headers))

    def process_batch(self, batch: RecordBatch) -> None:
        """The same for many subscriptions; the right table's rows are read at once where it has them in a store."""
        foreign_keys = [key.foreign_key for key in batch.keys]
        found_rows = self._foreign_values.get_rows([key for key in foreign_keys if key is not None], shared=True)
        get = self._foreign_values.get if found_rows is None else found_rows.get
        rows: list[int] = []
        answers: list[tuple[SubscriptionResponseWrapper, int]] = []
        for row, (foreign_key, change) in enumerate(zip(foreign_keys, batch.values)):
            try:
                answer = self._answer(change.new_value, None if foreign_key is None else get(foreign_key))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a row's function raises)
                self._context.row_failed(batch, row, exc)
                continue
            if answer is not None:
                rows.append(row)
                answers.append(answer)
        answered = batch.take(rows)
        keys = [key.primary_key for key in answered.keys]
        self._context.forward_batch(answered.with_rows(keys, [one for one, _ in answers], [time for _, time in answers]))

    def _answer(self, subscription: Any, found: Any) -> tuple[SubscriptionResponseWrapper, int] | None:
        wrapper = subscription.value
        check_version(wrapper)
        instruction, timestamp = wrapper.instruction, subscription.timestamp
        if instruction is Instruction.DELETE_KEY_NO_PROPAGATE:
            return None
        if found is None:
            if instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE:
                return None
            return SubscriptionResponseWrapper(wrapper.hash, None, wrapper.primary_partition), timestamp
        value = None if instruction is Instruction.DELETE_KEY_AND_PROPAGATE else found.value
        response = SubscriptionResponseWrapper(wrapper.hash, value, wrapper.primary_partition)
        return response, max(timestamp, found.timestamp)

    def close(self) -> None:
        self._foreign_values.close()

"""The right side of a foreign-key join, second step: answers a subscription with the right table's row."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.columns.operator import Operator
from penstock.operators.joins.foreign_key.combined_key import CombinedKey
from penstock.operators.joins.foreign_key.response_wrapper import SubscriptionResponseWrapper
from penstock.operators.joins.foreign_key.subscription_receive import check_version
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.operators.value_getters import KTableValueGetterSupplier
from penstock.processor import Processor
from penstock.record import Record


class SubscriptionJoinProcessorSupplier(Operator):
    """Makes the processor that looks up the right table."""

    def __init__(self, foreign_value_getter_supplier: KTableValueGetterSupplier) -> None:
        self.foreign_value_getter_supplier = foreign_value_getter_supplier

    def __call__(self) -> SubscriptionJoinProcessor:
        """Each task gets a processor of its own."""
        return SubscriptionJoinProcessor(self.foreign_value_getter_supplier)


class SubscriptionJoinProcessor(Processor[CombinedKey, "Change[Any]", Any, SubscriptionResponseWrapper]):
    """Answers as the subscription's instruction says."""

    def __init__(self, foreign_value_getter_supplier: KTableValueGetterSupplier) -> None:
        self._foreign_values = foreign_value_getter_supplier.get()

    def init(self, context: Any) -> None:
        """Keep the context and the right table's value getter."""
        self.context = context
        self._context: Any = context
        self._foreign_values.init(context)

    def process(self, record: Record[CombinedKey, Change[Any]]) -> None:
        """Answer one subscription."""
        subscription = record.value.new_value
        assert subscription is not None
        wrapper = subscription.value
        check_version(wrapper)
        foreign_key = record.key.foreign_key
        found = None if foreign_key is None else self._foreign_values.get(foreign_key)
        timestamp = subscription.timestamp if found is None else max(subscription.timestamp, found.timestamp)
        instruction = wrapper.instruction
        if instruction is Instruction.DELETE_KEY_NO_PROPAGATE:
            return
        if instruction is Instruction.DELETE_KEY_AND_PROPAGATE:
            found = None
        elif found is None and instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE:
            return
        value = None if found is None else found.value
        response = SubscriptionResponseWrapper(wrapper.hash, value, wrapper.primary_partition)
        self._context.forward(Record(record.key.primary_key, response, timestamp, record.headers))

    def close(self) -> None:
        """Close the value getter."""
        self._foreign_values.close()

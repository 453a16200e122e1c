"""Subscriptions and a store of bytes, for tests of the operators of a foreign-key join."""

from __future__ import annotations

from typing import Any

from penstock.operators import (
    CombinedKeySchema,
    SubscriptionWrapper,
)
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.serdes.serde import Serdes
from tests.unit.operators.operator_kit import Entries

DELETE_SILENTLY = Instruction.DELETE_KEY_NO_PROPAGATE
DELETE = Instruction.DELETE_KEY_AND_PROPAGATE
ANSWER_ALWAYS = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


class BytesStore:
    """A store of bytes in a dictionary."""

    serdes_take_headers = writes_rows_with_headers = False

    def __init__(self) -> None:
        self.rows: dict[bytes, Any] = {}

    def get(self, key: bytes) -> Any:
        return self.rows.get(key)

    def put(self, key: bytes, value: Any) -> None:
        self.rows[key] = value

    def delete(self, key: bytes) -> Any:
        return self.rows.pop(key, None)

    def range(self, key_from: bytes, key_to: bytes) -> Entries:
        return Entries([(key, self.rows[key]) for key in sorted(self.rows) if key_from <= key <= key_to])


def schema_of_strings() -> CombinedKeySchema[str, str]:
    """Both keys are strings."""
    return CombinedKeySchema("fk", Serdes.string(), "pk", Serdes.string())


def wrapped(instruction: Instruction, primary_key: str = "pk", version: int = 1) -> SubscriptionWrapper:
    """A subscription of the row with hash (1, 2), from partition 3."""
    return SubscriptionWrapper((1, 2), instruction, primary_key, version, 3)

"""A type and a serde of a user's own, where workers find them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock import Serde


@dataclass(frozen=True)
class Sale:
    product: str
    price: Decimal


class Signed(Serde[str]):
    """Refuses to work where it was not configured; signs what it writes."""

    def configure(self, configs: Any, is_key: bool) -> None:
        self.signature = f"{configs['__signature']}-{'key' if is_key else 'value'}"

    def serialize(self, topic: str, value: str, headers: Any) -> bytes:
        headers.append(("signed", self.signature.encode()))
        return value.encode()

    def deserialize(self, topic: str, data: bytes, headers: Any) -> str:
        assert self.signature
        return data.decode()

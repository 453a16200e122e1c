"""Ranges over a key-value store in memory, read in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.state.engines.key_value_bytes import prefix_bytes
from penstock.state.iterators import is_inverted, prefix_end
from penstock.state.parts import THE_ONLY, Orders, Part, PartReader, upper_bound


class KeyValueParts(PartReader):
    """Entries from `low` on and below `high`, or the other way round."""

    def __init__(
        self, entries: Mapping[bytes, bytes], orders: Orders, low: bytes | None, high: bytes | None, forward: bool
    ) -> None:
        self._entries, self._orders = entries, orders
        self._low, self._high, self._forward = low, high, forward

    def read(self, budget: int) -> Part:
        order = self._orders.of(THE_ONLY, lambda: list(self._entries))
        if not order.is_built:
            return Part([], False, order.build)
        keys, ended = order.keys(self._low, self._high, budget, self._forward)
        get = self._entries.get
        found = [(key, value) for key in keys if (value := get(key)) is not None]
        if keys and self._forward:
            self._low = keys[-1] + b"\0"
        elif keys:
            self._high = keys[-1]
        return Part(found, ended)


def key_value_parts(
    entries: Mapping[bytes, bytes], orders: Orders, method: str, arguments: tuple[Any, ...]
) -> KeyValueParts | None:
    """A reader for a method of a key-value store that gives a range; None for others."""
    if method == "all":
        return KeyValueParts(entries, orders, None, None, *arguments)
    if method == "range":
        key_from, key_to, forward = arguments
        if is_inverted(key_from, key_to):
            return KeyValueParts({}, Orders(), None, None, forward)
        return KeyValueParts(entries, orders, key_from, upper_bound(key_to), forward)
    if method == "prefix_scan":
        prefix = prefix_bytes(*arguments)
        return KeyValueParts(entries, orders, prefix, prefix_end(prefix), True)
    return None

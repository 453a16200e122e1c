"""The distinct keys of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Keys of these types are equal exactly if their bytes are, so that they can stand for their bytes.
LIKE_THEIR_BYTES = frozenset({str, bytes, int})


class DistinctKeys:
    """Distinct keys, compared as objects if equal objects have equal bytes, else by their bytes."""

    __slots__ = ("are_keys", "distinct", "identities", "raw", "raw_by_identity")

    def __init__(self, keys: Sequence[Any], raw_keys: Callable[[Sequence[Any]], list[bytes]]) -> None:
        kinds = set(map(type, keys))
        self.identities: Sequence[Any] = keys
        self.distinct: list[Any] = []
        self.raw: list[bytes] = []
        if len(kinds) == 1 and kinds <= LIKE_THEIR_BYTES:
            self.distinct = list(dict.fromkeys(keys))
            self.raw = raw_keys(self.distinct)
        if not self.raw or len(set(self.raw)) < len(self.raw):
            self.identities = list(raw_keys(keys))
            self.distinct = self.raw = list(dict.fromkeys(self.identities))
        self.raw_by_identity = dict(zip(self.distinct, self.raw))
        self.are_keys = self.identities is keys
        """Whether each key stands for itself."""

    def spans(self, timestamps: Sequence[int]) -> dict[bytes, tuple[int, int]]:
        """The earliest and the latest time of each key, by its bytes."""
        first: dict[Any, int] = {}
        last: dict[Any, int] = {}
        for identity, timestamp in zip(self.identities, timestamps):
            if identity not in first:
                first[identity] = last[identity] = timestamp
            elif timestamp > last[identity]:
                last[identity] = timestamp
            elif timestamp < first[identity]:
                first[identity] = timestamp
        return {raw: (first[identity], last[identity]) for identity, raw in zip(self.distinct, self.raw)}

    def last_of(self, numbers: Iterable[int]) -> list[int]:
        """Those of the rows, given in their order, behind which the same key does not come again."""
        numbers = list(numbers)
        return sorted(dict(zip(map(self.identities.__getitem__, numbers), numbers)).values())

    def raw_of(self, identities: list[Any]) -> list[bytes]:
        """The bytes of some of the keys."""
        return [self.raw_by_identity[identity] for identity in identities]

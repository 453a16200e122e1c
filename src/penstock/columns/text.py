"""Columns that are not lists yet: text in one Arrow array, and rows of another column that nobody may ever look at.

They are read like lists, and become one when somebody looks at single entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class LateColumn(Sequence[Any]):
    """A list that is made when it is needed.

    >>> column = LateColumn(3, lambda: ["a", "b", "c"])
    >>> len(column), column[1], None in column
    (3, 'b', False)
    """

    __slots__ = ("_entries", "_length", "_make")

    def __init__(self, length: int, make: Callable[[], list[Any]]) -> None:
        self._length = length
        self._make = make
        self._entries: list[Any] | None = None

    def entries(self) -> list[Any]:
        """The list itself."""
        if self._entries is None:
            self._entries = self._make()
        return self._entries

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries())

    def __contains__(self, entry: object) -> bool:
        return entry in self.entries()

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        return self.entries()[row]


class TextColumn(LateColumn):
    """Strings, or their UTF-8 bytes, as an Arrow array without nulls.

    >>> words = TextColumn(pa.array(["a", "b"]))
    >>> list(words), list(words.as_bytes())
    (['a', 'b'], [b'a', b'b'])
    """

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        super().__init__(len(array), array.to_pylist)
        self.array = array

    @classmethod
    def of(cls, data: Sequence[bytes | None]) -> TextColumn:
        """The strings of UTF-8 bytes; raises ValueError where one is missing or is no text."""
        array = pa.array(data, pa.binary())
        if array.null_count:
            raise ValueError("not only text")
        return cls(array.cast(pa.string()))

    def as_bytes(self) -> TextColumn:
        """The bytes of the strings."""
        return TextColumn(self.array.cast(pa.binary()))

    def __contains__(self, entry: object) -> bool:
        return entry is not None and super().__contains__(entry)

    def split(self) -> tuple[TextColumn, list[int]]:
        """What `str.split` gives for each string, one behind the other, and how many each gave."""
        # Both take the same characters for space as Python does, but for four that are separators of ASCII.
        letters = self._characters()
        is_plain = not ((letters >= 0x80) | ((letters >= 0x1C) & (letters <= 0x1F))).any()
        parts = (pc.ascii_split_whitespace if is_plain else pc.utf8_split_whitespace)(self.array)
        words, counts = parts.flatten(), np.diff(parts.offsets.to_numpy())
        there = pc.binary_length(words).to_numpy() > 0
        if not there.all():  # space at either end leaves an empty string
            counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[there], minlength=len(counts))
            words = words.filter(pa.array(there))
        return TextColumn(words), counts.tolist()

    def _characters(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        data = self.array.buffers()[2]
        return np.frombuffer(b"" if data is None else data, np.uint8)

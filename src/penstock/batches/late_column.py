"""Columns that become a list only when an entry is read, such as rows of another column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

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


class BytesColumn(LateColumn):
    """Bytes in an Arrow array, as a list when an entry is read.

    >>> column = BytesColumn(pa.array([b"a", None, b"bc"], pa.binary()))
    >>> column.size, list(column)
    (3, [b'a', None, b'bc'])
    """

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        super().__init__(len(array), array.to_pylist)
        self.array = array

    @property
    def size(self) -> int:
        """How many bytes the entries have together."""
        return pc.sum(pc.binary_length(self.array)).as_py() or 0

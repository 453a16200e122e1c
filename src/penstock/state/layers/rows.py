"""Many entries of a timestamped key-value or window store at once, as pairs of value and timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.state.layers.metered import MeteredStore
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, timestamped_column
from penstock.state.value_formats import TIMESTAMPED

K = TypeVar("K")
V = TypeVar("V")


class RowValues(MeteredStore[K, V], Generic[K, V]):
    """Rows are pairs of value and timestamp; a kept row has the value as `keep` keeps it. For timestamped stores only."""

    def rows_from(self, raw: Sequence[bytes | None]) -> list[tuple[Any, int] | None]:
        """Return the rows of many entries."""
        present = [one for one in raw if one is not None]
        if not present:
            return [None] * len(raw)
        read = int.from_bytes
        values = iter(self._serdes.values_from([one[TIMESTAMP_SIZE:] for one in present]))
        rows = [None if one is None else (next(values), read(one[:TIMESTAMP_SIZE], "big", signed=True)) for one in raw]
        return [None if row is None or row[0] is None else row for row in rows]

    def kept_rows_from(self, raw: Sequence[bytes | None]) -> list[tuple[Any, int] | None]:
        """Return the kept rows of many entries."""
        present = [one for one in raw if one is not None]
        if not present:
            return [None] * len(raw)
        read = int.from_bytes
        kept = iter(self._serdes.kept_from([one[TIMESTAMP_SIZE:] for one in present]))
        return [None if one is None else (next(kept), read(one[:TIMESTAMP_SIZE], "big", signed=True)) for one in raw]

    def raw_from_kept(self, kept: Sequence[Any], timestamps: Sequence[int]) -> list[bytes | None]:
        """Return the bytes of many entries from their kept values; None stays None."""
        return timestamped_column(self._serdes.raw_from_kept(kept), timestamps)

    def raw_from_rows(self, values: Sequence[Any], timestamps: Sequence[int]) -> list[bytes | None]:
        """Return the bytes of many entries; None stays None."""
        return timestamped_column(self._serdes.raw_values(values), timestamps)

    def through_bytes(self, value: Any) -> Any:
        if self.value_format is TIMESTAMPED:
            return self._serdes.through_bytes(value)
        return super().through_bytes(value)

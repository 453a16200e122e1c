"""What the typed layers of timestamped stores share, whatever their keys look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.state.layers.serdes import StoreSerdes
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, timestamped_column

K = TypeVar("K")
V = TypeVar("V")


class TimestampedValues(Generic[K, V]):
    """Values come and go as `ValueAndTimestamp`; the bytes are eight of timestamp and then the value's own."""

    _serdes: StoreSerdes

    def _raw_from_value(self, value: ValueAndTimestamp[Any] | None) -> bytes | None:
        if value is None or value.value is None:
            return None
        raw = self._serdes.raw_value(value.value)
        if raw is None:
            return None
        return value.timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + bytes(raw)

    def _value_from_raw(self, raw: bytes | None) -> ValueAndTimestamp[V] | None:
        if raw is None:
            return None
        value = self._serdes.value_from(raw[TIMESTAMP_SIZE:])
        if value is None:
            return None
        return ValueAndTimestamp(value, int.from_bytes(raw[:TIMESTAMP_SIZE], "big", signed=True))

    def rows_from(self, raw: Sequence[bytes | None]) -> list[tuple[V, int] | None]:
        """Value and timestamp of many entries, as plain pairs."""
        there = [one for one in raw if one is not None]
        if not there:
            return [None] * len(raw)
        read = int.from_bytes
        values = iter(self._serdes.values_from([one[TIMESTAMP_SIZE:] for one in there]))
        rows = [None if one is None else (next(values), read(one[:TIMESTAMP_SIZE], "big", signed=True)) for one in raw]
        return [None if row is None or row[0] is None else row for row in rows]

    def raw_from_rows(self, values: Sequence[V | None], timestamps: Sequence[int]) -> list[bytes | None]:
        """The bytes of many entries; None stays None."""
        return timestamped_column(self._serdes.raw_values(values), timestamps)

    def raw_keys(self, keys: Sequence[K]) -> list[bytes]:
        """Many keys as bytes."""
        return self._serdes.raw_keys(keys)

    def check_values(self, values: Sequence[V | None]) -> None:
        """Raise where one of the values cannot be written."""
        if None in self._serdes.raw_values([value for value in values if value is not None]):
            raise ValueError("what is written of a value is null")

    def through_bytes(self, value: V) -> V:
        """What comes back of a value that is written and read."""
        return self._serdes.through_bytes(value)  # type: ignore[no-any-return]

    @property
    def exact_type(self) -> type | None:
        """The type whose values come back from their bytes exactly as they were; None where the serde promises nothing."""
        return self._serdes.exact_type

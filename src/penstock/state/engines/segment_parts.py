"""Ranges over the segments of a window or session store in memory, read in parts."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.state.parts import Orders, Part, PartReader

_SMALL = 2048
"""A segment of so many keys is put in order where it is read: half a millisecond."""


class SegmentParts(PartReader):
    """Entries of the keys from `low` on and below `high`, in the segments of a range of time, in the order of both or backwards.

    `times` and `segments` are the store's own, which change from part to part. `whole_segments`: none is read in parts.
    """

    def __init__(
        self,
        times: Sequence[int],
        segments: Mapping[int, Mapping[bytes, Any]],
        orders: Orders,
        keys: tuple[bytes | None, bytes | None],
        period: tuple[int, int],
        forward: bool,
        whole_segments: bool = False,
    ) -> None:
        self._whole_segments = whole_segments
        self._times, self._segments, self._orders = times, segments, orders
        self._low, self._high = keys
        self._from, self._to = period
        self._forward = forward
        self._at: int | None = None
        self._last: bytes | None = None  # the key behind which to go on in that segment

    @abstractmethod
    def earliest(self) -> int:
        """The time before which entries have expired by now."""

    @abstractmethod
    def entries_of(self, time: int, segment: Mapping[bytes, Any], keys: list[bytes]) -> list[Any]:
        """The entries of these keys of a segment, of which some may be gone."""

    def read(self, budget: int) -> Part:
        found: list[Any] = []
        while budget > 0:
            time = self._segment()
            if time is None:
                return Part(found, True)
            segment = self._segments[time]
            if time != self._at:
                self._at, self._last = time, None
            if len(segment) <= _SMALL or self._whole_segments:
                keys, ended, looked_at = self._sorted(segment), True, len(segment)
            else:
                order = self._orders.of(time, lambda segment=segment: list(segment))  # type: ignore[misc]
                if not order.is_built:
                    return Part(found, False, order.build)
                keys, ended = order.keys(*self._bounds(), budget, self._forward)
                looked_at = len(keys)
            found += self.entries_of(time, segment, keys)
            if ended:
                self._leave(time)
            else:
                self._last = keys[-1]
            budget -= max(1, looked_at)
        return Part(found, False)

    def _segment(self) -> int | None:
        """The time of the segment to read from now."""
        first = bisect_left(self._times, max(self._from, self.earliest()))
        last = bisect_right(self._times, self._to)
        if first >= last:
            return None
        return self._times[first] if self._forward else self._times[last - 1]

    def _leave(self, time: int) -> None:
        if self._forward:
            self._from = time + 1
        else:
            self._to = time - 1

    def _bounds(self) -> tuple[bytes | None, bytes | None]:
        if self._last is None:
            return self._low, self._high
        return (self._last + b"\0", self._high) if self._forward else (self._low, self._last)

    def _sorted(self, segment: Mapping[bytes, Any]) -> list[bytes]:
        low, high = self._bounds()
        keys = [key for key in segment if (low is None or low <= key) and (high is None or key < high)]
        keys.sort(reverse=not self._forward)
        return keys

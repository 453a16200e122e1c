"""What all engines share: a name and a life; and those that forget with time, how far time has come and what came too late."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.record import RawRecord
from penstock.state.engines.expired import ExpiredRecords
from penstock.state.parts import Orders
from penstock.state.store import StateStore, StateStoreContext


class StoreEngine(StateStore):
    """A store of bytes at the bottom of the layers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_open(self) -> bool:
        return self._open

    @abstractmethod
    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back."""

    def _validate_open(self) -> None:
        if not self._open:
            raise InvalidStateStoreError(f"Store {self._name} is currently closed")


class ExpiringEngine(StoreEngine):
    """An engine that keeps what is younger than its retention, as told by the latest time that was put."""

    def __init__(self, name: str, retention_period: int) -> None:
        super().__init__(name)
        self._retention_period = retention_period
        self._observed_stream_time = -1
        self._expired = ExpiredRecords()

    @property
    def retention_period(self) -> int:
        """How long entries can be found, in milliseconds of stream time."""
        return self._retention_period

    @property
    def observed_stream_time(self) -> int:
        """The latest time that was put; -1 before the first."""
        return self._observed_stream_time

    @property
    def expired_records(self) -> int:
        """How many puts came too late."""
        return self._expired.count


class InMemorySegments(ExpiringEngine):
    """Entries by time and key, in memory: what has expired is dropped with its time."""

    def __init__(self, name: str, retention_period: int) -> None:
        super().__init__(name, retention_period)
        self._times: list[int] = []
        self._segments: dict[int, dict[bytes, Any]] = {}
        self._orders = Orders()

    @property
    def persistent(self) -> bool:
        """False: memory is gone with `close`."""
        return False

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._expired.bind(context)
        context.register(root, self.restore_batch)
        self._open = True

    def close(self) -> None:
        self._segments.clear()
        self._times.clear()
        self._orders.clear()
        self._observed_stream_time = -1
        self._open = False

    def min_live_time(self) -> int:
        """The earliest time that is still kept: a record is gone exactly `retention` ms after its own."""
        return self._observed_stream_time - self._retention_period + 1

    @abstractmethod
    def _forget_segment(self, time: int, segment: Mapping[bytes, Any]) -> None:
        """Take the entries of a segment that has expired out of all else that knows them."""

    def _segment_of(self, time: int) -> dict[bytes, Any]:
        """The segment of a time, made where there is none."""
        segment = self._segments.get(time)
        if segment is None:
            segment = self._segments[time] = {}
            insort(self._times, time)
        return segment

    def _segments_between(self, time_from: int, time_to: int, forward: bool) -> list[tuple[int, dict[bytes, Any]]]:
        """The live segments of a range of time: themselves, so that an iterator goes on over what expires while it is open."""
        times = self._times
        first = bisect_left(times, max(time_from, self.min_live_time()))
        found = [(time, self._segments[time]) for time in times[first : bisect_right(times, time_to)]]
        if not forward:
            found.reverse()
        return found

    def _segments_from_now(self, time_from: int, time_to: int, forward: bool) -> Iterator[tuple[int, dict[bytes, Any]]]:
        """The segments of a range of time that are live now, and those that come later ahead of where the iterator is.

        Kafka Streams' iterators over memory see them too.
        """
        return self._with_later(self._segments_between(time_from, time_to, forward), time_from, time_to, forward)

    def _with_later(
        self, known: list[tuple[int, dict[bytes, Any]]], time_from: int, time_to: int, forward: bool
    ) -> Iterator[tuple[int, dict[bytes, Any]]]:
        known = known[::-1]
        while True:
            later = self._next_time(time_from, time_to, forward)
            if known and (later is None or known[-1][0] == later or (known[-1][0] < later) is forward):
                time, segment = known.pop()
            elif later is not None:
                time, segment = later, self._segments[later]
            else:
                return
            time_from, time_to = (time + 1, time_to) if forward else (time_from, time - 1)
            yield time, self._segments.get(time, segment)

    def _next_time(self, time_from: int, time_to: int, forward: bool) -> int | None:
        times = self._times
        at = bisect_left(times, time_from) if forward else bisect_right(times, time_to) - 1
        return times[at] if 0 <= at < len(times) and time_from <= times[at] <= time_to else None

    def _remove_key(self, time: int, key: bytes) -> None:
        """Take a key out of its segment, and the segment out of the store where it was the last."""
        segment = self._segments[time]
        del segment[key]
        self._orders.removed(time, key)
        if not segment:
            self._orders.forget(time)
            del self._segments[time]
            del self._times[bisect_left(self._times, time)]

    def _remove_expired_segments(self) -> None:
        times = self._times
        min_live_time = self.min_live_time()
        if not times or times[0] >= min_live_time:
            return
        expired = bisect_left(times, min_live_time)
        for time in times[:expired]:
            self._orders.forget(time)
            self._forget_segment(time, self._segments.pop(time))
        del times[:expired]

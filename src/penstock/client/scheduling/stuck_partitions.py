"""Partitions that cannot be read now: left alone for a while, so that they hold up nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from penstock.clock import monotonic
from penstock.ids import TopicPartition
from penstock.kafka.fetch import Short

_log = logging.getLogger(__name__)

_FIRST, _LONGEST = 0.5, 30.0


class StuckPartitions:
    """When each partition that did not move is tried again: soon at first, then less and less often.

    >>> stuck = StuckPartitions(clock=lambda: 0.0)
    >>> stuck.note(TopicPartition("orders", 1), 42, "its leader is away")
    >>> stuck.without([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    [TopicPartition(topic='orders', partition=0)]
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waits: dict[TopicPartition, tuple[float, float]] = {}

    def note(self, partition: TopicPartition, offset: int, reason: str) -> None:
        """A partition could not be read from an offset on."""
        wait = min(_LONGEST, 2 * self._waits[partition][0]) if partition in self._waits else _FIRST
        self._waits[partition] = wait, self._clock() + wait
        _log.warning("%s cannot be read from offset %d on, and is tried again in %.1f s: %s", partition, offset, wait, reason)

    def note_all(self, short: Mapping[TopicPartition, Short]) -> None:
        """What a turn could not read."""
        for partition, at in short.items():
            self.note(partition, at.offset, at.reason)

    def moved(self, partitions: Iterable[TopicPartition]) -> None:
        """These have been read."""
        for partition in self._waits.keys() & set(partitions):
            del self._waits[partition]
            _log.info("%s is read on", partition)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._waits)

    def without(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions that may be tried now."""
        if not self._waits:
            return list(partitions)
        now = self._clock()
        return [p for p in partitions if p not in self._waits or self._waits[p][1] <= now]

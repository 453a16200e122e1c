"""Where logs end, asked for by whoever wants to read: one question at a time, on a thread of its own.

A broker that takes long to answer keeps nobody from anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from penstock.client.scheduling.notes import Beside
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin


class Ends(NamedTuple):
    """Where logs end, for those who asked, and how long it took to learn that."""

    asked: Mapping[TopicPartition, int]
    """The partitions, with the offset up to which each had been read."""
    ends: Mapping[TopicPartition, int]
    globals: Mapping[TopicPartition, int]
    seconds: float
    short_of: Mapping[TopicPartition, int]
    """Partitions that end before what had been read of them, with the ends of their whole logs."""


class LogEnds:
    """Asks the brokers for the ends of logs; `on_ends` is told what came of it, on any thread."""

    def __init__(
        self,
        admin: Admin,
        beside: Beside,
        committed_only: bool,
        committed_globals: bool,
        on_ends: Callable[[Future[Ends]], None],
    ) -> None:
        self._admin = admin
        self._beside = beside
        self._committed_only, self._committed_globals = committed_only, committed_globals
        self._on_ends = on_ends
        self._asking: Future[Ends] | None = None
        self.asked = 0
        """How many questions there were."""

    @property
    def is_asking(self) -> bool:
        """Whether a question is under way."""
        return self._asking is not None and not self._asking.done()

    def ask(self, partitions: Mapping[TopicPartition, int], globals_: Iterable[TopicPartition]) -> None:
        """Ask for the ends of some partitions, given how far each is read, and of global topics."""
        self.asked += 1
        self._asking = self._beside.submit(self._ask, dict(partitions), tuple(globals_))
        self._asking.add_done_callback(self._on_ends)

    def _ask(self, partitions: Mapping[TopicPartition, int], globals_: tuple[TopicPartition, ...]) -> Ends:
        started = time.monotonic()
        ends = self._admin.reachable_ends(partitions, self._committed_only) if partitions else {}
        # The end may be the last stable offset, and the position one from before only that was read.
        beyond = [partition for partition, end in ends.items() if end < partitions[partition]]
        short_of = self._admin.reachable_ends(beyond, False) if beyond else {}
        global_ends = self._admin.log_ends(globals_, self._committed_globals) if globals_ else {}
        return Ends(partitions, ends, global_ends, time.monotonic() - started, short_of)

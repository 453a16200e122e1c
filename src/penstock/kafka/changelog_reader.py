"""Reads changelogs for stores that are brought back: as they lie in the log where that pays, or as all else is read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import LogUnreadableError

_log = logging.getLogger(__name__)

WORTH_A_CONNECTION: Final = 500_000
"""So many records to be read make up for the 0.15 s of CPU that it takes to begin."""

_OPEN_SECONDS: Final = 10.0


class ChangelogReader:
    """One range after the other. What cannot be read from the log as it is, the fetcher reads, which also knows how to wait."""

    def __init__(self, fetcher: RangeFetcher, log_reader: Callable[[], LogReader]) -> None:
        self._fetcher = fetcher
        self._make = log_reader
        self._opening: threading.Thread | None = None
        self._reader: LogReader | None = None
        self._gave_up = False

    def fetch(self, wanted: FetchRange, until: int, headers: bool) -> tuple[RawBatch, int]:
        """Return the records of a range and the offset behind them; without their headers, if nobody looks at them.

        More follow before `until`. A range of more than about `MOST_BYTES` is not read to its end.
        """
        reader = None if headers else self._opened()
        if reader is not None:
            try:
                return reader.read(wanted, until)
            except LogUnreadableError as exc:
                self._give_up(exc)
        partition = TopicPartition(wanted.topic, wanted.partition)
        found, behind = next(self._fetcher.parts([wanted], headers))
        return found[partition], behind[partition]

    def expect(self, next_range: FetchRange, headers: bool, left: int) -> None:
        """Begin to fetch what will be asked for next, with so many records to be read in all."""
        if headers or self._gave_up or (self._opening is None and left < WORTH_A_CONNECTION):
            self._fetcher.expect(next_range)
        elif self._opening is None:
            self._opening = threading.Thread(target=self._open, args=(next_range,), name="penstock-log-reader", daemon=True)
            self._opening.start()

    def rest(self) -> None:
        """There is nothing more to be read for now."""
        self._fetcher.rest()
        self._close_reader()
        self._gave_up = False

    def serve(self) -> None:
        """Let consumers that rest tell their statistics."""
        self._fetcher.serve()

    def close(self) -> None:
        """Close all connections."""
        self._close_reader()
        self._fetcher.close()

    def _open(self, first: FetchRange) -> None:
        reader = None
        try:
            reader = self._make()
            reader.ask(first)
            self._reader = reader
        except Exception as exc:  # noqa: BLE001 - whatever it is, the fetcher reads
            if reader is not None:
                reader.close()
            self._give_up(exc)

    def _opened(self) -> LogReader | None:
        if self._opening is not None:
            self._opening.join(_OPEN_SECONDS)
        return self._reader

    def _give_up(self, reason: Exception) -> None:
        self._gave_up = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        _log.info("changelogs are read record by record, which takes longer: %s", reason)

    def _close_reader(self) -> None:
        reader = self._opened()
        self._opening = self._reader = None
        if reader is not None:
            reader.close()

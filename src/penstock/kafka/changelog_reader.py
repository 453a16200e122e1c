"""Read changelogs for restoration: as raw record batches if there is much to read, else with the consumer."""

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
"""Number of records from which opening a `LogReader` (0.15 s of CPU) is worth it."""

_OPEN_SECONDS: Final = 10.0


class ChangelogReader:
    """Reads one changelog range after another with a `LogReader`, or with the `RangeFetcher` if that fails."""

    def __init__(self, fetcher: RangeFetcher, log_reader: Callable[[], LogReader]) -> None:
        self._fetcher = fetcher
        self._make = log_reader
        self._opening: threading.Thread | None = None
        self._reader: LogReader | None = None
        self._gave_up = False

    def fetch(self, wanted: FetchRange, until: int, headers: bool) -> tuple[RawBatch, int]:
        """Return records of a range and the offset after them. More ranges up to `until` follow.

        Headers are omitted unless asked for. A range of more than about `MOST_BYTES` is not read to its end.
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
        """Prefetch the next range. `left` is the number of records to read in all."""
        if headers or self._gave_up or (self._opening is None and left < WORTH_A_CONNECTION):
            self._fetcher.expect(next_range)
        elif self._opening is None:
            self._opening = threading.Thread(target=self._open, args=(next_range,), name="penstock-log-reader", daemon=True)
            self._opening.start()

    def rest(self) -> None:
        """Stop prefetching and close the direct connection."""
        self._fetcher.rest()
        self._close_reader()
        self._gave_up = False

    def serve(self) -> None:
        """Poll idle consumers for their statistics."""
        self._fetcher.serve()

    def close(self) -> None:
        self._close_reader()
        self._fetcher.close()

    def _open(self, first: FetchRange) -> None:
        reader = None
        try:
            reader = self._make()
            reader.ask(first)
            self._reader = reader
        except Exception as exc:  # noqa: BLE001 - the fetcher is the fallback for any error
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
        _log.info("Changelogs are read with the consumer, which is slower: %s", reason)

    def _close_reader(self) -> None:
        reader = self._opened()
        self._opening = self._reader = None
        if reader is not None:
            reader.close()

"""A backfill as its caller sees it: up to where input is processed, how far it has come, and when it is done."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime

from penstock.client.scheduling.bounded_run import InputEnds
from penstock.errors import ConfigError
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.spark.staged_history import Staged


class Backfill:
    """What `KafkaStreams.backfill` was asked for."""

    def __init__(self, until: datetime | None, then_live: bool) -> None:
        if until is not None and not isinstance(until, datetime):
            raise ConfigError(f"backfill(until={until!r}): a datetime is expected, or None for all that there is at its start.")
        self._until_ms = None if until is None else round(until.timestamp() * 1000)
        self.then_live = then_live
        self.done = threading.Event()
        """Set when all of it is processed and committed."""

    def ends(self, partitions: Iterable[TopicPartition], admin: Admin, committed_only: bool, staged: Staged) -> InputEnds:
        """Ask the brokers where it ends: at the ends of the logs, or before that at the first record from its time on.

        That record may be a row of history, which has an offset before those of the topic.
        """
        asked = list(partitions)
        ends = admin.log_ends(asked, committed_only)
        if self._until_ms is not None:
            found = admin.offsets_at(asked, self._until_ms, committed_only)
            ends = {partition: min(end, found[partition]) for partition, end in ends.items()}
            rows = {partition: some.offset_at(self._until_ms) for partition, some in staged.items()}
            ends |= {partition: row for partition, row in rows.items() if row is not None}
        return InputEnds(ends, self.then_live, self.done.set)

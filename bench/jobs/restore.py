"""Job 6: how long it takes to bring a store back from its changelog."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.application import Application, Side, Spec
from bench.job import Job, Measures, Row, Run, time_row
from bench.load import create_topic, long_bytes, write

RECORDS = 2_000_000
SOURCE, SINK = "restore-in", "restore-out"


class Restore(Job):
    """The changelog is written directly, with the bytes that both sides write; the input topic stays empty.

    Both sides tell how long it took from the first start to the last end of a restore that their listener heard of. A start
    without local state is timed to RUNNING too, and a second one with the state in place.
    """

    number, name = 6, "restore"
    title = f"Restore of {RECORDS:,} changelog records of as many keys, 4 partitions, exactly-once"

    def feed(self) -> None:
        self.records = self.bench.scaled(RECORDS)
        for topic in (SOURCE, SINK):
            create_topic(self.bench.bootstrap, topic, self.partitions)
        for side in ("java", "penstock"):
            fill_changelog(self.bench.bootstrap, f"restore-{side}", self.records, self.partitions)
        self.notes.append(
            "Restored is what a StateRestoreListener hears of, from the first start to the last end; it must be all records. "
            "A process is started once without local state and once with it."
        )

    def variants(self) -> list[str]:
        return ["exactly_once_v2"]

    def run(self, side: Side, variant: str) -> Measures:
        folder = Path(tempfile.mkdtemp(prefix="bench-state-"))
        settings = {"processing.guarantee": variant}
        spec = Spec("count", f"restore-{side}", self.bench.bootstrap, str(folder), SOURCE, SINK, settings=settings)
        try:
            with Application(side, spec) as app:
                cold = app.wait_until_running()
                restore = app.restore_seconds
            if app.restored != self.records:
                raise AssertionError(f"{side} restored {app.restored} records, not {self.records}")
            with Application(side, spec) as app:
                warm = app.wait_until_running()
            if app.restored:
                raise AssertionError(f"{side} restored {app.restored} records although it had its state")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        starts = {"start without state": cold, "start with state": warm}
        # penstock tells of a small restore when it is over: then there is nothing to compare.
        return {"restore": restore, **starts} if self.records == RECORDS else starts

    def rows(self, runs: list[Run]) -> list[Row]:
        variant = self.variants()[0]
        told = {run.side for run in runs if "restore" in run.measures} == {"java", "penstock"}
        return [
            *([time_row(runs, variant, "restore", "restore", 1.5, headline=True)] if told else []),
            time_row(runs, variant, "start without state", "from the start of the process to RUNNING, without local state"),
            time_row(runs, variant, "start with state", "from the start of the process to RUNNING, with local state"),
        ]


def fill_changelog(bootstrap: str, application_id: str, keys: int, partitions: int) -> None:
    """The changelog of `counts` in the topology `count`, as if each key had been counted once."""
    topic = f"{application_id}-counts-changelog"
    create_topic(bootstrap, topic, partitions, **{"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"})
    one = long_bytes(1)
    write(bootstrap, topic, ((b"key-%d" % number, one, 0, -1) for number in range(keys)))

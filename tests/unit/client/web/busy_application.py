"""An application with something on every tab of the page, without Kafka and Spark: for tests that look, and for the eye.

`python -m tests.unit.client.web.busy_application` serves it until interrupted.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from penstock import TaskId, TopicPartition
from penstock.client.web.history import BUCKET_SECONDS
from penstock.dead_letters import DeadLetter, ErrorHandlerContext, build_dead_letter_queue_record
from penstock.log_lines import LogLine, tell_again
from penstock.metrics.registry import STATE_GROUP, Metric, MetricName
from penstock.record import ProducedRecord, RawRecord
from penstock.runtime.flow import Flow
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill

SOURCE, AGGREGATE = "KSTREAM-SOURCE-0000000000", "KSTREAM-AGGREGATE-0000000001"
NASTY = "<img src=x onerror=alert(1)>"


class FakeTopics:
    """Dead letter topics in memory."""

    def __init__(self, letters: int = 120) -> None:
        self.written: list[ProducedRecord] = []
        self.records = [self._record(offset) for offset in range(letters)]

    @staticmethod
    def _record(offset: int) -> RawRecord:
        try:
            if offset % 3 == 0:
                raise KeyError(f"customer {offset} is not known")
            int(f"{offset} pieces")
        except (ValueError, KeyError) as exc:
            error: Exception = exc
        context = ErrorHandlerContext(
            "in", offset % 3, 1000 + offset, (("source", b"shop"),), "parse", TaskId(0, 0), 1_700_000_000_000
        )
        value = f'{{"order": {offset}, "note": "{NASTY}"}}'.encode() if offset % 4 else bytes([0, 255, offset % 256])
        made = build_dead_letter_queue_record("graveyard", f"k{offset}".encode(), value, context, error)
        return RawRecord("graveyard", 0, offset, 1_700_000_000_000 + offset * 1000, made.key, made.value, made.headers)

    def last(self, topic: str, most: int) -> list[RawRecord]:
        return list(reversed(self.records))[:most]

    def one(self, at: TopicPartition, offset: int) -> RawRecord | None:
        return self.records[offset] if at == TopicPartition("graveyard", 0) and offset < len(self.records) else None

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return {topic: {"graveyard": 1, "in": 3}[topic] for topic in topics if topic in ("graveyard", "in")}

    def write(self, record: ProducedRecord) -> TopicPartition:
        self.written.append(record)
        return TopicPartition(record.topic, record.partition or 0)


def readings() -> dict[MetricName, Metric]:
    """What workers measure of stores on disk."""
    found = {}
    for task in range(3):
        for number, store in enumerate(("counts", "windows", "sessions", "versions")):
            tags = {"thread-id": "t", "task-id": f"0_{task}", "rocksdb-state-id": store}
            for name, value in (
                ("estimate-num-keys", 12_345 * (number + 1) + task),
                ("total-sst-files-size", 48_000_000 * (number + 1)),
                ("size-all-mem-tables", 4_000_000),
                ("block-cache-usage", 8_000_000),
            ):
                metric = MetricName(name, STATE_GROUP, "", tags)
                found[metric] = Metric(metric, value)
    return found


def busy_application(folder: Path, token: str | None = None, port: int = 0, hour: bool = True, **more: Any) -> Served:
    """Served, with an hour behind it."""
    served = Served(folder, token, port=port, config={"errors.dead.letter.queue.topic.name": "graveyard"})
    history, clock = served.service.history, time.time
    chance, now = random.Random(7), clock()
    steps = range(3600 // BUCKET_SECONDS if hour else 2, 0, -1)
    for step in steps:
        at = now - step * BUCKET_SECONDS
        history._clock = history.rates._clock = lambda at=at: at
        swing = 1 + 0.5 * ((step * BUCKET_SECONDS) % 900) / 900
        records = int(10_000 * swing * (0.9 + 0.2 * chance.random()))
        ages = [int(120 * swing * (0.3 + chance.random())) for _ in range(60)]
        flow = Flow(Counter({(SOURCE, AGGREGATE): records}), busy=Counter({AGGREGATE: 2_600, "(commit)": 400}), ages=ages)
        took, seconds = 0.15 * swing * (0.8 + 0.4 * chance.random()), {"commit": 0.02 * swing, "process": 0.2}
        batch = BatchReport(at, took, {"in": records}, produced=records // 2, seconds=seconds)
        history.reported({0: ThreadReport("host:1", usage=(3600 - step * 3.1, 310_000_000), flow=flow, batches=(batch,))})
        lag = int(max(0, 40_000 * (swing - 1.2)))
        history.sample(
            lag, {"driver": (0.12 * swing, 180_000_000), "jvm": (0.3 * swing, 820_000_000), "workers": (0.9 * swing, 640_000_000)}
        )
    history._clock = history.rates._clock = clock
    letters = [
        DeadLetter("graveyard", int(now * 1000), "ValueError", f"invalid literal for int(): '{n} {NASTY}'", "in", 2, n)
        for n in range(7)
    ]
    history.reported({0: ThreadReport("host:1", flow=Flow(dead=7, dead_letters=letters, failed=Counter({AGGREGATE: 7})))})
    served.serve(readings=readings, letters=FakeTopics(), **more)
    fill(served)
    progress = RestoreProgress(TaskId(0, 1), "counts", TopicPartition("app-counts-changelog", 1), 0, 250, 1000, 250)
    history.restore(progress, "batch")
    log = logging.getLogger("penstock.client.scheduling.conductor")
    log.warning("partition in-2 does not move: its leader is away; %s", NASTY)
    try:
        raise ValueError("boom in a turn")
    except ValueError:
        log.error("a turn failed and is tried again", exc_info=True)
    tell_again(
        "stream-thread [app-StreamThread-1]", [LogLine(int(now * 1000), "WARNING", "penstock.runtime", "a record was skipped")]
    )
    return served


def main() -> None:
    """Serve until interrupted."""
    with tempfile.TemporaryDirectory() as folder:
        served = busy_application(Path(folder), port=8099)
        print(f"http://{served.address}/")
        try:
            while True:
                records = random.randint(9_000, 11_000)
                flow = Flow(
                    Counter({(SOURCE, AGGREGATE): records}),
                    busy=Counter({AGGREGATE: 300}),
                    ages=[100],
                )
                batch = BatchReport(time.time(), 0.2, {"in": records})
                served.service.history.reported({0: ThreadReport("host:1", flow=flow, batches=(batch,))})
                time.sleep(1)
        except KeyboardInterrupt:
            served.close()


if __name__ == "__main__":
    main()

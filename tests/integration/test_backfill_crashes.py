"""kill -9 of a worker and of the driver in the middle of a backfill: started again, it counts every record once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.killable import KillableProcess
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, topics

WORDS = [f"word {number}" for number in range(7)]
START = 1_700_000_000_000
COUNT = 8_000


def totals(count: int) -> dict[str, int]:
    return dict(Counter(WORDS[n % 7] for n in range(count)))


@pytest.mark.parametrize("reads", ["a topic", "a table"])
def test_should_count_every_record_once_whoever_is_killed(kafka: Kafka, tmp_path: Path, reads: str) -> None:
    """Caches are off, so each count is written, and none twice."""
    source, out = topics(kafka, "in", "out")
    environment = {"SOURCE": source, "OUT": out}
    if reads == "a table":
        words = [WORDS[n % 7] for n in range(COUNT)]
        times = pa.array([START + n for n in range(COUNT)], pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table({"word": words, "at": times}), tmp_path / "history.parquet")
        environment["HISTORY"] = str(tmp_path / "history.parquet")
    else:
        for partition in (0, 1):
            sent = [Message(None, WORDS[n % 7].encode(), START + n) for n in range(partition, COUNT, 2)]
            kafka.feed(source, sent, partition=partition)
    settings = {
        "application.id": unique("killed"),
        "bootstrap.servers": kafka.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
        "processing.guarantee": "exactly_once_v2",
        "spark.master": "local[2]",
        "num.stream.threads": "2",
        "statestore.cache.max.bytes": "0",
        "batch.max.records": "100",
    }
    given = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    command = KillableProcess(
        "penstock.cli", ["backfill", "tests.harness.apps.history_counts:topology", *given], tmp_path / "log", environment
    )

    def told() -> int:
        assert command.is_alive, (tmp_path / "log").read_text()
        return sum(map(len, counts(kafka, out).values()))

    try:
        command.start()
        wait_until(lambda: told() > 300, "some words are counted")
        wait_until(lambda: command.kill_worker(), "a worker is killed")
        before = told()
        wait_until(lambda: told() > before + 300, "the backfill goes on")
        command.kill()
        assert sum(map(len, counts(kafka, out).values())) < COUNT, "it was killed in the middle"
        command.start()
        assert command._running.wait(LIMIT) == 0, (tmp_path / "log").read_text()
    finally:
        command.end()
    assert counts(kafka, out) == {word: list(range(1, total + 1)) for word, total in totals(COUNT).items()}

"""An application in a session that its user works in at the same time."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import udf

from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, texts, topics, up_to, workers_of
from tests.integration.topologies import count_by_key, count_slowly, word_count

Run = Callable[..., Any]


class UsersJobs:
    """Threads that each run a job again and again until the end; what their functions saw, and what went wrong."""

    def __init__(self, *jobs: Callable[[], Any]) -> None:
        self.seen: list[list[Any]] = [[] for _ in jobs]
        self.errors: list[BaseException] = []
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=pair) for pair in zip(jobs, self.seen)]

    def _run(self, job: Callable[[], Any], seen: list[Any]) -> None:
        while not self._done.is_set():
            try:
                seen.append(job())
            except Exception as exc:  # noqa: BLE001 - the test shows it
                self.errors.append(exc)

    def __enter__(self) -> UsersJobs:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
def test_should_share_a_session_with_rdds_udfs_and_tables_of_its_own_state(kafka: Kafka, spark: Any, run: Run) -> None:
    context, (source, out) = spark.sparkContext, topics(kafka, "in", "out", partitions=4)
    config = {
        "application.id": unique("shared"),
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 2,
        "task.spread": "always",
    }
    streams = run(word_count(source, out), config)
    words = [f"w{i}" for i in range(20)]
    kafka.feed(source, texts(*((word, word) for word in words)))
    assert counts(kafka, out, 20) == up_to(**dict.fromkeys(words, 1))

    def thread_of_rdd() -> list[str | None]:
        found: list[str | None] = context.parallelize(range(2), 2).map(lambda _: os.environ.get("PENSTOCK_THREAD")).collect()
        return found

    thread_of = udf(lambda _: os.environ.get("PENSTOCK_THREAD"), "string", useArrow=False)

    def thread_of_udf() -> list[str | None]:
        return [row.thread for row in spark.range(2).select(thread_of("id").alias("thread")).collect()]

    def rows_of_state() -> int:
        return int(streams.store_dataframe("counts").count())

    with UsersJobs(thread_of_rdd, thread_of_rdd, thread_of_udf, rows_of_state) as jobs:
        for round_ in itertools.count(2):
            kafka.feed(source, texts(*((word, word) for word in words)))
            assert counts(kafka, out, round_ * 20) == up_to(**dict.fromkeys(words, round_))
            if round_ > 15 and all(len(seen) > 5 for seen in jobs.seen):
                break
    *threads, tables = jobs.seen
    assert not jobs.errors
    assert set(itertools.chain.from_iterable(itertools.chain.from_iterable(threads))) == {None}
    assert set(tables) == {20}
    assert streams.failure is None
    assert "PENSTOCK_THREAD" not in context.environment
    wait_until(lambda: streams.state.name == "RUNNING", "the application runs")


def test_should_go_on_after_the_users_session_has_cancelled_all_jobs(
    kafka: Kafka, spark: Any, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn's function runs on in its worker, with the stores open, and Spark gives the thread another one meanwhile."""
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("cancelled"), "processing.guarantee": "exactly_once_v2"}
    streams = run(count_slowly(source, out, tmp_path), config)
    workers = workers_of(streams)
    expected: Counter[str] = Counter()

    def count(keys: str, wait: Callable[[], None] = lambda: None) -> None:
        kafka.feed(source, keyed(keys))
        wait()
        expected.update(keys)
        assert counts(kafka, out, expected.total()) == up_to(**expected)

    def cancel_when_it_has_begun() -> None:
        begun = tmp_path / "begun"
        wait_until(lambda: begun.exists() and begun.read_text(), "a worker processes a record")
        worker = begun.read_text()
        spark.sparkContext.cancelAllJobs()
        # The next worker ends this process, unless Spark has ended it before.
        wait_until(lambda: not Path("/proc", worker).exists(), "the worker of the cancelled job has ended")
        (tmp_path / "slow").unlink()

    count("ab")
    for _ in range(3):
        (tmp_path / "begun").unlink(missing_ok=True)
        (tmp_path / "slow").touch()
        count("ab", cancel_when_it_has_begun)
        for key in "cdef":  # turn by turn: Spark would take one worker after the other
            count(key)
    assert "in use by another process" not in caplog.text
    assert streams.failure is None
    assert len(set(workers[-4:])) == 1


def daemons(spark: Any) -> set[int]:
    """The Python daemons of the session's JVM."""
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    found = set()
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == jvm and b".daemon" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found


@pytest.mark.slow
def test_should_leave_no_process_behind_however_often_it_is_started(kafka: Kafka, spark: Any, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("cycles"), "num.stream.threads": 2, "num.standby.replicas": 1}
    spark.sparkContext.parallelize([0], 1).map(str).collect()  # Spark's ordinary daemon, which stays
    before = daemons(spark)
    threads = [jvm_threads(spark)]
    for started in range(1, 4):
        streams = run(count_by_key(source, out), config)
        kafka.feed(source, keyed("ab"))
        assert counts(kafka, out, 2 * started) == up_to(a=started, b=started)
        assert len(daemons(spark)) >= len(before) + 2
        streams.close(60_000)
        assert daemons(spark) == before
        threads.append(jvm_threads(spark))
    assert threads[1] == threads[2] == threads[3]  # names are used again, and so is what Spark keeps for each


def jvm_threads(spark: Any) -> int:
    """How many threads of the JVM look after idle workers: one for each environment there ever was."""
    names = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return sum(thread.getName().startswith("Idle Worker Monitor") for thread in names)

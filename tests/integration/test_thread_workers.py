"""Stream threads on Spark: what stays open, what moves, what runs when nothing happens."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.client.inside import inside
from penstock.client.scheduling.task_spread import TaskSpread
from penstock.ids import TopicPartition
from penstock.spark.driver.thread_worker import JobCancelledError, ThreadWorker
from penstock.spark.worker.current_work import Doing
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, texts, threads, topics, up_to, workers_of
from tests.integration.topologies import count_by_key, joined_in_time, remembering, slow_count, stuck_count, word_count

Run = Callable[..., Any]


def jobs(spark: Any) -> list[Any]:
    """Spark's own record of the jobs so far, newest first."""
    context = spark.sparkContext
    found = context._jsc.sc().statusStore().jobsList(context._jvm.java.util.ArrayList())
    return [found.apply(i) for i in range(found.size())]


def test_should_open_stores_once_for_many_batches(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("once"), "processing.guarantee": "exactly_once_v2", "commit.interval.ms": 0}
    streams = run(remembering(source, out, tmp_path, repartitioned=False, every_ms=20), config)
    workers = workers_of(streams)
    kafka.feed(source, texts(*((f"k{i}", "v") for i in range(10))))
    wait_until(lambda: len(workers) > 40, "forty batches")
    assert [path.read_text() for path in sorted(tmp_path.glob("opened-*"))] == ["opened\n", "opened\n"]
    assert len(set(workers)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_open_stores_processors_and_clients_once_for_a_thousand_batches(
    guarantee: str, kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("thousand"), "processing.guarantee": guarantee, "commit.interval.ms": 0}
    streams = run(remembering(source, out, tmp_path, repartitioned=False, every_ms=10), config)
    workers = workers_of(streams)
    kafka.feed(source, texts(*((f"k{i}", "v") for i in range(10))))
    wait_until(lambda: len(workers) > 100, "a hundred batches")
    connections = sockets_of(workers[-1])
    wait_until(lambda: len(workers) > 1_000, "a thousand batches")
    assert [path.read_text() for path in sorted(tmp_path.glob("opened-*"))] == ["opened\n", "opened\n"]
    assert len(set(workers)) == 1
    assert connections
    assert sockets_of(workers[-1]) <= connections  # no client was opened anew


def sockets_of(worker: str) -> set[str]:
    """The connections a worker has open."""
    folder = Path("/proc") / worker.rpartition(":")[2] / "fd"
    found = set()
    for descriptor in folder.iterdir():
        with suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:"):
                found.add(target)
    return found


def wait_for_looks(streams: Any, times: int) -> None:
    """Wait until it has asked the brokers so often whether there is something to read."""
    before = inside(streams).polls
    wait_until(lambda: inside(streams).polls >= before + times, f"it has looked {times} times")


def test_should_run_no_job_while_idle_and_name_those_that_run(kafka: Kafka, spark: Any, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("idle")
    streams = run(word_count(source, out), {"application.id": application})
    kafka.feed(source, texts(("1", "a b")))
    kafka.read(out, 2)
    wait_for_looks(streams, 5)  # what had to be done behind the last batch is done
    before = len(jobs(spark))
    wait_for_looks(streams, 20)
    assert len(jobs(spark)) == before
    described = [job.description().get() for job in jobs(spark)[:10] if job.description().isDefined()]
    assert any(inside(streams).client_id in text and "process 0_0" in text for text in described), described


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
@pytest.mark.parametrize("topology", [word_count, count_by_key])
def test_should_move_tasks_between_threads_without_loss(
    topology: Callable[..., Any], guarantee: str, kafka: Kafka, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("moving"), "processing.guarantee": guarantee, "num.stream.threads": "auto"}
    streams = run(topology(source, out), config)
    is_spread = True
    monkeypatch.setattr(TaskSpread, "wants", lambda *_, **__: is_spread)
    words = [f"w{i}" for i in range(40)]
    expected = 0

    for _ in range(2):
        is_spread = True
        kafka.feed(source, texts(*((word, word) for word in words * 5)))
        expected += 5
        wait_until(lambda: threads(streams) == {0, 1}, "the tasks are spread over both threads", interval=0.01)
        assert counts(kafka, out, expected * 40) == up_to(**dict.fromkeys(words, expected))
        is_spread = False
        kafka.feed(source, texts(*((word, word) for word in words[:10])))
        wait_until(lambda: len(threads(streams)) == 1, "the tasks are together again")
        kafka.feed(source, texts(*((word, word) for word in words[10:])))
        expected += 1
        assert counts(kafka, out, expected * 40) == up_to(**dict.fromkeys(words, expected))


def test_should_spread_tasks_that_keep_one_thread_busy(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("busy"), "processing.guarantee": "exactly_once_v2", "num.stream.threads": "auto"}
    streams = run(slow_count(source, out, seconds=0.005), config)
    places: list[int] = []
    inside(streams).watch_batches(lambda thread, _: places.append(thread))
    words = [f"w{i}" for i in range(100)]
    kafka.feed(source, texts(*((word, word) for word in words * 40)))  # few, but they take twenty seconds
    assert counts(kafka, out, 4_000) == up_to(**dict.fromkeys(words, 40))
    assert set(places) == {0, 1}


def test_should_go_on_in_a_new_worker_when_spark_has_retired_the_old_one(kafka: Kafka, spark: Any, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    streams = run(count_by_key(source, out), {"application.id": unique("retired"), "processing.guarantee": "exactly_once_v2"})
    workers = workers_of(streams)
    kafka.feed(source, keyed("aab"))
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    wait_until(lambda: workers, "the batch is reported")
    (worker,) = set(workers)
    os.kill(int(worker.partition(":")[2]), signal.SIGKILL)
    kafka.feed(source, keyed("ab"))
    assert counts(kafka, out, 5) == up_to(a=3, b=2)
    wait_until(lambda: len(set(workers)) == 2, "the batch in the new worker is reported")


def test_should_read_again_what_waited_in_a_worker_that_ended(kafka: Kafka, run: Run) -> None:
    """Records of one side wait for the other in the worker's memory, and it ends."""
    left, right, out = topics(kafka, "left", "right", "out", partitions=1)
    config = {"application.id": unique("waiting"), "processing.guarantee": "exactly_once_v2", "max.task.idle.ms": 600_000}
    streams = run(joined_in_time(left, right, out), config)
    workers = workers_of(streams)
    kafka.feed(left, keyed("abcdefghij"))
    wait_until(lambda: inside(streams).fetched.get(TopicPartition(left, 0)) == 10, "all of the left side waits")
    os.kill(int(workers[-1].partition(":")[2]), signal.SIGKILL)
    kafka.feed(left, keyed("k"))
    kafka.feed(right, keyed("abcdefghijk"))
    kafka.feed(left, keyed("z"))  # later than all of the right side, which is processed while this one waits
    assert sorted((message.key or b"").decode() for message in kafka.read(out, 11)) == sorted("abcdefghijk")


@pytest.mark.parametrize(
    ("pause", "known"), [(3600.0, False), (0.0, True)], ids=["asleep in its first job", "busy in a worker that is known"]
)
def test_should_end_a_job_that_does_not_return_and_go_on_in_a_new_worker(
    pause: float, known: bool, spark: Any, tmp_path: Path
) -> None:
    def which(rows: Iterator[Any]) -> Iterator[bytes]:
        list(rows)
        yield str(os.getpid()).encode()

    def stuck(rows: Iterator[Any]) -> Iterator[bytes]:
        told = tmp_path / "told"
        told.write_bytes(b"".join(which(rows)))
        told.rename(tmp_path / "worker")
        while True:
            time.sleep(pause) if pause else None

    thread = ThreadWorker(spark.sparkContext, unique("stuck"))
    try:
        if known:
            thread.submit(which, "tell who it is", bytes).result(LIMIT)
        job = thread.submit(stuck, "run for ever", bytes)
        wait_until((tmp_path / "worker").exists, "the job runs")
        worker = int((tmp_path / "worker").read_text())
        assert Path(f"/proc/{worker}/exe").exists()
        thread.cancel("it took too long")
        with pytest.raises(JobCancelledError, match="it took too long"):
            job.result(LIMIT)
        assert not Path(f"/proc/{worker}/exe").exists(), "it could still write"
        assert int(thread.submit(which, "tell who it is", bytes).result(LIMIT)) != worker
    finally:
        thread.close().result(LIMIT)


def test_should_tell_what_a_batch_that_does_not_end_is_doing_and_go_on_when_it_is_cancelled(
    kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("hanging"), "processing.guarantee": "exactly_once_v2", "num.stream.threads": 1}
    spark_threads = inside(run(stuck_count(source, out, tmp_path), config)).spark_threads
    kafka.feed(source, keyed("aab"))
    wait_until(lambda: "stuck()" in (spark_threads.doing(0) or ""), "the batch is in the user's function")
    told = spark_threads.doing(0)
    assert told.startswith("task 0_0 in KSTREAM-MAPVALUES-0000000001 (added at "), told
    assert "topologies.py:" in told.partition(", at stuck() (")[2], told
    (tmp_path / "repaired").touch()
    spark_threads.cancel(0, f"it took too long: {told}")
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    wait_until(lambda: spark_threads.doing(0) == str(Doing()), "nothing is left to do")

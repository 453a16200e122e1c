"""Stream threads: their names and states, how they come and go, what a failure in one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import KafkaStreams, ProcessingError, State, StreamThreadExceptionResponse
from penstock.client.inside import inside
from tests.conftest import application_config
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, keyed, owned, texts, threads, topics, up_to
from tests.integration.test_metrics import value
from tests.integration.topologies import count_by_key, pipe, pipe_that_waits

Run = Callable[..., Any]
KEYS = "abcdefgh"


def names(streams: Any) -> list[str]:
    """Its threads that are not about to end."""
    threads = [thread for thread in streams.metadata_for_local_threads() if thread.thread_state != "PENDING_SHUTDOWN"]
    return sorted(thread.thread_name.removeprefix(f"{inside(streams).client_id}-") for thread in threads)


def running(streams: Any) -> bool:
    if streams.state is not State.RUNNING:
        return False
    return {thread.thread_state for thread in streams.metadata_for_local_threads()} == {"RUNNING"}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_move_tasks_to_and_from_threads_that_come_and_go(guarantee: str, kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("threads"), "processing.guarantee": guarantee, "num.stream.threads": 1}
    config["task.spread"] = "always"
    streams = run(count_by_key(source, out), config)
    assert names(streams) == ["StreamThread-1"]
    kafka.feed(source, keyed(KEYS * 2))
    assert counts(kafka, out, 16) == up_to(**dict.fromkeys(KEYS, 2))

    assert streams.add_stream_thread() == f"{inside(streams).client_id}-StreamThread-2"
    wait_until(lambda: running(streams) and len(names(streams)) == 2, "both threads run")
    kafka.feed(source, keyed(KEYS))
    wait_until(lambda: threads(streams) == {0, 1}, "the tasks are on both threads")
    assert counts(kafka, out, 24) == up_to(**dict.fromkeys(KEYS, 3))

    assert streams.remove_stream_thread(60_000) == f"{inside(streams).client_id}-StreamThread-1"
    assert threads(streams) == {1}
    kafka.feed(source, keyed(KEYS))
    assert counts(kafka, out, 32) == up_to(**dict.fromkeys(KEYS, 4))

    assert streams.add_stream_thread() == f"{inside(streams).client_id}-StreamThread-1"  # the lowest number that is free
    wait_until(lambda: running(streams), "it runs again")
    assert names(streams) == ["StreamThread-1", "StreamThread-2"]


def test_should_keep_its_state_without_threads_and_go_on_with_a_new_one(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("none"), "processing.guarantee": "exactly_once_v2"}
    streams = run(count_by_key(source, out), config)
    kafka.feed(source, keyed("ab"))
    assert counts(kafka, out, 2) == up_to(a=1, b=1)
    assert streams.remove_stream_thread() == f"{inside(streams).client_id}-StreamThread-1"
    assert streams.remove_stream_thread() is None
    kafka.feed(source, keyed("ab"))
    assert streams.add_stream_thread() == f"{inside(streams).client_id}-StreamThread-1"
    assert counts(kafka, out, 4) == up_to(a=2, b=2)
    wait_until(lambda: streams.state is State.RUNNING, "it runs again")


def test_should_leave_threads_idle_that_have_no_task(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    config = {"application.id": unique("idle"), "num.stream.threads": 2, "task.spread": "always"}
    streams = run(count_by_key(source, out), config)
    kafka.feed(source, keyed("aab"))
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    assert running(streams)
    (busy,) = threads(streams)
    if busy == 0:
        streams.remove_stream_thread(60_000)
        assert threads(streams) == {1}  # the idle one has taken over
        kafka.feed(source, keyed("ab"))
        assert counts(kafka, out, 5) == up_to(a=3, b=2)


def test_should_have_no_threads_to_add_or_remove_unless_it_runs(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = application_config(kafka, tmp_path, {"application.id": unique("never")})
    streams = KafkaStreams(pipe(source, out), config, spark=spark)
    assert streams.add_stream_thread() is None
    assert streams.remove_stream_thread() is None
    assert streams.close()
    assert streams.add_stream_thread() is None


# -- failures ----------------------------------------------------------------------------------------------------------


def test_should_replace_a_thread_that_failed_and_go_on(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    flag = tmp_path / "repaired"
    seen: list[BaseException] = []

    def handler(error: BaseException) -> StreamThreadExceptionResponse:
        seen.append(error)
        if len(seen) == 2:
            flag.touch()
        return StreamThreadExceptionResponse.REPLACE_THREAD

    config = {"application.id": unique("replaced"), "processing.guarantee": "exactly_once_v2"}
    streams = run(pipe(source, out, str(flag)), config, set_uncaught_exception_handler=handler)
    kafka.feed(source, texts(("a", "x"), ("b", "boom"), ("c", "y")))
    assert [m.value for m in kafka.read(out, 3)] == [b"X", b"BOOM", b"Y"]
    assert len(seen) == 2
    assert all(isinstance(error, ProcessingError) for error in seen)
    wait_until(lambda: running(streams), "the new thread runs")
    # Replaced by 2, which was replaced by the first number that was free: 1, where the first thread had died by then.
    assert names(streams) in (["StreamThread-1"], ["StreamThread-3"])
    assert value(streams, "failed-stream-threads", "stream-metrics") == 2


def test_should_process_records_of_other_tasks_once_while_one_fails_again_and_again(
    kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    flag, failures = tmp_path / "repaired", list[BaseException]()

    def handler(error: BaseException) -> StreamThreadExceptionResponse:
        failures.append(error)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    application = unique("poisoned")
    config = {"application.id": application, "num.stream.threads": 2, "task.spread": "always"}
    streams = run(pipe(source, out, str(flag)), config, set_uncaught_exception_handler=handler)
    wait_until(lambda: len(threads(streams)) == 2, "each task has a thread")
    kafka.feed(source, texts(("a", "boom")), partition=0)
    wait_until(lambda: failures, "it has failed")
    fed: list[bytes] = []

    def feed() -> int:
        kafka.feed(source, texts(("b", str(len(fed)))), partition=1)
        fed.append(str(len(fed)).encode())
        return len(failures)

    wait_until(lambda: feed() >= 3, "it has failed again", interval=0.3)
    wait_until(lambda: kafka.committed(application).get((source, 1)) == len(fed), "the other task has committed")
    tries = len(failures)
    wait_until(lambda: len(failures) >= tries + 3, "it has failed once more")
    assert [m.value for m in kafka.read(out)] == fed  # each of them once, whatever its neighbour does
    flag.touch()
    assert sorted(m.value or b"" for m in kafka.read(out, len(fed) + 1)) == sorted([*fed, b"BOOM"])
    assert all(isinstance(error, ProcessingError) for error in failures)


def test_should_process_and_commit_records_of_other_tasks_while_one_waits(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    released, awaited = tmp_path / "released", tmp_path / "released-awaited"
    application = unique("waits")
    config = {"application.id": application, "num.stream.threads": 2, "task.spread": "always"}
    streams = run(pipe_that_waits(source, out, str(released)), config)
    try:
        wait_until(lambda: len(threads(streams)) == 2, "each task has a thread")
        kafka.feed(source, texts(("a", "wait")), partition=0)
        wait_until(awaited.exists, "it waits")
        for number in range(3):
            kafka.feed(source, texts(("b", str(number))), partition=1)
            wait_until(lambda number=number: kafka.committed(application).get((source, 1)) == number + 1, "it is committed")
        assert [m.value for m in kafka.read(out)] == [b"0", b"1", b"2"]
        assert kafka.committed(application).get((source, 0), 0) <= 0
    finally:
        released.touch()
    assert sorted(m.value or b"" for m in kafka.read(out, 4)) == [b"0", b"1", b"2", b"wait"]


def test_should_stop_this_client_alone(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    first, second = _two_instances(kafka, run, tmp_path, StreamThreadExceptionResponse.SHUTDOWN_CLIENT)
    wait_until(lambda: State.ERROR in (first.state, second.state), "one has stopped")
    failed, other = (first, second) if first.state is State.ERROR else (second, first)
    assert isinstance(failed.failure, ProcessingError)
    assert failed.close()
    assert other.state is not State.NOT_RUNNING


def test_should_stop_all_instances_of_the_application(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    first, second = _two_instances(kafka, run, tmp_path, StreamThreadExceptionResponse.SHUTDOWN_APPLICATION)
    wait_until(lambda: first.state is second.state is State.ERROR, "both have stopped")
    assert len([s for s in (first, second) if isinstance(s.failure, ProcessingError)]) == 1


def _two_instances(kafka: Kafka, run: Run, folder: Path, response: StreamThreadExceptionResponse) -> tuple[Any, Any]:
    """Two instances that share the work, and a record that fails in one of them."""
    source, out = topics(kafka, "in", "out", partitions=2)
    application = unique("two")
    instances = [
        run(
            pipe(source, out),
            {"application.id": application, "state.dir": str(folder / name), "processing.guarantee": "exactly_once_v2"},
            set_uncaught_exception_handler=lambda _: response,
        )
        for name in ("first", "second")
    ]
    wait_until(lambda: [len(owned(i)) for i in instances] == [1, 1], "each has a task")
    wait_until(lambda: all(i.state is State.RUNNING for i in instances), "both run")
    kafka.feed(source, texts(("a", "boom")), partition=0)
    return instances[0], instances[1]

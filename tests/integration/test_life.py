"""Start, run, fail, close: the life of an application."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    CloseOptions,
    KafkaStreams,
    LockError,
    ProcessingError,
    State,
    StateRestoreListener,
    StreamsError,
    StreamThreadExceptionResponse,
)
from penstock.client.inside import inside
from penstock.state.directory import PROCESS_FILE
from tests.conftest import application_config, wait_until_running
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.helpers import counts, keyed, owned, texts, topics, up_to
from tests.integration.test_metrics import value
from tests.integration.topologies import count_by_key, numbers, pipe

Run = Callable[..., Any]


def test_should_tell_its_states_and_leave_the_users_session_alone(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    kafka.feed(source, texts(("a", "x")))
    seen: list[tuple[State, State]] = []
    config = application_config(kafka, tmp_path, {"application.id": unique("life")})
    with KafkaStreams(pipe(source, out), config, spark=spark) as streams:
        streams.set_state_listener(lambda new, old: seen.append((old, new)))
        assert streams.state is State.CREATED
        streams.start()
        wait_until_running(streams)
        with pytest.raises(StreamsError, match="cannot be started"):
            streams.start()
        assert len(kafka.read(out, 1)) == 1
    assert streams.state is State.NOT_RUNNING
    assert streams.close()
    assert seen[0] == (State.CREATED, State.REBALANCING)
    assert seen[-1] == (State.PENDING_SHUTDOWN, State.NOT_RUNNING)
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    "response", [StreamThreadExceptionResponse.REPLACE_THREAD, StreamThreadExceptionResponse.SHUTDOWN_CLIENT]
)
def test_should_have_the_handler_decide_on_what_listeners_raise(
    response: StreamThreadExceptionResponse, kafka: Kafka, run: Run
) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("listeners"), "processing.guarantee": "exactly_once_v2"}
    kafka.feed(source, keyed("aab"))
    first = run(count_by_key(source, out), config)
    assert counts(kafka, out, 3) == up_to(a=2, b=1)
    assert first.close()
    first.clean_up()
    asked: list[BaseException] = []

    class Once(StateRestoreListener):
        has_raised = False

        def on_restore_end(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
            if not self.has_raised:
                self.has_raised = True
                raise ConnectionError("of a restore")

    def hear(new: State, old: State) -> None:
        if new is State.RUNNING and len(asked) < 2:
            raise ConnectionError("of a state")

    def handle(error: BaseException) -> StreamThreadExceptionResponse:
        asked.append(error)
        return response

    streams = run(
        count_by_key(source, out),
        config,
        wait=False,
        set_global_state_restore_listener=Once(),
        set_state_listener=hear,
        set_uncaught_exception_handler=handle,
    )
    if response is StreamThreadExceptionResponse.REPLACE_THREAD:
        kafka.feed(source, keyed("ab"))
        assert counts(kafka, out, 5) == up_to(a=3, b=2)
        wait_until(lambda: len(asked) == 2, "both are told")
        assert {str(error.__cause__) for error in asked} == {"of a restore", "of a state"}
        assert streams.failure is None
    else:
        wait_until(lambda: streams.state is State.ERROR, "the application has ended")
        assert str(streams.failure.__cause__) in ("of a restore", "of a state")
        assert kafka.members(config["application.id"]) == set()


def test_should_leave_nothing_behind(kafka: Kafka, spark: Any, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("clean"), "processing.guarantee": "exactly_once_v2", "metrics.port": 0}
    streams = run(count_by_key(source, out), config)
    kafka.feed(source, keyed("abab"))
    assert counts(kafka, out, 4) == up_to(a=2, b=2)
    port, client = streams.metrics_port, weakref.ref(streams._admin._client)
    assert streams.close()
    wait_until(lambda: client() is None, "its connections are closed")
    wait_until(
        lambda: not [t for t in threading.enumerate() if t.name.startswith(inside(streams).client_id)], "its threads are gone"
    )
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    for topic in (out, f"{config['application.id']}-counts-changelog"):
        assert kafka.ends(topic, committed=True) == kafka.ends(topic, committed=False), "no transaction is open"
    run(count_by_key(source, out), {**config, "metrics.port": port})  # its folder, its ids and its port are free
    kafka.feed(source, keyed("ab"))
    assert counts(kafka, out, 6) == up_to(a=3, b=3)


def test_should_start_paused_and_stay_so(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = application_config(kafka, tmp_path, {"application.id": unique("paused")})
    kafka.feed(source, texts(("a", "x")))
    with KafkaStreams(count_by_key(source, out), config, spark=spark) as streams:

        def unrestored() -> Any:
            return value(streams, "active-paused-tasks", "stream-state-updater-metrics")

        streams.pause()
        streams.start()
        wait_until(lambda: unrestored() == 2, "it has tasks")
        assert streams.is_paused
        assert streams.state is State.REBALANCING
        assert kafka.read(out) == []
        streams.resume()
        assert unrestored() == 0
        assert counts(kafka, out, 1) == up_to(a=1)
        wait_until(lambda: streams.state is State.RUNNING, "the stream thread has reported that its tasks run")


def test_should_close_before_it_was_started(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    config = application_config(kafka, tmp_path, {"application.id": unique("unborn")})
    streams = KafkaStreams(pipe("in", "out"), config, spark=spark)
    assert streams.close(timeout=10_000)
    assert streams.state is State.NOT_RUNNING
    with pytest.raises(StreamsError, match="cannot be started"):
        streams.start()


def test_should_give_up_waiting_for_the_end_after_the_timeout(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    streams = run(pipe(source, out), {"application.id": unique("close")})
    assert streams.close(timeout=0) is False
    assert streams.close() is True


def test_should_leave_its_group_or_stay_in_it_as_close_is_told(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    static = {"application.id": unique("static"), "group.instance.id": "one", "session.timeout.ms": 60_000}
    dynamic = {"application.id": unique("dynamic"), "session.timeout.ms": 60_000}
    for config, leave, stays in (
        (static, True, False),
        (dynamic, False, True),
        (dynamic | {"application.id": unique("left")}, None, False),
    ):
        streams = run(pipe(source, out), config)
        assert streams.close(CloseOptions(timedelta(seconds=60), leave_group=leave))
        assert bool(kafka.members(config["application.id"])) is stays


def test_should_process_nothing_while_paused(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    streams = run(pipe(source, out), {"application.id": unique("pause")})
    streams.pause()
    assert streams.is_paused
    wait_until(lambda: not inside(streams).is_processing, "no turn is under way")
    kafka.feed(source, texts(("a", "x")))
    assert kafka.read(out) == []
    streams.resume()
    assert kafka.read(out, 1)[0].value == b"X"


def test_should_run_two_applications_in_one_process(kafka: Kafka, run: Run) -> None:
    source, first, second = topics(kafka, "in", "first", "second")
    run(pipe(source, first), {"application.id": unique("one")})
    run(count_by_key(source, second), {"application.id": unique("two"), "processing.guarantee": "exactly_once_v2"})
    kafka.feed(source, texts(("a", "x"), ("a", "y")))
    assert sorted(m.value or b"" for m in kafka.read(first, 2)) == [b"X", b"Y"]
    assert counts(kafka, second, 2) == up_to(a=2)


def test_should_refuse_a_second_instance_on_the_same_folder(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    config = {"application.id": unique("folder")}
    run(count_by_key(source, out), config)
    with pytest.raises(LockError, match=r"another state\.dir"):
        run(count_by_key(source, out), config)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_share_the_work_with_a_second_instance_and_take_it_over(
    guarantee: str, kafka: Kafka, run: Run, tmp_path: Path
) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("shared"), "processing.guarantee": guarantee}
    keys = "abcdefgh"
    kafka.feed(source, keyed(keys))
    first = run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / "first")})
    assert counts(kafka, out, 8) == up_to(**dict.fromkeys(keys, 1))
    second = run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / "second")})
    wait_until(lambda: len(owned(first)) == len(owned(second)) == 2, "each has two tasks")
    kafka.feed(source, keyed(keys))
    assert counts(kafka, out, 16) == up_to(**dict.fromkeys(keys, 2))
    assert first.close()
    kafka.feed(source, keyed(keys))
    assert counts(kafka, out, 24) == up_to(**dict.fromkeys(keys, 3))
    assert len(owned(second)) == 4


def test_should_share_the_work_with_an_instance_on_a_copy_of_its_folder(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("copied"), "processing.guarantee": "exactly_once_v2"}
    keys = "abcdefgh"
    kafka.feed(source, keyed(keys))
    first = run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / "first")})
    assert counts(kafka, out, 8) == up_to(**dict.fromkeys(keys, 1))
    copied = Path(config["application.id"]) / PROCESS_FILE
    (tmp_path / "second" / copied).parent.mkdir(parents=True)
    (tmp_path / "second" / copied).write_bytes((tmp_path / "first" / copied).read_bytes())
    second = run(count_by_key(source, out), {**config, "state.dir": str(tmp_path / "second")})
    wait_until(lambda: len(owned(first)) == len(owned(second)) == 2, "each has two tasks")
    assert not owned(first) & owned(second)
    ids = [(tmp_path / folder / copied).read_bytes() for folder in ("first", "second")]
    assert ids[0] != ids[1]
    kafka.feed(source, keyed(keys))
    assert counts(kafka, out, 16) == up_to(**dict.fromkeys(keys, 2))


# -- failures ----------------------------------------------------------------------------------------------------------


def test_should_stop_after_a_failure_and_keep_the_users_exception(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    kafka.feed(source, texts(("a", "fine"), ("b", "boom"), ("c", "never")))
    streams = run(pipe(source, out), {"application.id": unique("failing"), "processing.guarantee": "exactly_once_v2"}, wait=False)
    wait_until(lambda: streams.state is State.ERROR, "the application has stopped")
    assert isinstance(streams.failure, ProcessingError)
    assert isinstance(streams.failure.__cause__, ValueError)
    assert "offset=1" in str(streams.failure)
    assert kafka.read(out) == []


def test_should_wait_for_the_run_and_raise_the_failure_at_the_end(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    streams = run(pipe(source, out), {"application.id": unique("waiting")}, wait=False)
    streams.wait_until_running()
    assert streams.await_termination(0) is False
    kafka.feed(source, texts(("b", "boom")))
    with pytest.raises(ProcessingError, match="offset=0"):
        streams.await_termination()
    with pytest.raises(ProcessingError, match="offset=0"):
        streams.wait_until_running()


def test_should_let_the_handler_replace_the_thread(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    kafka.feed(source, texts(("b", "boom")))
    asked: list[BaseException] = []

    def handler(error: BaseException) -> StreamThreadExceptionResponse:
        asked.append(error)
        return StreamThreadExceptionResponse.REPLACE_THREAD if len(asked) < 3 else StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    streams = run(pipe(source, out), {"application.id": unique("replaced")}, wait=False, set_uncaught_exception_handler=handler)
    wait_until(lambda: streams.state is State.ERROR, "the application has stopped")
    assert len(asked) == 3


def test_should_skip_what_a_processor_fails_on_where_the_handler_says_so(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    kafka.feed(source, texts(("a", "x"), ("b", "boom"), ("c", "y")))
    run(pipe(source, out), {"application.id": unique("skipping"), "processing.exception.handler": "log_and_continue"})
    assert [m.value for m in kafka.read(out, 2)] == [b"X", b"Y"]


@pytest.mark.parametrize("grouped", [False, True], ids=["direct", "before a shuffle"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_send_poison_records_to_the_dead_letter_topic(
    guarantee: str, grouped: bool, kafka: Kafka, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    source, out, dead = topics(kafka, "in", "out", "dead", partitions=1)
    now = int(time.time() * 1000)
    good = [Message(b"k", n.to_bytes(8, "big"), now + n) for n in range(3)]
    kafka.feed(source, [good[0], Message(b"bad", b"not a number", now), *good[1:], Message(b"worse", b"!", now)])
    config = {
        "application.id": unique("poison"),
        "processing.guarantee": guarantee,
        "deserialization.exception.handler": "log_and_continue",
        "errors.dead.letter.queue.topic.name": dead,
    }
    streams = run(numbers(source, out, grouped=grouped), config)
    assert [int.from_bytes(m.value or b"", "big") for m in kafka.read(out, 3)] == [1, 2, 3]
    letters = kafka.read(dead, 2)
    assert [(m.key, m.value) for m in letters] == [(b"bad", b"not a number"), (b"worse", b"!")]
    headers = dict(letters[0].headers)
    assert headers["__streams.errors.topic"] == source.encode()
    assert headers["__streams.errors.offset"] == b"1"
    who = f"stream-thread [{inside(streams).client_id}-StreamThread-1]: "
    for offset in (1, 4):
        told = f"{who}the record at {source}-0 @ {offset} went to the dead letter topic {dead}: "
        wait_until(lambda t=told: [r for r in caplog.records if r.getMessage().startswith(t)], "the driver's log tells of it")


def test_should_fail_on_a_poison_record_by_default(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    kafka.feed(source, [Message(b"bad", b"not a number", int(time.time() * 1000))])
    streams = run(numbers(source, out, grouped=False), {"application.id": unique("poisoned")}, wait=False)
    wait_until(lambda: streams.state is State.ERROR, "the application has stopped")
    assert source in str(streams.failure)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_skip_records_that_cannot_be_written_where_the_handler_says_so(guarantee: str, kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    kafka.feed(source, texts(("a", "x"), ("b", "y" * 5_000), ("c", "z")))
    config = {
        "application.id": unique("too-large"),
        "processing.guarantee": guarantee,
        "producer.max.request.size": 2_000,
        "production.exception.handler": "log_and_continue",
    }
    run(pipe(source, out), config)
    assert [m.value for m in kafka.read(out, 2)] == [b"X", b"Z"]

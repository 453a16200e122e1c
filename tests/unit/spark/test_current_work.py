"""What a worker does is told while it does it: real tasks on one thread, the question on another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, Serde, Serdes, StreamsBuilder
from penstock.ids import TaskId
from penstock.metrics.registry import Metrics
from penstock.processor import Processor, PunctuationType
from penstock.spark.driver import spark_threads
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.messages import Application
from penstock.spark.worker.current_work import CurrentWork, Doing
from penstock.wire import Codec
from tests.harness.waiting import LIMIT
from tests.unit.runtime.harness import Forwarder, Harness, config, pipeline

STRING, LONG = Serdes.string(), Serdes.long()
HERE = Path(__file__).name


class Stop:
    """A place in the user's code that is reached, and left when the test says so."""

    def __init__(self) -> None:
        self.reached, self.left = threading.Event(), threading.Event()

    def slow(self, value: Any) -> Any:
        if not self.reached.is_set():
            self.reached.set()
            assert self.left.wait(LIMIT)
        return value


@pytest.fixture
def stop() -> Stop:
    return Stop()


@contextmanager
def running(stop: Stop, work: CurrentWork, run: Callable[[], Any], step: str = "process") -> Iterator[Doing]:
    """What is told while `run` is in the slow place."""
    failures: list[BaseException] = []

    def turn() -> None:
        try:
            with work.turn(step):
                run()
        except BaseException as exc:  # noqa: BLE001 - raised below
            failures.append(exc)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        assert stop.reached.wait(LIMIT)
        yield work.now()
    finally:
        stop.left.set()
        thread.join(LIMIT)
    assert not failures, failures
    assert work.now() == Doing()


def opened(topology: Any, folder: Path) -> Harness:
    harness = Harness(topology, folder, config(statestore_cache_max_bytes=10_000_000))
    harness.metrics = Metrics("INFO", clock=harness.clock)  # at DEBUG there are no columns
    harness.open()
    return harness


def mapped(stop: Stop) -> Any:
    builder = StreamsBuilder()
    values = builder.stream("in", Consumed(STRING, STRING)).map_values(lambda value: value)
    values.map_values(stop.slow).to("out", Produced(STRING, STRING))
    return builder.build()


@pytest.mark.parametrize("records", [1, 100], ids=["a record", "a batch"])
def test_should_name_the_operator_and_the_line_of_the_users_code(records: int, stop: Stop, tmp_path: Path) -> None:
    harness = opened(mapped(stop), tmp_path)
    harness.add("in", *(("k", "v", 1) for _ in range(records)))
    assert harness.task.takes_batches
    with running(stop, CurrentWork(), harness.task.process_all) as doing:
        assert doing[:3] == ("process", "0_1", "KSTREAM-MAPVALUES-0000000002")
        assert doing.added.rpartition(":")[0].endswith(HERE)
        assert (doing.function, Path(doing.file).name) == ("slow", HERE)
        assert doing.line > 0
        assert str(doing).startswith("task 0_1 in KSTREAM-MAPVALUES-0000000002 (added at ")
        assert f", at slow() ({doing.file.removeprefix(str(Path.cwd()) + '/')}:{doing.line})" in str(doing)


def test_should_name_the_innermost_of_nested_operators(stop: Stop, tmp_path: Path) -> None:
    class Slow(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(stop.slow(record))

    harness = opened(pipeline(Forwarder, Forwarder, Slow), tmp_path)
    harness.add("in", ("k", "v", 1))
    with running(stop, CurrentWork(), harness.task.process) as doing:
        assert (doing.task, doing.node) == ("0_1", "processor-2")


def test_should_tell_a_punctuator_from_a_record(stop: Stop, tmp_path: Path) -> None:
    class Timed(Forwarder):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, stop.slow)

    harness = opened(pipeline(Forwarder, Timed), tmp_path)
    harness.clock.advance(1000)
    with running(stop, CurrentWork(), harness.task.maybe_punctuate_system_time) as doing:
        assert doing[:3] == ("punctuate", "0_1", "processor-1")
        assert str(doing).startswith("punctuate of task 0_1 in processor-1")


@pytest.mark.parametrize("records", [1, 100], ids=["a record", "a batch"])
def test_should_name_an_aggregate(records: int, stop: Stop, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRING)).group_by_key(Grouped(None, STRING, STRING))
    stream.aggregate(lambda: 0, lambda k, v, n: stop.slow(n + 1), Materialized("table", STRING, LONG))
    harness = opened(builder.build(), tmp_path)
    harness.add("in", *(("k", "v", 1) for _ in range(records)))
    with running(stop, CurrentWork(), harness.task.process_all) as doing:
        assert doing[:3] == ("process", "0_1", "KSTREAM-AGGREGATE-0000000001")


@pytest.mark.parametrize("records", [1, 100], ids=["a record", "a batch"])
def test_should_name_the_source_that_deserializes(records: int, stop: Stop, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    serde = Serde(STRING.serializer, lambda topic, data: stop.slow(data.decode()))
    builder.stream("in", Consumed(STRING, serde)).to("out", Produced(STRING, STRING))
    harness = opened(builder.build(), tmp_path)

    def run() -> None:
        harness.add("in", *(("k", "v", 1) for _ in range(records)))
        harness.task.process_all()

    with running(stop, CurrentWork(), run) as doing:
        assert doing[:3] == ("process", "0_1", "KSTREAM-SOURCE-0000000000")


def test_should_tell_the_step_and_penstocks_own_place_where_no_users_code_runs() -> None:
    work = CurrentWork()
    waiting, left = threading.Event(), threading.Event()

    def turn() -> None:
        with work.turn("fetch"):
            work.step = "commit"
            waiting.set()
            left.wait(LIMIT)

    thread = threading.Thread(target=turn)
    thread.start()
    assert waiting.wait(LIMIT)
    assert work.now()[:3] == ("commit", "", "")
    left.set()
    thread.join(LIMIT)
    assert str(work.now()) == "nothing: it waits for records, or for Spark"


def test_should_be_short_and_plain_whatever_the_names_are() -> None:
    told = Doing("process", "0_1", "n" * 10_000, "", "f" * 10_000, "p" * 10_000, 3)
    again = Doing.told(Codec(TaskId).decode(Codec(TaskId).encode(tuple(told))))
    assert again is not None
    assert len(str(again)) < 1_500


@pytest.mark.parametrize("said", [None, "text", (), ("process",) * 7, ("process",) * 6 + (True,), (1, 2, 3)])
def test_should_take_nothing_else_for_an_answer(said: Any) -> None:
    assert Doing.told(said) is None


def test_should_tell_it_of_a_thread_as_a_sentence_and_nothing_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SparkThreads.__new__(SparkThreads)
    asked._application = Application("key", config(), None, None, "p", "c")  # type: ignore[arg-type]
    answers = {"socket-0": Doing("process", "0_1", "KSTREAM-MAPVALUES-0000000002"), "socket-1": None}
    monkeypatch.setattr(SparkThreads, "query_address", lambda _, thread: f"socket-{thread}" if thread < 2 else None)
    monkeypatch.setattr(spark_threads, "ask_doing", lambda address, application: answers[address])
    assert [asked.doing(thread) for thread in range(3)] == ["task 0_1 in KSTREAM-MAPVALUES-0000000002", None, None]

"""The loop of a stream thread: real tasks and stores, over brokers in memory and a clock that moves when the thread waits."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Consumed,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    TaskId,
    TopicPartition,
)
from penstock.errors import ProcessingError
from penstock.hashing import default_partition
from penstock.spark.messages import Residency, ThreadReport
from penstock.spark.reports import read_report, write_report
from penstock.spark.worker.block_progress import processed_rows
from tests.unit.spark.crash_cases import CASES
from tests.unit.spark.crash_world import Brokers, Crash, Form, Instance, Step, Thread

TEXT = Serdes.string()
READS: Any = Consumed(TEXT, TEXT)
WRITES: Any = Produced(TEXT, TEXT)
KEYED = "app-keyed-repartition"


def copied() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", READS).to("out", WRITES)
    return builder.build()


def chained(repartitions: int = 2) -> Any:
    builder = StreamsBuilder()
    stream = builder.stream("in", READS)
    for number in range(repartitions):
        stream = stream.select_key(lambda _, value: value[:1]).repartition(Repartitioned(f"keyed-{number}", TEXT, TEXT))
    stream.to("out", WRITES)
    return builder.build()


def waiting() -> Any:
    """What passes the repartition waits for another topic; what was written before it does not."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", READS)
    orders.to("audit", WRITES)
    keyed = orders.select_key(lambda _, value: value[:1]).repartition(Repartitioned("keyed", TEXT, TEXT))
    keyed.merge(builder.stream("other", READS)).to("out", WRITES)
    return builder.build()


Make = Callable[..., Instance]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Instance] = []

    def instance(
        topology: Callable[[], Any],
        form: Form = Form.MEMORY,
        brokers: Brokers | None = None,
        partitions: int = 2,
        process: str = "a",
        **config: Any,
    ) -> Instance:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        brokers = brokers or Brokers.of(topology(), partitions)
        made.append(Instance(topology(), brokers, tmp_path, process, settings, form))
        made[-1].open()
        return made[-1]

    yield instance
    for one in made:
        one.die()


def reside(
    instance: Instance, *, seconds: float = 1e9, idle: float = 0.5, batches: int = 1_000_000, drains: bool = False, index: int = 0
) -> ThreadReport:
    """One residency of a thread, which is the only one if nothing else is said, and its last report."""
    thread = instance.threads[index]
    thread.queries.batches_left = batches
    group = str(instance.generation).encode()
    starts = instance.offsets.read([task for task in instance.tasks_of(index) if task not in thread.tasks.ids])
    tasks = {task: starts.get(task) or instance._starts[task] for task in instance.tasks_of(index)}
    thread.run(Residency("key", index, next(instance._numbers), tasks, group, seconds, idle, 0.1, 1_000_000, drains))
    return read_report(write_report(thread.take_report()))


def feed(brokers: Brokers, topic: str, values: Mapping[int, str] | list[str], partition: int | None = None) -> None:
    """Write values, which are their own keys, at these times."""
    for at, value in values.items() if isinstance(values, Mapping) else enumerate(values):
        key = value[:1].encode()
        number = default_partition(key, brokers.partitions[topic]) if partition is None else partition
        brokers.append(topic, number, key, value.encode(), at)


def values(brokers: Brokers, topic: str = "out") -> list[str]:
    return [(value or b"").decode() for _, value in brokers.values(topic)]


# -- batches and reports ---------------------------------------------------------------------------------------------------


def test_should_end_when_nothing_comes_any_more(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a", "b", "c"])
    report = reside(instance)
    assert report.was_idle
    assert sorted(values(instance.brokers)) == ["a", "b", "c"]
    [thread] = instance.threads.values()
    assert not thread.tasks.follower.positions, "it fetches nothing until the next residency"
    assert reside(instance).was_idle


def test_should_take_no_more_records_in_a_batch_than_allowed(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", [f"{n}" for n in range(40)])
    assert instance.turn(max_records=7, batches=1_000) >= 40 // 7
    batches = [batch for report in instance.reports for batch in report.batches]
    assert max(batch.records for batch in batches) <= 8, "about so many: each partition has its share"
    assert sum(batch.records for batch in batches) == 40
    assert sorted(values(instance.brokers)) == sorted(f"{n}" for n in range(40))


@pytest.mark.parametrize("form", Form)
def test_should_report_all_that_was_done_whenever_it_is_asked(make: Make, form: Form) -> None:
    case = CASES["words"]
    instance = make(case.topology, form, Brokers.of(case.topology(), 2, *case.outputs), **dict(case.config))
    for part in range(3):
        case.feed(instance.brokers, part)
    reports: list[ThreadReport] = []

    def ask(thread: int, step: Step) -> None:
        reports.append(instance.threads[thread].take_report())

    while instance.turn(ask, max_records=4, batches=3):
        pass
    reports += instance.reports
    batches = [batch for report in reports for batch in report.batches]
    read = Counter[str]()
    for batch in batches:
        read.update(batch.read)
    assert read["in"] == 18
    logs = {p: len(instance.brokers.committed_records(p)) for p in instance.brokers.logs}
    repartitioned = sum(count for p, count in logs.items() if p.topic.endswith("-repartition"))
    assert sum(read.values()) == 18 + repartitioned
    assert (repartitioned == 0) is (form is Form.MEMORY)
    assert sum(batch.produced for batch in batches) == sum(logs.values()) - 18
    words = sum(len(line.split()) for line in ("a b c d", "b c e f g", "a g h i j k", "l m", "m b a")) * 3
    processed = sum(batch.processed for batch in batches)
    assert 15 + words <= processed <= 18 + words, "a record that cannot be read counts if nothing is behind it"
    offsets = {p: some for report in instance.reports for p, some in report.offsets.items()}
    assert offsets == instance.brokers.offsets
    held = {task for report in instance.reports for task in report.held or ()}
    assert held == set(instance.plan.tasks())
    assert sum(report.created for report in reports) == len(held)


def test_should_count_iterations_from_report_to_report(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a"])
    found: list[int] = []
    instance.turn(lambda thread, _: found.append(instance.threads[thread].take_report().iterations), batches=1_000)
    assert found == sorted(found)
    assert found[0] > 0
    assert instance.reports[-1].iterations > found[-1]


def test_should_tell_positions_lags_and_open_tasks(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a", "b", "c"], partition=1)
    report = reside(instance)
    assert report.positions == {TopicPartition("in", 0): 0, TopicPartition("in", 1): 3}
    assert set(report.held or ()) == set(report.opened) == {TaskId(0, 0), TaskId(0, 1)}
    feed(instance.brokers, "in", ["d"] * 5, partition=1)
    [thread] = instance.threads.values()
    instance.brokers.limits = {"in": 3}
    report = reside(instance, seconds=0.1, idle=1e9)
    assert report.lags == {TopicPartition("in", 0): 0, TopicPartition("in", 1): 5}
    assert thread.tasks.follower.positions == report.positions


def test_should_read_past_the_ends_of_transactions_before_it_rests(make: Make) -> None:
    """Else the driver would find something to read, and start it again and again; and tools would show a lag."""
    instance = make(chained, Form.BLOCKS)
    feed(instance.brokers, "in", ["a1", "b1", "c1"])
    instance.run()
    instance.reports.clear()
    instance.turn(batches=100)
    positions = {p: at for report in instance.reports for p, at in report.positions.items()}
    read = [p for task in instance.plan.tasks() for p in instance.plan.inputs(task)]
    assert any(p.topic.endswith("-repartition") and at for p, at in positions.items())
    assert positions == {p: len(instance.brokers.logs[p]) for p in read}
    assert {p: some.offset for p, some in instance.brokers.offsets.items()} == {p: at for p, at in positions.items() if at}
    assert not any(report.batches for report in instance.reports), "that is done once"
    assert {p: lag for report in instance.reports for p, lag in report.lags.items()} == dict.fromkeys(read, 0)


def test_should_leave_its_offsets_to_the_driver_under_at_least_once(make: Make) -> None:
    instance = make(copied, processing_guarantee="at_least_once")
    feed(instance.brokers, "in", ["a", "b"])
    report = reside(instance)
    assert sorted(values(instance.brokers)) == ["a", "b"]
    assert not instance.brokers.offsets
    assert sum(some.offset for some in report.offsets.values()) == 2


# -- the end of a residency ------------------------------------------------------------------------------------------------


def test_should_leave_after_the_batch_in_which_it_is_called_back(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", [f"{n}" for n in range(20)])
    instance.turn(max_records=5)
    first = instance.reports[-1]
    assert (len(first.batches), first.was_idle) == (1, False)
    [thread] = instance.threads.values()
    assert not thread.tasks.follower.positions
    reside(instance)
    assert sorted(values(instance.brokers)) == sorted(f"{n}" for n in range(20))


def test_should_keep_what_it_has_fetched_when_its_time_is_over(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a", "b"])
    report = reside(instance, seconds=0.05, idle=1e9)
    assert not report.was_idle
    [thread] = instance.threads.values()
    assert thread.tasks.follower.positions
    feed(instance.brokers, "in", ["c", "d"])
    reside(instance)
    assert sorted(values(instance.brokers)) == ["a", "b", "c", "d"]


def test_should_only_close_and_open_tasks_in_a_residency_without_time(make: Make) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a"])
    report = reside(instance, seconds=0.0)
    assert not report.batches
    assert not values(instance.brokers)
    assert set(report.held or ()) == set(instance.plan.tasks())


class Fails(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "bad":
            raise ValueError("this value is bad")
        self.context.forward(record)


def failing() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", READS).process(Fails).to("out", WRITES)
    return builder.build()


def test_should_write_nothing_of_a_batch_in_which_a_task_fails(make: Make) -> None:
    instance = make(failing)
    feed(instance.brokers, "in", ["a", "b"])
    reside(instance)
    committed = dict(instance.brokers.offsets)
    feed(instance.brokers, "in", ["c", "d", "bad", "e"])
    with pytest.raises(ProcessingError, match="this value is bad"):
        reside(instance)
    [thread] = instance.threads.values()
    assert not thread.tasks.ids, "its tasks are opened anew"
    assert sorted(values(instance.brokers)) == ["a", "b"]
    assert instance.brokers.offsets == committed
    assert not instance.brokers.open
    report = thread.take_report()
    assert not report.batches


# -- timers ----------------------------------------------------------------------------------------------------------------


class Ticks(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(1_000, PunctuationType.WALL_CLOCK_TIME, self._tick)

    def _tick(self, timestamp: int) -> None:
        self.context.forward(Record("tick", str(self.context.task_id), timestamp))

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def ticking() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", READS).process(Ticks).to("out", WRITES)
    return builder.build()


def test_should_call_punctuators_while_no_record_comes(make: Make) -> None:
    instance = make(ticking)
    began = instance.clock.now_ms()
    report = reside(instance, seconds=3.5, idle=1e9)
    assert Counter(values(instance.brokers)) == {"0_0": 3, "0_1": 3}
    assert sum(batch.punctuated for batch in report.batches) == 6
    assert all(batch.records == 0 for batch in report.batches)
    assert all(at is not None and began + 3_000 < at <= began + 4_500 for at in report.timers.values())


def test_should_leave_timers_to_the_driver_when_it_is_idle(make: Make) -> None:
    instance = make(ticking)
    report = reside(instance, idle=0.5)
    assert report.was_idle
    assert not report.batches
    assert set(report.timers) == set(instance.plan.tasks())
    assert None not in report.timers.values()


# -- repartitions ----------------------------------------------------------------------------------------------------------


def test_should_pass_all_repartitions_of_a_thread_in_one_batch(make: Make) -> None:
    instance = make(chained)
    feed(instance.brokers, "in", ["a1", "b1", "a2", "c1"])
    report = reside(instance)
    assert sorted(values(instance.brokers)) == ["a1", "a2", "b1", "c1"]
    assert [batch.records for batch in report.batches] == [4]
    assert not any(log for p, log in instance.brokers.logs.items() if p.topic.endswith("-repartition"))


@pytest.mark.parametrize("form", Form)
def test_should_write_at_once_what_does_not_wait_for_another_topic(make: Make, form: Form) -> None:
    """The first sub-topology has written its outputs; the join behind the repartition waits for max.task.idle.ms."""
    instance = make(waiting, form, max_task_idle_ms=60_000)
    feed(instance.brokers, "orders", ["a1", "b1", "a2", "c1"])
    for _ in range(3):
        instance.turn(batches=1_000)
    assert sorted(values(instance.brokers, "audit")) == ["a1", "a2", "b1", "c1"]
    assert values(instance.brokers) == []
    waits = [report.idle_until for report in instance.reports if any(report.idle_until.values())]
    assert waits, "it tells until when it waits"
    instance.clock.advance(61.0)
    instance.turn(batches=1_000)
    assert sorted(values(instance.brokers)) == ["a1", "a2", "b1", "c1"]


@pytest.mark.parametrize("form", Form)
def test_should_not_wait_for_a_topic_that_has_nothing(make: Make, form: Form) -> None:
    instance = make(waiting, form)
    feed(instance.brokers, "orders", ["a1", "b1", "a2"])
    instance.run()
    assert sorted(values(instance.brokers)) == ["a1", "a2", "b1"]


@pytest.mark.parametrize("form", Form)
def test_should_wait_for_what_brokers_have_and_go_on_when_it_comes(make: Make, form: Form) -> None:
    instance = make(waiting, form, partitions=1)
    feed(instance.brokers, "orders", {1: "a1", 3: "b1", 5: "a2", 9: "c1"})
    feed(instance.brokers, "other", {2: "x1", 4: "x2", 8: "x3"})
    for limit in (0, 1, 2, 3):
        for _ in range(3):
            instance.turn(up_to={"other": limit}, batches=1_000)
    instance.run()
    assert values(instance.brokers) == ["a1", "x1", "b1", "x2", "a2", "x3", "c1"]


@pytest.mark.parametrize("step", Step)
def test_should_go_on_in_the_middle_of_a_block(make: Make, step: Step) -> None:
    """The offset of the block stays committed, with the number of rows that were processed."""
    first = make(waiting, Form.BLOCKS, partitions=2)
    feed(first.brokers, "orders", {at: f"a{at}" for at in range(1, 11)}, partition=0)
    target = default_partition(b"a", 2)
    feed(first.brokers, "other", {5: "x1", 20: "x2"}, partition=target)
    keyed = TopicPartition(KEYED, target)
    for limit in (0, 0, 1):
        first.turn(up_to={"other": limit}, batches=1_000)
    found = processed_rows(first.brokers.offsets[keyed])
    assert found is not None
    assert found[0] == 0
    assert found[1] in (4, 5)
    assert values(first.brokers) == [*(f"a{n}" for n in range(1, found[1] + 1)), "x1"]

    def crash(thread: int, reached: Step) -> None:
        if reached == step:
            raise Crash

    first.turn(crash)
    first.die()
    first.brokers.time_out()
    second = make(waiting, Form.BLOCKS, first.brokers, process="b")
    second.run()
    assert values(first.brokers) == [
        *(f"a{n}" for n in range(1, found[1] + 1)),
        "x1",
        *(f"a{n}" for n in range(found[1] + 1, 11)),
        "x2",
    ]


class Moving(Instance):
    """Tasks are where it is said."""

    owners: dict[TaskId, int]

    def tasks_of(self, thread: int) -> list[TaskId]:
        return [task for task in self.plan.tasks() if self.owners[task] == thread]


def test_should_not_overtake_what_a_task_has_written_elsewhere_before_it_came(tmp_path: Path) -> None:
    """The thread has had the readers for long; the writers come from a thread that has written to the topic meanwhile."""
    brokers = Brokers.of(chained(1), 1)
    instance = Moving(chained(1), brokers, tmp_path, form=Form.BLOCKS)
    instance.owners = {TaskId(0, 0): 1, TaskId(1, 0): 0}
    instance.open()
    instance.turn(batches=10)
    feed(brokers, "in", ["a1", "a2"])
    threads = instance.threads
    instance.threads = {1: threads[1]}
    instance.turn(batches=10)
    instance.threads = threads
    assert values(brokers) == []
    group, owned = str(instance.generation).encode(), instance.plan.tasks()
    threads[1].run(Residency("key", 1, 1_000, {}, group))
    feed(brokers, "in", ["a3"])
    starts = instance.offsets.read([TaskId(0, 0)]) | {TaskId(1, 0): instance._starts[TaskId(1, 0)]}
    brokers.limits = {"app-keyed-0-repartition": 0}
    thread = threads[0]
    for number in (1_001, 1_002):
        thread.queries.batches_left = 5
        thread.run(Residency("key", 0, number, {task: starts[task] for task in owned}, group, 1e9, 0.5))
        brokers.limits = {}
    instance.die()
    assert values(brokers) == ["a1", "a2", "a3"]


def test_should_give_up_hand_over_while_records_wait_in_the_topic_and_begin_it_again(make: Make) -> None:
    first = make(chained, Form.BLOCKS, partitions=2)
    feed(first.brokers, "in", ["a1", "b1", "c1", "d1"])
    first.turn()
    first.die()
    first.brokers.time_out()
    assert any(log for p, log in first.brokers.logs.items() if p.topic.endswith("-repartition"))
    second = make(chained, Form.MEMORY, first.brokers, process="b")
    feed(first.brokers, "in", ["a2", "b2"])
    second.run()
    before = {p: len(log) for p, log in first.brokers.logs.items() if p.topic.endswith("-repartition")}
    feed(first.brokers, "in", ["a3", "b3"])
    second.run()
    assert {p: len(log) for p, log in first.brokers.logs.items() if p.topic.endswith("-repartition")} == before
    for letter in "ab":
        assert [value for value in values(first.brokers) if value.startswith(letter)] == [f"{letter}{n}" for n in (1, 2, 3)]


def test_should_close_tasks_that_are_not_its_own_any_more(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    instance = make(copied)
    feed(instance.brokers, "in", ["a"])
    reside(instance)
    [thread] = instance.threads.values()
    assert isinstance(thread, Thread)
    with caplog.at_level(logging.WARNING):
        thread.run(Residency("key", 0, 10_000, {}, b"1"))
    report = thread.take_report()
    assert (report.held, report.closed) == ((), 2)
    assert not caplog.records


# -- before the application closes -----------------------------------------------------------------------------------------


def repartition_ends(brokers: Brokers) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """What is committed of each repartition partition that has anything, and where it ends."""
    ends = {p: len(log) for p, log in brokers.logs.items() if log and p.topic.endswith("-repartition")}
    assert ends
    return {p: brokers.offsets[p].offset if p in brokers.offsets else 0 for p in ends}, ends


def test_should_read_only_repartition_topics_while_it_drains(make: Make) -> None:
    """Two repartitions in a row: what the first thread writes is read in the next residency of the second."""
    instance = make(chained, Form.BLOCKS)
    feed(instance.brokers, "in", [f"{letter}1" for letter in "abcdef"])
    instance.turn()
    committed, ends = repartition_ends(instance.brokers)
    assert committed != ends
    sources = {p: some for p, some in instance.brokers.offsets.items() if p.topic == "in"}
    feed(instance.brokers, "in", [f"{letter}2" for letter in "abcdef"])
    for _ in range(3):
        for index in instance.threads:
            report = reside(instance, drains=True, index=index)
            assert report.was_idle
            assert not any("in" in batch.read for batch in report.batches)
    committed, ends = repartition_ends(instance.brokers)
    assert committed == ends
    assert {p: some for p, some in instance.brokers.offsets.items() if p.topic == "in"} == sources
    assert sorted(values(instance.brokers)) == [f"{letter}1" for letter in "abcdef"]
    instance.run()
    assert sorted(values(instance.brokers)) == sorted(f"{letter}{number}" for letter in "abcdef" for number in (1, 2))


def test_should_drain_under_at_least_once(make: Make) -> None:
    instance = make(lambda: chained(1), Form.BLOCKS, processing_guarantee="at_least_once")
    feed(instance.brokers, "in", ["a1", "b1", "c1", "d1"])
    instance.turn()
    offsets = {
        p: some.offset for index in instance.threads for p, some in reside(instance, drains=True, index=index).offsets.items()
    }
    _, ends = repartition_ends(instance.brokers)
    assert offsets == ends
    assert sorted(values(instance.brokers)) == ["a1", "b1", "c1", "d1"]


@pytest.mark.parametrize(("other", "drained"), [([], True), (["a9"], False)])
def test_should_process_what_a_source_topic_has_no_records_for_while_it_drains(
    make: Make, other: list[str], drained: bool
) -> None:
    """A task waits for a source topic for max.task.idle.ms if that has ended, and longer if it has not."""
    instance = make(waiting, Form.BLOCKS, max_task_idle_ms=2_000, partitions=2)
    feed(instance.brokers, "orders", [f"{letter}1" for letter in "abcdef"])
    instance.turn()
    target = default_partition(b"a", 2)
    feed(instance.brokers, "other", other, partition=target)
    for index in instance.threads:
        assert reside(instance, drains=True, index=index).was_idle
    committed, ends = repartition_ends(instance.brokers)
    assert (committed == ends) is drained
    ends.pop(TopicPartition(KEYED, target))
    assert all(committed[partition] == end for partition, end in ends.items())
    assert not any(p.topic == "other" for p in instance.brokers.offsets)
    for _ in range(2):  # the wait begins when the records of the other topic have been processed
        instance.run()
        instance.clock.advance(10.0)
    instance.run()
    assert sorted(values(instance.brokers)) == sorted([*(f"{letter}1" for letter in "abcdef"), *other])


def test_should_read_source_topics_again_after_it_has_drained(make: Make) -> None:
    instance = make(waiting, partitions=1)
    feed(instance.brokers, "orders", ["a1"])
    feed(instance.brokers, "other", ["x1"])
    assert not reside(instance, drains=True).batches
    assert values(instance.brokers) == []
    reside(instance)
    assert sorted(values(instance.brokers)) == ["a1", "x1"]

"""Which tasks of a lane that stays have something to do: timers, partitions that are waited for, global tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from penstock.columns.columns import RawColumns
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.kafka.follow import Taken
from penstock.spark.messages import LaneAnswer, ProcessTurn, Stay
from penstock.spark.worker.residence import Residence

TASK, OTHER = TaskId(0, 0), TaskId(1, 0)
LEFT, RIGHT, ORDERS = TopicPartition("left", 0), TopicPartition("right", 0), TopicPartition("orders", 0)
NAMES, LINES, WORDS = TopicPartition("names", 0), TopicPartition("lines", 0), TopicPartition("words-repartition", 0)


class Tasks:
    """A task that joins two partitions, and one that reads another."""

    def __init__(self) -> None:
        self.at_end: set[TopicPartition] = set()
        self.queued: dict[TaskId, bool] = {TASK: False, OTHER: False}
        self.ends = {NAMES: 7}
        self.fed: dict[TaskId, dict[TopicPartition, Any]] = {TASK: {}, OTHER: {}}
        self.follower = SimpleNamespace(is_at_end=lambda partition: partition in self.at_end, positions={LINES: 1})
        self.running = {task: SimpleNamespace(task=self._stream_task(task)) for task in self.queued}

    def _stream_task(self, task: TaskId) -> Any:
        queued = self.queued

        class StreamTask:
            has_records_queued = property(lambda _: queued[task])

            def next_timer(self) -> int | None:
                return 5_000 if task == OTHER else None

        return StreamTask()

    def own_inputs(self) -> dict[TaskId, list[TopicPartition]]:
        return {TASK: [LEFT, RIGHT], OTHER: [ORDERS]}

    def fed_inputs(self) -> dict[TaskId, dict[TopicPartition, Any]]:
        return self.fed

    def fed_positions(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, dict[TopicPartition, int]]:
        return {partition: {LINES: 0} for task in tasks for partition in self.fed[task]}

    def upstream_of(self, source: TopicPartition) -> int:
        return 3

    def idle_deadline(self, task: TaskId) -> int | None:
        return None

    def global_ends(self) -> dict[TopicPartition, int]:
        return self.ends


class Lane:
    def __init__(
        self,
        tasks: Tasks,
        global_ends: Mapping[TopicPartition, int] | None = None,
        reads: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.turns: list[ProcessTurn] = []
        self.refreshed: list[Mapping[TopicPartition, int]] = []
        self.timers: dict[TaskId, int | None] = {}
        asked = ProcessTurn("key", 0, {}, (), b"", global_ends or {})
        stay = Stay(1, (TASK, OTHER), reads or {}, 2.0, 0.5, 0.1, 100)
        self.residence = Residence(tasks, asked, stay, self._run, self.refreshed.append)  # type: ignore[arg-type]

    def _run(self, turn: ProcessTurn, taken: Taken, answer: LaneAnswer) -> None:
        self.turns.append(turn)
        answer.timers.update(self.timers)


def taken(partition: TopicPartition) -> Taken:
    return Taken({partition: FetchRange(*partition, 0, 1)}, {partition: RawColumns(*partition, [b""], [b""], [0], [0])})


def test_should_have_tasks_whose_timers_are_due_until_they_have_run() -> None:
    lane = Lane(Tasks())
    assert (lane.residence.next_timer_ms(), lane.residence.due(4_999), lane.residence.due(5_000)) == (5_000, [], [OTHER])
    lane.timers = {OTHER: 9_000}
    lane.residence.turn(Taken({}, {}), [OTHER], False)
    assert list(lane.turns[0].work) == [OTHER]
    assert (lane.residence.next_timer_ms(), lane.residence.due(5_000)) == (9_000, [])


def test_should_have_a_task_go_on_when_the_partition_it_waited_for_turns_out_to_have_nothing() -> None:
    tasks = Tasks()
    lane = Lane(tasks)
    tasks.at_end = {LEFT}
    tasks.queued[TASK] = True
    lane.residence.turn(taken(LEFT), [], False)
    assert lane.turns[0].work[TASK].lags == {LEFT: 0, RIGHT: 1}
    assert lane.residence.due(0) == []
    tasks.at_end = {LEFT, RIGHT}
    assert lane.residence.due(0) == [TASK]
    tasks.queued[TASK] = False
    lane.residence.turn(Taken({}, {}), [TASK], False)
    assert lane.turns[1].work[TASK].lags == {LEFT: 0, RIGHT: 0}
    assert lane.residence.due(0) == []


def test_should_catch_up_global_tables_before_each_turn_and_now_and_then() -> None:
    tasks = Tasks()
    lane = Lane(tasks, {NAMES: 3})
    lane.residence.turn(taken(ORDERS), [], False)
    assert lane.turns[0].global_ends == {NAMES: 7}
    lane.residence.due(1_000)
    tasks.ends = {NAMES: 8}
    lane.residence.due(1_050)
    lane.residence.due(1_100)
    assert lane.refreshed == [{NAMES: 7}, {NAMES: 8}]


def test_should_leave_tasks_behind_a_shuffle_where_they_are_that_get_nothing_until_the_last_turn() -> None:
    tasks = Tasks()
    tasks.fed[OTHER] = {WORDS: [LINES]}
    lane = Lane(tasks)
    lane.residence.turn(taken(LINES), [], False)
    assert (lane.turns[0].optional, lane.turns[0].read) == ({OTHER}, {LINES: 1})
    assert lane.residence.is_uneven
    assert lane.residence.behind() == {WORDS: {LINES: 0}}
    lane.timers = {OTHER: None}  # it has done something
    lane.residence.turn(Taken({}, {}), [], True)
    assert (lane.turns[1].optional, lane.turns[1].work[OTHER].fed) == (frozenset(), (WORDS,))
    assert (lane.residence.is_uneven, lane.residence.behind()) == (False, {})


def test_should_know_of_tasks_that_the_stay_before_has_left_behind() -> None:
    tasks = Tasks()
    tasks.fed[OTHER] = {WORDS: [LINES]}
    assert Lane(tasks, reads={LINES: 1}).residence.is_uneven
    assert not Lane(tasks, reads={LINES: 0}).residence.is_uneven


def test_should_not_leave_out_a_task_with_records_that_wait_or_a_timer_that_is_due() -> None:
    tasks = Tasks()
    tasks.fed[OTHER] = {WORDS: [LINES]}
    tasks.queued[OTHER] = True
    lane = Lane(tasks)
    lane.residence.turn(taken(LINES), [], False)
    tasks.queued[OTHER] = False
    lane.residence.turn(taken(LINES), [OTHER], False)
    assert [turn.optional for turn in lane.turns] == [frozenset()] * 2

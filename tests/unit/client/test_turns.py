"""What a turn of one lane is, and what is known when it is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stages import ReadableWindow, StagePart, front_window, plan_stage
from penstock.client.scheduling.turns import Turn, account, plan_turn
from penstock.clock import ManualClock
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange, Short
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.messages import LaneAnswer, TaskWork, UpstreamWork
from tests.unit.client.simulated import WORDS, Brokers, make_plan

PLAN = make_plan(2, 2, 2)
LINES = [TopicPartition("lines", p) for p in range(2)]
ORDERS = [TopicPartition("orders", p) for p in range(2)]
FED = [TopicPartition(WORDS, p) for p in range(2)]
BEHIND, DIRECT = [TaskId(1, p) for p in range(2)], [TaskId(2, p) for p in range(2)]
ENDS = {LINES[0]: 10, LINES[1]: 20, ORDERS[0]: 5, ORDERS[1]: 0}


def loaded() -> Positions:
    brokers: Any = Brokers(PLAN)
    brokers.ends.update(ENDS)
    builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: None)
    found = Positions(PLAN, "app", brokers, brokers.read_committed, builder, "earliest", ManualClock(0), committed_only=True)
    found.load([*BEHIND, *DIRECT])
    return found


def everything(backlog: int) -> int:
    return 1_000


def window_of(positions: Positions) -> ReadableWindow:
    window = front_window({task: positions.fed(task) for task in BEHIND}, positions.vectors, ENDS)
    assert window is not None
    return window


def test_should_count_what_a_turn_has_come_to_where_its_time_was_up() -> None:
    turn = Turn(ranges=[FetchRange("in", 0, 0, 1_000)])
    assert turn.done(LaneAnswer("w", processed=1_000)) == 1_000
    assert turn.done(LaneAnswer("w", processed=250, postponed=750)) == 250
    assert turn.done(LaneAnswer("w", processed=1, postponed=500_000)) == 1
    assert Turn().done(LaneAnswer("w", processed=5, postponed=5)) == 0


def test_should_plan_nothing_where_nothing_is_new_and_no_timer_is_due() -> None:
    positions = loaded()
    assert plan_turn(PLAN, positions, ENDS, [DIRECT[1]], (), everything) is None
    turn = plan_turn(PLAN, positions, ENDS, [DIRECT[1]], [DIRECT[1]], everything)
    assert turn is not None
    assert turn.work == {DIRECT[1]: TaskWork((), {ORDERS[1]: 0})}
    assert (str(turn), turn.records) == ("timers", 0)


def test_should_read_only_for_the_tasks_of_the_lane() -> None:
    turn = plan_turn(PLAN, loaded(), ENDS, DIRECT, (), lambda backlog: 3)
    assert turn is not None
    assert list(turn.work) == [DIRECT[0]]
    assert turn.work[DIRECT[0]] == TaskWork((FetchRange("orders", 0, 0, 3),), {ORDERS[0]: 2})
    assert (turn.records, turn.backlog, turn.shuffled, turn.upstream) == (3, 5, False, [])


def test_should_read_itself_what_comes_before_a_shuffle_where_it_has_a_window() -> None:
    positions = loaded()
    turn = plan_turn(PLAN, positions, ENDS, [*BEHIND, DIRECT[0]], (), everything, window=window_of(positions))
    assert turn is not None
    assert (turn.records, turn.backlog, turn.size) == (35, 35, 35)
    assert turn.read == {LINES[0]: 10, LINES[1]: 20}
    assert {task: work.fed for task, work in turn.work.items()} == {BEHIND[0]: (FED[0],), BEHIND[1]: (FED[1],), DIRECT[0]: ()}
    assert not turn.shuffled


def test_should_take_the_part_that_a_stage_has_brought_beside_what_it_reads_itself() -> None:
    positions = loaded()
    stage = plan_stage(PLAN, "p0", window_of(positions), positions.vectors, everything)
    assert stage is not None
    told = StagePart(stage, {BEHIND[0]: (FED[0],)}, lanes=2)
    turn = plan_turn(PLAN, positions, ENDS, [BEHIND[0], DIRECT[0]], (), everything, part=told)
    assert turn is not None
    assert turn.shuffled
    assert turn.upstream == []
    assert turn.read == {LINES[0]: 10, LINES[1]: 20}
    assert turn.work[BEHIND[0]].fed == (FED[0],)
    assert (turn.records, turn.backlog, turn.size) == (35, 35, 20)
    other = StagePart(stage, {BEHIND[1]: (FED[1],)}, lanes=2, tells=False)
    turn = plan_turn(PLAN, positions, ENDS, [BEHIND[1]], (), everything, part=other)
    assert turn is not None
    assert (turn.records, turn.told_ranges, turn.size) == (0, [], 15), "what a stage has read is told once"


def test_should_account_what_was_committed_and_what_was_read() -> None:
    positions = loaded()
    turn = plan_turn(PLAN, positions, ENDS, DIRECT, (), everything)
    assert turn is not None
    account(positions, turn, LaneAnswer("w", offsets={ORDERS[0]: OffsetAndMetadata(2)}))
    assert positions.fetched == {ORDERS[0]: 5, ORDERS[1]: 0}
    assert positions.committed[ORDERS[0]] == OffsetAndMetadata(2)


def test_should_account_for_each_task_behind_a_shuffle_what_its_lane_has_read() -> None:
    positions = loaded()
    positions.vectors.update({FED[0]: {LINES[0]: 0, LINES[1]: 0}, FED[1]: {LINES[0]: 5, LINES[1]: 0}})
    planned = [FetchRange("lines", 0, 0, 10), FetchRange("lines", 1, 0, 20)]
    work = {task: TaskWork(fed=(FED[task.partition],)) for task in BEHIND}
    turn = Turn(work, [UpstreamWork(0, r.partition, (r,)) for r in planned], ranges=planned)
    account(positions, turn, LaneAnswer("w", short={LINES[0]: Short(3, "nothing came")}))
    assert positions.vectors == {FED[0]: {LINES[0]: 3, LINES[1]: 20}, FED[1]: {LINES[0]: 5, LINES[1]: 20}}


def test_should_not_know_again_what_was_given_up_while_the_turn_ran() -> None:
    positions = loaded()
    turn = plan_turn(PLAN, positions, ENDS, [*BEHIND, *DIRECT], (), everything, window=window_of(positions))
    assert turn is not None
    positions.drop([BEHIND[0], DIRECT[0]])
    account(positions, turn, LaneAnswer("w", offsets={ORDERS[0]: OffsetAndMetadata(5), FED[1]: OffsetAndMetadata(0, "|1|10,20")}))
    assert positions.fetched == {ORDERS[1]: 0}
    assert positions.vectors == {FED[1]: {LINES[0]: 10, LINES[1]: 20}}
    assert ORDERS[0] not in positions.committed
    assert FED[1] in positions.committed

"""A lane that stays: when it does a turn, when it goes, and what it says of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.columns.columns import RawColumns
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.kafka.follow import Taken
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.messages import LaneAnswer, ProcessTurn, Stay
from penstock.spark.worker.stay import stay, turn_of

LINES = TopicPartition("lines", 0)
TASK = TaskId(0, 0)


class Follower:
    """Records come at the times that were given; waiting is what makes time pass."""

    def __init__(self, arrivals: Iterable[float], come: int = 0) -> None:
        self.now, self._arrivals, self._come = 0.0, sorted(arrivals), come
        self.positions: dict[TopicPartition, int] = {}
        self.trouble, self.has_skipped, self.rests = "", False, False
        self.called_at = 1e9
        """When the lane is called back, which wakes it from its pause."""

    def follow(self, positions: dict[TopicPartition, int]) -> None:
        self.positions = dict(positions)

    def wait(self, seconds: float) -> None:
        until = self.now + max(seconds, 0.001)
        while self._arrivals and self._arrivals[0] <= until:
            self.now = max(self.now, self._arrivals.pop(0))
            self._come += 1
            return
        self.now = until

    @property
    def waiting(self) -> int:
        return self._come

    def wait_apart(self, seconds: float, sleep: object = None) -> None:
        until = max(self.now + 0.001, min(self.now + seconds, self.called_at))
        while self.now < until:
            self.wait(until - self.now)

    def rest(self) -> None:
        self.rests = True

    def take(self, most: int) -> Taken:
        start, count = self.positions[LINES], min(most, self._come)
        self._come -= count
        self.positions[LINES] = start + count
        columns = RawColumns(*LINES, [None] * count, [None] * count, [0] * count, list(range(start, start + count)))
        return Taken({LINES: FetchRange(*LINES, start, start + count)} if count else {}, {LINES: columns})


class Lane:
    """Turns take a while, and half of that their commit."""

    def __init__(self, follower: Follower, turn_seconds: float = 0.01, work_seconds: float = 0.0) -> None:
        self._follower, self._seconds, self._work = follower, turn_seconds, work_seconds
        self.turns: list[tuple[float, int]] = []
        self.fails_at = -1
        self.is_uneven, self.levelled = False, list[bool]()

    def next_timer_ms(self) -> int | None:
        return None

    def due(self, now_ms: int) -> list[TaskId]:
        return []

    def turn(self, taken: Taken, due: Iterable[TaskId], levels: bool) -> LaneAnswer:
        self.is_uneven, self.levelled = self.is_uneven and not levels, [*self.levelled, levels]
        if len(self.turns) == self.fails_at:
            raise ValueError("a bad record")
        self.turns.append((self._follower.now, taken.records))
        self._follower.now += self._seconds
        offset = self._follower.positions[LINES]
        answer = LaneAnswer("", records=taken.records, seconds={"commit": self._seconds / 2, "process": self._work})
        answer.offsets[LINES] = OffsetAndMetadata(offset)
        return answer


def stayed(lane: Lane, follower: Follower, called_at: float = 1e9, **given: Any) -> LaneAnswer:
    asked = {
        "number": 1,
        "tasks": (TASK,),
        "positions": {LINES: 7},
        "seconds": 2.0,
        "idle_seconds": 0.5,
        "commit_seconds": 0.1,
        "most_records": 100,
    }
    total, follower.called_at = LaneAnswer("worker"), called_at
    stay(lane, follower, Stay(**{**asked, **given}), total, lambda: follower.now >= called_at, lambda: follower.now)  # type: ignore[arg-type]
    return total


def test_should_do_a_turn_for_each_record_that_comes_alone_and_end_when_its_time_is_up() -> None:
    follower = Follower(number * 0.2 for number in range(1, 50))
    lane = Lane(follower)
    total = stayed(lane, follower)
    assert (len(total.turns), total.records, total.offsets[LINES].offset, total.reached) == (10, 10, 17, {LINES: 17})
    assert 2.0 <= follower.now < 2.1


def test_should_pause_as_long_as_commits_take_and_take_what_came_together() -> None:
    follower = Follower(number * 0.002 for number in range(1, 2000))
    lane = Lane(follower, turn_seconds=0.1)
    total = stayed(lane, follower)
    apart = [later - earlier for (earlier, _), (later, _) in zip(lane.turns, lane.turns[1:])]
    assert 0.145 < min(apart[1:-1]) < max(apart) < 0.16
    assert all(records > 10 for _, records in lane.turns[1:-1])
    assert total.goes_on


def test_should_begin_a_turn_sooner_by_what_it_has_to_process() -> None:
    follower = Follower(number * 0.002 for number in range(1, 2000))
    lane = Lane(follower, turn_seconds=0.1, work_seconds=0.03)
    stayed(lane, follower, most_records=10_000)
    apart = [later - earlier for (earlier, _), (later, _) in zip(lane.turns, lane.turns[1:])]
    assert 0.115 < min(apart[1:-1]) < max(apart) < 0.13


def test_should_let_no_result_wait_longer_than_the_interval_of_commits() -> None:
    follower = Follower(number * 0.002 for number in range(1, 2000))
    lane = Lane(follower, turn_seconds=0.2)
    stayed(lane, follower)
    assert all(later - earlier < 0.2 + 0.11 for (earlier, _), (later, _) in zip(lane.turns, lane.turns[1:]))


def test_should_go_at_once_when_it_is_called_and_leave_what_has_come_to_the_next() -> None:
    follower = Follower([0.3, *(0.69 + number / 1000 for number in range(10))])
    total = stayed(Lane(follower), follower, called_at=0.7)
    assert total.reached == {LINES: 7 + total.records}
    assert total.records + follower.waiting <= 11
    assert 0.7 <= follower.now < 0.73


@pytest.mark.parametrize("called_at", [0.11, 0.3, 0.705, 1.0, 1.31])
def test_should_be_gone_within_50_ms_of_a_call_wherever_it_is_but_in_a_turn(called_at: float) -> None:
    """In a pause of 100 ms, with nothing to do, or with a pause behind it that is over."""
    follower = Follower([0.1, 0.105, 0.7, 0.701, 1.3])
    lane = Lane(follower, turn_seconds=0.004)
    stayed(lane, follower, called_at=called_at, idle_seconds=5.0)
    assert called_at <= follower.now < called_at + 0.05
    assert all(at < called_at for at, _ in lane.turns)


def test_should_be_gone_with_the_turn_it_is_in_when_it_is_called() -> None:
    follower = Follower(number * 0.002 for number in range(1, 2000))
    lane = Lane(follower, turn_seconds=0.2)
    stayed(lane, follower, called_at=0.5, most_records=10_000)
    assert all(at < 0.5 for at, _ in lane.turns)
    assert follower.now < max(0.5, lane.turns[-1][0] + 0.2) + 0.05


def test_should_bring_tasks_to_the_same_position_with_its_last_turn_also_where_nothing_comes() -> None:
    follower = Follower([])
    lane = Lane(follower)
    lane.is_uneven = True
    total = stayed(lane, follower)
    assert (len(total.turns), total.records, lane.levelled, lane.is_uneven) == (1, 0, [True], False)


def test_should_go_in_between_two_turns_when_its_time_is_up_and_leave_what_has_come_where_it_is() -> None:
    follower = Follower([*(number * 0.2 for number in range(1, 11)), 2.011, 2.012])
    lane = Lane(follower)
    lane.is_uneven = True
    total = stayed(lane, follower)
    assert (total.goes_on, total.records, follower.waiting, follower.rests) == (True, 10, 1, False)
    assert lane.levelled == [True, *[False] * 9]  # the first turn, and none at the end


def test_should_do_what_is_ready_when_its_time_is_up_once_and_then_go() -> None:
    follower = Follower([0.1, *(1.9 + number * 0.01 for number in range(100))])
    lane = Lane(follower, turn_seconds=0.1, work_seconds=0.02)
    total = stayed(lane, follower, idle_seconds=5.0)
    assert total.goes_on
    assert [at for at, _ in lane.turns if at > 2.0] == [lane.turns[-1][0]]
    assert follower.now - lane.turns[-1][0] < 0.12


def test_should_say_where_it_is_also_where_nothing_has_come() -> None:
    follower = Follower([])
    total = stayed(Lane(follower), follower, idle_seconds=10.0)
    assert (total.goes_on, total.turns, total.reached) == (True, (), {LINES: 7})


def test_should_do_nothing_when_it_was_called_before_it_began() -> None:
    follower = Follower([])
    total = stayed(Lane(follower), follower, called_at=0.0)
    assert (total.turns, total.reached) == ((), {})


@pytest.mark.parametrize(("given", "latest"), [({}, 0.85), ({"idle_seconds": 0.1}, 0.45)])
def test_should_go_when_nothing_comes(given: dict[str, float], latest: float) -> None:
    follower = Follower([0.3] if not given else [0.05])
    total = stayed(Lane(follower), follower, **given)
    assert follower.now < latest
    assert not total.goes_on


def test_should_not_take_a_commit_that_took_long_for_a_time_in_which_nothing_came() -> None:
    follower = Follower(number * 0.02 for number in range(1, 200))
    lane = Lane(follower, turn_seconds=0.6)
    total = stayed(lane, follower)
    assert total.goes_on
    assert follower.now > 2.0


def test_should_go_when_a_backlog_is_there_again_after_a_turn_of_all_it_could_take() -> None:
    follower = Follower([0.1] * 500)
    lane = Lane(follower, turn_seconds=0.3)
    total = stayed(lane, follower)
    assert follower.now < 2.0
    assert not total.goes_on
    assert 100 < total.records <= 300


def test_should_go_where_few_records_wait_that_take_long() -> None:
    follower = Follower([], come=2_000)
    lane = Lane(follower, turn_seconds=5.0, work_seconds=5.0)  # 5 ms for each of the first 1,000: then a turn takes 100
    total = stayed(lane, follower, most_records=100_000, seconds=600.0)
    assert not total.goes_on
    assert [records for _, records in lane.turns] == [1_000, 100, 10]


def test_should_stay_where_one_turn_has_done_what_came_while_a_commit_took_long() -> None:
    follower = Follower([*[0.1] * 150, *(0.2 + number * 0.02 for number in range(200))])
    lane = Lane(follower)
    total = stayed(lane, follower)
    assert max(records for _, records in lane.turns) == 100
    assert total.goes_on


def test_should_pause_less_where_many_records_come() -> None:
    apart = {}
    for rate in (100, 5_000):
        follower = Follower(number / rate for number in range(1, 2 * rate))
        lane = Lane(follower, turn_seconds=0.02)
        stayed(lane, follower, most_records=10_000)
        apart[rate] = min(later - earlier for (earlier, _), (later, _) in zip(lane.turns[1:], lane.turns[2:]))
    assert apart[5_000] < 0.05 < apart[100]


def test_should_tell_what_was_done_before_a_turn_failed() -> None:
    follower = Follower([0.1, 0.3, 0.5])
    lane = Lane(follower)
    lane.fails_at = 2
    total = LaneAnswer("worker")
    with pytest.raises(ValueError, match="bad record"):
        stay(lane, follower, Stay(1, (TASK,), {LINES: 7}, 2.0, 0.5, 0.1, 100), total, lambda: False, lambda: follower.now)  # type: ignore[arg-type]
    assert (len(total.turns), total.offsets[LINES].offset, total.reached) == (2, 9, {LINES: 9})


def test_should_plan_what_has_come_as_the_driver_would() -> None:
    orders, words = TopicPartition("orders", 1), TopicPartition("words-repartition", 0)
    ranges = {LINES: FetchRange(*LINES, 7, 9), orders: FetchRange(*orders, 3, 4)}
    own = {TaskId(2, 1): [orders], TaskId(2, 0): [TopicPartition("orders", 0)], TaskId(1, 0): []}
    fed = {TaskId(1, 0): {words: [LINES]}}
    asked = ProcessTurn("key", 0, {}, (), b"group", stay=Stay(1, (), {}, 1, 1, 1, 1))
    reached = {LINES: 9, orders: 4}
    turn = turn_of(asked, Taken(ranges, {}), [TaskId(2, 0)], own, fed, lambda source: 0, lambda task: {}, reached)
    assert (turn.group_metadata, turn.stay, turn.read) == (b"group", None, {LINES: 9})
    assert [(work.subtopology, work.partition, work.ranges, work.skip) for work in turn.upstream] == [
        (0, 0, (ranges[LINES],), {})
    ]
    assert {task: (work.ranges, work.fed) for task, work in turn.work.items()} == {
        TaskId(2, 1): ((ranges[orders],), ()),
        TaskId(2, 0): ((), ()),
        TaskId(1, 0): ((), (words,)),
    }
    assert turn.optional == {TaskId(1, 0)}

"""What is read before a shuffle, for whom, and whether what was read is still of use."""

from __future__ import annotations

import pytest

from penstock.client.scheduling.stages import Stage, StagePart, catch_up_window, front_window, plan_stage, share
from penstock.ids import TaskId, TopicPartition
from tests.unit.client.simulated import WORDS, make_plan

PLAN = make_plan(2, 3, 1)
LINES = [TopicPartition("lines", p) for p in range(2)]
TASKS = [TaskId(1, p) for p in range(3)]
FED = [TopicPartition(WORDS, p) for p in range(3)]
FEEDS = {task: (partition,) for task, partition in zip(TASKS, FED)}
ENDS = {LINES[0]: 100, LINES[1]: 50}


def vectors(*at: tuple[int, int]) -> dict[TopicPartition, dict[TopicPartition, int]]:
    return {partition: dict(zip(LINES, some)) for partition, some in zip(FED, at)}


def test_should_read_what_is_new_once_for_all_that_stand_at_the_front() -> None:
    window = front_window(FEEDS, vectors((90, 40), (80, 40), (90, 40)), ENDS)
    assert window is not None
    assert set(window.feeds) == {TASKS[0], TASKS[2]}
    assert window.bounds == {LINES[0]: (90, 100), LINES[1]: (40, 50)}
    assert window.backlog == 20


def test_should_leave_out_sources_without_anything_new_or_without_an_answer() -> None:
    at = vectors((100, 40), (100, 40), (100, 40))
    window = front_window(FEEDS, at, ENDS)
    assert window is not None
    assert window.bounds == {LINES[1]: (40, 50)}
    assert front_window(FEEDS, at, {LINES[0]: 100}) is None
    assert front_window({}, at, ENDS) is None


def test_should_have_nobody_at_the_front_where_each_is_behind_in_something() -> None:
    at = vectors((90, 40), (80, 45), (80, 40))
    assert front_window(FEEDS, at, ENDS) is None
    window = catch_up_window(FEEDS, at, ENDS, most=100)
    assert window is not None
    assert set(window.feeds) == set(TASKS)
    assert window.bounds == {LINES[0]: (80, 90), LINES[1]: (40, 45)}


def test_should_bring_those_behind_up_to_the_front_and_no_further() -> None:
    window = catch_up_window(FEEDS, vectors((90, 40), (80, 40), (85, 40)), ENDS, most=100)
    assert window is not None
    assert set(window.feeds) == {TASKS[1], TASKS[2]}
    assert window.bounds == {LINES[0]: (80, 90)}
    assert catch_up_window(FEEDS, vectors((90, 40), (90, 40), (90, 40)), ENDS, most=100) is None


def test_should_begin_with_those_closest_to_the_front_where_all_are_too_much() -> None:
    window = catch_up_window(FEEDS, vectors((90, 40), (0, 40), (85, 40)), ENDS, most=20)
    assert window is not None
    assert set(window.feeds) == {TASKS[2]}
    assert window.bounds == {LINES[0]: (85, 90)}


def test_should_catch_up_only_with_those_that_can_take_it_now() -> None:
    at = vectors((90, 40), (80, 40), (85, 40))
    window = catch_up_window(FEEDS, at, ENDS, most=100, among={TASKS[0], TASKS[2]})
    assert window is not None
    assert set(window.feeds) == {TASKS[2]}
    assert catch_up_window(FEEDS, at, ENDS, most=100, among=set()) is None


def planned(*at: tuple[int, int], most: int = 1_000) -> Stage:
    stage = plan_stage(PLAN, "p0", catch_up_window(FEEDS, vectors(*at), ENDS, 1_000), vectors(*at), lambda backlog: most)
    assert stage is not None
    return stage


def test_should_plan_a_stage_that_leaves_out_what_some_have_had() -> None:
    stage = planned((90, 40), (80, 40), (85, 40))
    assert str(stage) == "lines-0[80..90)"
    assert (stage.records, stage.backlog, stage.read) == (10, 10, {LINES[0]: 90})
    (work,) = stage.upstream
    assert work.skip == {FED[2]: {LINES[0]: 85}}
    assert stage.expects == {FED[1]: {LINES[0]: 80}, FED[2]: {LINES[0]: 85}}


def test_should_read_no_more_in_a_stage_than_is_allowed() -> None:
    stage = planned((90, 40), (80, 40), (90, 40), most=4)
    assert str(stage) == "lines-0[80..84)"
    assert (stage.records, stage.backlog) == (4, 10)
    assert plan_stage(PLAN, "p0", None, {}, lambda backlog: 4) is None


@pytest.mark.parametrize(
    ("at", "fits"),
    [
        (((90, 40), (80, 40), (85, 40)), True),
        (((90, 40), (80, 45), (85, 40)), True),  # it was not read
        (((90, 40), (79, 40), (85, 40)), False),  # something would be lost
        (((90, 40), (81, 40), (85, 40)), False),  # something would come twice
    ],
)
def test_should_tell_whether_all_stand_where_it_was_read_for(at: tuple[tuple[int, int], ...], fits: bool) -> None:
    stage = planned((90, 40), (80, 40), (85, 40))
    part = StagePart(stage, stage.feeds)
    assert part.fits(vectors(*at)) is fits


def test_should_not_fit_what_is_not_here_any_more_and_fit_without_it() -> None:
    stage = planned((90, 40), (80, 40), (85, 40))
    part = StagePart(stage, stage.feeds)
    left = {partition: at for partition, at in vectors((90, 40), (80, 40), (85, 40)).items() if partition != FED[1]}
    assert not part.fits(left)
    rest = part.without({TASKS[1]})
    assert rest is not None
    assert rest.fits(left)
    assert part.without({TASKS[0]}) is part
    assert rest.without({TASKS[2]}) is None


def test_should_share_what_may_be_read_evenly_and_give_what_one_does_not_need_to_the_others() -> None:
    shared = share({LINES[0]: (0, 100), LINES[1]: (10, 13)}, 20)
    assert list(map(str, shared.values())) == ["lines-0[0..17)", "lines-1[10..13)"]
    assert list(map(str, share({LINES[0]: (0, 9), LINES[1]: (0, 9)}, 1).values())) == ["lines-0[0..1)", "lines-1[0..1)"]

"""What members have, said of the units of the generation that comes."""

from __future__ import annotations

from penstock.client.assignment.assignor import LATEST_OFFSET
from penstock.client.assignment.holdings import in_units
from penstock.client.scheduling.units import units_of
from penstock.ids import TaskId
from penstock.kafka.members import MemberInfo
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology


def subtopology(number: int, topic: str, changelogs: dict[str, str]) -> Subtopology:
    return Subtopology(number, (), {}, (), changelogs, (topic,), (), {}, {})


SHUFFLED = Plan(
    {0: subtopology(0, "lines", {}), 1: subtopology(1, "words", {"counts": "log"}), 2: subtopology(2, "orders", {})},
    {"lines": 2, "words": 2, "orders": 1, "log": 2},
    {"words": 0},
)
PIPELINE, TASKS = units_of(SHUFFLED), units_of(SHUFFLED.shuffling(()))
KNOWN = {**PIPELINE, **TASKS}
ENDS: dict[TaskId, int | None] = {TaskId(1, 0): 10, TaskId(1, 1): 20}


def test_should_leave_alone_what_is_told_of_the_same_units() -> None:
    told = MemberInfo("a", active=("p0", "2_0"), offsets={"p0": LATEST_OFFSET})
    assert in_units([told], PIPELINE, KNOWN, ENDS) == [told]


def test_should_have_all_tasks_of_a_pipeline_where_they_run_when_they_become_units() -> None:
    busy = MemberInfo("a", active=("p0", "2_0"), offsets={"p0": LATEST_OFFSET})
    copied = MemberInfo("b", standby=("p0",), offsets={"p0": 17, "1_0": 10, "1_1": 7})
    found, other = in_units([busy, copied], TASKS, KNOWN, ENDS)
    assert found.active == ("1_0", "1_1", "2_0")
    assert found.offsets == {"1_0": LATEST_OFFSET, "1_1": LATEST_OFFSET}
    assert (other.active, other.standby) == ((), ("1_0", "1_1"))
    assert other.offsets == {"1_0": 10, "1_1": 7}


def test_should_not_guess_how_far_single_tasks_are_where_only_their_sum_is_told() -> None:
    (found,) = in_units([MemberInfo("a", standby=("p0",), offsets={"p0": 17})], TASKS, KNOWN, ENDS)
    assert found.offsets == {}


def test_should_give_a_pipeline_to_who_runs_most_of_its_tasks() -> None:
    some = MemberInfo("a", active=("0_0", "0_1", "1_1"), offsets={"1_1": LATEST_OFFSET, "1_0": 4})
    all_ = MemberInfo("b", active=("1_0", "2_0"), offsets={"1_0": LATEST_OFFSET})
    found, other = in_units([some, all_], PIPELINE, KNOWN, ENDS)
    assert (found.active, other.active) == (("p0",), ("2_0",))
    assert (found.offsets, other.offsets) == ({"p0": 24}, {"p0": 10})


def test_should_know_that_one_has_all_of_it_who_has_all_its_tasks() -> None:
    all_ = MemberInfo("a", active=("0_0", "1_0", "1_1"), offsets={"1_0": LATEST_OFFSET, "1_1": LATEST_OFFSET})
    (found,) = in_units([all_], PIPELINE, KNOWN, ENDS)
    assert (found.active, found.offsets) == (("p0",), {"p0": LATEST_OFFSET})

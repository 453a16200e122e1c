from __future__ import annotations

from penstock.client.scheduling.units import partitions_of, units_of
from penstock.ids import TaskId
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology


def reading(number: int, *topics: str) -> Subtopology:
    return Subtopology(number, (), {}, (), {}, topics, (), {}, {})


def test_should_make_a_unit_of_each_task_that_reads_topics_itself() -> None:
    plan = Plan({0: reading(0, "clicks")}, {"clicks": 2}, {})
    assert units_of(plan) == {"0_0": (TaskId(0, 0),), "0_1": (TaskId(0, 1),)}


def test_should_bind_what_the_same_stage_before_a_shuffle_feeds() -> None:
    """`a.join(b)` and `b.group_by(...).count()`: records of `b` are read once, for both."""
    plan = Plan(
        {0: reading(0, "a"), 1: reading(1, "b"), 2: reading(2, "a-by-key", "b-by-key"), 3: reading(3, "b-counted")},
        {"a": 1, "b": 1, "a-by-key": 1, "b-by-key": 1, "b-counted": 1},
        {"a-by-key": 0, "b-by-key": 1, "b-counted": 1},
    )
    assert units_of(plan) == {"p0": (TaskId(2, 0), TaskId(3, 0))}


def test_should_tell_all_that_is_read_for_tasks_behind_a_shuffle_too() -> None:
    words = "app-words-repartition"
    subtopologies = {0: reading(0, "lines"), 1: reading(1, words)}
    plan = Plan(subtopologies, {"lines": 3, words: 2}, {words: 0})
    assert partitions_of(plan, [TaskId(1, 1)]) == {words: [1], "lines": [0, 1, 2]}
    assert partitions_of(Plan(subtopologies, {"lines": 3, words: 2}, {}), [TaskId(0, 2)]) == {"lines": [2]}


def test_should_bind_over_several_stages_in_whatever_order_they_come() -> None:
    topics = {"a": 1, "b": 1, "c": 1, "d": 1, "t1": 1, "t2": 1, "t3": 1, "t4": 1, "t5": 1}
    plan = Plan(
        {
            **{number: reading(number, topic) for number, topic in enumerate("abcd")},
            4: reading(4, "t1", "t2"),  # fed by c and d
            5: reading(5, "t3", "t4"),  # fed by b and c
            6: reading(6, "t5"),  # fed by a
        },
        topics,
        {"t1": 2, "t2": 3, "t3": 1, "t4": 2, "t5": 0},
    )
    assert units_of(plan) == {"p1": (TaskId(4, 0), TaskId(5, 0)), "p0": (TaskId(6, 0),)}

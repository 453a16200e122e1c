"""Which thread gets which task."""

from penstock.client.assignment.group_assignment import tasks_to_threads
from penstock.ids import TaskId

TASKS = [TaskId(0, p) for p in range(4)]


def test_should_keep_all_tasks_in_one_thread_while_one_is_enough() -> None:
    assert set(tasks_to_threads(TASKS, [0, 1], False, {}).values()) == {0}
    assert set(tasks_to_threads(TASKS, [0, 1], False, dict.fromkeys(TASKS, 1)).values()) == {1}


def test_should_leave_a_thread_that_is_gone() -> None:
    assert set(tasks_to_threads(TASKS, [1, 3], False, dict.fromkeys(TASKS, 0)).values()) == {1}
    before = {TASKS[0]: 0, TASKS[1]: 0, TASKS[2]: 1, TASKS[3]: 1}
    after = tasks_to_threads(TASKS, [1, 2], True, before)
    assert after == {TASKS[0]: 2, TASKS[1]: 2, TASKS[2]: 1, TASKS[3]: 1}


def test_should_spread_over_a_thread_that_has_come_and_move_no_more_than_needed() -> None:
    before = tasks_to_threads(TASKS, [0], True, {})
    after = tasks_to_threads(TASKS, [0, 1], True, before)
    assert sorted(after.values()) == [0, 0, 1, 1]
    again = tasks_to_threads(TASKS, [0, 1, 2, 3, 4], True, after)
    assert len(set(again.values())) == 4  # one thread has nothing to do
    assert len([task for task in TASKS if again[task] == after[task]]) == 2

import pytest

from penstock.client.assignment.assignor import AssignorSettings
from penstock.client.scheduling.placement import KnownState, place
from penstock.ids import TaskId

TASKS = [TaskId(0, p) for p in range(4)]
MUCH = dict.fromkeys(TASKS, 100_000)
ON_A = {task: {"a": 0} for task in TASKS}


def test_should_move_freely_between_threads_of_one_host() -> None:
    found = place(TASKS, {0: "a", 1: "a"}, True, dict.fromkeys(TASKS, 0), KnownState(MUCH, ON_A), AssignorSettings())
    assert sorted(found.owners.values()) == [0, 0, 1, 1]
    assert not found.copies


def test_should_warm_up_on_another_host_before_a_task_moves_there() -> None:
    before = dict.fromkeys(TASKS, 0)
    first = place(TASKS, {0: "a", 1: "b"}, True, before, KnownState(MUCH, ON_A), AssignorSettings())
    assert first.owners == before
    assert first.is_waiting
    assert list(first.copies.values()) == ["b", "b"]
    warm = {task: {"a": 0, **({"b": 3} if task in first.copies else {})} for task in TASKS}
    second = place(TASKS, {0: "a", 1: "b"}, True, before, KnownState(MUCH, warm), AssignorSettings())
    assert {task for task, thread in second.owners.items() if thread == 1} == set(first.copies)
    assert not second.is_waiting


def test_should_run_tasks_of_a_lost_host_where_their_copies_are() -> None:
    copies = {task: {"c": 10} for task in TASKS}
    for spread in (True, False):
        found = place(TASKS, {0: "b", 1: "c"}, spread, {}, KnownState(MUCH, copies), AssignorSettings(standby_replicas=1))
        assert set(found.owners.values()) == {1}
        assert set(found.copies.values()) == {"b"}


def test_should_keep_a_copy_on_another_host() -> None:
    before = {task: task.partition % 2 for task in TASKS}
    lags = {task: {"ab"[task.partition % 2]: 0} for task in TASKS}
    found = place(TASKS, {0: "a", 1: "b"}, True, before, KnownState(MUCH, lags), AssignorSettings(standby_replicas=2))
    assert found.owners == before
    assert found.copies == {task: "ba"[task.partition % 2] for task in TASKS}


def test_should_gather_tasks_when_their_state_is_at_home() -> None:
    before = {task: int(task.partition == 3) for task in TASKS}
    lags = {task: {"ab"[before[task]]: 0} for task in TASKS}
    waiting = place(TASKS, {0: "a", 1: "b"}, False, before, KnownState(MUCH, lags), AssignorSettings())
    assert waiting.owners == before
    assert waiting.copies == {TaskId(0, 3): "a"}
    lags[TaskId(0, 3)]["a"] = 5
    assert set(place(TASKS, {0: "a", 1: "b"}, False, before, KnownState(MUCH, lags), AssignorSettings()).owners.values()) == {0}


def test_should_know_threads_by_their_number() -> None:
    found = place(TASKS, {1: "a", 5: "b"}, True, {**dict.fromkeys(TASKS, 3), TASKS[0]: 5}, KnownState({}, {}), AssignorSettings())
    assert found.owners[TASKS[0]] == 5
    assert sorted(found.owners.values()) == [1, 1, 5, 5]
    assert set(place(TASKS, {1: "a", 5: "b"}, False, {}, KnownState({}, {}), AssignorSettings()).owners.values()) == {1}


def test_should_put_tasks_without_state_anywhere() -> None:
    found = place(
        TASKS, {0: "a", 1: "b"}, True, dict.fromkeys(TASKS, 0), KnownState({}, {}), AssignorSettings(standby_replicas=1)
    )
    assert sorted(found.owners.values()) == [0, 0, 1, 1]
    assert not found.copies


@pytest.mark.parametrize("hosts", [("a", "a", "a"), ("a", "b", "c")])
def test_should_keep_tasks_together_in_the_thread_that_is_preferred(hosts: tuple[str, ...]) -> None:
    """On the executors of the others another application of the session works."""
    tasks = [TaskId(0, partition) for partition in range(3)]
    threads = {thread: hosts[thread] for thread in (2, 0, 1)}
    assert set(place(tasks, threads, False, {}, KnownState({}, {}), AssignorSettings()).owners.values()) == {2}
    assert set(place(tasks, threads, False, dict.fromkeys(tasks, 1), KnownState({}, {}), AssignorSettings()).owners.values()) == {
        1
    }

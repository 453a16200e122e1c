"""`task.assignor.class`: what an assignor of one's own is told, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    ConfigError,
    KafkaStreamsAssignment,
    StickyTaskAssignor,
    StreamsConfig,
    TaskAssignment,
    TaskAssignmentError,
    TaskAssignmentUtils,
    TaskAssignor,
    TaskId,
    TopicPartition,
)
from penstock.client.assignment.group_assignment import GroupAssignor
from penstock.kafka.membership import MemberInfo, Shares
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology


def subtopology(number: int, source: str, changelogs: dict[str, str]) -> Subtopology:
    return Subtopology(number, (), {}, (), changelogs, (source,), (), {}, {})


PLAN = Plan(
    {0: subtopology(0, "clicks", {"counts": "app-counts-changelog"}), 1: subtopology(1, "orders", {})},
    {"clicks": 2, "orders": 2, "app-counts-changelog": 2},
)
BUSY = MemberInfo("a", 2, "here:1", (TaskId(0, 0), TaskId(0, 1)), (), {TaskId(0, 0): -2, TaskId(0, 1): -2}, {"zone": "x"})
IDLE = MemberInfo("b", standby=(TaskId(0, 1),), offsets={TaskId(0, 1): 90})


class Ends:
    def log_ends(self, partitions: Any, committed_only: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)


class Own(TaskAssignor):
    """Answers what it is told to, and remembers what it heard."""

    def __init__(self, answer: Callable[[ApplicationState], TaskAssignment]) -> None:
        self._answer = answer
        self.heard: list[Any] = []

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        self.heard.append(application_state)
        return self._answer(application_state)

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        self.heard.append(error)

    def configure(self, configs: Any) -> None:
        self.heard.append(configs["application.id"])


def ask(assignor: Any, members: Sequence[MemberInfo] = (BUSY, IDLE), plan: Plan = PLAN, **settings: Any) -> Shares:
    config = {"application.id": "app", "bootstrap.servers": "x:1", **settings}
    if assignor is not None:
        config["task.assignor.class"] = assignor
    return GroupAssignor(StreamsConfig(config), Ends(), lambda: plan)(members)  # type: ignore[arg-type]


def all_to(process: str) -> Callable[[ApplicationState], TaskAssignment]:
    """All tasks run on one client, and the others keep copies of what has state."""

    def answer(state: ApplicationState) -> TaskAssignment:
        copies = [AssignedTask.standby(task) for task, info in state.all_tasks.items() if info.is_stateful]
        active = [AssignedTask.active(task) for task in state.all_tasks]
        return TaskAssignment(KafkaStreamsAssignment(p, active if p == process else copies) for p in state.kafka_streams_states)

    return answer


def test_should_tell_an_assignor_of_tasks_clients_and_settings_and_do_as_it_says() -> None:
    own = Own(all_to("b"))
    shares = ask(own, **{"num.standby.replicas": 1})
    assert shares.active == {"a": (), "b": (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1))}
    assert shares.copies == {"a": (TaskId(0, 0), TaskId(0, 1)), "b": ()}
    configured, state, error = own.heard
    assert (configured, error) == ("app", AssignmentError.NONE)
    task = state.all_tasks[TaskId(0, 1)]
    assert (task.is_stateful, task.state_store_names) == (True, {"counts"})
    assert {(p.topic_partition.topic, p.is_source, p.is_changelog) for p in task.topic_partitions} == {
        ("clicks", True, False),
        ("app-counts-changelog", False, True),
    }
    busy, idle = state.kafka_streams_states["a"], state.kafka_streams_states["b"]
    assert (busy.num_processing_threads, busy.host_info, busy.client_tags) == (2, "here:1", {"zone": "x"})
    assert (busy.previous_active_tasks, idle.previous_standby_tasks) == ({TaskId(0, 0), TaskId(0, 1)}, {TaskId(0, 1)})
    assert (busy.lag_for(TaskId(0, 0)), idle.lag_for(TaskId(0, 0)), idle.lag_for(TaskId(0, 1))) == (-2, 100, 10)
    assert state.assignment_configs.num_standby_replicas == 1


def test_should_deal_out_as_without_it_while_an_assignor_cannot_decide() -> None:
    def later(state: ApplicationState) -> TaskAssignment:
        raise TaskAssignmentError("not yet")

    assert sorted(task for tasks in ask(Own(later)).active.values() for task in tasks) == [
        TaskId(0, 0),
        TaskId(0, 1),
        TaskId(1, 0),
        TaskId(1, 1),
    ]


def test_should_look_again_where_an_assignor_asks_for_it() -> None:
    def later(state: ApplicationState) -> TaskAssignment:
        return TaskAssignment(a.with_followup_rebalance() for a in all_to("a")(state).assignment)

    assert ask(Own(later)).probing
    assert not ask(Own(all_to("a"))).probing


@pytest.mark.parametrize(
    ("tasks", "error"),
    [
        ({"a": ["active 0_0"], "b": ["active 0_0"]}, "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"),
        ({"a": ["standby 1_0"], "b": []}, "INVALID_STANDBY_TASK"),
        ({"a": []}, "MISSING_PROCESS_ID"),
        ({"a": [], "b": [], "c": []}, "UNKNOWN_PROCESS_ID"),
        ({"a": ["active 7_7"], "b": []}, "UNKNOWN_TASK_ID"),
    ],
)
def test_should_refuse_what_cannot_be(tasks: dict[str, list[str]], error: str) -> None:
    def assigned(text: str) -> AssignedTask:
        kind, _, name = text.partition(" ")
        return AssignedTask(TaskId.parse(name), AssignedTask.Type[kind.upper()])

    own = Own(lambda state: TaskAssignment(KafkaStreamsAssignment(p, map(assigned, texts)) for p, texts in tasks.items()))
    with pytest.raises(ConfigError, match=error):
        ask(own)
    assert own.heard[-1] is AssignmentError[error]


def test_should_say_which_assignor_failed() -> None:
    with pytest.raises(ConfigError, match=r"Own failed to assign 4 tasks: ZeroDivisionError") as caught:
        ask(Own(lambda state: 1 / 0))  # type: ignore[arg-type,return-value]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_should_end_the_membership_where_an_assignor_fails_after_its_answer() -> None:
    class Unheard(Own):
        def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
            raise ZeroDivisionError

    with pytest.raises(ConfigError, match=r"on_assignment_computed of Unheard failed") as caught:
        ask(Unheard(all_to("a")))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    "named",
    [
        StickyTaskAssignor,
        StickyTaskAssignor(),
        "penstock.StickyTaskAssignor",
        "penstock.client.assignment.task_assignor:StickyTaskAssignor",
    ],
)
def test_should_share_out_at_once_where_lags_do_not_count(named: Any) -> None:
    members = [
        MemberInfo("a", active=(TaskId(0, 0), TaskId(0, 1)), offsets={TaskId(0, 0): -2, TaskId(0, 1): -2}),
        MemberInfo("b"),
    ]
    settings = {"acceptable.recovery.lag": 0}
    eager, careful = ask(named, members, **settings), ask(None, members, **settings)
    assert {process: sum(task.subtopology == 0 for task in tasks) for process, tasks in eager.active.items()} == {"a": 1, "b": 1}
    assert set(careful.active["a"]) >= {TaskId(0, 0), TaskId(0, 1)}


@pytest.mark.parametrize("named", [object(), "no_module_of_that_name.Assignor", int, "Unknown"])
def test_should_say_what_is_no_assignor(named: Any) -> None:
    with pytest.raises(ConfigError, match=r"task\.assignor\.class"):
        ask(named)


def test_should_add_copies_where_there_is_least_to_do() -> None:
    own = Own(all_to("a"))
    ask(own, [BUSY, IDLE, MemberInfo("c")], **{"num.standby.replicas": 1})
    state = own.heard[1]
    before = TaskAssignmentUtils.identity_assignment(state)
    assert before["a"].of_type(AssignedTask.Type.ACTIVE) == {TaskId(0, 0), TaskId(0, 1)}
    before["b"].remove_task(AssignedTask.standby(TaskId(0, 1)))
    TaskAssignmentUtils.default_standby_task_assignment(state, before)
    assert [before[p].of_type(AssignedTask.Type.STANDBY) for p in "abc"] == [set(), {TaskId(0, 0)}, {TaskId(0, 1)}]

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.assignment.group_assignment import GroupAssignor, member_tags, tasks_to_threads
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import MemberInfo
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology


def subtopology(number: int, source: str, changelogs: dict[str, str]) -> Subtopology:
    return Subtopology(number, (), {}, (), changelogs, (source,), (), {}, {})


PLAN = Plan(
    {0: subtopology(0, "clicks", {"counts": "app-counts-changelog"}), 1: subtopology(1, "orders", {})},
    {"clicks": 2, "orders": 2, "app-counts-changelog": 2},
)
TASKS = PLAN.tasks()


class Ends:
    """Brokers that know the ends of changelogs, or nothing."""

    def __init__(self, end: int | None, racks: dict[TopicPartition, frozenset[str]] | None = None) -> None:
        self._end = end
        self._racks = racks

    def racks(self, topics: Any) -> dict[TopicPartition, frozenset[str]]:
        if self._racks is None:
            raise BrokerError("nobody there")
        return {p: racks for p, racks in self._racks.items() if p.topic in topics}

    def log_ends(self, partitions: Any, committed_only: bool) -> dict[TopicPartition, int]:
        if self._end is None:
            raise BrokerError("nobody there")
        return dict.fromkeys(partitions, self._end)


def assignor(end: int | None, racks: dict[TopicPartition, frozenset[str]] | None = None, **config: Any) -> GroupAssignor:
    given = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", **config})
    return GroupAssignor(given, Ends(end, racks), lambda: PLAN)  # type: ignore[arg-type]


def test_should_know_the_changelogs_of_tasks() -> None:
    assert PLAN.changelogs(TaskId(0, 1)) == {TopicPartition("app-counts-changelog", 1): "counts"}
    assert PLAN.is_stateful(TaskId(0, 0))
    assert not PLAN.is_stateful(TaskId(1, 0))


def test_should_share_out_what_is_small_at_once() -> None:
    busy = MemberInfo("a", active=tuple(TASKS), offsets={TaskId(0, 0): -2, TaskId(0, 1): -2})
    found = assignor(100)([busy, MemberInfo("b")])
    assert {process: len(tasks) for process, tasks in found.active.items()} == {"a": 2, "b": 2}
    assert not found.probing


def test_should_warm_up_what_is_large_and_move_it_when_it_has_caught_up() -> None:
    busy = MemberInfo("a", active=tuple(TASKS), offsets={TaskId(0, 0): -2, TaskId(0, 1): -2})
    found = assignor(1_000_000)([busy, MemberInfo("b")])
    assert set(found.active["a"]) >= {TaskId(0, 0), TaskId(0, 1)}
    assert found.probing
    (copy,) = found.copies["b"]
    again = assignor(1_000_000)(
        [
            MemberInfo("a", active=tuple(found.active["a"]), offsets={TaskId(0, 0): -2, TaskId(0, 1): -2}),
            MemberInfo("b", active=tuple(found.active["b"]), standby=(copy,), offsets={copy: 999_990}),
        ]
    )
    assert copy in again.active["b"]
    assert not again.probing


def test_should_leave_state_where_it_is_while_nobody_knows_how_much_there_is() -> None:
    busy = MemberInfo("a", active=tuple(TASKS), offsets={TaskId(0, 0): -2, TaskId(0, 1): -2})
    found = assignor(None)([busy, MemberInfo("b")])
    assert set(found.active["a"]) >= {TaskId(0, 0), TaskId(0, 1)}


def test_should_take_state_that_is_further_than_the_log_for_nothing() -> None:
    strange = MemberInfo("a", standby=(TaskId(0, 0), TaskId(0, 1)), offsets={TaskId(0, 0): 5_000_000, TaskId(0, 1): 5_000_000})
    good = MemberInfo("b", standby=(TaskId(0, 0), TaskId(0, 1)), offsets={TaskId(0, 0): 999_999, TaskId(0, 1): 999_999})
    found = assignor(1_000_000)([strange, good])
    assert {TaskId(0, 0), TaskId(0, 1)} <= set(found.active["b"])


def test_should_keep_copies_by_tags() -> None:
    config = {"num.standby.replicas": 1, "client.tag.zone": "x", "rack.aware.assignment.tags": "zone"}
    members = [MemberInfo(name, tags={"zone": zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    found = assignor(100, **config)(members)
    zone = {"a": "x", "b": "x", "c": "y"}
    for task in (TaskId(0, 0), TaskId(0, 1)):
        runs = next(process for process, tasks in found.active.items() if task in tasks)
        (copy,) = (process for process, tasks in found.copies.items() if task in tasks)
        assert zone[runs] != zone[copy]


def test_should_gather_tasks_in_one_thread_and_spread_them_again() -> None:
    tasks = PLAN.tasks()
    together = tasks_to_threads(tasks, [0, 1], False, {})
    assert set(together.values()) == {0}
    spread = tasks_to_threads(tasks, [0, 1], True, together)
    assert sorted(spread.values()) == [0, 0, 1, 1]
    assert tasks_to_threads(tasks, [0, 1], True, spread) == spread


told_tasks = st.sampled_from([*TASKS, TaskId(9, 9)])
told_infos = st.builds(
    MemberInfo,
    st.text(min_size=1, max_size=5),
    st.integers(0, 10_000),
    active=st.lists(told_tasks).map(tuple),
    standby=st.lists(told_tasks).map(tuple),
    offsets=st.dictionaries(told_tasks, st.integers(-(2**63), 2**63)),
    tags=st.dictionaries(st.sampled_from(["zone", "other"]), st.text(max_size=3)),
)


@given(st.lists(told_infos, min_size=1, max_size=5, unique_by=lambda info: info.process_id), st.sampled_from([0, 100, 10**6]))
def test_should_deal_out_every_task_once_whatever_members_tell(infos: list[MemberInfo], end: int) -> None:
    tags = {"client.tag.zone": "a", "rack.aware.assignment.tags": "zone", "num.standby.replicas": 1}
    found = assignor(end, **tags)(infos)
    assert sorted(task for tasks in found.active.values() for task in tasks) == sorted(TASKS)


FAR = {TopicPartition(t, p): frozenset({f"r{1 - p}"}) for t in ("clicks", "orders") for p in (0, 1)}
IN_RACKS = [
    MemberInfo(f"m{n}", active=(TaskId(0, n), TaskId(1, n)), offsets={TaskId(0, n): -2}, tags={"client.rack": f"r{n}"})
    for n in (0, 1)
]
NEAR = {"rack.aware.assignment.strategy": "balance_subtopology"}


def test_should_let_tasks_go_where_their_partitions_are() -> None:
    assert assignor(100, FAR)(IN_RACKS).active == {"m0": (TaskId(0, 0), TaskId(1, 0)), "m1": (TaskId(0, 1), TaskId(1, 1))}
    assert assignor(100, FAR, **NEAR)(IN_RACKS).active == {"m0": (TaskId(0, 1), TaskId(1, 1)), "m1": (TaskId(0, 0), TaskId(1, 0))}


def test_should_not_count_racks_that_are_not_known(caplog: Any) -> None:
    as_they_are = {"m0": (TaskId(0, 0), TaskId(1, 0)), "m1": (TaskId(0, 1), TaskId(1, 1))}
    without = [replace(IN_RACKS[0], tags={}), IN_RACKS[1]]
    for infos, racks, said in [
        (without, FAR, "instances m0 have no client.rack"),
        (IN_RACKS, {}, "have no broker.rack"),
        (IN_RACKS, None, "reading the replicas' racks failed"),
    ]:
        caplog.clear()
        assert assignor(100, racks, **NEAR)(infos).active == as_they_are
        assert said in caplog.text


def test_should_need_the_racks_of_changelogs_for_copies_alone() -> None:
    copies = NEAR | {"num.standby.replicas": 1}
    assert assignor(100, FAR, **copies)(IN_RACKS).active["m0"] == (TaskId(0, 0), TaskId(1, 0))
    known = FAR | {TopicPartition("app-counts-changelog", p): frozenset({"r0"}) for p in (0, 1)}
    assert assignor(100, known, **copies)(IN_RACKS).active["m0"] == (TaskId(0, 1), TaskId(1, 1))


def test_should_tell_the_group_the_rack_of_its_consumers() -> None:
    config = {"application.id": "app", "bootstrap.servers": "x:1", "client.tag.zone": "z"}
    assert member_tags(StreamsConfig(config)) == {"zone": "z"}
    assert member_tags(StreamsConfig({**config, "client.rack": "r1"})) == {"zone": "z", "client.rack": "r1"}
    assert member_tags(StreamsConfig({**config, "consumer.client.rack": "r2"}))["client.rack"] == "r2"


def test_should_know_what_tasks_read() -> None:
    assert PLAN.inputs(TaskId(0, 1)) == [TopicPartition("clicks", 1)]

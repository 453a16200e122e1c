from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.client.reset.application_reset import ResetPlan, carry_out, plan_reset
from penstock.client.reset.reset_offsets import (
    by_duration,
    from_file,
    parse_duration,
    shift_by,
    to_datetime,
    to_earliest,
    to_latest,
    to_offset,
)
from penstock.clock import ManualClock
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError, StreamsError
from penstock.ids import TopicPartition
from penstock.kafka.groups import GroupStatus, MemberStatus

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
INTERNAL = TopicPartition("shop-words-repartition", 0)
MEMBER = MemberStatus("m-1", "shop-1-consumer", "host-1", "process-1", 2, ("p0",))


class FakeAdmin:
    """Logs from 10 to 100; a record every millisecond."""

    topics = {"a": 2, "b": 1, "shop-words-repartition": 1, "shop-counts-changelog": 1, "shopping-x-changelog": 1}  # noqa: RUF012

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.deleted: set[str] = set()

    def partition_counts(self) -> dict[str, int]:
        return {topic: count for topic, count in self.topics.items() if topic not in self.deleted}

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, timestamp_ms)

    def delete_topics(self, names: Iterable[str]) -> None:
        self.deleted.update(names)
        self.calls.append(("delete topics", list(names)))


class FakeGroups:
    def __init__(self, calls: list[Any], members: tuple[MemberStatus, ...] = (), others: Iterable[str] = ()) -> None:
        self.calls = calls
        self.members = members
        self.others = others

    def status(self, group: str) -> GroupStatus:
        return GroupStatus("Stable" if self.members else "Empty", self.members)

    def names(self) -> list[str]:
        return ["shop", "shopping", *self.others]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        return {A0: 50, A1: 60, INTERNAL: 0} if group == "shop" else {}

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append(("delete offsets", list(partitions)))

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append(("set offsets", dict(offsets)))

    def remove_members(self, group: str, members: Iterable[MemberStatus]) -> None:
        self.calls.append(("remove", [member.member_id for member in members]))


@pytest.fixture
def calls() -> list[Any]:
    return []


@pytest.fixture
def config(tmp_path: Path) -> StreamsConfig:
    return StreamsConfig({"application.id": "shop", "bootstrap.servers": "x:1", "state.dir": str(tmp_path)})


def plan(config: StreamsConfig, choose: Any = to_earliest, members: tuple[MemberStatus, ...] = (), **options: Any) -> ResetPlan:
    return plan_reset(config, FakeAdmin([]), FakeGroups([], members), choose, **options)  # type: ignore[arg-type]


def test_should_plan_for_everything_the_application_has_read(config: StreamsConfig) -> None:
    found = plan(config)
    assert found.internal_topics == ("shop-counts-changelog", "shop-words-repartition")
    assert found.forgotten == (INTERNAL,)
    assert found.offsets == {A0: 10, A1: 10}
    assert found.before == {A0: 50, A1: 60}
    assert found.state_folder is None


@pytest.mark.parametrize(
    ("choose", "offset"),
    [
        (to_latest, 100),
        (to_offset(20), 20),
        (to_offset(3), 10),
        (to_offset(500), 100),
        (shift_by(-5), 45),
        (shift_by(-45), 10),
        (to_datetime("1970-01-01T00:00:00.070"), 70),
        (to_datetime("1970-01-01T01:00:00.070+01:00"), 70),
        (to_datetime("1970-01-01T00:00:00.070Z"), 70),
        (by_duration("PT0.02S", ManualClock(90)), 70),
    ],
)
def test_should_offer_the_scenarios_of_kafkas_tool_within_the_log(config: StreamsConfig, choose: Any, offset: int) -> None:
    assert plan(config, choose).offsets[A0] == offset


def test_should_take_offsets_from_a_file(config: StreamsConfig, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("a,1,33\nother,0,5\n")
    assert plan(config, from_file(file)).offsets == {A1: 33}


def test_should_leave_partitions_alone_that_cannot_be_shifted(config: StreamsConfig) -> None:
    assert plan(config, shift_by(1), input_topics=["a", "b"]).offsets == {A0: 51, A1: 61}


def test_should_refuse_topics_that_are_not_there(config: StreamsConfig) -> None:
    with pytest.raises(ConfigError, match="no input topic nope"):
        plan(config, input_topics=["nope"])
    with pytest.raises(ConfigError, match="no internal topic orders"):
        plan(config, internal_topics=["orders"])


def test_should_delete_only_the_internal_topics_named(config: StreamsConfig) -> None:
    assert plan(config, internal_topics=["shop-counts-changelog"]).internal_topics == ("shop-counts-changelog",)


def test_should_leave_topics_of_an_application_whose_name_begins_with_this_ones(config: StreamsConfig, tmp_path: Path) -> None:
    admin = FakeAdmin([])
    admin.topics = {**admin.topics, "shop-eu-counts-changelog": 1, "shop-us-counts-changelog": 1, "shop-my-counts-changelog": 1}
    (tmp_path / "shop" / "1_0" / "rocksdb" / "my-counts").mkdir(parents=True)
    groups = FakeGroups([], others=["shop-eu"])
    found = plan_reset(config, admin, groups, to_earliest)  # type: ignore[arg-type]
    assert found.internal_topics == ("shop-counts-changelog", "shop-my-counts-changelog", "shop-words-repartition")
    assert found.left == {"shop-eu-counts-changelog": "shop-eu", "shop-us-counts-changelog": None}
    calls: list[Any] = []
    with pytest.raises(StreamsError, match="shop-us-counts-changelog may belong to"):
        carry_out(found, config, FakeAdmin(calls), FakeGroups(calls), force=True)  # type: ignore[arg-type]
    assert calls == []
    named = plan_reset(config, admin, groups, to_earliest, internal_topics=["shop-us-counts-changelog"])  # type: ignore[arg-type]
    assert (named.internal_topics, named.left) == (("shop-us-counts-changelog",), {})
    assert INTERNAL not in named.offsets  # though it is not deleted, it is no input


def test_should_carry_out_the_plan_in_order(config: StreamsConfig, calls: list[Any], tmp_path: Path) -> None:
    (tmp_path / "shop" / "0_0").mkdir(parents=True)
    carry_out(plan(config), config, FakeAdmin(calls), FakeGroups(calls))  # type: ignore[arg-type]
    assert calls == [
        ("delete offsets", [INTERNAL]),
        ("delete topics", ["shop-counts-changelog", "shop-words-repartition"]),
        ("set offsets", {A0: 10, A1: 10}),
    ]
    assert not (tmp_path / "shop" / "0_0").exists()


def test_should_refuse_while_members_are_active_unless_forced(config: StreamsConfig, calls: list[Any]) -> None:
    active = plan(config, members=(MEMBER,))
    with pytest.raises(StreamsError, match=r"1 active member\(s\) on host-1"):
        carry_out(active, config, FakeAdmin(calls), FakeGroups(calls))  # type: ignore[arg-type]
    assert calls == []
    carry_out(active, config, FakeAdmin(calls), FakeGroups(calls), force=True)  # type: ignore[arg-type]
    assert calls[0] == ("remove", ["m-1"])


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "PT5", "P1W"])
def test_should_refuse_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="PnDTnHnMnS"):
        parse_duration(text)


def test_should_refuse_what_is_no_time_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a time"):
        to_datetime("tomorrow")
    (tmp_path / "bad.csv").write_text("a,b\n")
    with pytest.raises(ConfigError, match="topic,partition,offset"):
        from_file(tmp_path / "bad.csv")
    with pytest.raises(ConfigError, match=r"none\.csv"):
        from_file(tmp_path / "none.csv")

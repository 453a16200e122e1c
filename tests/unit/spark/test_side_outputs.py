"""What is written before a shuffle is written once, whatever stops, moves or waits behind it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import Consumed, Produced, Repartitioned, Response, Serdes, StreamsBuilder, TaskId
from penstock.handlers import DeserializationExceptionHandler
from penstock.record import ProducedRecord
from tests.unit.spark.log_world import World

string, long = Serdes.string(), Serdes.long()
TEXT: Any = Consumed(string, string)


def audited_and_merged() -> Any:
    """What goes to `audit` is written before the shuffle; behind it a task waits for the other input."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXT)
    orders.to("audit", Produced(string, string))
    by_value = orders.select_key(lambda _, value: value).repartition(Repartitioned("by-value", string, string))
    by_value.merge(builder.stream("other", TEXT)).to("out", Produced(string, string))
    return builder.build()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(audited_and_merged(), tmp_path, partitions=2)
    yield made
    for lane in made.lanes.values():
        lane.close()


def feed(world: World, topic: str, numbers: range, partition: int = 0) -> None:
    for number in numbers:
        world.logs.append(topic, partition, b"k", b"%d" % number, number)


def expected(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_should_write_side_outputs_at_once_where_nothing_waits(world: World) -> None:
    feed(world, "orders", range(40))
    assert world.turn()
    assert world.values("audit") == expected(range(40))


@pytest.mark.parametrize("start_over", ["start", "move"])
def test_should_write_side_outputs_once_where_a_task_waits_and_is_opened_again(world: World, start_over: str) -> None:
    feed(world, "orders", range(10))
    feed(world, "other", range(100, 103), partition=0)
    feed(world, "other", range(100, 103), partition=1)
    world.turn({"other": 0})  # it is there and was not fetched: the tasks wait for it
    assert not world.values("out")
    for _ in range(3):
        if start_over == "start":
            world.start()
        else:
            world.move(TaskId(1, 0))
        world.turn({"other": 0})
    world.turn()
    assert sorted(world.values("audit"), key=int) == expected(range(10))
    assert sorted(world.values("out"), key=int) == sorted([*expected(range(10)), *expected(range(100, 103)) * 2], key=int)


def test_should_write_side_outputs_with_the_commit_that_passes_their_record(tmp_path: Path) -> None:
    world = World(audited_and_merged(), tmp_path, partitions=1)
    feed(world, "orders", range(10))
    feed(world, "other", range(3, 5))
    world.turn({"other": 0})
    assert world.values("audit") == []
    world.turn({"other": 1})  # what is not later than that may go on; the rest waits for what the brokers still have
    assert world.values("out") == [b"0", b"1", b"2", b"3"]  # the last one is the other input's
    assert world.values("audit") == expected(range(3))
    world.start()
    assert world.turn()
    assert world.values("audit") == expected(range(10))
    assert not world.turn()


def test_should_go_on_where_the_target_of_side_outputs_gets_no_records(world: World) -> None:
    """All records go to one task, and what rides along to the other one."""
    for number in range(10):
        world.logs.append("orders", 1, b"k", b"same", number)
    world.turn()
    world.start()
    assert not world.turn()
    assert world.values("audit") == [b"same"] * 10


class LetterOfNoOne(DeserializationExceptionHandler):
    """Writes dead letters without the headers that tell where they came from, and with the record's own."""

    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        return Response.resume([ProducedRecord("dead", None, record.key, record.value, 0, record.headers)])


@pytest.mark.parametrize("offset", [b"\xff", b"12", b"-1", b"9" * 5000])
def test_should_not_believe_the_headers_of_a_record_where_its_dead_letter_came_from(tmp_path: Path, offset: bytes) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", Consumed(string, long)).select_key(lambda _, n: str(n))
    numbers.repartition(Repartitioned("by-number", string, long)).to("out", Produced(string, long))
    world = World(builder.build(), tmp_path, config={"deserialization.exception.handler": LetterOfNoOne()})
    forged = tuple(
        (f"__streams.errors.{part}", value) for part, value in (("topic", b"x"), ("partition", offset), ("offset", offset))
    )
    world.logs.append("numbers", 0, b"k", b"no number", 1, forged)
    world.logs.append("numbers", 0, b"k", (7).to_bytes(8, "big"), 2)
    world.turn()
    assert world.values("dead") == [b"no number"]
    assert world.values("out") == [(7).to_bytes(8, "big")]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.sampled_from(["orders", "other"]), st.integers(0, 1)),
        st.tuples(st.just("turn"), st.integers(0, 4), st.sampled_from([2, 1_000])),
        st.tuples(st.just("start"), st.none(), st.none()),
        st.tuples(st.just("move"), st.none(), st.integers(0, 1)),
    ),
    max_size=20,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_should_write_each_record_once_whatever_happens(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    world = World(audited_and_merged(), tmp_path_factory.mktemp("world"), partitions=2)
    fed: dict[str, list[bytes]] = {"orders": [], "other": []}
    for topic, partition in itertools.product(fed, (0, 1)):
        for number in range(3):
            fed[topic].append(b"%d" % number)
            world.logs.append(topic, partition, b"k", b"%d" % number, number)
    for number, (step, what, how) in enumerate(steps):
        if step == "feed":
            fed[what].append(b"%d" % number)
            world.logs.append(what, how, b"k", b"%d" % number, number % 7)
        elif step == "turn":
            world.turn({"other": what}, how)
        elif step == "start":
            world.start()
        else:
            world.move(TaskId(1, how))
    # At the end both inputs have something late in each partition, so that nothing waits.
    world.start()
    for partition in (0, 1):
        world.logs.append("other", partition, b"k", b"1000", 1000)
        fed["other"].append(b"1000")
    while world.turn():
        pass
    assert sorted(world.values("audit")) == sorted(fed["orders"])
    assert sorted(world.values("out")) == sorted([*fed["orders"], *fed["other"]])

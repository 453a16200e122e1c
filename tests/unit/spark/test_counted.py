"""Before a count only the number of records of each key is sent, and no value: whatever its serde is, the count is the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, DeserializationError, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from tests.unit.spark.crash_world import Brokers, Form, Instance

string, long = Serdes.string(), Serdes.long()

# Any two values, with the serde they are of.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "string": (string, "", "text"),
    "long": (long, 0, 2**60),
    "integer": (Serdes.integer(), 0, -7),
    "short": (Serdes.short(), 0, 7),
    "double": (Serdes.double(), 0.0, 0.5),
    "float": (Serdes.float(), 0.0, 0.5),
    "boolean": (Serdes.boolean(), False, True),
    "bytes": (Serdes.bytes(), b"", b"\x00\xff"),
    "byte-buffer": (Serdes.byte_buffer(), memoryview(b""), memoryview(b"x")),
    "uuid": (Serdes.uuid(), uuid.UUID(int=0), uuid.UUID(int=7)),
    "json": (Serdes.json(), {}, {"a": [1, None]}),
    "list": (Serdes.list_of(long), [], [1, None, 2]),
}


def counting(serde: Any, key_serde: Any = string, key_of: Callable[[str, Any], Any] = lambda key, _: key[0]) -> Any:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(string, serde)).group_by(key_of, Grouped(key_serde=key_serde, value_serde=serde))
    grouped.count(Materialized("counts", key_serde, long)).to_stream().to("out", Produced(key_serde, long))
    return builder.build()


class World:
    """One instance over brokers in memory."""

    def __init__(self, topology: Any, folder: Path, form: Form, config: dict[str, Any] | None = None) -> None:
        self.logs = Brokers.of(topology, 2)
        self.instance = Instance(topology, self.logs, folder, config=config or {}, form=form)
        assert self.instance.plan.counted == (set() if form is Form.RECORDS else self.instance.plan.repartition_topics)

    def run(self) -> None:
        try:
            self.instance.run()
        finally:
            self.instance.die()


@pytest.fixture(params=Form)
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


def totals(world: World) -> dict[bytes | None, int]:
    """The last count of each key."""
    found = {}
    for key, value in world.logs.values("out"):
        found[key] = int.from_bytes(value or b"", "big")
    return found


@pytest.mark.parametrize("records", [10, 100])
@pytest.mark.parametrize("name", VALUES)
def test_should_count_values_of_any_serde(name: str, records: int, form: Form, tmp_path: Path) -> None:
    serde, *values = VALUES[name]
    world = World(counting(serde), tmp_path, form)
    for number in range(records):
        world.logs.append("in", number % 2, b"ab"[number % 2 :], serde.serializer("in", values[number // 2 % 2]), number)
        world.logs.append("in", number % 2, b"c", None, number)  # nothing to count
    world.run()
    assert totals(world) == {b"a": records // 2, b"b": records // 2}


def test_should_count_by_keys_of_any_serde(form: Form, tmp_path: Path) -> None:
    for name, (serde, first, second) in VALUES.items():
        if name in ("json", "list", "byte-buffer"):
            continue  # these give back something that cannot be a key of a mapping
        world = World(counting(string, serde, lambda key, _, pair=(first, second): pair[key == "b"]), tmp_path / name, form)
        for number in range(100):
            world.logs.append("in", number % 2, b"ab"[number % 2 :][:1], b"v", number)
        world.run()
        assert totals(world) == {serde.serializer("out", first): 50, serde.serializer("out", second): 50}


@pytest.mark.parametrize("records", [10, 100])
def test_should_not_count_nothing_where_a_serde_writes_something_for_it(records: int, form: Form, tmp_path: Path) -> None:
    """As Kafka Streams does, whose count reads None from what was written."""
    writing_null = Serdes.serde(lambda _, value: json.dumps(value).encode(), lambda _, data: json.loads(data or b"null"))
    world = World(counting(writing_null), tmp_path, form)
    for number in range(records):
        world.logs.append("in", number % 2, b"a", b"null" if number % 2 else b"1", number)
    world.run()
    assert totals(world) == {b"a": records // 2}


def never_b(topic: str, data: bytes | None) -> str | None:
    if data == b"b":
        raise ValueError("b is not read")
    return None if data is None else data.decode()


@pytest.mark.parametrize("records", [10, 100])
@pytest.mark.parametrize("handler", ["log_and_continue", "log_and_fail"])
def test_should_ask_the_handler_about_keys_that_cannot_be_read(handler: str, records: int, form: Form, tmp_path: Path) -> None:
    odd = Serdes.serde(string.serializer, never_b)
    world = World(counting(string, odd), tmp_path, form, config={"deserialization.exception.handler": handler})
    for number in range(records):
        world.logs.append("in", number % 2, b"ab"[number % 2 :][:1], b"v", number)
    if handler == "log_and_fail":
        with pytest.raises(DeserializationError, match="repartition"):
            world.run()
    else:
        world.run()
        assert totals(world) == {b"a": records // 2}

"""What went over the edges of a topology, record by record and as columns, and what ended as a dead letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Consumed, Produced, StreamsBuilder
from penstock.metrics.registry import Metrics
from penstock.runtime.flow import Flow

from .harness import STRING, Harness, config

SOURCE, MAP, FILTER, SINK = (
    "KSTREAM-SOURCE-0000000000",
    "KSTREAM-MAPVALUES-0000000001",
    "KSTREAM-FILTER-0000000002",
    "KSTREAM-SINK-0000000003",
)


def parsed(value: str) -> str:
    return str(int(value))


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed(STRING, STRING)).map_values(parsed)
    numbers.filter(lambda _, value: int(value) % 2 == 0).to("out", Produced(STRING, STRING))
    settings = {
        "processing_exception_handler": "log_and_continue",
        "errors_dead_letter_queue_topic_name": "dead",
    }
    harness = Harness(builder.build(), tmp_path, config(**settings))
    harness.metrics = Metrics("INFO", clock=harness.clock)
    harness.open()
    return harness


def taken(harness: Harness) -> Flow:
    flow = Flow()
    flow.take(harness.task.topology.nodes)
    flow.take_dead_letters(harness.task.collector)
    return flow


def process(harness: Harness, columns: bool) -> None:
    if columns:
        harness.process_in_batches()
        return
    while harness.task.process():
        pass


@pytest.mark.parametrize("columns", [False, True], ids=["records", "columns"])
@pytest.mark.parametrize("count", [10, 200])
def test_should_count_records_by_edge(harness: Harness, count: int, columns: bool) -> None:
    harness.add("in", *((f"{n}", f"{n}", n) for n in range(count)))
    process(harness, columns)
    assert taken(harness).edges == {(SOURCE, MAP): count, (MAP, FILTER): count, (FILTER, SINK): count // 2}
    assert not taken(harness), "what was taken is not told again"


@pytest.mark.parametrize("columns", [False, True], ids=["records", "columns"])
@pytest.mark.parametrize("count", [10, 200])
def test_should_tell_of_dead_letters_and_keep_the_last_of_them(
    harness: Harness, count: int, columns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    harness.add("in", *((f"{n}", "seven" if n < count - 2 else "8", n) for n in range(count)))
    process(harness, columns)
    flow = taken(harness)
    assert (flow.dead, len(flow.dead_letters)) == (count - 2, min(count - 2, 20))
    last = flow.dead_letters[-1]
    assert (last.to, last.topic, last.partition, last.offset, last.exception) == ("dead", "in", 1, count - 3, "ValueError")
    assert last.message is not None
    assert "seven" in last.message
    assert flow.edges[FILTER, SINK] == 2
    logged = [record for record in caplog.records if record.name == "penstock.dead_letters"]
    assert {record.levelname for record in logged} == {"WARNING"}
    origin = f"the record at in-1 @ {count - 3} went to the dead letter topic dead: ValueError: "
    assert logged[-1].getMessage().startswith(origin)
    assert logged[-1].getMessage().endswith(last.message)
    assert len(logged) == len(flow.dead_letters) + (count > 22)
    total = Flow()
    total.add(flow)
    total.add(flow)
    assert (total.dead, total.edges[FILTER, SINK]) == (2 * (count - 2), 4)

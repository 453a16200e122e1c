from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StreamsError
from penstock.processor import Processor
from penstock.topology.topology import Topology

from .harness import Harness, config, pipeline


def partitioned(partitioner: Any) -> Topology:
    return Topology().add_source("source", "in").add_sink("sink", "out", "source", partitioner=partitioner)


def run(topology: Topology, folder: Path, partitions: dict[str, int] | None = None, **settings: Any) -> Harness:
    harness = Harness(topology, folder, config(**settings))
    harness.topic_partitions = {"out": 4} if partitions is None else partitions
    harness.open()
    harness.add("in", ("a", "x", 1))
    harness.task.process_all()
    harness.commit()
    return harness


def test_should_leave_the_partition_to_the_producer_by_default(tmp_path: Path) -> None:
    harness = run(partitioned(None), tmp_path, {})
    assert [(record.topic, record.partition) for record in harness.outputs] == [("out", None)]


def test_should_ask_the_partitioner_with_objects_and_the_number_of_partitions(tmp_path: Path) -> None:
    asked: list[Any] = []

    def choose(topic: str, key: Any, value: Any, count: int) -> int:
        asked.append((topic, key, value, count))
        return 3

    assert [record.partition for record in run(partitioned(choose), tmp_path).outputs] == [3]
    assert asked == [("out", "a", "x", 4)]


@pytest.mark.parametrize(("chosen", "expected"), [(None, [None]), ([2], [2]), ({0, 1, 2}, [0, 1, 2]), (2, [2])])
def test_should_send_to_all_partitions_the_partitioner_names(tmp_path: Path, chosen: Any, expected: list[Any]) -> None:
    outputs = run(partitioned(lambda *_: chosen), tmp_path).outputs
    assert [record.partition for record in outputs] == expected
    assert {record.value for record in outputs} == {b"x"}


def test_should_drop_a_record_for_no_partition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = run(partitioned(lambda *_: []), tmp_path)
    assert harness.outputs == []
    assert "Skipping record as partitioner returned empty partitions. topic=[out]" in caplog.text
    assert harness.metrics.value("dropped-records-total", "stream-task-metrics") == 1


@pytest.mark.parametrize("chosen", [4, -1, [0, 9]])
def test_should_refuse_a_partition_that_does_not_exist(tmp_path: Path, chosen: Any) -> None:
    with pytest.raises(StreamsError, match="topic has partitions 0 to 3"):
        run(partitioned(lambda *_: chosen), tmp_path)


def test_should_say_which_topic_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StreamsError, match="Could not get partition information for topic out for task 0_1"):
        run(partitioned(lambda *_: 0), tmp_path, {})


def test_should_send_to_the_topic_an_extractor_names(tmp_path: Path) -> None:
    seen: list[Any] = []

    def extract(key: Any, value: Any, context: Any) -> str:
        seen.append((context.topic, context.partition, context.offset, context.timestamp, context.headers))
        return f"out-{value}"

    topology = Topology().add_source("source", "in").add_sink("sink", extract, "source")
    assert [record.topic for record in run(topology, tmp_path).outputs] == ["out-x"]
    assert seen == [("in", 1, 0, 1, ())]


def test_should_refuse_an_extractor_that_names_no_topic(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", lambda *_: None, "source")
    with pytest.raises(StreamsError, match="topic extractor of sink sink returned None"):
        run(topology, tmp_path)


def test_should_keep_the_order_of_what_is_sent(tmp_path: Path) -> None:
    class Many(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            for index in range(5):
                self.context.forward(record.with_value(str(index)))

    assert [record.value for record in run(pipeline(Many), tmp_path).outputs] == [b"0", b"1", b"2", b"3", b"4"]

"""Every record that a task processes is counted once, before the shuffle and behind it, however it went through."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TaskId, TopologyTestDriver
from penstock.metrics.registry import Metrics
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.batch import ShuffledBatch
from tests.unit.spark.log_world import World

string, long = Serdes.string(), Serdes.long()
DEBUG = {"metrics.recording.level": "DEBUG"}


def word_count(key_serde: Any = string) -> Any:
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(key_serde, string)).flat_map_values(str.split)
    grouped = words.group_by(lambda _, word: word, Grouped(key_serde=string, value_serde=string))
    grouped.count(Materialized("counts", string, long)).to_stream().to("out", Produced(string, long))
    return builder.build()


def by_test_driver(lines: list[str]) -> float:
    """What the test driver counts, whose one task runs all sub-topologies."""
    with TopologyTestDriver(word_count(), {"application.id": "app", **DEBUG}) as driver:
        topic = driver.create_input_topic("in", string, string)
        for number, line in enumerate(lines):
            topic.pipe_input(str(number), line)
        return sum(
            metric.metric_value
            for name, metric in driver.metrics().items()
            if (name.name, name.group) == ("process-total", "stream-task-metrics")
        )


def in_registries(world: World, name: str, group: str = "stream-task-metrics") -> Counter[str]:
    """The sum of a metric in all lanes, by the task."""
    found: Counter[str] = Counter()
    for lane in world.lanes.values():
        for metric, value in lane._metrics.metrics().items():
            if (metric.name, metric.group) == (name, group):
                found[metric.tags["task-id"]] += value.metric_value
    return found


@pytest.mark.parametrize("lines", [5, 200])
@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, id="counted before the shuffle"),
        pytest.param(DEBUG, id="record by record"),
        pytest.param({"statestore.cache.max.bytes": 0, **DEBUG}, id="record by record, behind the shuffle too"),
        pytest.param({"statestore.cache.max.bytes": 0}, id="columns"),
    ],
)
def test_should_count_lines_before_the_shuffle_and_words_behind_it(config: dict[str, Any], lines: int, tmp_path: Path) -> None:
    texts = [f"a b{number % 7} a" for number in range(lines)]
    world = World(word_count(), tmp_path, partitions=2, config=config)
    assert bool(world.plan.counted) == ("statestore.cache.max.bytes" not in config)
    for number, text in enumerate(texts):
        world.logs.append("in", number % 2, str(number).encode(), text.encode(), number)
    while world.turn():
        pass
    by_subtopology: Counter[str] = Counter()
    for task, processed in world.processed.items():
        by_subtopology[str(task.subtopology)] += processed
    assert by_subtopology == {"0": lines, "1": 3 * lines}
    assert by_subtopology.total() == by_test_driver(texts)
    if config.get("metrics.recording.level") == "DEBUG":
        assert in_registries(world, "process-total") == {str(task): count for task, count in world.processed.items()}


def test_should_count_what_was_consumed_and_dropped_before_the_shuffle(tmp_path: Path) -> None:
    config = {"deserialization.exception.handler": "log_and_continue"}
    world = World(word_count(long), tmp_path, config=config)
    for number in range(100):
        world.logs.append("in", 0, b"no number" if number % 10 == 0 else bytes(8), b"a a b", number)
    while world.turn():
        pass
    assert world.processed == {TaskId(0, 0): 90, TaskId(1, 0): 270}
    assert in_registries(world, "dropped-records-total") == {"0_0": 10, "1_0": 0}
    assert in_registries(world, "records-consumed-total", "stream-topic-metrics") == {"0_0": 100, "1_0": 270}


def test_should_tell_what_was_counted_elsewhere_once() -> None:
    there, here = (TaskMetrics(Metrics("DEBUG"), TaskId(0, 1)) for _ in range(2))
    for _ in range(2):
        there.dropped_records.record()
        there.processed(5, 0.25)
        counts = there.take_counts(5, 0.5)
        assert (counts.dropped, counts.process_seconds, counts.seconds) == (1, 0.25, 0.5)
        here.add_counts(counts)
    assert here.process.total == 10
    assert here.dropped_records.total == 2
    assert here.process_seconds == 0.5
    here.add_counts(there.take_counts(0, 0.1))
    assert here.process.total == 10


def test_should_know_how_many_records_a_batch_stands_for() -> None:
    rows = [(b"k", b"v", 1, (), 0, offset) for offset in range(3)]
    assert ShuffledBatch.of_rows(rows).records == 3
    assert ShuffledBatch.of_rows(rows, side=[(None, None), ("dead", None), (None, None)]).records == 2
    counted = ShuffledBatch.of_rows(rows, counted=True, side=[(None, None), ("dead", None), (None, None)])
    assert counted.weights is not None
    counted.weights[:] = [5, 1, 2]
    assert counted.records == 7
    assert ShuffledBatch.of_rows(()).records == 0

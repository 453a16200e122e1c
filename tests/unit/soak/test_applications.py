"""Every application of the soak, undisturbed: its truth holds, batch after batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock import StreamsConfig, TopologyTestDriver
from penstock.spark.plan import make_plan
from penstock.topology.internal_topics import internal_topics
from tests.harness.kafka import Message
from tests.soak.applications import APPLICATIONS, PARTITIONS, Application, Inputs
from tests.soak.plan import FORMATS, Setup, settings
from tests.soak.truth import findings

_CONFIG = {"statestore.cache.max.bytes": 0}


def nothing(_key: Any, _value: Any) -> None:
    """Disturb nobody."""


class Undisturbed:
    """An application in a driver, which has one partition of each topic."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.driver = TopologyTestDriver(application.build(application.name, nothing), _CONFIG)
        self.inputs: dict[str, list[Message]] = {topic: [] for topic in application.inputs}
        self.found: list[Message] = []

    def feed(self, inputs: Inputs, interleave: Callable[[Inputs], list[tuple[str, Message]]]) -> None:
        name = self._application.name
        for topic, message in interleave(inputs):
            self.inputs[topic].append(message)
            self.driver.pipe_record(f"{name}-{topic}", message.timestamp, message.key, message.value)
        self.driver.advance_wall_clock_time(1_000)
        while self.driver.queue_size(f"{name}-out"):
            record = self.driver.read_record(f"{name}-out")
            self.found.append(Message(record.key, record.value, record.timestamp))

    def check(self) -> None:
        truth = self._application.truth(self.inputs, 1)
        assert findings(self._application.name, truth, self.found) == []
        assert findings(self._application.name, truth, self.found, exactly_once=False) == []


def one_topic_after_the_other(inputs: Inputs) -> list[tuple[str, Message]]:
    return [(topic, message) for topic, messages in inputs.items() for message in messages]


def by_time(inputs: Inputs) -> list[tuple[str, Message]]:
    return sorted(one_topic_after_the_other(inputs), key=lambda entry: entry[1].timestamp)


_CASES = [
    (name, interleave)
    for name, application in APPLICATIONS.items()
    for interleave in ((one_topic_after_the_other, by_time) if len(application.inputs) > 1 else (one_topic_after_the_other,))
]


@pytest.mark.parametrize(("name", "interleave"), _CASES)
def test_should_hold_the_truth_of_an_undisturbed_application(name: str, interleave: Any) -> None:
    application, chance = APPLICATIONS[name], random.Random(name)
    undisturbed = Undisturbed(application)
    with undisturbed.driver:
        undisturbed.feed(application.first(), one_topic_after_the_other)
        for batch in range(30):
            made = application.make(chance, batch * 120, 120)
            undisturbed.feed(made, interleave)
            if batch in (1, 25):
                undisturbed.check()
        undisturbed.check()
        assert len(undisturbed.found) > 100
        assert len(application.truth(undisturbed.inputs, 1)) >= 4


@pytest.mark.parametrize("name", ["join", "left-join"])
def test_should_hold_the_truth_where_one_side_is_read_far_ahead(name: str) -> None:
    """As after brokers were away: all of several batches of the right side, then all of the left."""
    application, chance = APPLICATIONS[name], random.Random(7)
    running = Undisturbed(application)
    with running.driver:
        batches = [application.make(chance, start, 120) for start in range(0, 480, 120)]
        inputs = {topic: [message for batch in batches for message in batch[topic]] for topic in ("right", "in")}
        running.feed(inputs, one_topic_after_the_other)
        running.check()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", APPLICATIONS)
def test_should_be_able_to_run_with_every_format(name: str, format: str) -> None:
    application = APPLICATIONS[name]
    given = {**settings(Setup(format=format)), "application.id": "app", "bootstrap.servers": "nowhere:1"}
    config = StreamsConfig(given)
    builder = application.build("app", lambda *_: None).internal_topology_builder
    builder.rewrite_topology(config)
    counts = {f"app-{topic}": PARTITIONS for topic in (*application.inputs, "out")}
    subtopologies = [s for s in builder.subtopologies("app", {}) if s.nodes]
    internal = internal_topics(subtopologies, counts, config)
    make_plan(subtopologies, {**counts, **dict.fromkeys(internal, PARTITIONS)}, config)

"""Every behaviour case on the test driver, and on Spark with a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from penstock import TopologyTestDriver
from tests.behaviour import join_cases, stateful_cases, stateless_cases  # noqa: F401 - they register their cases
from tests.behaviour.case import BASE, CASES, Case, Out
from tests.harness.kafka import Kafka, Message, unique, wait_until

# Each case under one guarantee, by turns; under the other ones in the slow suite.
_ON_SPARK = [
    pytest.param(
        *(case, guarantee),
        id=f"{case.name}-{guarantee}",
        marks=[] if guarantee == case.guarantees[number % len(case.guarantees)] else [pytest.mark.slow],
    )
    for number, case in enumerate(CASES.values())
    for guarantee in case.guarantees
]


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_should_behave_on_the_test_driver(case: Case) -> None:
    with TopologyTestDriver(case.build(lambda name: name), {"application.id": "driver", **_caching_off(case)}) as driver:
        topics = {t: driver.create_input_topic(t, *case.serdes_of(t)) for t in case.input_topics}
        for record in case.inputs:
            topics[record.topic].pipe_input(record.key, record.value, timestamp=BASE + record.at, headers=record.headers)
        if case.wall_clock_ms:
            driver.advance_wall_clock_time(case.wall_clock_ms)
        found = {t: driver.create_output_topic(t, *case.serdes_of(t)).read_records() for t in case.expected}
    for topic, expected in case.expected.items():
        records = [Out(r.key, r.value, r.timestamp - BASE, r.headers) for r in found[topic]]
        assert _by_key(records, expected, case.final) == _by_key(expected, expected, case.final), topic


@pytest.mark.parametrize(("case", "guarantee"), _ON_SPARK)
def test_should_behave_on_spark(case: Case, guarantee: str, kafka: Kafka, run: Callable[..., Any]) -> None:
    prefix = unique("behaviour")

    def names(name: str) -> str:
        return f"{prefix}-{name}"

    kafka.create(*map(names, [*case.input_topics, *case.expected]), partitions=case.partitions, configs={"retention.ms": "-1"})
    _feed(kafka, case, names)
    run(case.build(names), {"application.id": prefix, "processing.guarantee": guarantee, **_caching_off(case)})
    for topic, expected in case.expected.items():
        wanted = _by_key(expected, expected, case.final)
        wait_until(
            lambda t=topic, e=expected, w=wanted: _by_key(_read(kafka, case, names, t), e, case.final) == w or None,
            f"{topic}: {wanted}",
        ) if case.final else kafka.read(names(topic), at_least=len(expected))
    for topic, expected in case.expected.items():
        found = _by_key(_read(kafka, case, names, topic), expected, case.final)
        assert found == _by_key(expected, expected, case.final), topic


def _caching_off(case: Case) -> dict[str, Any]:
    return {"statestore.cache.max.bytes": 0, **case.config}


def _feed(kafka: Kafka, case: Case, names: Callable[[str], str]) -> None:
    for topic in case.input_topics:
        key_serde, value_serde = case.serdes_of(topic)
        records = [
            Message(
                key_serde.serializer(topic, r.key), value_serde.serializer(topic, r.value), BASE + r.at, r.headers
            )
            for r in case.inputs
            if r.topic == topic
        ]  # fmt: skip
        kafka.feed(names(topic), records, {"compression.type": case.compression})


def _read(kafka: Kafka, case: Case, names: Callable[[str], str], topic: str) -> list[Out]:
    key_serde, value_serde = case.serdes_of(topic)
    return [
        Out(key_serde.deserializer(topic, m.key), value_serde.deserializer(topic, m.value), m.timestamp - BASE, m.headers)
        for m in kafka.read(names(topic))
    ]


def _by_key(records: Iterable[Out], expected: Iterable[Out], final: bool) -> Mapping[Any, list[tuple[Any, ...]]]:
    """What is compared of each key: all records in order, or the last of the keys that matter."""
    times = all(record.at is not None for record in expected)
    headers = all(record.headers is not None for record in expected)
    keys = {record.key for record in expected}
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for record in records:
        shown = (record.value, *((record.at,) if times else ()), *((record.headers,) if headers else ()))
        if final and record.key in keys:
            found[record.key] = [shown]
        elif not final:
            found.setdefault(record.key, []).append(shown)
    return found

"""Every scenario on both sides: the same outputs, times, order, headers, describe text, stores and internal topics' bytes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock import TopologyTestDriver
from tests.conformance import python_twin
from tests.conformance.catalogue import SCENARIOS
from tests.conformance.compare import difference, show_input
from tests.conformance.inputs import Input, histories
from tests.conformance.java_twin import JavaTwin
from tests.conformance.minimize import minimized
from tests.conformance.moving_driver import MovingDriver
from tests.conformance.scenarios.registry import Scenario
from tests.harness.thoroughness import examples

pytestmark = pytest.mark.conformance

EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", examples(10)))
# The same cases in every run; CONFORMANCE_EXAMPLES digs deeper and then draws anew each time.
_SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="CONFORMANCE_EXAMPLES" not in os.environ,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
DEEP = "CONFORMANCE_EXAMPLES" in os.environ

Settings = dict[str, Any]

# Ways to run the same topologies: settings of the original, and ours where they are spelled differently.
_MODES: dict[str, tuple[Settings, Settings]] = {
    "in-memory": (
        {"dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"},
        {"dsl.store.suppliers.class": "in_memory"},
    ),
    "uncached": ({"statestore.cache.max.bytes": 0}, {}),
    "headers": ({"dsl.store.format": "HEADERS"}, {}),
    "idling": ({"max.task.idle.ms": 10}, {}),
    # Without a cache: it may show windows that have expired, until the task moves.
    "moving": ({"statestore.cache.max.bytes": 0}, {}),
}
_KEEPS_STATE = ("aggregate", "cogroup", "combined", "foreign", "stream", "suppress", "table", "versioned", "window")


def _compare(java: JavaTwin, scenario: Scenario, inputs: list[Input], mode: str | None) -> str | None:
    extra, respelled = _MODES[mode] if mode else ({}, {})
    expected = java.ask({"scenario": scenario.name, "config": {**scenario.config, **scenario.java, **extra}, "inputs": inputs})
    driver_class = MovingDriver if mode == "moving" else TopologyTestDriver
    ours = python_twin.run(scenario, {**scenario.config, **extra, **respelled}, inputs, driver_class)
    return difference(expected, ours, inputs)


def _check(java: JavaTwin, scenario: Scenario, inputs: list[Input], mode: str | None) -> None:
    if _compare(java, scenario, inputs, mode) is None:
        return
    inputs = minimized(inputs, lambda shorter: _compare(java, scenario, shorter, mode) is not None)
    listed = "\n".join(f"  {index}: {show_input(item)}" for index, item in enumerate(inputs))
    found = _compare(java, scenario, inputs, mode)
    pytest.fail(f"{scenario.id} differs from Kafka Streams\ninputs:\n{listed}\n{found}", pytrace=False)


def _run(java: JavaTwin, scenario: Scenario, mode: str | None) -> None:
    @_SETTINGS
    @given(data=st.data())
    def histories_agree(data: Any) -> None:
        _check(java, scenario, data.draw(histories(scenario.feeds, scenario.negative_times)), mode)

    histories_agree()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.id)
def test_should_equal_kafka_streams(java: JavaTwin, scenario: Scenario) -> None:
    _run(java, scenario, None)


def _in_other_modes() -> list[tuple[str, Scenario]]:
    """All modes of all scenarios with state when digging deeper, a part of them, spread evenly, in the default run."""
    keeping = [scenario for scenario in SCENARIOS.values() if scenario.uses_dsl and scenario.name.split("_")[0] in _KEEPS_STATE]
    combined = [(mode, scenario) for scenario in keeping for mode in _MODES]
    # Without a changelog, state is lost with the machine.
    combined = [(mode, scenario) for mode, scenario in combined if mode != "moving" or "unlogged" not in scenario.name]
    return combined if DEEP else [(mode, scenario) for mode, scenario in combined[::6] if mode != "moving"]


@pytest.mark.parametrize(("mode", "scenario"), _in_other_modes(), ids=lambda value: getattr(value, "id", value))
def test_should_equal_kafka_streams_in_other_modes(java: JavaTwin, mode: str, scenario: Scenario) -> None:
    _run(java, scenario, mode)


def test_should_have_the_same_scenarios_on_both_sides(java: JavaTwin) -> None:
    assert {scenario.name for scenario in SCENARIOS.values()} == set(java.ask({"list": True})["scenarios"])

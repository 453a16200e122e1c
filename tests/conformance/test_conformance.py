"""Every scenario on both sides: the same outputs, times, order, headers, describe text, stores and internal topics' bytes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance import python_twin
from tests.conformance.compare import difference, show_input
from tests.conformance.inputs import Input, histories
from tests.conformance.java_twin import JavaTwin
from tests.conformance.minimize import minimized
from tests.conformance.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.conformance

EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", "10"))
# The same cases in every run; CONFORMANCE_EXAMPLES digs deeper and then draws anew each time.
_SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="CONFORMANCE_EXAMPLES" not in os.environ,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
_IN_MEMORY = {
    "java": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
    "python": "in_memory",
}
_ENGINE = "dsl.store.suppliers.class"


def _compare(java: JavaTwin, scenario: Scenario, inputs: list[Input], engine: dict[str, str] | None) -> str | None:
    theirs = {**scenario.config, **scenario.java, **({_ENGINE: engine["java"]} if engine else {})}
    ours = {**scenario.config, **({_ENGINE: engine["python"]} if engine else {})}
    expected = java.ask({"scenario": scenario.name, "config": theirs, "inputs": inputs})
    return difference(expected, python_twin.run(scenario, ours, inputs), inputs)


def _check(java: JavaTwin, scenario: Scenario, inputs: list[Input], engine: dict[str, str] | None) -> None:
    if _compare(java, scenario, inputs, engine) is None:
        return
    inputs = minimized(inputs, lambda shorter: _compare(java, scenario, shorter, engine) is not None)
    listed = "\n".join(f"  {index}: {show_input(item)}" for index, item in enumerate(inputs))
    found = _compare(java, scenario, inputs, engine)
    pytest.fail(f"{scenario.id} differs from Kafka Streams\ninputs:\n{listed}\n{found}", pytrace=False)


def _run(java: JavaTwin, scenario: Scenario, engine: dict[str, str] | None) -> None:
    @_SETTINGS
    @given(data=st.data())
    def examples(data: Any) -> None:
        _check(java, scenario, data.draw(histories(scenario.feeds, scenario.negative_times)), engine)

    examples()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.id)
def test_should_equal_kafka_streams(java: JavaTwin, scenario: Scenario) -> None:
    _run(java, scenario, None)


# Suppliers and store types given in the topology win over the setting: what is left is what the DSL chooses itself.
_WITH_CHOSEN_STORES = [
    scenario
    for scenario in SCENARIOS.values()
    if scenario.uses_dsl
    and scenario.name.split("_")[0] in ("aggregate", "table", "window", "stream", "foreign", "combined", "suppress")
]
# In the default run every third of them; all when digging deeper.
_STRIDE = 1 if "CONFORMANCE_EXAMPLES" in os.environ else 3


@pytest.mark.parametrize("scenario", _WITH_CHOSEN_STORES[::_STRIDE], ids=lambda scenario: scenario.id)
def test_should_equal_kafka_streams_in_memory(java: JavaTwin, scenario: Scenario) -> None:
    _run(java, scenario, _IN_MEMORY)


def test_should_have_the_same_scenarios_on_both_sides(java: JavaTwin) -> None:
    assert {scenario.name for scenario in SCENARIOS.values()} == set(java.ask({"list": True})["scenarios"])

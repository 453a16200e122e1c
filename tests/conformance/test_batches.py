"""Scenarios in turns of many records, taken as columns: what Kafka Streams gives for the same turns.

Both sides process all records of a turn and commit once behind them, so that caches merge the same updates: with caches and
without, outputs and changelogs are the same in their order, and stores end with the same contents.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.topology.execution_plan import ExecutionMode
from tests.conformance import python_twin
from tests.conformance.batch_driver import BatchDriver, EagerBatchDriver
from tests.conformance.catalogue import SCENARIOS
from tests.conformance.compare import difference, show_input
from tests.conformance.inputs import Input, turns
from tests.conformance.java_twin import JavaTwin
from tests.conformance.minimize import minimized
from tests.conformance.scenarios.registry import Scenario
from tests.conformance.test_conformance import DEEP, EXAMPLES

pytestmark = pytest.mark.conformance

# A turn of the real threshold's size has more than 32 records.
_SHORT, _LONG = 12, 45

PLANS = {name: python_twin.execution_plan(scenario) for name, scenario in SCENARIOS.items()}
COLUMNS = [scenario for name, scenario in SCENARIOS.items() if PLANS[name].mode.is_batched]
OTHERS = [scenario for scenario in SCENARIOS.values() if scenario not in COLUMNS]

# A user's own processors with a key-value store, a window store, and timers of stream time.
_PROCESSORS = {"papi_count", "papi_headers", "papi_stream_time", "papi_window_store", "papi_window_store_duplicates"}
PROCESSORS = [scenario for scenario in OTHERS if scenario.name in _PROCESSORS]

# Bad records are judged one by one, and so are those that came with them.
_BAD_RECORDS = ("error_", "time_")


def _compare(
    java: JavaTwin, scenario: Scenario, inputs: list[Input], extra: dict[str, Any], driver: Any
) -> tuple[str | None, int]:
    asked = {"scenario": scenario.name, "config": {**scenario.config, **scenario.java, **extra}, "inputs": inputs, "turns": True}
    expected = java.ask(asked)
    ours = python_twin.run(scenario, {**scenario.config, **extra}, inputs, driver)
    for answer in (expected, ours):
        # Operators are called one after the other for all records, so that lines of several come in another order.
        answer["printed"] = "\n".join(sorted(answer.get("printed", "").splitlines()))
        if "error" in answer and answer["steps"]:
            answer["steps"].pop()  # what a turn has written before it failed is not committed
        if extra and "close" in scenario.name:
            answer["steps"] = [_last_changes(step) for step in answer["steps"]]
    return difference(expected, ours, inputs), ours.get("as_columns", 0)


def _last_changes(step: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without a cache, windows with results on close are logged once a turn, as with one."""
    last = {(record["topic"], record["key"]): number for number, record in enumerate(step)}
    return [
        record
        for number, record in enumerate(step)
        if not record["topic"].endswith("-changelog") or last[record["topic"], record["key"]] == number
    ]


def _run(java: JavaTwin, scenario: Scenario, length: int, extra: dict[str, Any], driver: Any) -> int:
    taken = 0
    for number in range(EXAMPLES if DEEP else len(scenario.feeds)):
        dice = random.Random() if DEEP else random.Random(f"{scenario.id} {length} {number} {extra}")
        inputs = turns(scenario.feeds, scenario.negative_times, length, dice)
        found, as_columns = _compare(java, scenario, inputs, extra, driver)
        taken += as_columns
        if found is not None:
            inputs = minimized(inputs, lambda shorter: _compare(java, scenario, shorter, extra, driver)[0] is not None)
            listed = "\n".join(f"  {index}: {show_input(item)}" for index, item in enumerate(inputs))
            found, _ = _compare(java, scenario, inputs, extra, driver)
            pytest.fail(f"{scenario.id} differs from Kafka Streams\ninputs:\n{listed}\n{found}", pytrace=False)
    return taken


def _id(value: Any) -> str:
    return str(getattr(value, "id", value))


@pytest.mark.parametrize("scenario", COLUMNS, ids=_id)
def test_should_equal_kafka_streams_in_batches(java: JavaTwin, scenario: Scenario) -> None:
    taken = _run(java, scenario, _SHORT, {}, EagerBatchDriver)
    taken += _run(java, scenario, _SHORT, {"statestore.cache.max.bytes": 0}, EagerBatchDriver)
    assert taken > 0 or scenario.name.startswith(_BAD_RECORDS), "nothing was taken as columns"


@pytest.mark.parametrize("scenario", COLUMNS if DEEP else COLUMNS[::8], ids=_id)
def test_should_equal_kafka_streams_at_the_real_threshold(java: JavaTwin, scenario: Scenario) -> None:
    _run(java, scenario, _LONG, {}, BatchDriver)
    _run(java, scenario, _LONG, {"statestore.cache.max.bytes": 0}, BatchDriver)


@pytest.mark.parametrize("scenario", OTHERS if DEEP else OTHERS[::8], ids=_id)
def test_should_equal_kafka_streams_in_turns_of_single_records(java: JavaTwin, scenario: Scenario) -> None:
    assert _run(java, scenario, _SHORT, {}, EagerBatchDriver) == 0


@pytest.mark.parametrize("scenario", PROCESSORS, ids=_id)
def test_should_equal_kafka_streams_by_processors_whose_records_are_read_together(java: JavaTwin, scenario: Scenario) -> None:
    """Their outputs and changes are gathered as columns, and their windows found without iterators."""
    assert _run(java, scenario, _LONG, {}, EagerBatchDriver) == 0


@pytest.mark.parametrize(
    ("name", "mode", "node"),
    [
        ("aggregate_count", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("aggregate_topic_list", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("cogroup_one", ExecutionMode.RUNS, "COGROUPKSTREAM-AGGREGATE"),
        ("cogroup_one_session", ExecutionMode.RUNS, "COGROUPKSTREAM-AGGREGATE"),
        ("cogroup_one_sliding", ExecutionMode.RUNS, "COGROUPKSTREAM-AGGREGATE"),
        ("cogroup_one_tumbling", ExecutionMode.RUNS, "COGROUPKSTREAM-AGGREGATE"),
        ("combined_two_global_tables", ExecutionMode.RUNS, "KSTREAM-LEFTJOIN"),
        ("stateless_to_table_named", ExecutionMode.RUNS, "tabled"),
        ("stateless_to_table_supplied", ExecutionMode.RUNS, "KSTREAM-TOTABLE"),
        ("stateless_topic_pattern", ExecutionMode.RUNS, "KSTREAM-SINK"),
        ("stream_global_inner", ExecutionMode.RUNS, "KSTREAM-LEFTJOIN"),
        ("stream_join_inner", ExecutionMode.JOIN, "KSTREAM-WINDOWED"),
        ("stream_join_left", ExecutionMode.JOIN, "KSTREAM-WINDOWED"),
        ("stream_join_outer", ExecutionMode.JOIN, "KSTREAM-WINDOWED"),
        ("stream_table_left", ExecutionMode.RUNS, "KSTREAM-LEFTJOIN"),
        ("suppress_session_closes", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("suppress_sliding_closes", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("suppress_window_closes", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("table_join_inner", ExecutionMode.TABLES, "KTABLE-SOURCE"),
        ("table_join_outer_materialized", ExecutionMode.TABLES, "KTABLE-SOURCE"),
        ("window_hopping_count_close", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("window_session_aggregate_update", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("window_sliding_aggregate_update", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
        ("window_topic_list", ExecutionMode.RUNS, "KSTREAM-AGGREGATE"),
    ],
)
def test_should_take_batches_where_that_was_meant(name: str, mode: ExecutionMode, node: str) -> None:
    assert PLANS[name].mode is mode, PLANS[name].why_not
    assert any(found.startswith(node) for found in PLANS[name].batch_nodes), PLANS[name].batch_nodes


def test_should_take_most_scenarios_in_batches() -> None:
    assert len(COLUMNS) > 290
    assert {"foreign_key_inner", "foreign_key_left", "foreign_key_self"} <= {scenario.name for scenario in COLUMNS}

"""penstock's side of the comparison: the same request, an answer of the same form."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from penstock import StreamsBuilder, Topology, TopologyTestDriver
from penstock.state.layers.wrapped import WrappedStateStore
from penstock.state.store import KeyValueStore, SessionStore, StateStore, VersionedKeyValueStore, WindowStore
from penstock.topology.execution_plan import ExecutionPlan
from tests.conformance.batch_driver import BatchDriver
from tests.conformance.inputs import Input
from tests.conformance.moving_driver import dropped_records
from tests.conformance.scenarios.registry import Scenario

APPLICATION_ID = "conformance"


def run(
    scenario: Scenario, config: dict[str, Any], inputs: list[Input], driver_class: type[TopologyTestDriver] = TopologyTestDriver
) -> dict[str, Any]:
    """Describe, steps, store contents and the error, if any."""
    settings = {"application.id": APPLICATION_ID, "bootstrap.servers": "unused:9092", **config, **scenario.python}
    answer: dict[str, Any] = {"steps": []}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            topology = _build(scenario, settings)
            answer["describe"] = str(topology.describe())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            answer["error"] = _failure("build", error)
            return answer
        try:
            driver = driver_class(topology, settings, initial_wall_clock_time=0)
        except Exception as error:  # noqa: BLE001 - as above
            answer["error"] = _failure("run", error)
            return answer
        try:
            for item in inputs:
                _feed(driver, item, answer["steps"])
            if isinstance(driver, BatchDriver):
                driver.complete_turn()
                answer["steps"][-1] += _drain(driver)
            answer["stores"] = _stores(driver, inputs)
            answer["dropped"] = dropped_records(driver) + getattr(driver, "dropped_before", 0)
        except Exception as error:  # noqa: BLE001 - as above
            answer["error"] = _failure("run", error)
            answer["steps"][-1] += _drain(driver)
        finally:
            if isinstance(driver, BatchDriver):
                answer["as_columns"] = driver.processed_in_batches
            with contextlib.suppress(Exception):  # a task that failed fails again when it is closed
                driver.close()
    answer["printed"] = printed.getvalue()
    return answer


def execution_plan(scenario: Scenario) -> ExecutionPlan:
    """Which way the records of the scenario go when there are many of them."""
    settings = {"application.id": APPLICATION_ID, "bootstrap.servers": "unused:9092", **scenario.config, **scenario.python}
    try:
        driver = BatchDriver(_build(scenario, settings), settings, initial_wall_clock_time=0)
    except Exception:  # noqa: BLE001 - it fails to be built on purpose
        return ExecutionPlan()
    plan = driver.execution_plan
    driver.close()
    return plan


def _build(scenario: Scenario, settings: dict[str, Any]) -> Topology:
    if scenario.uses_dsl:
        builder = StreamsBuilder(settings)
        scenario.define(builder)
        return builder.build(settings)
    topology = Topology()
    scenario.define(topology)
    return topology


def _feed(driver: TopologyTestDriver, item: Input, steps: list[list[dict[str, Any]]]) -> None:
    steps.append([])
    if "cut" in item:
        assert isinstance(driver, BatchDriver)
        driver.complete_turn()
    elif "advance_wall_clock" in item:
        driver.advance_wall_clock_time(item["advance_wall_clock"])
    else:
        headers = tuple((key, _bytes(value)) for key, value in item["headers"])
        driver.pipe_record(item["topic"], item["timestamp"], _bytes(item["key"]), _bytes(item["value"]), headers)
    steps[-1] += _drain(driver)


def _drain(driver: TopologyTestDriver) -> list[dict[str, Any]]:
    produced = []
    for topic in sorted(driver.produced_topic_names()):
        while driver.queue_size(topic):
            record = driver.read_record(topic)
            produced.append(
                {
                    "topic": record.topic,
                    "partition": record.partition,
                    "key": _hex(record.key),
                    "value": _hex(record.value),
                    "timestamp": record.timestamp,
                    "headers": [[key, _hex(value)] for key, value in record.headers],
                }
            )
    return produced


def _failure(stage: str, error: BaseException) -> dict[str, Any]:
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    names = [cls.__name__ for cls in type(error).__mro__]
    return {"stage": stage, "class": names[0], "classes": names, "message": str(error), "root": f"{type(root).__name__}: {root}"}


def _stores(driver: TopologyTestDriver, inputs: list[Input]) -> dict[str, Any]:
    keys = dict.fromkeys(bytes.fromhex(item["key"]).decode(errors="replace") for item in inputs if item.get("key") is not None)
    times = dict.fromkeys(item["timestamp"] for item in inputs if "timestamp" in item)
    stores = driver.get_all_state_stores()
    if isinstance(driver, BatchDriver):
        for store in driver.own_stores():
            if isinstance(store, WrappedStateStore):
                store.clear_cache()  # it shows what the store below has let go, for as long as there is room
    return {name: _contents(store, list(keys), list(times)) for name, store in stores.items() if store is not None}


def _contents(store: StateStore, keys: list[str], times: list[int]) -> dict[str, Any]:
    if isinstance(store, VersionedKeyValueStore):
        entries: list[Any] = []
        for key in keys:
            entries.append([key, "latest", _typed(store.get(key))])
            entries += [[key, time, _typed(store.get(key, time))] for time in times]
        return {"kind": "versioned", "entries": entries}
    if isinstance(store, KeyValueStore):
        return {"kind": "key-value", "entries": _entries(store.all())}
    if isinstance(store, WindowStore):
        return {"kind": "window", "entries": _entries(store.all())}
    if isinstance(store, SessionStore):
        return {"kind": "session", "entries": _entries(store.fetch_key_range(None, None))}
    return {"kind": "other"}


def _entries(iterator: Any) -> list[Any]:
    with iterator as entries:
        return [[_typed(key), _typed(value)] for key, value in entries]


def _typed(value: Any) -> Any:
    """The same JSON that StoreContents.java makes."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    kind = type(value).__name__
    if kind in _FIELDS:
        return {shown: _typed(getattr(value, field)) for shown, field in _FIELDS[kind].items()}
    if kind == "Windowed":
        return {"key": _typed(value.key), "start": value.window.start, "end": value.window.end}
    if kind in ("ValueTimestampHeaders", "AggregationWithHeaders"):
        content = value.value if kind == "ValueTimestampHeaders" else value.aggregation
        headers = [[key, _hex(header)] for key, header in value.headers]
        return {"value": _typed(content), "timestamp": getattr(value, "timestamp", -1), "headers": headers}
    return str(value)


_FIELDS = {
    "ValueAndTimestamp": {"value": "value", "timestamp": "timestamp"},
    "VersionedRecord": {"value": "value", "timestamp": "timestamp", "valid_to": "valid_to"},
    "LeftOrRightValue": {"left": "left_value", "right": "right_value"},
    "TimestampedKeyAndJoinSide": {"key": "key", "timestamp": "timestamp", "left": "is_left_side"},
    "SubscriptionWrapper": {"primary_key": "primary_key", "hash": "hash", "instruction": "instruction", "version": "version"},
    "CombinedKey": {"foreign_key": "foreign_key", "primary_key": "primary_key"},
}


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()

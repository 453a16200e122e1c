"""Positions, bounds, requests and results as plain data."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from penstock import (
    ConfigError,
    FailureReason,
    HostInfo,
    KeyQuery,
    KeyQueryMetadata,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    QueryableStoreTypes,
    QueryResult,
    RangeQuery,
    ResultOrder,
    Serdes,
    StateQueryRequest,
    StateQueryResult,
    StoreQueryParameters,
    WindowKeyQuery,
)
from penstock.query.columns import as_column, as_json, from_json, sql_type
from penstock.query.queries import time_ms


def test_should_only_move_positions_forward() -> None:
    position = Position.empty().with_component("a", 0, 5).with_component("a", 0, 3).with_component("b", 1, 1)
    assert position.partition_positions("a") == {0: 5}
    copy = position.copy().merge(Position({"a": {0: 9, 1: 2}}))
    assert copy == Position({"a": {0: 9, 1: 2}, "b": {1: 1}})
    assert position == Position({"a": {0: 5}, "b": {1: 1}})
    assert position.topics == {"a", "b"}
    assert Position.from_json(copy.to_json()) == copy
    with pytest.raises(TypeError):
        hash(position)


@pytest.mark.parametrize(
    ("bound", "position", "permitted"),
    [
        ({}, {}, True),
        ({"t": {0: 5}}, {"t": {0: 5}}, True),
        ({"t": {0: 6}}, {"t": {0: 5}}, False),
        ({"t": {0: 1}}, {}, False),
        ({"t": {1: 99}}, {"t": {0: 5}}, True),
        ({"t": {1: 99}}, {"t": {0: 5, 1: 7}}, False),
        ({"t": {0: 1}, "u": {0: 1}}, {"t": {0: 1}}, False),
    ],
)
def test_should_permit_what_the_bound_asks_for(bound: Any, position: Any, permitted: bool) -> None:
    assert PositionBound.at(Position(bound)).permits(Position(position), 0) is permitted


def test_should_build_requests_without_changing_them() -> None:
    request = StateQueryRequest.in_store("s").with_query(KeyQuery("a"))
    changed = request.with_partitions([1]).enable_execution_info().require_active()
    assert (request.is_all_partitions, request.execution_info_enabled, request.is_require_active) == (True, False, False)
    assert (changed.partitions, changed.execution_info_enabled, changed.is_require_active) == (frozenset({1}), True, True)
    assert changed.with_all_partitions().is_all_partitions
    with pytest.raises(TypeError, match="KeyQuery"):
        StateQueryRequest.in_store("s").with_query("a")  # type: ignore[arg-type]


def test_should_give_the_only_result_there_is() -> None:
    result: StateQueryResult[int] = StateQueryResult({0: QueryResult.for_result(None), 1: QueryResult.for_result(3)})
    assert result.only_partition_result is not None
    assert result.only_partition_result.result == 3
    result.partition_results[2] = QueryResult.for_result(4)
    with pytest.raises(ValueError, match="exactly one"):
        _ = result.only_partition_result
    failed: QueryResult[int] = QueryResult.for_failure(FailureReason.NOT_PRESENT, "gone")
    assert failed.is_failure
    assert (failed.failure_reason, failed.failure_message) == (FailureReason.NOT_PRESENT, "gone")
    with pytest.raises(ValueError, match="NOT_PRESENT"):
        _ = failed.result
    with pytest.raises(ValueError, match="did not fail"):
        _ = QueryResult.for_result(1).failure_reason


def test_should_refuse_queries_without_a_key() -> None:
    with pytest.raises(ValueError, match="KeyQuery"):
        KeyQuery(None)
    with pytest.raises(ValueError, match="WindowKeyQuery"):
        WindowKeyQuery(None, 0, 1)


def test_should_take_times_as_milliseconds_or_datetimes() -> None:
    assert time_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), "t") == 1000
    assert time_ms(5, "t") == 5
    with pytest.raises(TypeError, match="as_of"):
        time_ms("yesterday", "as_of")  # type: ignore[arg-type]


def test_should_keep_javas_ways_to_make_queries() -> None:
    assert RangeQuery.with_lower_bound("a") == RangeQuery("a", None)
    assert RangeQuery.with_no_bounds().with_ascending_keys().result_order is ResultOrder.ASCENDING
    query = MultiVersionedKeyQuery.with_key("a").from_time(1).to_time(2).with_ascending_timestamps()
    assert (query.from_timestamp, query.to_timestamp, query.result_order) == (1, 2, ResultOrder.ASCENDING)
    parameters = StoreQueryParameters.from_name_and_type("s", QueryableStoreTypes.session_store())
    assert (parameters.with_partition(3).partition, parameters.partition) == (3, None)


def test_should_parse_hosts() -> None:
    assert HostInfo.build_from_endpoint("") is None
    assert HostInfo.build_from_endpoint("[::1]:80") == HostInfo("::1", 80)
    assert str(HostInfo("::1", 80)) == "[::1]:80"
    with pytest.raises(ConfigError, match="host:port"):
        HostInfo.build_from_endpoint("nowhere")
    assert KeyQueryMetadata.NOT_AVAILABLE.active_host == HostInfo.unavailable()


@pytest.mark.parametrize(
    ("serde", "kind", "value", "column"),
    [
        (Serdes.string(), "string", "a", "a"),
        (Serdes.integer(), "int", 5, 5),
        (Serdes.bytes(), "binary", bytearray(b"a"), b"a"),
        (Serdes.list_of(Serdes.long()), "array<bigint>", [1, None], [1, None]),
        (Serdes.json(), "string", {"a": [1]}, '{"a": [1]}'),
        (Serdes.serde(lambda t, v: b"", lambda t, b: None), "string", (1, b"x"), '[1, "eA=="]'),
    ],
)
def test_should_show_values_as_columns(serde: Any, kind: str, value: Any, column: Any) -> None:
    assert sql_type(serde) == kind
    assert as_column(value, kind) == column


@pytest.mark.parametrize(
    ("serde", "value"),
    [(Serdes.long(), "1"), (Serdes.long(), True), (Serdes.boolean(), 1), (Serdes.bytes(), "?"), (Serdes.string(), 1)],
)
def test_should_refuse_json_that_does_not_fit_the_serde(serde: Any, value: Any) -> None:
    with pytest.raises(ValueError):
        from_json(value, serde)
    assert as_json(value) == value

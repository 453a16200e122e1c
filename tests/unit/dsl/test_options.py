from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from penstock.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from penstock.dsl.suppressed import UNBOUNDED, BufferConfig, Suppressed
from penstock.errors import ConfigError, TopologyError
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores

NAMED: list[Any] = [Consumed, Produced, Grouped, Joined, StreamJoined, TableJoined, Repartitioned]


@pytest.mark.parametrize("option", NAMED)
@pytest.mark.parametrize("name", ["", ".", "..", "with space", "slash/", "x" * 250, "ü"])
def test_should_refuse_names_that_cannot_be_topics(option: Any, name: str) -> None:
    with pytest.raises(TopologyError):
        option(name=name)


@pytest.mark.parametrize("option", NAMED)
def test_should_accept_the_longest_name(option: Any) -> None:
    assert option(name="x" * 249).name == "x" * 249


@pytest.mark.parametrize("option", [*NAMED, Materialized, Branched])
def test_should_be_frozen(option: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        option().name = "other"


def test_should_take_positional_arguments_in_the_documented_order() -> None:
    text, long = Serdes.string(), Serdes.long()
    assert Consumed(text, long).value_serde is long
    assert Produced(text, long).key_serde is text
    assert Grouped("g", text, long).value_serde is long
    assert Materialized("m", text, long).key_serde is text
    assert Joined(text, long, text, "j", 5).grace_period_ms == 5
    assert StreamJoined(text, long, text, "j", "s").store_name == "s"
    assert Repartitioned("r", text, long, 4).number_of_partitions == 4


def test_should_take_the_rest_of_materialized_by_keyword_only() -> None:
    with pytest.raises(TypeError):
        Materialized("m", None, None, object())  # type: ignore[misc]


def test_should_refuse_a_store_name_that_contradicts_the_supplier() -> None:
    supplier = Stores.in_memory_key_value_store("one")
    assert Materialized("one", supplier=supplier).store_name == "one"
    with pytest.raises(TopologyError, match=r"'two'.*'one'"):
        Materialized("two", supplier=supplier)


def test_should_refuse_a_store_type_beside_a_supplier() -> None:
    with pytest.raises(TopologyError, match="supplier"):
        Materialized(supplier=Stores.in_memory_key_value_store("s"), store_type="in_memory")


def test_should_refuse_an_unknown_store_type() -> None:
    with pytest.raises(ConfigError, match=r"'paper'.*'rocksdb', 'in_memory'"):
        Materialized(store_type="paper")  # type: ignore[arg-type]


def test_should_refuse_a_negative_retention() -> None:
    with pytest.raises(TopologyError, match="negative"):
        Materialized(retention=-1)


def test_should_give_durations_in_milliseconds() -> None:
    assert Materialized(retention=timedelta(days=1)).retention_ms == 86_400_000
    assert Joined(grace_period=timedelta(seconds=2)).grace_period_ms == 2000


def test_should_write_topic_configs_as_text() -> None:
    assert Materialized(topic_config={"segment.bytes": 100}).topic_config == {"segment.bytes": "100"}


def test_should_refuse_less_than_one_partition() -> None:
    with pytest.raises(TopologyError, match="at least one"):
        Repartitioned(number_of_partitions=0)


def test_should_refuse_a_branch_with_function_and_consumer() -> None:
    with pytest.raises(TopologyError, match="not both"):
        Branched(function=lambda s: s, consumer=lambda s: None)


def test_should_allow_any_text_as_the_name_of_a_branch() -> None:
    assert Branched("-1").name == "-1"


def test_should_bound_buffers() -> None:
    bounds = BufferConfig.max_records(5).with_max_bytes(9)
    assert (bounds.record_limit, bounds.byte_limit, bounds.is_strict) == (5, 9, False)
    assert bounds.shut_down_when_full().is_strict
    assert not BufferConfig.unbounded().emit_early_when_full().is_strict
    assert BufferConfig.max_bytes(3).record_limit == UNBOUNDED
    unbound = bounds.with_no_bound()
    assert (unbound.record_limit, unbound.byte_limit, unbound.is_strict) == (UNBOUNDED, UNBOUNDED, True)


def test_should_configure_the_changelog_of_a_buffer() -> None:
    logged = BufferConfig.unbounded().with_logging_enabled({"segment.bytes": 7})
    assert logged.topic_config == {"segment.bytes": "7"}
    silent = logged.with_logging_disabled()
    assert (silent.logging, silent.topic_config) == (False, {})


def test_should_refuse_an_eager_buffer_for_final_results() -> None:
    with pytest.raises(TopologyError, match="never emits early"):
        Suppressed.until_window_closes(BufferConfig.max_records(5))
    strict = Suppressed.until_window_closes(BufferConfig.max_records(5).shut_down_when_full())
    assert strict.is_until_window_closes


def test_should_wait_for_a_time_limit() -> None:
    suppressed = Suppressed.until_time_limit(timedelta(seconds=1), BufferConfig.unbounded()).with_name("wait")
    assert (suppressed.time_to_wait_ms, suppressed.name, suppressed.is_until_window_closes) == (1000, "wait", False)

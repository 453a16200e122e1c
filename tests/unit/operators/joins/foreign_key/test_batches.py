"""A foreign-key join in turns of many records: as batch it gives what it gives record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Consumed, Materialized, Produced, Serdes, StreamsBuilder
from penstock.batches.serdes import deserialize_column, serialize_column
from penstock.operators import (
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.topology.execution_plan import BatchThreshold
from tests.conformance.batch_driver import BatchDriver, EagerBatchDriver
from tests.harness.thoroughness import examples

STRING, JSON = Serdes.string(), Serdes.json()


class RowsDriver(BatchDriver):
    """The same turns, with no record taken as batch."""

    threshold = BatchThreshold(1_000_000, 1)


def picky(value: Any) -> Any:
    if "x" in value:
        raise ValueError(f"does not like {value}")
    return value


def initial(value: Any) -> Any:
    """The foreign key: the first letter, none for a value that begins with a dash."""
    return None if str(picky(value)[0]) == "-" else str(value[0])


def joining(kind: str, caching: bool = True, serde: Any = STRING, result: bool = True) -> Any:
    def build(builder: StreamsBuilder) -> None:
        left = builder.table("left", Consumed(STRING, serde), Materialized("left", STRING, serde, caching=caching))
        right = builder.table("right", Consumed(STRING, serde), Materialized("right", STRING, serde, caching=caching))
        kept = Materialized("joined" if result else None, STRING, STRING)
        joined = getattr(left, kind)(right, lambda a, b: f"{a}+{b and picky(b)}", foreign_key=initial, materialized=kept)
        joined.to_stream().to("out", Produced(STRING, STRING))

    return build


CASES = {
    "inner": joining("join"),
    "left": joining("left_join"),
    "inner without caches": joining("join", caching=False),
    "left without caches": joining("left_join", caching=False),
    "left without a store for results": joining("left_join", result=False),
    "inner of lists": joining("join", serde=JSON),
}

KEYS = st.sampled_from(["a", "b", "c", "d", "e", None])
VALUES = st.sampled_from(["a1", "a2", "b1", "b2", "c", "x", "ax", "-", "d", None])
HEADERS = st.sampled_from([(), (), (), (("h", b"1"),)])
RUNS = st.tuples(st.sampled_from(["left", "right"]), st.lists(st.tuples(KEYS, VALUES, HEADERS), min_size=1, max_size=12))
TURNS = st.lists(st.lists(RUNS, min_size=1, max_size=4), min_size=1, max_size=4)


def run(case: str, turns: Any, driver_class: type[BatchDriver]) -> tuple[Any, int]:
    builder = StreamsBuilder()
    CASES[case](builder)
    settings = {"application.id": "app", "bootstrap.servers": "x:1", "processing.exception.handler": "log_and_continue"}
    with driver_class(builder.build(), settings) as driver:
        at = 0
        for turn in turns:
            for topic, records in turn:
                for key, value, headers in records:
                    at += 1
                    raw = None if value is None else value.encode() if "lists" not in case else f'["{value}"]'.encode()
                    driver.pipe_record(topic, at, None if key is None else key.encode(), raw, headers)
            driver.complete_turn()
        written = {topic: list(map(tuple, records)) for topic, records in driver._outputs.items()}
        stores = {store.name: list(store.all()) for store in driver.own_stores()}
        return (written, stores), driver.processed_in_batches


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(25), deadline=None)
@given(turns=TURNS)
def test_should_give_the_same_in_batches_and_record_by_record(case: str, turns: Any) -> None:
    batch_nodes, taken = run(case, turns, EagerBatchDriver)
    by_records, none_taken = run(case, turns, RowsDriver)
    assert batch_nodes == by_records
    assert taken > 0 == none_taken


HASHES = st.none() | st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
SUBSCRIPTIONS = st.lists(
    st.builds(
        SubscriptionWrapper,
        HASHES,
        st.sampled_from(Instruction),
        st.text(max_size=5),
        st.sampled_from([0, 1, 1]),
        st.integers(0, 9),
    )
)
RESPONSES = st.lists(st.builds(SubscriptionResponseWrapper, HASHES, st.none() | st.text(max_size=5), st.none(), st.just(0)))


@given(wrappers=SUBSCRIPTIONS)
def test_should_write_and_read_many_subscriptions_as_single_ones(wrappers: Sequence[Any]) -> None:
    _compare(SubscriptionWrapperSerde("pk", STRING), wrappers)


@given(wrappers=RESPONSES)
def test_should_write_and_read_many_responses_as_single_ones(wrappers: Sequence[Any]) -> None:
    _compare(SubscriptionResponseWrapperSerde(STRING), wrappers)


def _compare(serde: Any, wrappers: Sequence[Any]) -> None:
    data = list(serialize_column(serde.serializer, "topic", wrappers))
    assert data == [serde.serializer("topic", wrapper) for wrapper in wrappers]
    assert list(deserialize_column(serde.deserializer, "topic", data)) == [serde.deserializer("topic", one) for one in data]

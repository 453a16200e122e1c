"""The join of a stream with a DataFrame: rows are found by key, refreshed at once, and kept if a refresh fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock import Consumed, Produced, Serdes, StreamsBuilder, TopologyTestDriver
from penstock.errors import StreamsError
from penstock.operators.joins import lookup_table
from penstock.operators.joins.lookup_table import LookupTables, PackedTable
from penstock.pickling import dumps

text = Serdes.string()
USERS = [{"user": "u1", "city": "Oslo"}, {"user": "u2", "city": None}]


def joined(make: Callable[..., Any], on: Any = "user", joiner: Any = None, **options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(text, text))
    joiner = joiner or (lambda value, row: f"{value} {row['city']}")
    stream.join_dataframe(make, joiner, on=on, **options).to("out", Produced(text, text))
    return TopologyTestDriver(builder.build(), initial_wall_clock_time=0)


def results(driver: TopologyTestDriver, *records: tuple[str | None, str | None]) -> list[tuple[Any, Any]]:
    driver.create_input_topic("in", text, text).pipe_key_values(list(records))
    return driver.create_output_topic("out", text, text).read_key_values()


@pytest.mark.parametrize("count", [1, 20], ids=["record by record", "batches"])
def test_should_join_records_with_the_row_of_their_key_and_drop_the_others(count: int) -> None:
    with joined(lambda: USERS) as driver:
        found = results(driver, *[("u1", "a"), ("u2", "b"), ("u3", "c"), (None, "d"), ("u1", None)] * count)
    assert found == [("u1", "a Oslo"), ("u2", "b None")] * count


@pytest.mark.parametrize(
    "make",
    [lambda: pa.Table.from_pylist(USERS), lambda: pa.RecordBatch.from_pylist(USERS), lambda spark: USERS],
    ids=["a table", "a batch", "with the session"],
)
def test_should_take_rows_without_spark(make: Any) -> None:
    with joined(make) as driver:
        assert results(driver, ("u1", "a")) == [("u1", "a Oslo")]


def test_should_look_up_what_a_function_returns() -> None:
    with joined(lambda: USERS, on=("user", lambda key, value: value)) as driver:
        assert results(driver, ("k", "u1")) == [("k", "u1 Oslo")]


def test_should_look_up_several_columns() -> None:
    rows = [{"a": 1, "b": "x", "city": "Rome"}]
    with joined(lambda: rows, on=(["a", "b"], lambda key, value: [1, value])) as driver:
        assert results(driver, ("k", "x"), ("k", "y")) == [("k", "x Rome")]


def test_should_give_the_joiner_the_key_first_if_asked() -> None:
    with joined(lambda: USERS, joiner=lambda key, value, row: key + value + row["city"], with_key=True) as driver:
        assert results(driver, ("u1", "-")) == [("u1", "u1-Oslo")]


def test_should_refresh_when_the_time_has_come_and_keep_the_rows_if_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [USERS, [{"user": "u1", "city": "Bergen"}], OSError("the lake is away")]

    def make() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with joined(make, refresh=timedelta(minutes=1)) as driver:
        driver.advance_wall_clock_time(59_999)
        assert results(driver, ("u1", "a")) == [("u1", "a Oslo")]
        driver.advance_wall_clock_time(1)
        assert results(driver, ("u1", "a"), ("u2", "b")) == [("u1", "a Bergen")]
        with caplog.at_level(logging.WARNING):
            driver.advance_wall_clock_time(60_000)
        assert "the lake is away" in caplog.text
        assert results(driver, ("u1", "a")) == [("u1", "a Bergen")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (5, "returned int"),
        ([{"name": "u1"}], "has no column user"),
        ([*USERS, {"user": "u1"}], "several rows with user = 'u1'"),
        ([{"user": str(number)} for number in range(5)], "more than 4 rows"),
    ],
    ids=["no DataFrame", "no such column", "a key twice", "too large"],
)
def test_should_refuse_what_cannot_be_looked_up(rows: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_table, "MOST_ROWS", 4)
    with pytest.raises(StreamsError, match=message):
        joined(lambda: rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"make": USERS}, "make_dataframe is a function"),
        ({"on": ""}, "on names no column"),
        ({"on": 5}, "on names no column"),
        ({"on": ("user", lambda value: value)}, "the function of on"),
        ({"refresh": 0}, "refresh is a positive time"),
        ({"joiner": lambda value: value}, "the joiner"),
    ],
)
def test_should_refuse_arguments_that_cannot_be_meant(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        joined(**({"make": lambda: USERS} | arguments))


def test_should_leave_the_users_function_in_the_driver() -> None:
    import threading

    lock = threading.Lock()  # cannot be pickled, as a SparkSession cannot

    def make() -> Any:
        with lock:
            return USERS

    with joined(make) as driver:
        assert results(driver, ("u1", "a")) == [("u1", "a Oslo")]


def test_should_exchange_only_tables_of_another_version() -> None:
    tables = LookupTables()
    first = PackedTable.of(1, ("user",), pa.Table.from_pylist(USERS))
    tables.update({"t": first})
    before = tables["t"]
    tables.update({"t": PackedTable.of(1, ("user",), pa.Table.from_pylist(USERS))})
    assert tables["t"] is before
    tables.update({"t": PackedTable.of(2, ("user",), pa.Table.from_pylist(USERS[:1]))})
    assert (len(before), len(tables["t"])) == (2, 1)
    assert dumps(first)

"""Rows of a table become records: bytes as they are, other values as the serde writes them, in the partition of the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock import Serdes
from penstock.errors import StreamsError
from penstock.hashing import default_partition
from penstock.serdes.contract import as_serializer
from penstock.spark.history_rows import RowFormat, written


@dataclass
class Order:
    item: str
    amount: int


def rows(key: Any, value: Any, key_serde: Any = None, value_serde: Any = None) -> pa.RecordBatch:
    form = RowFormat("orders", (10, 11, 12), as_serializer(key_serde), as_serializer(value_serde), False, ("id", "body", "at"))
    times = pa.array(range(len(value)), pa.int64())
    return written(form, pa.RecordBatch.from_arrays([key, value, times], names=["key", "value", "timestamp"]))


def test_should_keep_bytes_and_write_typed_values() -> None:
    found = rows(pa.array(["a", "b", "c"]), pa.array([b"1", None, b"3"], pa.binary()), Serdes.string()).to_pylist()
    assert [(row["key"], row["value"]) for row in found] == [(b"a", b"1"), (b"b", None), (b"c", b"3")]
    assert [row["partition"] for row in found] == [default_partition(key, 3) for key in (b"a", b"b", b"c")]
    assert [row["slot"] for row in found] == [10 + row["partition"] for row in found]
    longs = rows(pa.array([1, 2]), pa.array([1.5, 2.5]), Serdes.long(), Serdes.double()).column("key").to_pylist()
    assert longs == [(1).to_bytes(8, "big"), (2).to_bytes(8, "big")]


def test_should_write_structs_as_typed_json() -> None:
    body = pa.array([{"item": "boat", "amount": 2}, None])
    found = rows(pa.array(["a", "b"]), body, Serdes.string(), Serdes.json(Order)).column("value").to_pylist()
    assert found == [b'{"item":"boat","amount":2}', None]


def test_should_put_a_row_without_a_key_where_it_goes_each_time() -> None:
    keys = pa.array([None, None, b"k"], pa.binary())
    values = pa.array([b"1", None, b"3"], pa.binary())
    once, again = rows(keys, values), rows(keys, values)
    assert once.equals(again)
    assert once.column("partition").to_pylist() == [default_partition(b"1", 3), 0, default_partition(b"k", 3)]


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        (pa.array(["x"]), pa.array(["text"]), "column body of type string cannot be written"),
        (pa.array([1.5]), pa.array([1]), "column id of type double cannot be written"),
        (pa.array(["x"]), pa.array([1 << 63], pa.uint64()), "column body of type uint64 cannot be written"),
    ],
)
def test_should_refuse_what_the_serde_cannot_write(key: pa.Array, value: pa.Array, match: str) -> None:
    with pytest.raises(StreamsError, match=match):
        rows(key, value, Serdes.string(), Serdes.long())

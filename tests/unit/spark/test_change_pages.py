"""Pages of changes from a query server: read to their end, and refused if they are something else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StateStoreNotAvailableError
from penstock.query.change_read import ChangeRead
from penstock.spark.queries.remote_tables import Servers

COLUMNS = [("key", "string"), ("offset", "bigint")]


def page(offsets: list[int], marks: dict[str, str]) -> bytes:
    schema = pa.schema([("key", pa.string()), ("offset", pa.int64())], metadata=marks)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table({"key": ["a"] * len(offsets), "offset": offsets}, schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def offsets_read(monkeypatch: pytest.MonkeyPatch, answers: list[bytes]) -> tuple[list[int], list[str]]:
    asked: list[str] = []

    def answer(self: Any, target: str) -> bytes:
        asked.append(target)
        return answers.pop(0)

    monkeypatch.setattr(Servers, "_page", answer)
    batches = Servers(("shop:8080",)).changes("counts", 3, ChangeRead(5, 9), COLUMNS)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()], asked


def test_should_go_on_where_the_last_page_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    first = page([1, 2], {"penstock.next": "3", "penstock.end": "5"})
    last = page([4], {"penstock.next": "5", "penstock.end": "5"})
    found, asked = offsets_read(monkeypatch, [first, last])
    assert found == [1, 2, 4]
    assert asked == [
        "/api/stores/counts/changes?partition=3&from=5&to=9",
        "/api/stores/counts/changes?partition=3&from=5&to=9&offset=3&end=5",
    ]


def test_should_end_if_a_server_does_not_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    same = page([1], {"penstock.next": "3", "penstock.end": "5"})
    assert offsets_read(monkeypatch, [same, same])[0] == [1, 1]


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", page([1], {}), page([1], {"penstock.next": "x", "penstock.end": "5"})],
    ids=["nothing", "a page of something else", "without marks", "without numbers"],
)
def test_should_refuse_what_is_no_page(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    with pytest.raises(StateStoreNotAvailableError, match="no page of the changes of store counts"):
        offsets_read(monkeypatch, [data])

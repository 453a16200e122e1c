from __future__ import annotations

from typing import Any

import pytest

from penstock.runtime.queries import arrow_table
from penstock.runtime.queries.arrow_table import batches_of
from penstock.runtime.queries.entries import Entry


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x" * 1_000, "string"), (b"x" * 1_000, "binary"), (["x" * 500] * 2, "array<string>"), ({"a": ["x" * 1_000]}, "string")],
)
def test_should_end_a_batch_by_its_bytes(monkeypatch: pytest.MonkeyPatch, value: Any, kind: str) -> None:
    monkeypatch.setattr(arrow_table, "BATCH_BYTES", 2_500)
    entries = iter([Entry(f"k{number}", value, None) for number in range(7)])
    batches = list(batches_of(entries, [("key", "string"), ("value", kind)]))
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert [key.as_py() for batch in batches for key in batch["key"]] == [f"k{number}" for number in range(7)]


def test_should_end_a_batch_by_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_table, "_BATCH", 2)
    entries = iter([Entry(number, number, None) for number in range(5)])
    assert [batch.num_rows for batch in batches_of(entries, [("key", "bigint"), ("value", "bigint")])] == [2, 2, 1]

"""The bench of serdes measures what it says: all kinds, over columns and record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.serdes import KINDS, Kind, measure, page


@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "records"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_should_write_the_same_records_in_both_ways(kind: Kind, by_columns: bool, tmp_path: Path) -> None:
    assert measure(kind, 100, by_columns, tmp_path) > 0


def test_should_show_who_wins() -> None:
    assert "| Avro | 200 | 100 | 2.00 |" in page([("Avro", 200.0, 100.0)], 10, 1)

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import plot, report
from bench.job import Row, Run
from bench.runner import Result

_ROWS = [
    Row("exactly_once_v2, from RUNNING", "s", 48.0, 8.0, 6.0, 6.0, headline=True, others={"Quix Streams": 300.0}),
    Row("p99 <ms>", "ms", 300.0, 270.0, 0.9, 0.8, "at most", headline=True),
    Row("records", "records", None, 12345.0),
]


def _result(number: int = 1, name: str = "wordcount", commit: str = "abc") -> Result:
    runs = [Run("v", "java", 1, {"seconds": 48.0}), Run("v", "penstock", 1, {"seconds": 8.0, "cpu": 1.0})]
    return Result(number, name, "WordCount", 1.0, 3, {"commit": commit, "CPUs": "2"}, ["a note"], _ROWS, runs)


def test_should_write_a_page_per_job_and_a_summary_of_all(tmp_path: Path) -> None:
    report.write(_result(), tmp_path)
    report.write(_result(5, "latency", "def"), tmp_path)
    page, summary = (tmp_path / "wordcount.md").read_text(), (tmp_path / "README.md").read_text()
    assert "| exactly_once_v2, from RUNNING | 48 | 8 | s | 6 | at least 6 | reached |" in page
    assert "| p99 <ms> | 300 | 270 | ms | 0.9 | at most 0.8 | **missed** |" in page
    assert "| v | 1 | java | 48 | - |" in page
    assert "| exactly_once_v2, from RUNNING | Quix Streams | 300 | s |" in page
    assert "a note" in page
    assert "[1 wordcount](wordcount.md)" in summary
    assert "[5 latency](latency.md)" in summary
    assert "different commits" in summary
    assert (tmp_path / "ratios.svg").exists()


def test_should_read_back_what_it_wrote(tmp_path: Path) -> None:
    report.write(_result(), tmp_path)
    assert report.load(tmp_path / "data" / "1-wordcount.json") == _result()


def test_should_say_that_a_trial_is_no_result() -> None:
    result = _result()
    result.scale = 0.1
    assert "a trial, not a result" in report.page(result)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.01234, "0.0123"), (1.234, "1.23"), (56.78, "56.8"), (1234.5, "1,234"), (0.0, "0")]
)
def test_should_write_three_digits(value: float | None, text: str) -> None:
    assert report.number(value) == text


def test_should_draw_a_bar_for_each_ratio() -> None:
    picture = plot.svg("a <title>", [(row.label, row) for row in _ROWS])
    root = ElementTree.fromstring(picture)
    names = [element.tag.split("}")[1] for element in root]
    assert names.count("rect") == 2
    kinds = [element.get("class") for element in root]
    assert "good" in kinds
    assert "bad" in kinds
    assert kinds.count("goal") == 2
    assert "prefers-color-scheme: dark" in picture


def test_should_draw_nothing_without_ratios() -> None:
    assert "rect" not in plot.svg("empty", [])

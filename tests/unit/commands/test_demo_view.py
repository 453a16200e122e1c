from __future__ import annotations

import io
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from penstock.commands.demo_view import View


@pytest.fixture
def feeder() -> Any:
    return SimpleNamespace(lines=2, words=10, fed=Counter({"kafka": 6, "spark": 4}))


@pytest.fixture
def reader() -> Any:
    counts = {"kafka": 6, "spark": 4}
    return SimpleNamespace(
        words=10, counts=counts, updates=3, backwards=0, all_latencies=[10.0, 20.0, 30.0], recent_latencies=lambda: [10.0, 20.0]
    )


def view(terminal: bool = False) -> tuple[View, io.StringIO]:
    output = io.StringIO()
    return View(Console(file=output, force_terminal=terminal, width=200, highlight=False)), output


def test_should_say_that_every_word_was_counted_once(feeder: Any, reader: Any) -> None:
    shown, output = view()
    assert shown.summary(feeder, reader)
    assert "top words: kafka 6, spark 4" in output.getvalue()
    assert "2 lines (10 words)" in output.getvalue()
    assert "p50 20 ms, p99 30 ms" in output.getvalue()
    assert "exactly once: every word is counted" in output.getvalue()


def test_should_say_what_was_counted_wrong(feeder: Any, reader: Any) -> None:
    reader.counts["spark"] = 5
    shown, output = view()
    assert not shown.summary(feeder, reader)
    assert "NOT exactly once: 1 words differ (spark fed 4 counted 5)" in output.getvalue()


def test_should_not_trust_counts_that_did_not_grow(feeder: Any, reader: Any) -> None:
    reader.backwards = 2
    shown, output = view()
    assert not shown.summary(feeder, reader)
    assert "2 counts did not grow" in output.getvalue()


def test_should_show_a_table_on_a_terminal_and_a_line_elsewhere(feeder: Any, reader: Any) -> None:
    live, on_terminal = view(terminal=True)
    live.page("http://localhost:8080/")
    with live.live():
        live.show(feeder, reader, last=True)
    assert on_terminal.getvalue().count("http://localhost:8080/") > 1
    assert "WordCount, exactly once, on Spark" in on_terminal.getvalue()
    assert "█" in on_terminal.getvalue()
    plain, elsewhere = view()
    plain.page("http://localhost:8080/")
    assert "console and queries: http://localhost:8080/" in elsewhere.getvalue()
    with plain.live():
        plain.show(feeder, reader)
        plain.show(feeder, reader)
    assert elsewhere.getvalue().count("2 lines fed, 2 counted") == 1

"""The lines of the log that the console shows, and the lines that the book passes on to standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from penstock.client.web.log_book import LogBook

_LOG = logging.getLogger("penstock.client.test")


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LogBook]]:
    monkeypatch.setattr(logging.getLogger("penstock"), "handlers", [])  # tests of workers leave one
    books = [LogBook(), LogBook()]
    yield books
    for book in books:
        book.close()


def _last_resort(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What Python writes to standard error without any handler. Called within a test: pytest adds its handlers before."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setLevel(logging.WARNING)
    monkeypatch.setattr(logging, "lastResort", handler)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    return written


def test_should_leave_warnings_on_standard_error_without_another_handler(
    books: list[LogBook], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = _last_resort(monkeypatch)
    _LOG.warning("careful")
    _LOG.info("quiet")
    assert written.getvalue() == "careful\n"
    assert [[line["text"] for line in book.lines()] for book in books] == [["careful"], ["careful"]]


def test_should_leave_lines_to_the_handler_of_the_user(books: list[LogBook], monkeypatch: pytest.MonkeyPatch) -> None:
    written, seen = _last_resort(monkeypatch), StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(seen))
    _LOG.warning("careful")
    assert (written.getvalue(), seen.getvalue()) == ("", "careful\n")

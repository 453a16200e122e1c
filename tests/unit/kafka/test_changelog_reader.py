"""Which way changelogs are read; both ways are played."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.kafka.changelog_reader import WORTH_A_CONNECTION, ChangelogReader
from penstock.kafka.fetch import FetchRange
from penstock.kafka.log_reader import LogUnreadableError
from tests.harness.waiting import LIMIT

RANGE = FetchRange("log", 0, 5, 9)


class Read(RawBatch):
    """Nothing, read in a way."""

    __slots__ = ("way",)

    def __init__(self, way: str) -> None:
        super().__init__("log", 0, [], [], [], [])
        self.way = way


class Fetcher:
    """Reads all."""

    def __init__(self) -> None:
        self.expected: list[FetchRange] = []
        self.closed = False

    def parts(self, ranges: list[FetchRange], headers: bool) -> Iterator[Any]:
        (wanted,) = ranges
        partition = TopicPartition(wanted.topic, wanted.partition)
        yield {partition: Read("fetched")}, {partition: wanted.end - 1}

    def expect(self, next_range: FetchRange) -> None:
        self.expected.append(next_range)

    def rest(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Log:
    """Reads until it fails."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.asked: list[FetchRange] = []
        self.closed = False

    def ask(self, wanted: FetchRange) -> None:
        if self.fails == "ask":
            raise LogUnreadableError("nobody there")
        self.asked.append(wanted)

    def read(self, wanted: FetchRange, until: int) -> tuple[RawBatch, int]:
        if self.fails == "read":
            raise LogUnreadableError("compressed")
        return Read("log"), wanted.end - 1

    def close(self) -> None:
        self.closed = True


def reader_of(fetcher: Fetcher, *logs: Any) -> ChangelogReader:
    left = list(logs)
    return ChangelogReader(fetcher, lambda: left.pop(0))  # type: ignore[arg-type]


def way(reader: ChangelogReader, headers: bool = False) -> str:
    found, behind = reader.fetch(RANGE, 100, headers)
    assert behind == RANGE.end - 1, "as far as it was read"
    assert isinstance(found, Read)
    return found.way


def test_should_read_the_log_where_there_is_much() -> None:
    fetcher, log = Fetcher(), Log()
    reader = reader_of(fetcher, log)
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    assert way(reader) == "log"
    assert log.asked == [RANGE]
    reader.expect(RANGE, headers=False, left=1)  # the last of it
    assert way(reader) == "log"
    assert fetcher.expected == []
    reader.rest()
    assert log.closed
    assert way(reader) == "fetched"


def test_should_fetch_where_there_is_little_or_headers_are_looked_at() -> None:
    fetcher = Fetcher()
    reader = reader_of(fetcher)
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION - 1)
    reader.expect(RANGE, headers=True, left=WORTH_A_CONNECTION)
    assert fetcher.expected == [RANGE, RANGE]
    assert way(reader) == way(reader, headers=True) == "fetched"


@pytest.mark.parametrize("fails", ["ask", "read"])
def test_should_fetch_where_the_log_cannot_be_read_until_all_is_restored(fails: str) -> None:
    fetcher, log, next_log = Fetcher(), Log(fails), Log()
    reader = reader_of(fetcher, log, next_log)
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    assert way(reader) == way(reader) == "fetched"
    assert log.closed
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    assert fetcher.expected == [RANGE]
    reader.rest()
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    assert way(reader) == "log"


def test_should_fetch_where_no_reader_can_be_made() -> None:
    reader = reader_of(Fetcher())
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    assert way(reader) == "fetched"


def test_should_close_what_is_being_opened() -> None:
    fetcher, log, begun = Fetcher(), Log(), threading.Event()

    def make() -> Any:
        assert begun.wait(LIMIT)
        return log

    reader = ChangelogReader(fetcher, make)  # type: ignore[arg-type]
    reader.expect(RANGE, headers=False, left=WORTH_A_CONNECTION)
    begun.set()
    reader.close()
    assert log.closed
    assert fetcher.closed

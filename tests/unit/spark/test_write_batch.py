"""A turn whose records are refused, against a producer with a limit that behaves as the brokers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError

from penstock import ProductionError
from penstock.batches.record_batch import ProducedBatch
from penstock.kafka.produce import RecordsRefusedError, Verdict
from penstock.record import ProducedRecord
from penstock.spark.worker.write_batch import TaskOutputs, records_of, write_batch

LIMIT = 10


def record(value: bytes, topic: str = "out") -> ProducedRecord:
    return ProducedRecord(topic, None, b"", value, 0, ())


class Limited:
    """Takes values up to a limit; a transaction ends with the first refusal, and what it wrote is gone."""

    def __init__(self, transactional: bool) -> None:
        self.transactional = transactional
        self.alone = False
        self.written: list[bytes] = []
        self.committed: list[bytes] = []
        self.passes = 0
        self._refused: set[str] = set()

    def begin(self) -> None:
        self.written, self._refused = [], set()
        self.passes += 1

    def write(self, records: Sequence[ProducedRecord], refused: Callable[..., None] | None = None) -> None:
        for entry in records_of(records):
            if len(entry.value or b"") > LIMIT:
                self._refused.add(entry.topic)
            else:
                self._take(entry)

    def write_one_by_one(self, records: Sequence[ProducedRecord]) -> dict[int, Verdict]:
        verdicts = {}
        for index, entry in enumerate(records):
            if len(entry.value or b"") > LIMIT:
                verdicts[index] = Verdict(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), 0)
                if self.transactional:
                    break
            else:
                self._take(entry)
        return verdicts

    def start_over(self, reason: Any = None, alone: bool = False) -> None:
        self.begin()

    def finish(self) -> None:
        if self._refused:
            raise RecordsRefusedError("too large", self._refused, KafkaError.MSG_SIZE_TOO_LARGE)
        if self.transactional:
            self.committed = self.written

    def _take(self, entry: ProducedRecord) -> None:
        self.written.append(entry.value or b"")
        if not self.transactional:
            self.committed.append(entry.value or b"")


class Collector:
    """Remembers what it was asked about; gives a dead letter for each, or fails."""

    def __init__(self, fails: bool = False) -> None:
        self.asked: list[bytes] = []
        self._fails = fails
        self._letters: list[ProducedRecord] = []

    def handle_send_error(self, entry: ProducedRecord, error: Exception) -> None:
        self.asked.append(entry.value or b"")
        if self._fails:
            raise ProductionError(str(error))
        self._letters.append(record(b"letter", "letters"))

    def drain(self) -> tuple[list[ProducedRecord], list[ProducedRecord]]:
        letters, self._letters = self._letters, []
        return letters, []


SMALL = [b"1", b"2", b"3"]
LARGE = [b"x" * 12, b"x" * 30, b"x" * 11, b"x" * 20]


@pytest.mark.parametrize("transactional", [True, False])
def test_should_write_once_where_nothing_is_refused(transactional: bool) -> None:
    producer, collector = Limited(transactional), Collector()
    write_batch(producer, [TaskOutputs(collector, [record(v) for v in SMALL], [])], producer.finish)  # type: ignore[arg-type]
    assert (producer.committed, producer.passes, collector.asked) == (SMALL, 1, [])


def test_should_commit_everything_but_what_is_given_up() -> None:
    producer, collector, other = Limited(True), Collector(), Collector()
    values = [b"1", LARGE[0], b"2", LARGE[1], LARGE[2], b"3", LARGE[3]]
    parts = [
        TaskOutputs(collector, [record(v) for v in values], [record(b"log", "changelog")]),
        TaskOutputs(other, [record(b"4")], []),
    ]
    write_batch(producer, parts, producer.finish)  # type: ignore[arg-type, misc]
    assert producer.committed == [b"1", b"2", b"3", b"log", *[b"letter"] * 4, b"4"]
    assert sorted(collector.asked) == sorted(LARGE)
    assert other.asked == []
    assert producer.passes <= 5  # the first refusal tells of all that are no smaller


@pytest.mark.parametrize("transactional", [True, False])
def test_should_find_refused_records_among_columns(transactional: bool) -> None:
    producer, collector = Limited(transactional), Collector()
    values: list[bytes | None] = [b"1", LARGE[0], b"2", LARGE[0]]
    columns = ProducedBatch("out", None, [b""] * 4, values, [0] * 4)  # type: ignore[list-item]
    write_batch(producer, [TaskOutputs(collector, [columns], [])], producer.finish)  # type: ignore[arg-type]
    assert set(producer.committed) == {b"1", b"2", b"letter"}
    assert collector.asked == [LARGE[0], LARGE[0]]  # equal records are asked about one by one
    if transactional:
        assert producer.committed == [b"1", b"2", b"letter", b"letter"]


def test_should_lose_nothing_under_at_least_once() -> None:
    producer, collector = Limited(False), Collector()
    values = [b"1", LARGE[0], b"2"]
    parts = [TaskOutputs(collector, [record(v) for v in values], [record(b"log", "changelog")])]
    write_batch(producer, parts, producer.finish)  # type: ignore[arg-type]
    assert set(producer.committed) == {b"1", b"2", b"log", b"letter"}
    assert producer.committed.count(b"log") == 1  # only topics that were refused are written again
    assert producer.committed.count(b"letter") == 1
    assert collector.asked == [LARGE[0]]


@pytest.mark.parametrize("transactional", [True, False])
def test_should_fail_where_the_handler_does(transactional: bool) -> None:
    producer, collector = Limited(transactional), Collector(fails=True)
    parts = [TaskOutputs(collector, [record(LARGE[0])], [])]
    with pytest.raises(ProductionError, match="out-0"):
        write_batch(producer, parts, producer.finish)  # type: ignore[arg-type]


def test_should_fail_where_a_dead_letter_is_refused() -> None:
    class Verbose(Collector):
        def handle_send_error(self, entry: ProducedRecord, error: Exception) -> None:
            self._letters.append(record(b"a very long letter", "letters"))

    producer = Limited(True)
    with pytest.raises(ProductionError, match="dead letter"):
        write_batch(producer, [TaskOutputs(Verbose(), [record(LARGE[0])], [])], producer.finish)  # type: ignore[arg-type]

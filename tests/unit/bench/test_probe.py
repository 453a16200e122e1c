"""What the probe takes for the end of a job: when the ends of the output last moved, however long it takes to read it."""

from __future__ import annotations

from typing import Any

import pytest

from bench import probe
from bench.probe import Expected, wait_until_finished
from penstock.ids import TopicPartition

OUT = TopicPartition("out", 0)


class Log:
    """The output topic and the clock: what is committed when, and what a reader takes for it."""

    def __init__(self, commits: dict[float, int], read_seconds: float) -> None:
        self.commits, self.read_seconds, self.now = commits, read_seconds, 0.0

    def end(self) -> int:
        return max((end for at, end in self.commits.items() if at <= self.now), default=0)

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> Any:
        return None

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def key(self) -> bytes:
        return b"key-%d" % self._offset

    def value(self) -> bytes:
        return b"value"


class End(Message):
    def error(self) -> Any:
        return self

    def code(self) -> int:
        return int(probe.KafkaError._PARTITION_EOF)


@pytest.mark.parametrize("read_seconds", [0.01, 2.0])
def test_should_not_take_what_comes_while_it_reads_for_something_earlier(
    monkeypatch: pytest.MonkeyPatch, read_seconds: float
) -> None:
    log = Log({0.5: 10, 4.5: 20}, read_seconds)

    class Admin:
        def __init__(self, _: Any) -> None: ...

        def log_ends(self, _: Any, committed_only: bool) -> dict[TopicPartition, int]:
            assert committed_only
            return {OUT: log.end()}

    class Consumer:
        def __init__(self, _: Any) -> None: ...

        def assign(self, partitions: list[Any]) -> None:
            self.at = partitions[0].offset

        def consume(self, _most: int, _seconds: float) -> list[Message]:
            log.now += log.read_seconds
            found: list[Message] = [Message(offset) for offset in range(self.at, log.end())]
            self.at += len(found)
            return found or [End(self.at)]

        def close(self) -> None: ...

    monkeypatch.setattr(probe, "Admin", Admin)
    monkeypatch.setattr(probe, "Consumer", Consumer)
    monkeypatch.setattr(probe, "time", log)
    expected = Expected({b"key-%d" % offset: b"value" for offset in range(20)}, 20)
    finished = wait_until_finished("broker", "out", 1, expected, lambda: None)
    assert finished.records == 20
    assert finished.first == pytest.approx(0.5, abs=0.1)
    assert 4.5 <= finished.at <= 4.6 + read_seconds
    assert finished.silence == pytest.approx(4.0, abs=0.1 + read_seconds)

"""What a log reader has in memory at a time; `tests/integration/test_log_reader.py` compares it with a consumer."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Iterator

import pytest

from penstock.ids import TopicPartition
from penstock.kafka import log_reader, record_batches
from penstock.kafka.fetch import FetchRange
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import FetchAnswer
from tests.unit.kafka.test_record_batches import GZIP, batch

PARTITION = TopicPartition("log", 3)
BOMBS, BOMB = 40, 1_000_000


class Leader:
    """A broker that answers with all batches from the one that holds the offset."""

    def __init__(self, batches: list[bytes]) -> None:
        self._batches = batches
        self.asked: list[int] = []
        self._waiting: deque[int] = deque()

    def ask(self, partition: TopicPartition, position: int) -> None:
        assert partition == PARTITION
        self._waiting.clear()
        self._waiting.append(position)
        self.asked.append(position)

    def answer(self) -> FetchAnswer:
        return FetchAnswer(b"".join(self._batches[self._waiting.popleft() :]), ())

    def close(self) -> None: ...


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(record_batches, "MOST_UNPACKED", 3 * BOMB)
    monkeypatch.setattr(log_reader, "MOST_BYTES", 6 * BOMB)
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("limits")
def test_should_unpack_a_few_batches_of_an_answer_at_a_time() -> None:
    """The answer has 40 bombs: all of them would take 40 MB, and their parts as much again."""
    leader = Leader([batch(offset, [(1, b"k", bytes(BOMB))], compression=GZIP) for offset in range(BOMBS)])
    reader, position, offsets = LogReader(leader, reads_committed=False), 0, list[int]()
    while position < BOMBS:
        found, position = reader.read(FetchRange(*PARTITION, position, BOMBS), BOMBS)
        offsets += found.offsets
        assert len(found) <= 10
    assert offsets == [*range(BOMBS)]
    assert leader.asked == [0], "the rest of an answer is unpacked later, not fetched again"
    assert tracemalloc.get_traced_memory()[1] < 25 * BOMB


@pytest.mark.usefixtures("limits")
def test_should_read_elsewhere_after_a_part_of_an_answer() -> None:
    leader = Leader([batch(offset, [(1, b"k", bytes(BOMB))], compression=GZIP) for offset in range(BOMBS)])
    reader = LogReader(leader, reads_committed=False)
    for start, end in ((0, 2), (30, 33), (2, 4), (39, 40)):
        found, position = reader.read(FetchRange(*PARTITION, start, end), BOMBS)
        assert (list(found.offsets), position) == ([*range(start, end)], end)

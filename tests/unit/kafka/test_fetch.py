"""Consumers that reach nobody any more are replaced, and batches that cannot be read are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from penstock.batches.record_batch import UnreadableBatch
from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.kafka import fetch
from penstock.kafka.fetch import FetchRange, LenientFetcher, RangeFetcher


class SilentConsumer:
    """Is assigned partitions, and never hears of them."""

    closed = False

    def assign(self, partitions: Sequence[Any]) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Any]:
        return []

    def position(self, partitions: Sequence[Any]) -> Sequence[Any]:
        return partitions

    def close(self) -> None:
        self.closed = True


def test_should_read_with_a_new_consumer_where_nothing_at_all_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SilentConsumer] = []

    def open_client(*_: Any) -> SilentConsumer:
        made.append(SilentConsumer())
        return made[-1]

    monkeypatch.setattr(fetch, "open_client", open_client)
    fetcher = LenientFetcher({}, timeout=0.0)
    for reads in (1, 2):
        fetcher.fetch([FetchRange("in", 0, 5, 9)])
        assert fetcher.take_short().keys() == {TopicPartition("in", 0)}
        assert len(made) == reads
        assert made[-1].closed


A, B = TopicPartition("in", 0), TopicPartition("in", 1)


class Log:
    """Plays a consumer of partitions with batches, some of which cannot be read; the next poll gives what the next batch has."""

    def __init__(self, batches: dict[TopicPartition, list[range]], damaged: set[int]) -> None:
        self._batches, self._damaged = batches, damaged
        self._at: dict[TopicPartition, int] = {}

    def assign(self, partitions: Sequence[Any]) -> None:
        self._at = {TopicPartition(p.topic, p.partition): p.offset for p in partitions}

    def unassign(self) -> None:
        self._at = {}

    def consume(self, count: int, timeout: float) -> list[Message]:
        return [message for partition in list(self._at) for message in self._next(partition)]

    def _next(self, partition: TopicPartition) -> list[Message]:
        at, (topic, number) = self._at[partition], partition
        batch = next((batch for batch in self._batches[partition] if at < batch.stop), None)
        if batch is None:
            return []
        if batch.start in self._damaged:
            error = KafkaError(KafkaError._BAD_COMPRESSION, "Decompression failed")
            return [Message(topic=topic, partition=number, offset=batch.start, error=error)] * 2
        self._at[partition] = batch.stop
        offsets = [offset for offset in batch if offset >= at]
        return [Message(topic=topic, partition=number, offset=o, value=b"v", timestamp=(1, 100)) for o in offsets]

    def position(self, partitions: Sequence[Any]) -> Sequence[Any]:
        return partitions

    def close(self) -> None: ...

    def batch_end(self, partition: TopicPartition, offset: int) -> int:
        return next(batch.stop for batch in self._batches[partition] if offset in batch)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Of the first partition the batches at 3 and 8 to 10, of the second that at 10 cannot be read."""
    batches = {A: [range(3), range(3, 5), range(5, 8), range(8, 10), range(10, 12)], B: [range(10), range(10, 20)]}
    found = Log(batches, {3, 8, 10})
    monkeypatch.setattr(fetch, "open_client", lambda *_: found)
    return found


@pytest.mark.parametrize("kind", [RangeFetcher, LenientFetcher])
def test_should_read_what_lies_before_between_and_behind_batches_that_cannot_be_read(log: Log, kind: type[RangeFetcher]) -> None:
    found = kind({}, timeout=10.0, batch_end=log.batch_end).fetch([FetchRange("in", 0, 0, 12), FetchRange("in", 1, 0, 10)])
    assert list(found[A].offsets) == [0, 1, 2, 5, 6, 7]
    assert found[A].unreadable == tuple(
        UnreadableBatch(start, end, "Decompression failed") for start, end in ((3, 5), (8, 10), (10, 12))
    )
    assert (list(found[B].offsets), found[B].unreadable) == (list(range(10)), ())


@pytest.mark.parametrize(("start", "end", "offsets", "skipped"), [(0, 4, [0, 1, 2], (3, 4)), (4, 8, [5, 6, 7], (4, 5))])
def test_should_skip_only_the_offsets_of_a_batch_that_are_asked_for(
    log: Log, start: int, end: int, offsets: list[int], skipped: tuple[int, int]
) -> None:
    found = RangeFetcher({}, timeout=10.0, batch_end=log.batch_end).fetch([FetchRange("in", 0, start, end)])[A]
    assert list(found.offsets) == offsets
    assert [batch[:2] for batch in found.unreadable] == [skipped]


def test_should_read_on_where_an_unreadable_batch_lay_behind_the_last_range(log: Log) -> None:
    fetcher = RangeFetcher({}, timeout=10.0, batch_end=log.batch_end)
    assert not fetcher.fetch([FetchRange("in", 0, 0, 3)])[A].unreadable
    found = fetcher.fetch([FetchRange("in", 0, 3, 8)])[A]
    assert (list(found.offsets), [batch[:2] for batch in found.unreadable]) == ([5, 6, 7], [(3, 5)])


def test_should_say_which_batch_cannot_be_read_where_none_is_skipped(log: Log) -> None:
    with pytest.raises(SerializationError, match="The record batch of in-0 at offsets 3 to 3 cannot be read: Decompression fai"):
        RangeFetcher({}, timeout=10.0).fetch([FetchRange("in", 0, 0, 8)])


def test_should_read_no_further_behind_so_many_bytes(log: Log) -> None:
    fetcher = LenientFetcher({}, timeout=10.0, batch_end=log.batch_end, most_bytes=4)
    found = fetcher.fetch([FetchRange("in", 0, 0, 12)])[A]
    assert (list(found.offsets), [batch[:2] for batch in found.unreadable]) == ([0, 1, 2, 5, 6, 7], [(3, 5)])
    short = fetcher.take_short()[A]
    assert (short.offset, short.out_of_range) == (8, False)
    again = fetcher.fetch([FetchRange("in", 0, 8, 12)])[A]
    assert [batch[:2] for batch in again.unreadable] == [(8, 10), (10, 12)]


def test_should_hand_out_ranges_in_parts_of_so_many_bytes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MOST_BYTES", 6)
    fetcher, rows, skipped = RangeFetcher({}, timeout=10.0, batch_end=log.batch_end), list[tuple[int, int]](), set[int]()
    reached = {A: 0, B: 0}
    for found, to in fetcher.parts([FetchRange("in", 0, 0, 12), FetchRange("in", 1, 0, 10)]):
        for partition, columns in found.items():
            assert all(reached[partition] <= offset < to[partition] for offset in columns.offsets)
            rows += [(partition.partition, offset) for offset in columns.offsets]
            skipped |= {batch.start for batch in columns.unreadable}
        reached |= to
    assert sorted(rows) == [*((0, offset) for offset in (0, 1, 2, 5, 6, 7)), *((1, offset) for offset in range(10))]
    assert skipped == {3, 8, 10}
    assert reached == {A: 12, B: 10}

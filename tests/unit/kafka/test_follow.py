"""What comes to partitions that are followed: taken in order, each record once, up to where it was said to be taken."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from penstock.ids import TopicPartition
from penstock.kafka.follow import Follower, Taken

A, B = TopicPartition("a", 0), TopicPartition("b", 3)


def message(partition: TopicPartition, offset: int, error: KafkaError | None = None) -> Message:
    return Message(*partition, offset, b"k", str(offset).encode(), None, error, (1, offset))


def end_of(partition: TopicPartition, offset: int) -> Message:
    return message(partition, offset, KafkaError(KafkaError._PARTITION_EOF))


class Consumer:
    """Hands out what was put into it."""

    def __init__(self, config: Any) -> None:
        self.messages: deque[Any] = deque()
        self.assigned: list[dict[TopicPartition, int]] = []
        self.ends: dict[TopicPartition, int] = {}
        self.stopped: set[TopicPartition] = set()

    def pause(self, partitions: Any) -> None:
        self.stopped |= {TopicPartition(p.topic, p.partition) for p in partitions}

    def resume(self, partitions: Any) -> None:
        self.stopped -= {TopicPartition(p.topic, p.partition) for p in partitions}

    def assign(self, partitions: Any) -> None:
        self.assigned.append({TopicPartition(p.topic, p.partition): p.offset for p in partitions})

    def incremental_assign(self, partitions: Any) -> None:
        new = {TopicPartition(p.topic, p.partition): p.offset for p in partitions}
        self.assigned.append({**self.assigned[-1], **new})

    def unassign(self) -> None:
        self.assigned.append({})

    def poll(self, seconds: float) -> Any:
        return self.messages.popleft() if self.messages else None

    def consume(self, count: int, seconds: float) -> list[Any]:
        found = list(self.messages)
        self.messages.clear()
        return found

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int] | None:
        end = self.ends.get(TopicPartition(partition.topic, partition.partition))
        return None if end is None else (0, end)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    made = Consumer(None)
    monkeypatch.setattr("penstock.kafka.follow.open_client", lambda *given: made)
    return made


def offsets(taken: Taken) -> dict[TopicPartition, list[int]]:
    return {partition: list(columns.offsets) for partition, columns in taken.columns.items() if len(columns)}


def ranges(taken: Taken) -> dict[TopicPartition, tuple[int, int]]:
    return {partition: (r.start, r.end) for partition, r in taken.ranges.items()}


def test_should_take_what_has_come_and_read_on_behind_it(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 5, B: 0})
    consumer.messages.extend([message(A, 5), message(B, 0), message(A, 7)])
    follower.wait(0.1)
    assert follower.waiting == 3
    taken = follower.take(100)
    assert (offsets(taken), ranges(taken)) == ({A: [5, 7], B: [0]}, {A: (5, 8), B: (0, 1)})
    assert follower.take(100) == Taken({}, {})
    follower.follow({A: 8, B: 1})
    assert len(consumer.assigned) == 1  # where it is already
    follower.follow({A: 8, B: 0})
    assert consumer.assigned[-1] == {A: 8, B: 0}


def test_should_take_so_many_at_most_and_the_rest_later(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 0, B: 0})
    consumer.messages.extend([*(message(A, offset) for offset in range(90)), *(message(B, offset) for offset in range(10))])
    consumer.messages.append(end_of(A, 90))
    follower.wait(0.1)
    first = follower.take(20)
    assert ranges(first) == {A: (0, 18), B: (0, 2)}
    assert not follower.is_at_end(A)
    assert ranges(follower.take(1_000)) == {A: (18, 90), B: (2, 10)}
    assert follower.is_at_end(A)


def test_should_pass_over_offsets_without_records_and_forget_an_end_that_is_none_any_more(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 5})
    consumer.messages.extend([message(A, 5), end_of(A, 8)])
    follower.wait(0.1)
    assert follower.has_skipped
    assert ranges(follower.take(10)) == {A: (5, 8)}
    assert not follower.has_skipped
    consumer.messages.extend([end_of(A, 9), message(A, 9)])
    follower.wait(0.1)
    assert not follower.is_at_end(A)
    assert ranges(follower.take(10)) == {A: (8, 10)}
    assert not follower.is_at_end(A)
    consumer.ends[A] = 10
    assert follower.is_at_end(A)


def test_should_take_nothing_twice_that_is_delivered_again(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 5})
    consumer.messages.extend([message(A, 4), message(A, 5), message(B, 0)])
    follower.wait(0.1)
    assert offsets(follower.take(10)) == {A: [5]}
    consumer.messages.extend([message(A, 5), message(A, 6)])
    follower.wait(0.1)
    assert offsets(follower.take(10)) == {A: [6]}


def test_should_say_what_is_wrong_and_begin_anew_when_it_is_told_to(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 5})
    consumer.messages.append(message(A, -1, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)))
    follower.wait(0.1)
    assert A in follower.trouble
    follower.follow({A: 5})
    assert not follower.trouble
    assert len(consumer.assigned) == 3  # assigned, left, and assigned again


def test_should_take_no_more_at_a_time_than_a_batch_may_have_in_bytes(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.follow.MOST_BYTES", 10)
    left = [[message(A, offset) for offset in range(start, start + 4)] for start in (100, 104, 108, 112)]
    monkeypatch.setattr(consumer, "consume", lambda count, seconds: left.pop(0) if left else [])
    follower = Follower({})
    follower.follow({A: 99})
    consumer.messages.append(message(A, 99))
    follower.wait(0.1)
    assert follower.waiting == 5  # 14 bytes
    assert follower.is_full
    assert len(follower.take(3).columns[A]) == 3
    assert not follower.is_full
    follower.take(10)
    follower.wait(0.1)  # polls in vain
    assert not follower.waiting
    consumer.messages.append(message(A, 104))
    follower.wait(0.1)
    assert follower.is_full
    follower.rest()
    assert not follower.is_full


def test_should_take_nothing_of_paused_partitions_and_go_on_with_the_others(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 0, B: 0})
    follower.pause(frozenset({A}))
    consumer.messages.extend([message(A, 0), message(A, 1), message(B, 0)])
    follower.wait(0, 2)
    assert follower.waiting == 1
    assert follower.take(10).ranges.keys() == {B}
    follower.pause(frozenset())
    assert [record.offset for record in follower.take(10).columns[A]] == [0, 1]


@pytest.mark.parametrize("goes_on", [lambda follower: follower.pause(frozenset()), Follower.rest])
def test_should_not_fetch_a_paused_partition_of_which_a_whole_batch_has_come(consumer: Consumer, goes_on: Any) -> None:
    follower = Follower({})
    follower.follow({A: 0, B: 0})
    follower.pause(frozenset({A}))
    consumer.messages.extend([message(A, 0), message(A, 1), message(A, 2)])
    follower.wait(0, 2)
    assert consumer.stopped == {A}
    goes_on(follower)
    assert not consumer.stopped


def test_should_take_nothing_from_a_limit_on(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 3, B: 0}, {A: 5})
    consumer.messages.extend([message(A, 3), message(A, 4), message(A, 5), message(A, 6), message(B, 0), message(B, 1)])
    follower.wait(0)
    taken = follower.take(100)
    assert list(taken.columns[A].offsets) == [3, 4]
    assert list(taken.columns[B].offsets) == [0, 1]
    assert follower.positions == {A: 5, B: 2}
    assert follower.is_at_end(A)
    assert consumer.stopped == {A}
    assert follower.lags.get(A, 0) == 0


def test_should_pass_over_what_is_no_record_up_to_a_limit(consumer: Consumer) -> None:
    follower = Follower({})
    follower.follow({A: 3}, {A: 5})
    consumer.messages.extend([message(A, 3), message(A, 7)])
    follower.wait(0)
    follower.take(100)
    assert follower.positions == {A: 5}
    follower.rest()
    assert not consumer.stopped, "the next one that is followed is fetched"

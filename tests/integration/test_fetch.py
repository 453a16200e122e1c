"""Reading exact ranges of offsets from a broker: over gaps, on from the last range, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from penstock import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka import fetch
from penstock.kafka.fetch import FetchRange, LenientFetcher, RangeFetcher, StuckPartitionsError
from tests.harness.hostile import feed_header_that_is_no_text
from tests.harness.kafka import Kafka, Message, unique
from tests.harness.waiting import LIMIT


@pytest.fixture
def fetcher(kafka: Kafka) -> Iterator[RangeFetcher]:
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": unique("reads"), "auto.offset.reset": "error"}
    reading = RangeFetcher(config, timeout=20)
    yield reading
    reading.close()


def write(kafka: Kafka, topic: str, *transactions: tuple[int, bool]) -> None:
    """Transactions of so many records on each of two partitions, committed or not; each ends with a marker."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique("writes")})
    producer.init_transactions()
    number = 0
    for count, commits in transactions:
        producer.begin_transaction()
        for _ in range(count):
            for partition in range(2):
                producer.produce(topic, f"v{number}", f"k{number}", partition, timestamp=1_000 + number)
            number += 1
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)()


def read(fetcher: RangeFetcher, topic: str, start: int, end: int, partitions: int = 2) -> list[Any]:
    ranges = [FetchRange(topic, partition, start, end) for partition in range(partitions)]
    found = fetcher.fetch(ranges)
    assert set(found) == {TopicPartition(topic, partition) for partition in range(partitions)}
    columns = [found[TopicPartition(topic, partition)] for partition in range(partitions)]
    for one in columns:
        assert list(one.keys) == [b"k%d" % (at - 1_000) for at in one.timestamps]
        assert list(one.values) == [b"v%d" % (at - 1_000) for at in one.timestamps]
        assert one.headers is None
    return [list(one.offsets) for one in columns]


@pytest.mark.parametrize("short", [True, False])
def test_should_read_exactly_what_lies_in_ranges(
    kafka: Kafka, fetcher: RangeFetcher, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not short:
        monkeypatch.setattr(fetch, "_SHORT", 0)
    topic = unique("ranges")
    kafka.create(topic, partitions=2)
    # Offsets 0-99, a marker at 100, 101-150 aborted with a marker at 151, 152-181 and a marker at 182.
    write(kafka, topic, (100, True), (50, False), (30, True))
    records = [*range(100), *range(152, 182)]

    def expected(start: int, end: int) -> list[Any]:
        return [[offset for offset in records if start <= offset < end]] * 2

    for start, end in [(0, 10), (10, 60), (60, 101), (101, 110), (110, 152), (152, 182), (182, 183)]:
        assert read(fetcher, topic, start, end) == expected(start, end)  # on from the last
    for start, end in [(0, 183), (50, 160), (20, 30), (100, 102), (0, 1), (150, 183)]:
        assert read(fetcher, topic, start, end) == expected(start, end)  # anywhere
    fetcher.rest()
    assert read(fetcher, topic, 0, 5, partitions=1) == expected(0, 5)[:1]
    assert read(fetcher, topic, 5, 20) == expected(5, 20)  # with one more partition
    assert read(fetcher, topic, 20, 40, partitions=1) == expected(20, 40)[:1]  # with one less
    assert read(fetcher, topic, 40, 50, partitions=1) == expected(40, 50)[:1]
    ahead = fetcher.fetch([FetchRange(topic, 0, 50, 60), FetchRange(topic, 1, 20, 60)])
    assert [list(columns.offsets) for columns in ahead.values()] == [list(range(50, 60)), list(range(20, 60))]


def test_should_fetch_again_what_it_could_not_keep(kafka: Kafka, fetcher: RangeFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_MOST_AHEAD", 10)
    monkeypatch.setattr(fetch, "_SHORT", 0)
    topic = unique("uneven")
    kafka.create(topic, partitions=2)
    write(kafka, topic, (3_000, True))
    fetcher.fetch([FetchRange(topic, 0, 0, 5), FetchRange(topic, 1, 0, 3_000)])
    found = fetcher.fetch([FetchRange(topic, 0, 5, 3_000)])
    assert list(found[TopicPartition(topic, 0)].offsets) == list(range(5, 3_000))


def test_should_keep_what_was_fetched_where_other_partitions_join_in(
    kafka: Kafka, fetcher: RangeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_SHORT", 0)
    topics = [unique(name) for name in ("first", "second", "third")]
    for topic in topics:
        kafka.create(topic, partitions=2)
        write(kafka, topic, (3_000, True), (10, False), (3_000, True))
    read_of = {TopicPartition(topic, partition): list[int]() for topic in topics for partition in range(2)}
    wanted = (topics[:1], topics[:2], topics[1:2], topics, topics[:1], topics[2:], topics)
    for these in wanted:
        ranges = [FetchRange(*p, len(read_of[p]), len(read_of[p]) + 400) for p in read_of if p.topic in these]
        for partition, columns in fetcher.fetch(ranges).items():
            read_of[partition] += columns.offsets
    assert [len(offsets) for offsets in read_of.values()] == [2_000, 2_000, 1_600, 1_600, 1_200, 1_200]
    assert all(offsets == list(range(len(offsets))) for offsets in read_of.values())


def test_should_read_what_was_written_after_the_end_was_reached(kafka: Kafka, fetcher: RangeFetcher) -> None:
    topic = unique("growing")
    kafka.create(topic, partitions=2)
    write(kafka, topic, (3_000, True))
    assert read(fetcher, topic, 0, 3_000) == [list(range(3_000))] * 2
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(2_500):
        for partition in range(2):
            producer.produce(topic, f"v{number}", f"k{number}", partition, timestamp=1_000 + number)
    producer.flush()
    assert read(fetcher, topic, 3_000, 5_501) == [list(range(3_001, 5_501))] * 2


def test_should_tell_of_offsets_that_are_gone(kafka: Kafka, fetcher: RangeFetcher) -> None:
    topic = unique("gone")
    kafka.create(topic, partitions=2)
    write(kafka, topic, (3_000, True))
    kafka.admin.delete_records([ClientPartition(topic, 0, 2_000)])[ClientPartition(topic, 0, 2_000)].result(LIMIT)
    with pytest.raises(BrokerError, match="no longer in the log"):
        fetcher.fetch([FetchRange(topic, 0, 0, 3_000)])
    assert len(fetcher.fetch([FetchRange(topic, 0, 2_000, 3_000)])[TopicPartition(topic, 0)]) == 1_000


def test_should_read_a_record_without_headers_where_the_name_of_one_is_not_utf_8(kafka: Kafka, fetcher: RangeFetcher) -> None:
    topic = unique("names")
    kafka.create(topic, partitions=1)
    plain = (("a", b"1"), ("b", None))
    for number in range(3):
        kafka.feed(topic, [Message(b"k%d" % number, b"v", 1, plain)])
        feed_header_that_is_no_text(kafka.bootstrap_servers, topic, b"odd", b"v")
    read_twice = [fetcher.fetch([FetchRange(topic, 0, 0, 6)])[TopicPartition(topic, 0)] for _ in range(2)]
    for found in read_twice:
        assert found.keys == [b"k0", b"odd", b"k1", b"odd", b"k2", b"odd"]
        assert found.headers == [plain, ()] * 3


def test_should_let_a_partition_that_does_not_move_hold_up_itself_only(kafka: Kafka) -> None:
    topic = unique("stuck")
    kafka.create(topic, partitions=3)
    write(kafka, topic, (10, True))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": unique("undecided")})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "x", "x", 0)
    producer.flush()
    cut = ClientPartition(topic, 1, 5)
    kafka.admin.delete_records([cut])[cut].result(LIMIT)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": unique("reads"), "auto.offset.reset": "error"}
    reading = LenientFetcher({**config, "isolation.level": "read_committed"}, timeout=2)
    kafka.feed(topic, [Message(b"k", b"v", 1_000)] * 4, partition=2)
    found = reading.fetch([FetchRange(topic, 0, 3, 12), FetchRange(topic, 1, 3, 11), FetchRange(topic, 2, 0, 4)])
    assert [len(found[TopicPartition(topic, partition)]) for partition in range(3)] == [7, 0, 4]
    short = reading.take_short()
    assert {p.partition: (at.offset, at.out_of_range) for p, at in short.items()} == {0: (10, False), 1: (3, True)}
    assert reading.take_short() == {}
    strict = RangeFetcher({**config, "isolation.level": "read_committed"}, timeout=2)
    with pytest.raises(StuckPartitionsError, match=f"{topic}-0 at offset 10") as caught:
        strict.fetch([FetchRange(topic, 0, 3, 12), FetchRange(topic, 2, 0, 4)])
    assert list(caught.value.short) == [TopicPartition(topic, 0)]
    producer.abort_transaction()
    assert list(reading.fetch([FetchRange(topic, 0, 10, 12)])[TopicPartition(topic, 0)].offsets) == []
    assert reading.take_short() == {}
    reading.close()
    strict.close()


def test_should_have_begun_to_fetch_what_is_expected(
    kafka: Kafka, fetcher: RangeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_SHORT", 0)
    topic = unique("expected")
    kafka.create(topic, partitions=2)
    write(kafka, topic, (100, True))
    fetcher.expect(FetchRange(topic, 0, 10, 101))
    assert read(fetcher, topic, 10, 50, partitions=1) == [list(range(10, 50))]
    fetcher.expect(FetchRange(topic, 0, 50, 101))  # where the last read ended: what was fetched since is kept
    assert read(fetcher, topic, 50, 101, partitions=1) == [list(range(50, 100))]
    fetcher.expect(FetchRange(topic, 0, 0, 101))
    assert read(fetcher, topic, 20, 101) == [list(range(20, 100))] * 2  # asked for something else


def test_should_leave_out_headers_that_nobody_looks_at(kafka: Kafka, fetcher: RangeFetcher) -> None:
    topic = unique("headers")
    kafka.create(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"v", b"k", 0, headers=[("h", b"1")])
    producer.flush()
    wanted, partition = [FetchRange(topic, 0, 0, 1)], TopicPartition(topic, 0)
    assert fetcher.fetch(wanted, headers=False)[partition].headers is None
    assert fetcher.fetch(wanted)[partition].headers == [(("h", b"1"),)]

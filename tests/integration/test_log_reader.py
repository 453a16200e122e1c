"""Logs read as they lie on a broker: the same records as a consumer gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from penstock.batches.record_batch import RawBatch
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.fetch import FetchRange, RangeFetcher
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import ClientTransport, LogTransport, LogUnreadableError, PlainTransport
from tests.harness.kafka import Kafka, unique


@pytest.fixture
def fetcher(kafka: Kafka) -> Iterator[RangeFetcher]:
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": unique("reads"), "auto.offset.reset": "error"}
    reading = RangeFetcher({**config, "isolation.level": "read_committed"}, timeout=20)
    yield reading
    reading.close()


@pytest.fixture(params=[PlainTransport, ClientTransport])
def reader(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[LogReader]:
    transport: LogTransport
    if request.param is PlainTransport:
        transport = PlainTransport(Admin({"bootstrap.servers": kafka.bootstrap_servers}).leader, "reads", reads_committed=True)
    else:
        settings = {"bootstrap_servers": kafka.bootstrap_servers.split(","), "client_id": "reads"}
        transport = ClientTransport(settings, reads_committed=True)
    reading = LogReader(transport, reads_committed=True)
    yield reading
    reading.close()


def write(kafka: Kafka, topic: str, compression: str = "none") -> int:
    """Transactions of many records, every third aborted, among records of none; returns where the log ends."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": compression}
    plain = Producer(settings)
    within = Producer({**settings, "transactional.id": unique("writes")})
    within.init_transactions()
    offsets = 0
    for round_ in range(6):
        within.begin_transaction()
        for number in range(1_000):
            key = None if number % 7 == 0 else b"key-%d" % number
            value = None if number % 5 == 0 else b"%d" % round_ * number
            within.produce(topic, value, key, 0, timestamp=1_000 * round_ + number, headers=[("h", b"1")])
            if number % 10 == 0:
                plain.produce(topic, b"plain", b"key-%d" % number, 0, timestamp=5)
                offsets += 1
        within.flush()
        plain.flush()
        (within.abort_transaction if round_ % 3 == 1 else within.commit_transaction)()
        offsets += 1_001
    return offsets


def rows(columns: RawBatch) -> list[tuple[object, ...]]:
    return list(zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True))


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_should_read_what_a_consumer_reads(kafka: Kafka, fetcher: RangeFetcher, reader: LogReader, compression: str) -> None:
    topic = unique("logs")
    kafka.create(topic)
    end = write(kafka, topic, compression)
    for start, stop in [(0, 10), (10, 4_000), (4_000, end), (17, 18), (0, end), (end - 1, end)]:
        wanted = FetchRange(topic, 0, start, stop)
        expected = fetcher.fetch([wanted], headers=False)[TopicPartition(topic, 0)]
        found, behind = reader.read(wanted, end)
        assert (rows(found), behind) == (rows(expected), stop)


def test_should_read_one_log_after_the_other(kafka: Kafka, reader: LogReader) -> None:
    topic = unique("logs")
    kafka.create(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(3_000):
        producer.produce(topic, b"v", b"%d" % number, number % 2)
    producer.flush()
    for start, end in ((0, 700), (700, 1_500)):
        for partition in (1, 0):
            found, _ = reader.read(FetchRange(topic, partition, start, end), 1_500)
            assert found.keys == [b"%d" % (2 * number + partition) for number in range(start, end)]


def test_should_give_up_where_another_way_is_needed(kafka: Kafka, reader: LogReader) -> None:
    topic = unique("logs")
    kafka.create(topic)
    end = write(kafka, topic, "snappy")
    with pytest.raises(LogUnreadableError, match="unsupported compression"):
        reader.read(FetchRange(topic, 0, 0, end), end)
    with pytest.raises(LogUnreadableError, match="error 1"):  # out of range
        reader.read(FetchRange(topic, 0, end + 5, end + 9), end + 9)
    with pytest.raises(LogUnreadableError):
        reader.read(FetchRange(unique("nowhere"), 0, 0, 5), 5)

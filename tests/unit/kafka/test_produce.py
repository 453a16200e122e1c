"""What a thread's producer does with the records of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.batches.record_batch import ProducedBatch
from penstock.kafka import produce
from penstock.kafka.produce import ThreadProducer
from penstock.record import ProducedRecord


class Client:
    """Keeps what is produced."""

    def __init__(self) -> None:
        self.produced: list[tuple[Any, ...]] = []

    def produce(self, *arguments: Any) -> None:
        self.produced.append(arguments)

    def poll(self, timeout: float) -> int:
        return 0


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(produce, "open_client", lambda what, kind, settings: made)
    return made


@pytest.mark.parametrize("partition", [None, 3])
def test_should_write_columns_whatever_their_number(partition: int | None, client: Client) -> None:
    producer = ThreadProducer({}, None)
    for number in range(3):
        keys = [b"k"] * number
        producer.write([ProducedBatch("changelog", partition, keys, keys, [7] * number, None)])
    assert len(client.produced) == 3


@pytest.mark.parametrize("count", [1, 3])
def test_should_write_the_nearest_time_for_the_first_millisecond_of_all(count: int, client: Client) -> None:
    """librdkafka would write the time of day."""
    producer = ThreadProducer({}, None)
    producer.write([ProducedBatch("out", 0, [b"k"] * count, [b"v"] * count, [0] * count, None)])
    producer.write([ProducedRecord("out", None, b"k", b"v", 0, ()), ProducedRecord("out", None, b"k", b"v", 7, ())])
    assert [produced[6] for produced in client.produced] == [1] * count + [1, 7]


def test_should_write_half_of_a_surrogate_pair_in_the_name_of_a_header_as_java_does(client: Client) -> None:
    """librdkafka's client would end the process."""
    producer = ThreadProducer({}, None)
    producer.write([ProducedRecord("out", None, b"k", b"v", 7, (("a\udcff", b"x"), ("ä", None)))])
    producer.write([ProducedBatch("out", 0, [b"k"], [b"v"], [7], [(("\ud800", b"x"),)])])
    assert [produced[7] for produced in client.produced] == [[("a?", b"x"), ("ä", None)], [("?", b"x")]]

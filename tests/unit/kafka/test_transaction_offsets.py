"""Offsets that are added to a transaction without what confluent-kafka adds to them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from penstock.ids import TopicPartition
from penstock.kafka import transaction_offsets
from penstock.kafka.membership import group_metadata
from penstock.kafka.transaction_offsets import TransactionOffset, send_offsets
from penstock.runtime.offset_metadata import OffsetAndMetadata

OFFSETS = [
    TransactionOffset(TopicPartition("lines", 0), OffsetAndMetadata(7, "times")),
    TransactionOffset(TopicPartition("lines", 1), OffsetAndMetadata(8)),
]
GROUP = group_metadata("group", 3, "member")


@pytest.fixture
def producer() -> Iterator[Producer]:
    made = Producer({"bootstrap.servers": "localhost:1", "transactional.id": "unit", "log_level": 0})
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    transaction_offsets._library.cache_clear()
    transaction_offsets._warn_fallback.cache_clear()


class Recorded(Producer):  # type: ignore[misc]  # confluent-kafka's classes have no types here
    """Keeps what confluent-kafka's own call is given."""

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self.sent = arguments


def test_should_tell_errors_as_the_client_tells_them(producer: Producer) -> None:
    """A transaction that was never begun."""
    with pytest.raises(KafkaException) as found:
        send_offsets(producer, OFFSETS, GROUP, 1.0)
    with pytest.raises(KafkaException) as expected:
        producer.send_offsets_to_transaction([ClientPartition("lines", 0, 7)], GROUP, 1.0)
    mine, theirs = found.value.args[0], expected.value.args[0]
    assert (mine.code(), mine.str(), mine.fatal(), mine.retriable(), mine.txn_requires_abort()) == (
        *(theirs.code(), theirs.str(), theirs.fatal(), theirs.retriable(), theirs.txn_requires_abort()),
    )
    assert mine.code() == KafkaError._STATE


def test_should_refuse_a_membership_that_is_none(producer: Producer) -> None:
    with pytest.raises(KafkaException) as found:
        send_offsets(producer, OFFSETS, b"nobody", 1.0)
    assert found.value.args[0].code() == KafkaError._BAD_MSG


def test_should_say_that_a_producer_is_closed(producer: Producer) -> None:
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        send_offsets(producer, OFFSETS, GROUP, 1.0)


@pytest.mark.parametrize("broken", ["functions", "layout", "address"])
def test_should_use_the_clients_own_call_where_librdkafka_is_out_of_reach(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if broken == "functions":
        monkeypatch.setattr(transaction_offsets, "_FUNCTIONS", {"rd_kafka_that_never_was": (None, [])})
    elif broken == "layout":
        monkeypatch.setattr(transaction_offsets._library(), "rd_kafka_opaque", lambda handle: 1)
    else:
        monkeypatch.setattr(transaction_offsets, "_is_mapped", lambda address: False)
    producer = Recorded({"bootstrap.servers": "localhost:1", "transactional.id": "unit", "log_level": 0})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            send_offsets(producer, OFFSETS, GROUP, 1.0)
    positions, group, timeout = producer.sent
    assert [(p.topic, p.partition, p.offset, p.metadata) for p in positions] == [("lines", 0, 7, "times"), ("lines", 1, 8, "")]
    assert (group, timeout) == (GROUP, 1.0)
    assert len(caplog.records) == 1
    producer.close()


def test_should_know_what_can_be_read() -> None:
    assert transaction_offsets._is_mapped(id(OFFSETS))
    assert not transaction_offsets._is_mapped(16)
    assert not transaction_offsets._is_mapped(2**64 - 4096)

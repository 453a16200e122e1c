"""Brokers and clients that do not answer hold nobody up for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka import group_client, groups, produce
from penstock.kafka.abandon import AbandonedError, call_within, close_within
from penstock.kafka.groups import Groups
from penstock.kafka.membership import GroupMember
from penstock.kafka.produce import ThreadProducer
from penstock.record import ProducedRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata
from tests.harness.waiting import LIMIT


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Something that is waited for without a limit, and does not come during the test."""
    event = threading.Event()
    yield event
    event.set()


def test_should_hand_on_what_a_call_returns_or_raises() -> None:
    assert call_within(60, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call_within(60, divmod, 7, 0)


def test_should_give_a_call_up_that_does_not_return_and_clean_up_when_it_does(never: threading.Event) -> None:
    late = threading.Event()
    with pytest.raises(AbandonedError):
        call_within(0.01, never.wait, late=late.set)
    assert not late.is_set()
    never.set()
    assert late.wait(LIMIT)


def test_should_leave_a_client_alone_that_does_not_close(never: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    close_within("a producer", never.wait, 0.01)
    assert "a producer was not closed" in caplog.text


def test_should_close_a_producer_whose_records_no_broker_takes() -> None:
    producer = ThreadProducer({"bootstrap.servers": "localhost:9", "log_level": 0}, None)
    producer.write([ProducedRecord("out", 0, b"k", b"v", 0)])
    closing = threading.Thread(target=producer.close, daemon=True)
    closing.start()
    closing.join(LIMIT)  # otherwise it waits for delivery.timeout.ms, which is minutes
    assert not closing.is_alive()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_should_not_wait_for_ever_for_room_in_the_queue(one_by_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def produce(self, *_: Any) -> None:
            raise BufferError

        def poll(self, timeout: float) -> int:
            return 0

    monkeypatch.setattr(produce, "open_client", lambda *_: Full())
    monkeypatch.setattr(produce, "_TIMEOUT", 0.05)
    producer = ThreadProducer({}, None)
    with pytest.raises(BrokerError, match="Writing to out failed: no queued record was acknowledged"):
        (producer.write_one_by_one if one_by_one else producer.write)([ProducedRecord("out", 0, b"k", b"v", 0)])


@pytest.fixture
def member(never: threading.Event, monkeypatch: pytest.MonkeyPatch) -> GroupMember:
    """A member whose client does not keep its limits: its loop is stuck."""
    monkeypatch.setattr(group_client, "_GRACE_SECONDS", 0.01)
    stuck: Any = GroupMember({"group_id": "app"}, ["in"], *[None] * 4)  # type: ignore[list-item]
    coordinator = SimpleNamespace(
        _net=SimpleNamespace(run=lambda *_: never.wait()),
        _commit_offsets_sync_async=None,
        fetch_committed_offsets=lambda *_: never.wait(),
    )
    stuck._consumer = SimpleNamespace(_coordinator=coordinator)
    return stuck  # type: ignore[no-any-return]


def test_should_give_up_a_commit_and_a_question_that_the_group_does_not_answer(member: GroupMember) -> None:
    partition = TopicPartition("in", 0)
    with pytest.raises(BrokerError, match="The group app did not answer"):
        member.commit({partition: OffsetAndMetadata(1, "")}, timeout=0.01, generation=1)
    with pytest.raises(BrokerError, match="The group app did not answer"):
        member.committed([partition], timeout=0.01)


def test_should_give_up_a_question_about_a_group(never: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_ANSWER_SECONDS", 0.01)
    with pytest.raises(BrokerError, match="the groups could not be listed: no answer within"):
        Groups._ask(never.wait, "the groups could not be listed")

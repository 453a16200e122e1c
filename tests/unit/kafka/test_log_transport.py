"""Answers of a broker that is played: what is not the answer to the question is given up."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from penstock.ids import TopicPartition
from penstock.kafka.log_transport import ClientTransport, LogUnreadableError, PlainTransport, log_transport
from penstock.kafka.record_batches import Aborted
from tests.harness.waiting import LIMIT

PARTITION = TopicPartition("log", 3)


class Broker:
    """Listens, and answers each request with the next of its answers; then closes."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self._server.accept()
        except OSError:
            return
        with connection:
            for answer in self.answers:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                self.requests.append(connection.recv(size, socket.MSG_WAITALL))
                connection.sendall(answer)

    def close(self) -> None:
        self._server.close()
        self._thread.join(LIMIT)


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


@pytest.fixture
def transport(broker: Broker) -> Iterator[PlainTransport]:
    made = PlainTransport(lambda _: broker.address, "reads", reads_committed=True)
    yield made
    made.close()


def answer(correlation: int, records: bytes | None, *aborted: Aborted, error: int = 0, partition: int = 3) -> bytes:
    told = struct.pack(">iiih", correlation, 0, 1, 3) + b"log" + struct.pack(">iihqq", 1, partition, error, 99, 98)
    told += struct.pack(">i", len(aborted) or -1) + b"".join(struct.pack(">qq", *one) for one in aborted)
    told += struct.pack(">i", -1 if records is None else len(records)) + (records or b"")
    return struct.pack(">i", len(told)) + told


def test_should_ask_for_one_part_after_the_other(broker: Broker, transport: PlainTransport) -> None:
    broker.answers += [
        answer(1, b"first"),
        answer(2, b"not wanted"),
        answer(3, b"third", Aborted(7, 20), Aborted(8, 21)),
        answer(4, None),
    ]
    transport.ask(PARTITION, 10)
    assert transport.answer() == (b"first", [])
    transport.ask(PARTITION, 15)
    transport.ask(PARTITION, 20)
    assert transport.answer() == (b"third", [Aborted(7, 20), Aborted(8, 21)])
    transport.ask(PARTITION, 30)
    assert transport.answer() == (b"", [])
    positions = [struct.unpack_from(">q", request, len(request) - 12)[0] for request in broker.requests]
    assert positions == [10, 15, 20, 30]
    assert all(request.startswith(struct.pack(">hh", 1, 4)) for request in broker.requests)


@pytest.mark.parametrize(
    "wrong",
    [
        answer(1, b"", error=6),
        answer(2, b""),
        answer(1, b"", partition=4),
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        struct.pack(">i", 100) + b"cut off",
        b"",
    ],
    ids=["error", "another request", "another partition", "negative", "huge", "cut off", "closed"],
)
def test_should_give_up_what_is_no_answer(broker: Broker, transport: PlainTransport, wrong: bytes) -> None:
    broker.answers.append(wrong)
    transport.ask(PARTITION, 10)
    with pytest.raises((LogUnreadableError, struct.error)):
        transport.answer()
    with pytest.raises(LogUnreadableError):
        transport.answer()


def test_should_leave_logins_and_encryption_to_the_client() -> None:
    assert isinstance(log_transport({"client_id": "reads"}, lambda _: ("", 0), True), PlainTransport)
    settings = {"bootstrap_servers": ["localhost:1"], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    login = {"sasl_plain_username": "me", "sasl_plain_password": "secret"}
    encrypted = log_transport({**settings, **login}, lambda _: ("", 0), True)
    assert isinstance(encrypted, ClientTransport)
    encrypted.close()

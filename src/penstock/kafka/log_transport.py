"""Transports for raw parts of logs from partition leaders.

Without encryption and login, `PlainTransport` uses a plain socket: one request of Kafka's protocol, in a version that brokers
know since 0.11. For everything else, `ClientTransport` uses kafka-python, whose import takes 0.12 s of CPU.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from penstock.ids import TopicPartition
from penstock.kafka.client_logs import demote_client_logs
from penstock.kafka.record_batches import Aborted

ANSWER_SECONDS: Final = 10.0
_ANSWER_BYTES: Final = 4 << 20
_LARGEST_ANSWER: Final = 128 << 20  # a batch is sent whole, however large it is
_WAIT_MS: Final = 10

_FETCH, _VERSION = 1, 4
_LATEST_WITHOUT_TOPIC_IDS = 11
_FOLLOWER_OF_NONE = -1
_NO_SESSION = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}


class LogUnreadableError(Exception):
    """The log cannot be read directly. The caller reads it with the consumer."""


class FetchAnswer(NamedTuple):
    """A broker's answer: record batches, the last of which may be cut off, and their aborted transactions."""

    records: bytes
    aborted: Sequence[Aborted]


class LogTransport(Protocol):
    """Requests one part of a log after another. One request may be outstanding while the last answer is decoded."""

    def ask(self, partition: TopicPartition, position: int) -> None:
        """Request the records from a position on."""

    def answer(self) -> FetchAnswer:
        """Return the answer to the last request."""

    def close(self) -> None: ...


class PlainTransport:
    """Unencrypted connections to brokers without login. `leader_of` returns the address of a partition's leader."""

    def __init__(self, leader_of: Callable[[TopicPartition], tuple[str, int]], client_id: str, reads_committed: bool) -> None:
        self._leader_of, self._reads_committed = leader_of, reads_committed
        self._client_id = client_id.encode()
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        self._asked: tuple[TopicPartition, tuple[str, int]] | None = None
        self._correlation = 0

    def ask(self, partition: TopicPartition, position: int) -> None:
        if self._asked is not None:
            self.answer()  # discard an answer that is no longer needed
        address = self._leaders.get(partition)
        if address is None:
            address = self._leaders[partition] = self._leader_of(partition)
        if address not in self._sockets:
            self._sockets[address] = socket.create_connection(address, ANSWER_SECONDS)
        self._correlation += 1
        self._sockets[address].sendall(self._request(partition, position))
        self._asked = partition, address

    def answer(self) -> FetchAnswer:
        if self._asked is None:
            raise LogUnreadableError("no request is outstanding")
        (partition, address), self._asked = self._asked, None
        connection, deadline = self._sockets[address], time.monotonic() + ANSWER_SECONDS
        (size,) = struct.unpack(">i", _received(connection, 4, deadline))
        if not 0 <= size <= _LARGEST_ANSWER:
            raise LogUnreadableError(f"an answer of {size} bytes")
        return self._read(_received(connection, size, deadline), partition)

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()

    def _request(self, partition: TopicPartition, position: int) -> bytes:
        topic = partition.topic.encode()
        header = struct.pack(">hhih", _FETCH, _VERSION, self._correlation, len(self._client_id)) + self._client_id
        limits = struct.pack(">iiiib", _FOLLOWER_OF_NONE, _WAIT_MS, 1, _ANSWER_BYTES, self._reads_committed)
        wanted = struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iiqi", 1, partition.partition, position, _ANSWER_BYTES)
        return struct.pack(">i", len(header) + len(limits) + len(wanted)) + header + limits + wanted

    def _read(self, data: bytearray, partition: TopicPartition) -> FetchAnswer:
        correlation, _, topics, name_size = struct.unpack_from(">iiih", data)
        at = 14 + name_size
        partitions, number, error, _, _, aborted_count = struct.unpack_from(">iihqqi", data, at)
        at += 30
        if (correlation, topics, partitions, number) != (self._correlation, 1, 1, partition.partition):
            raise LogUnreadableError("the answer belongs to another request")
        if error:
            raise LogUnreadableError(f"the broker answers with error {error}")
        aborted = [Aborted(*struct.unpack_from(">qq", data, at + 16 * row)) for row in range(max(0, aborted_count))]
        at += 16 * len(aborted)
        (size,) = struct.unpack_from(">i", data, at)
        return FetchAnswer(bytes(memoryview(data)[at + 4 : at + 4 + max(0, size)]), aborted)


def _received(connection: socket.socket, size: int, deadline: float) -> bytearray:
    """Receive exactly `size` bytes."""
    data = bytearray(size)
    left = memoryview(data)
    while left:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        count = connection.recv_into(left)
        if not count:
            raise LogUnreadableError("the broker has closed the connection")
        left = left[count:]
    return data


def log_transport(
    settings: Mapping[str, Any], leader_of: Callable[[TopicPartition], tuple[str, int]], reads_committed: bool
) -> LogTransport:
    """Return the transport for these settings of kafka-python."""
    if settings.get("security_protocol", "PLAINTEXT") == "PLAINTEXT":
        return PlainTransport(leader_of, str(settings.get("client_id", "")), reads_committed)
    return ClientTransport(settings, reads_committed)


class ClientTransport:
    """Connections of kafka-python, with its encryption and login."""

    def __init__(self, settings: Mapping[str, Any], reads_committed: bool) -> None:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
        from kafka.protocol.consumer import FetchRequest

        demote_client_logs()
        self._request, self._reads_committed = FetchRequest, reads_committed
        known = {**settings, "receive_message_max_bytes": _LARGEST_ANSWER}
        self._net = NetworkSelector(**known)
        self._manager = KafkaConnectionManager(self._net, **known)
        self._leaders: dict[TopicPartition, int] = {}
        self._asked: Any = None

    def ask(self, partition: TopicPartition, position: int) -> None:
        leader = self._leaders.get(partition)
        if leader is None:
            leader = self._leaders[partition] = self._leader(partition)

        async def send() -> None:
            # not awaited: the answer arrives while the caller works
            self._asked = self._manager.send(self._fetch_of(partition, position), leader)

        self._manager.run(send)

    def answer(self) -> FetchAnswer:
        asked, self._asked = self._asked, None
        answer = self._manager.run(self._manager.wait_for, asked, int(ANSWER_SECONDS * 1000))
        (told,) = answer.responses[0].partitions
        if told.error_code:
            raise LogUnreadableError(f"the broker answers with error {told.error_code}")
        aborted = [Aborted(one.producer_id, one.first_offset) for one in told.aborted_transactions or ()]
        return FetchAnswer(bytes(told.records or b""), aborted)

    def close(self) -> None:
        self._manager.close()
        self._net.close()

    def _leader(self, partition: TopicPartition) -> int:
        milliseconds = int(ANSWER_SECONDS * 1000)
        self._manager.bootstrap(timeout_ms=milliseconds)
        self._manager.run(self._manager.wait_for, self._manager.cluster.add_topic(partition.topic), milliseconds)
        leader = self._manager.cluster.leader_for_partition(partition)
        if leader is None or leader < 0:
            raise LogUnreadableError(f"{partition} has no leader")
        return int(leader)

    def _fetch_of(self, partition: TopicPartition, position: int) -> Any:
        topic_type = self._request.FetchTopic
        one = topic_type.FetchPartition(
            partition=partition.partition,
            current_leader_epoch=-1,
            fetch_offset=position,
            last_fetched_epoch=-1,
            partition_max_bytes=_ANSWER_BYTES,
        )
        return self._request(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_ANSWER_BYTES,
            isolation_level=int(self._reads_committed),
            topics=[topic_type(topic=partition.topic, partitions=[one])],
            min_version=_VERSION,
            max_version=_LATEST_WITHOUT_TOPIC_IDS,
            **_NO_SESSION,
        )

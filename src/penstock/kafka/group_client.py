"""A member's connection to the coordinator of its group: a thread of its own, requests to it, commits and committed offsets.

`GroupMember` (membership.py) speaks the classic protocol over it, `StreamsMember` (streams_membership.py) that of streams groups.
Both use kafka-python's consumer, because it finds the coordinator and lets us send requests of our own. No record flows
through it.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from kafka import KafkaConsumer
from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    OffsetMetadataTooLargeError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kafka.errors import KafkaError as ClientError
from kafka.errors import KafkaTimeoutError as ClientTimeout
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

from penstock.errors import BrokerAccessError, BrokerError, ConfigError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.kafka.abandon import AbandonedError, call_within
from penstock.kafka.client_logs import demote_client_logs
from penstock.kafka.offset_parts import metadata_refused, offset_parts
from penstock.runtime.offset_metadata import OffsetAndMetadata, from_committed, to_committed

POLL_SECONDS = 0.05
REVOKE_STEP = 0.005
RETRY_SECONDS = 0.5
LEAVE_SECONDS = 60.0
_GRACE_SECONDS = 5.0  # added to the client's own limits, in case its loop is stuck

FATAL = (
    AuthorizationError,
    ConfigError,
    FencedInstanceIdError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)


class Stopped(Protocol):
    """An event that is set when work has stopped, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


class GroupClient(ABC):
    """What members of both kinds of groups have in common."""

    def __init__(self, client_config: Mapping[str, Any], name: str) -> None:
        self._config = dict(client_config)
        self._requests: queue.SimpleQueue[tuple[Callable[[KafkaConsumer], None], Future[None]]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._leaves: bool | None = None
        self._consumer: KafkaConsumer | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start joining. `on_assigned` is called when this member has joined."""
        demote_client_logs()
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Stay a member until closed; the thread's function."""

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this member does what only one of a group may do."""

    @abstractmethod
    def request_rejoin(self) -> None:
        """Tell the group what has changed here; returns at once."""

    @abstractmethod
    def resubscribe(self, topics: Iterable[str], timeout: float = 60.0) -> None:
        """Join anew for other topics."""

    @abstractmethod
    def leave(self) -> None:
        """Give up all work and stay out of the group until told to join again, also as a static member; returns at once."""

    @abstractmethod
    def _join_once_more(self, consumer: KafkaConsumer) -> None:
        """Come back after `leave`."""

    @abstractmethod
    async def _commit(
        self, coordinator: Any, generation: int, offsets: Mapping[ClientPartition, ClientOffset], timeout: float, *, once: bool
    ) -> None:
        """Commit as a member of a generation, on the client's loop."""

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float = 15.0, *, generation: int, whole: bool = False
    ) -> None:
        """Commit offsets under a generation. Raises an error if the group, or this member, has a newer generation.

        `whole`: commit all offsets in one request. An unknown outcome is then an error.
        """
        coordinator = self._coordinator()
        written = {p: o._replace(metadata=to_committed(o.metadata)) for p, o in offsets.items()}
        for part in [written] if whole else offset_parts(written):
            positions = {ClientPartition(*p): ClientOffset(o.offset, o.metadata, -1) for p, o in part.items()}
            try:
                with self._errors(timeout):
                    commit = partial(self._commit, coordinator, generation, positions, timeout, once=whole)
                    call_within(timeout + _GRACE_SECONDS, coordinator._net.run, commit)
            except BrokerError as exc:
                if isinstance(exc.__cause__, OffsetMetadataTooLargeError):
                    raise metadata_refused(part) from exc
                raise

    def committed(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets with their metadata, after open transactions are decided.

        Not with librdkafka: it returns metadata with trailing bytes.
        """
        asked = [ClientPartition(*p) for p in partitions]
        coordinator = self._coordinator()
        with self._errors(timeout):
            fetch = partial(coordinator.fetch_committed_offsets, asked, int(timeout * 1000))
            found = call_within(timeout + _GRACE_SECONDS, fetch)
        # confluent-kafka's transactional commits include the terminating zero byte.
        return {
            TopicPartition(p.topic, p.partition): OffsetAndMetadata(o.offset, from_committed((o.metadata or "").rstrip("\0")))
            for p, o in found.items()
        }

    def _coordinator(self) -> Any:
        consumer = self._consumer
        if consumer is None:
            raise TaskMigratedError(f"This instance is currently no member of its group {self._config.get('group_id')}")
        return consumer._coordinator

    def join_again(self) -> None:
        """Join after `leave`, or for the first time. Returns at once."""
        if self._thread.ident is None:
            self.start()
        else:
            self._requests.put((self._join_once_more, Future()))

    def close(self, timeout: float = 10.0, leave: bool | None = None) -> None:
        """End the membership. If a member does not leave, the group waits until its session ends.

        By default a static member stays and any other member leaves.
        """
        self._leaves = leave
        self._closing.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the membership, if any."""
        return self._failure

    def _ask(self, request: Callable[[KafkaConsumer], None], timeout: float) -> None:
        done: Future[None] = Future()
        self._requests.put((request, done))
        with self._errors(timeout):
            done.result(timeout + _GRACE_SECONDS)

    @contextmanager
    def _errors(self, timeout: float) -> Iterator[None]:
        """Convert the client's exceptions to penstock's."""
        try:
            yield
        except (AbandonedError, ClientTimeout, TimeoutError, FutureTimeout) as exc:
            raise BrokerError(f"The group {self._config.get('group_id')} did not answer within {timeout:.0f} s") from exc
        except ClientError as exc:
            if type(exc).__name__ in (
                "CommitFailedError",
                "UnknownMemberIdError",
                "IllegalGenerationError",
                "RebalanceInProgressError",
            ):
                raise TaskMigratedError(
                    f"Committing offsets was refused ({exc}): another member of the group owns these tasks"
                ) from exc
            kind = BrokerAccessError if isinstance(exc, AuthorizationError) else BrokerError
            raise kind(f"The group {self._config.get('group_id')} refused a request: {exc}") from exc
        except RuntimeError as exc:  # the client's loop has been closed
            raise TaskMigratedError(f"This instance has left the group {self._config.get('group_id')}") from exc

    def _serve(self, consumer: KafkaConsumer) -> None:
        """Handle requests. Wait briefly for the first one, so that a request does not wait for a poll."""
        wait = POLL_SECONDS
        while True:
            try:
                request, done = self._requests.get(timeout=wait)
            except queue.Empty:
                return
            try:
                request(consumer)
                done.set_result(None)
            except Exception as exc:  # noqa: BLE001 - raised in the waiting caller
                done.set_exception(exc)
            wait = 0.0

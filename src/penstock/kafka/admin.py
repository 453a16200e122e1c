"""Administration requests: topics, partitions, log ends, committed offsets."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from penstock.errors import BrokerError, TopologyError
from penstock.ids import TopicPartition
from penstock.kafka.client_metrics import ClientMetrics
from penstock.kafka.clients import is_access_error, open_client, refused
from penstock.log_bounds import LogBounds

_log = logging.getLogger(__name__)

_TIMEOUT = 30.0
_STEP = 1.5
_SILENT_SECONDS = 3.0
"""Seconds without a warning while the first answer of the brokers is outstanding."""
# librdkafka forgets all brokers if a restarted broker answers with an empty broker list (librdkafka issue 5301).
_ANEW_SECONDS = 6.0
# Errors of brokers and controllers that restart. Retrying can succeed.
_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
_UNKNOWN_SECONDS = 3.0  # a restarted broker does not know its topics at first
_LEADER_SECONDS = 5.0  # limit for partitions without a leader, so that they do not delay the others
_OFFSETS_SECONDS = 10.0  # after this a new client is opened: a client that has lost its brokers never answers
_UNKNOWN_PARTITION = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class MissingTopicError(TopologyError):
    """Topics of an offset request do not exist."""

    def __init__(self, message: str, topics: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.topics = frozenset(topics)


class Admin:
    """The admin client of an application. Failed requests raise a `BrokerError` with the reason."""

    def __init__(
        self, client_config: Mapping[str, Any], metrics: ClientMetrics | None = None, patience: float | None = None
    ) -> None:
        """Open the client. `patience` limits metadata requests, in seconds (default 30)."""
        self._bootstrap = str(client_config.get("bootstrap.servers"))
        self._patience = patience
        self._was_answered = False
        self._last_error: KafkaError | None = None
        self._config = {**client_config, "error_cb": self._on_error}
        self._metrics = metrics
        if metrics is not None:
            self._config = metrics.settings(self._config)
        self._open: AdminClient | None = self._opened()
        self._without_leader: set[TopicPartition] = set()

    def let_go(self) -> None:
        """Release the client; it closes when the last running request ends. The next request opens a new one.

        An application object can live long after it stops, and would hold the connections until it is collected.
        """
        self._open = None

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        """Return the number of partitions of each existing topic."""
        metadata = self._metadata()
        wanted = None if topics is None else set(topics)
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None and (wanted is None or name in wanted)
        }

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], replication_factor: int = -1) -> None:
        """Create a topic. If it exists, it must have this number of partitions.

        -1 selects the brokers' `num.partitions` or `default.replication.factor`.
        """
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs))
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                _result(self._client.create_topics([topic], request_timeout=_TIMEOUT)[name], _deadline(_TIMEOUT))
                break
            except KafkaException as exc:
                error = exc.args[0]
                if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # also if the answer to an earlier attempt was lost
                    self._check_partitions(name, partitions)
                    return
                if error.code() not in _PASSING or time.monotonic() > deadline:
                    raise refused(f"creating the topic {name}", error) from exc
                time.sleep(0.1)
        self._wait_for(name)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. Missing topics are ignored."""
        deleted, deadline = self._client.delete_topics(list(names)), _deadline(_TIMEOUT)
        for name, future in deleted.items():
            try:
                _result(future, deadline)
            except KafkaException as exc:
                if exc.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise refused(f"deleting the topic {name}", exc.args[0]) from exc

    def topic_configs(self, name: str) -> dict[str, str]:
        """Return the configuration of a topic, with defaults."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = _result(self._client.describe_configs([resource])[resource], _deadline(_TIMEOUT))
        return {key: entry.value for key, entry in entries.items()}

    def max_message_bytes(self, topic: str) -> int | None:
        """Return the largest batch size of a topic, or None if the brokers do not return it to this user."""
        try:
            return int(self.topic_configs(topic)["max.message.bytes"])
        except (KafkaException, KeyError, ValueError):
            return None

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the last stable offset if `committed_only`."""
        return self._offsets(partitions, OffsetSpec.latest(), committed_only)

    def reachable_ends(
        self, partitions: Iterable[TopicPartition], committed_only: bool, *, known_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the end offsets, without partitions whose leader is unavailable if other partitions answer.

        A missing topic raises an error, unless `known_only` omits it too.
        """
        asked = list(dict.fromkeys(partitions))
        if not self._without_leader.isdisjoint(asked):
            self._without_leader = self._leaderless(asked)  # not asked again until they have a leader: each attempt takes seconds
            asked = [p for p in asked if p not in self._without_leader]
        found, failures = self._answered(asked, OffsetSpec.latest(), committed_only, _LEADER_SECONDS)
        unknown = {p for p, error in failures.items() if error.code() in _UNKNOWN_PARTITION}
        if not failures or (known_only and failures.keys() == unknown):
            return found
        self._without_leader |= self._leaderless(failures)
        if not found or (unknown and not known_only) or any(map(is_access_error, failures.values())):
            asked = [p for p in asked if p not in self._without_leader]
            return self.log_ends(asked, committed_only) if asked else {}
        self._open = self._opened()
        return found

    def log_bounds(
        self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False
    ) -> dict[TopicPartition, LogBounds]:
        """Return start, end and topic id of each log. `reachable` omits partitions whose leader is unavailable."""
        asked = list(dict.fromkeys(partitions))
        if not asked:
            return {}
        # Stable ends first: read later, they could be above the ends.
        stable = self.reachable_ends(asked, committed_only) if reachable else self.log_ends(asked, committed_only)
        ends = self.log_ends(stable, False) if committed_only else stable
        starts, ids = self.log_starts(stable), self.topic_ids({p.topic for p in stable})
        return {p: LogBounds(starts[p], ends[p], stable[p], ids.get(p.topic, 0)) for p in stable}

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group for those partitions that have one."""
        asked = ConsumerGroupTopicPartitions(group, [ClientPartition(*p) for p in partitions])
        future = self._client.list_consumer_group_offsets([asked], request_timeout=_OFFSETS_SECONDS)[group]
        try:
            found = _result(future, _deadline(_OFFSETS_SECONDS)).topic_partitions
        except KafkaException as exc:
            raise self._unreachable(exc.args[0]) from exc
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.error is None and p.offset >= 0}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the id of each existing topic. A topic that is deleted and created again gets a new id."""
        ids = {name: topic.topic_id for name, topic in self._described(topics, leave_out=_UNKNOWN_PARTITION)}
        bits = {name: topic_id.get_most_significant_bits() for name, topic_id in ids.items() if topic_id is not None}
        return {name: number for name, number in bits.items() if number}

    def racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks of each partition's replicas. Partitions with a broker without a rack are omitted."""
        found: dict[TopicPartition, frozenset[str]] = {}
        for name, topic in self._described(topics):
            for partition in topic.partitions:
                racks = [node.rack for node in partition.replicas]
                if racks and all(racks):
                    found[TopicPartition(name, partition.id)] = frozenset(racks)
        return found

    def leader(self, partition: TopicPartition) -> tuple[str, int]:
        """Return host and port of the partition's leader."""
        for _, topic in self._described([partition.topic]):
            for found in topic.partitions:
                if found.id == partition.partition and found.leader is not None:
                    return str(found.leader.host), int(found.leader.port)
        raise BrokerError(f"{partition} has no leader at the moment")

    def _described(self, topics: Iterable[str], leave_out: Collection[int] = ()) -> Iterator[tuple[str, Any]]:
        """Yield each topic's description. Errors with a code in `leave_out` skip the topic; other errors are raised."""
        names = sorted(set(topics))
        if not names:
            return
        asked, deadline = self._client.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT), _deadline(_TIMEOUT)
        for name, future in asked.items():
            try:
                described = _result(future, deadline)
            except KafkaException as exc:
                if exc.args[0].code() in leave_out:
                    continue
                raise refused(f"describing the topic {name}", exc.args[0]) from exc
            yield name, described

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        return self._offsets(partitions, OffsetSpec.earliest(), False)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int, committed_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time, else the log's end; the last stable one if only committed records count."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms), committed_only)
        beyond = [p for p, offset in found.items() if offset < 0]
        return {**found, **self.log_ends(beyond, committed_only)} if beyond else found

    def purge(self, ends: Mapping[TopicPartition, int]) -> None:
        """Delete consumed records of repartition topics. Errors are ignored: the next purge deletes the rest."""
        self._client.delete_records([ClientPartition(p.topic, p.partition, end) for p, end in ends.items() if end > 0])

    def _offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec, committed_only: bool) -> dict[TopicPartition, int]:
        asked = list(partitions)
        deadline, gone_since = time.monotonic() + _TIMEOUT, math.inf
        while asked:
            found, failures = self._answered(asked, spec, committed_only, min(_OFFSETS_SECONDS, _TIMEOUT))
            if not failures:
                return found
            error = next(iter(failures.values()))
            if is_access_error(error):
                topics = ", ".join(sorted({p.topic for p in asked}))
                raise refused(f"reading the offsets of {topics}", error) from KafkaException(error)
            gone = self._missing(asked)
            gone_since = min(gone_since, time.monotonic()) if gone else math.inf
            if time.monotonic() > gone_since + _UNKNOWN_SECONDS:
                raise MissingTopicError(
                    f"the offsets of {', '.join(map(str, gone))} could not be read: the topic does not exist ~"
                    "create it and start again",
                    {partition.topic for partition in gone},
                ) from KafkaException(error)
            if time.monotonic() > deadline:
                raise self._unreachable(error) from KafkaException(error)
            # librdkafka's admin client keeps the leader epochs it has seen for minutes, and is fenced with them when a
            # broker has been restarted.
            self._open = self._opened()
            time.sleep(0.1)
        return {}

    def _answered(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, committed_only: bool, seconds: float
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
        """Request the offsets once. Return the offsets and the error of each partition without one."""
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        found: dict[TopicPartition, int] = {}
        failures: dict[TopicPartition, KafkaError] = {}
        asked = {ClientPartition(p.topic, p.partition): spec for p in partitions}
        if self._metrics is not None:
            self._client.poll(0)
        if asked:
            told, deadline = self._client.list_offsets(asked, isolation_level=level, request_timeout=seconds), _deadline(seconds)
            for p, future in told.items():
                partition = TopicPartition(p.topic, p.partition)
                try:
                    offset = _result(future, deadline).offset
                except KafkaException as exc:
                    failures[partition] = exc.args[0]
                    continue
                if offset == OFFSET_INVALID:  # librdkafka's answer for an unreachable leader
                    failures[partition] = KafkaError(
                        KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {partition} does not answer"
                    )
                else:
                    found[partition] = offset
        return found, failures

    def _leaderless(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the existing partitions that have no leader."""
        metadata = self._metadata()
        found = set()
        for partition in partitions:
            topic = metadata.topics.get(partition.topic)
            known = None if topic is None or topic.error is not None else topic.partitions.get(partition.partition)
            if known is not None and known.leader not in metadata.brokers:
                found.add(partition)
        return found

    @property
    def _client(self) -> AdminClient:
        client = self._open
        if client is None:
            client = self._open = self._opened()
        return client

    def _opened(self) -> AdminClient:
        return open_client("admin client", AdminClient, self._config)

    def _on_error(self, error: KafkaError) -> None:
        """Keep the last error that librdkafka reports, such as a refused login. librdkafka retries by itself."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error

    def _metadata(self) -> Any:
        """Request the metadata in short steps, so that a refused login is detected soon."""
        patience = _TIMEOUT if self._patience is None else self._patience
        began = opened_at = time.monotonic()
        deadline, refused_before, silent = began + patience, False, self._patience is None and not self._was_answered
        while True:
            try:
                found = self._client.list_topics(timeout=min(_STEP, patience))
                self._last_error, self._was_answered = None, True
                return found
            except KafkaException as exc:
                self._client.poll(0)
                reason = self._last_error or exc.args[0]
                if is_access_error(reason):
                    if refused_before:
                        raise refused(f"talking to the brokers at {self._bootstrap}", reason) from exc
                    # The refusal may be old, and a broker that dies during a handshake looks the same. Only a new client can
                    # confirm it.
                    refused_before, self._last_error = True, None
                    self._open = self._opened()
                elif self._last_error is not None:
                    refused_before = False
                now = time.monotonic()
                if now > opened_at + _ANEW_SECONDS:
                    self._open, opened_at = self._opened(), now
                if now > deadline:
                    raise self._unreachable(reason) from exc
                if silent and now > began + _SILENT_SECONDS:
                    silent, left = False, deadline - now
                    _log.warning("%s. Trying for %.0f s more", self._unreachable(reason), left)

    def _missing(self, asked: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that do not exist."""
        there = self.partition_counts()
        return [p for p in asked if p.partition >= there.get(p.topic, 0)]

    def _check_partitions(self, name: str, partitions: int) -> None:
        there = self.partition_counts([name]).get(name, partitions)
        if there != partitions != -1:
            raise TopologyError(
                f"the internal topic {name} exists with {there} partitions but needs {partitions}: the number of partitions "
                "of an input topic has changed; reset the application (penstock reset) to start over with the new number"
            )

    def _wait_for(self, name: str) -> None:
        """Wait until the brokers know a new topic; that takes a moment."""
        _until(lambda: name in self.partition_counts([name]), f"the new topic {name} did not show up in the metadata")

    def _unreachable(self, reason: KafkaError) -> BrokerError:
        return BrokerError(
            f"the brokers at {self._bootstrap} do not answer ({reason.str()}). Check bootstrap.servers and the network"
        )


def _deadline(seconds: float) -> float:
    """Return the time at which a request with this limit must have been answered."""
    return time.monotonic() + seconds + _STEP


def _result(future: Future[Any], deadline: float) -> Any:
    """Return the result of a request, or raise a timeout error at the deadline.

    All answers of one request share a deadline; separate ones added up to minutes.
    """
    try:
        return future.result(max(0.0, deadline - time.monotonic()))
    except FutureTimeout as exc:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in time")) from exc


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise BrokerError(otherwise)
        time.sleep(0.02)

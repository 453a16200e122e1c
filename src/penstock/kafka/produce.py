"""The producer of a stream thread: transactional under exactly-once, idempotent otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.batches.record_batch import ProducedBatch, RecordOrBatch
from penstock.errors import BrokerError, ProductionError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.kafka.abandon import AbandonedError, call_within, close_within
from penstock.kafka.batch_limits import largest_batch
from penstock.kafka.client_metrics import ClientMetrics
from penstock.kafka.clients import is_access_error, open_client, refused
from penstock.kafka.offset_parts import metadata_refused, offset_parts
from penstock.kafka.transaction_offsets import TransactionOffset, send_offsets
from penstock.record import Headers, ProducedRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata, to_committed

_TIMEOUT = 60.0
_ABORT_TIMEOUT = 10.0
_OFFSETS_TIMEOUT, _OFFSETS_ABANDONED = 10.0, 15.0
_REPORTS = 2.0
_CHUNK = 20_000
_EARLIEST = 1  # librdkafka replaces a timestamp of 0 by the current time; 1 is the nearest that it writes

Refused = Callable[[ProducedRecord, Exception], None]

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
# Errors of single records, which the production exception handler decides on. As in Kafka Streams these are all but fatal
# errors (rights, an invalid topic) and fencing.
_ABOUT_RECORDS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._MSG_TIMED_OUT,
    }
)
_MAY_PASS = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._MSG_TIMED_OUT,
    }
)
# A broker refuses whole batches: one bad record of this kind makes it refuse good ones too.
_OF_A_BATCH = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
# A failed transaction accepts no more records. Its commit reports the reason.
_FAILED_STATE = (KafkaError._STATE, KafkaError._FATAL, KafkaError._PREV_IN_PROGRESS)


class RecordsRefusedError(BrokerError):
    """The brokers refused some records. Writing them one by one finds out which."""

    def __init__(self, message: str, topics: Iterable[str] = (), code: int = 0) -> None:
        super().__init__(message)
        self.topics = frozenset(topics)
        self.too_large = code in _TOO_LARGE
        self.of_a_batch = code in _OF_A_BATCH


class Verdict(NamedTuple):
    """The error with which the brokers refused a record, and its partition."""

    error: KafkaError
    partition: int | None

    @property
    def too_large(self) -> bool:
        """True if the record exceeds its topic's limit."""
        return self.error.code() in _TOO_LARGE

    @property
    def of_a_batch(self) -> bool:
        """True if the error is about a whole batch, in which perhaps only one record is wrong."""
        return self.error.code() in _OF_A_BATCH


class ThreadProducer:
    """The producer of one stream thread, for the thread's life.

    Under exactly-once a batch is `begin`, `write`, `commit`; under at-least-once `write` and `flush`. If the brokers refuse
    records, both raise RecordsRefusedError. Then `start_over`, and `write_one_by_one` returns the refused records.
    """

    def __init__(
        self, client_config: Mapping[str, Any], transactional_id: str | None, metrics: ClientMetrics | None = None
    ) -> None:
        self.transactional = transactional_id is not None
        self._client_config = dict(client_config)
        self._config: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "retry.backoff.ms": 5,  # init_transactions: 500 -> 55 ms, because librdkafka backs off before its first retry
            "partitioner": "murmur2_random",
            **client_config,
        }
        if transactional_id is not None:
            self._config["transactional.id"] = transactional_id
        if metrics is not None:
            self._config = metrics.settings(self._config)
        self._failures: list[tuple[str, KafkaError]] = []
        self._ends: dict[TopicPartition, int] = {}
        self._topics: set[str] = set()
        self.alone = self._abandoned = False
        self._open()

    def _open(self) -> None:
        settings = {**self._config, "batch.num.messages": 1} if self.alone else self._config
        self._producer = open_client("producer", Producer, settings)
        if self.transactional:
            self._call("opening transactions", self._producer.init_transactions, _TIMEOUT)

    def serve(self) -> None:
        """Poll the producer for its statistics."""
        self._producer.poll(0)

    def begin(self) -> None:
        """Begin the batch's transaction."""
        if self.alone:
            self.alone = False
            self._close()
            self._open()
        self._begin()

    def _begin(self) -> None:
        self._failures.clear()
        self._ends.clear()
        self._topics.clear()
        if self.transactional:
            self._call("beginning a transaction", self._producer.begin_transaction)

    def write(self, produced: Sequence[RecordOrBatch], refused: Refused | None = None) -> None:
        """Queue records in order. Wait while the queue is full.

        `refused(record, error)` is called for a record that the producer rejects, such as one that is too large. It returns to
        skip the record, or raises.
        """
        for is_batched, items in groupby(produced, lambda item: isinstance(item, ProducedBatch)):
            if not is_batched:
                self._write_records(list(items), refused)  # type: ignore[arg-type]
                continue
            for columns in items:
                assert isinstance(columns, ProducedBatch)
                if not len(columns):  # no outputs, for example because all records were late
                    continue
                self._topics.add(columns.topic)
                done = 0 if columns.headers is not None else self._write_columns(columns)
                if done < len(columns):
                    self._write_records(list(columns.records(done)), refused)

    def _write_columns(self, columns: ProducedBatch) -> int:
        """Queue plain records in a tight loop. Returns how many were queued; `_write_records` handles the next one."""
        produce, topic, where = self._producer.produce, columns.topic, -1 if columns.partition is None else columns.partition
        callback = None if self.transactional else self._reported
        # With a fixed partition the last record is left to `_write_records`, which requests its offset.
        rows = zip(columns.keys, columns.values, columns.timestamps)
        done = 0
        try:
            for key, value, timestamp in islice(rows, len(columns) - (columns.partition is not None)):
                produce(topic, value, key, where, callback, None, timestamp or _EARLIEST)
                done += 1
                if not done % _CHUNK:
                    self._producer.poll(0)
            self._producer.poll(0)
        except (BufferError, KafkaException):
            pass
        return done

    def _write_records(self, records: Sequence[ProducedRecord], refused: Refused | None = None) -> None:
        # The offset of the last record of each partition is requested. In a transaction the commit fails if any other record
        # fails.
        produce, acknowledged, others = self._producer.produce, self._acknowledged, None if self.transactional else self._reported
        last = {(record.topic, record.partition): i for i, record in enumerate(records)}
        self._topics.update(topic for topic, _ in last)
        for i, (topic, partition, key, value, timestamp, headers) in enumerate(records):
            callback = acknowledged if last[topic, partition] == i else others
            where, full_since = -1 if partition is None else partition, 0.0
            while True:
                try:
                    produce(topic, value, key, where, callback, None, timestamp or _EARLIEST, _as_written(headers))
                    break
                except BufferError:
                    full_since = self._wait_for_room(topic, full_since)
                except KafkaException as exc:
                    if refused is None or exc.args[0].code() in _FAILED_STATE:
                        self._raise_refusal(records[i], exc)
                    refused(records[i], production_error(records[i], Verdict(exc.args[0], partition)))
                    break
            if not i % _CHUNK:
                self._producer.poll(0)

    def _wait_for_room(self, topic: str, since: float) -> float:
        """Wait a moment because the queue is full. `since`, and the result, is the time when it became full; 0 at first."""
        now = time.monotonic()
        if since and now > since + _TIMEOUT:
            self._raise_failure(self._failures)
            raise BrokerError(
                f"Writing to {topic} failed: no queued record was acknowledged within {_TIMEOUT:.0f} s. "
                "Check that the brokers run"
            )
        self._producer.poll(0.05)
        return since or now

    def write_one_by_one(self, records: Sequence[ProducedRecord]) -> dict[int, Verdict]:
        """Write records with a delivery report for each. Returns the refused ones by index.

        A transaction accepts nothing after its first refusal, so later records are not checked.
        """
        verdicts: dict[int, Verdict] = {}
        waiting = {*range(len(records))}
        deadline = time.monotonic() + _TIMEOUT

        def acknowledged(index: int, error: KafkaError | None, message: Message) -> None:
            waiting.discard(index)
            if error is None:
                self._acknowledged(None, message)
            elif error.code() in _ABOUT_RECORDS:
                verdicts[index] = Verdict(error, message.partition())
            else:
                self._failures.append((message.topic(), error))

        for index, (topic, partition, key, value, timestamp, headers) in enumerate(records):
            where, full_since = -1 if partition is None else partition, 0.0
            while not (verdicts and self.transactional):
                try:
                    report = partial(acknowledged, index)
                    given = _as_written(headers)
                    self._producer.produce(topic, value, key, where, report, None, timestamp or _EARLIEST, given)
                    break
                except BufferError:
                    full_since = self._wait_for_room(topic, full_since)
                except KafkaException as exc:
                    waiting.discard(index)
                    if exc.args[0].code() not in _FAILED_STATE:
                        verdicts[index] = Verdict(exc.args[0], partition)
                        break
                    deadline = min(deadline, time.monotonic() + _REPORTS)  # the report with the reason is on its way
                    break
            self._producer.poll(0)
        while waiting and not (verdicts and self.transactional) and time.monotonic() < deadline and not self._fatal_failures():
            self._producer.poll(0.02)
        self._raise_failure(self._fatal_failures())
        return verdicts

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: bytes) -> None:
        """Commit outputs and offsets in one transaction. All of it becomes visible, or nothing."""
        for part in offset_parts({p: o._replace(metadata=to_committed(o.metadata)) for p, o in offsets.items()}):
            positions = [TransactionOffset(partition, committed) for partition, committed in part.items()]
            try:
                self._call("adding offsets to the transaction", self._send_offsets, positions, group_metadata)
            except BrokerError as exc:
                if _code_of(exc.__cause__) == KafkaError.OFFSET_METADATA_TOO_LARGE:
                    raise metadata_refused(part) from exc
                raise
        self._call("committing the transaction", self._producer.commit_transaction, _TIMEOUT)
        self._raise_failure(self._failures)

    def _send_offsets(self, positions: Sequence[TransactionOffset], group_metadata: bytes) -> None:
        producer = self._producer
        try:
            send = partial(send_offsets, producer, positions, group_metadata, _OFFSETS_TIMEOUT)
            call_within(_OFFSETS_ABANDONED, send, late=producer.close)
        except AbandonedError as exc:
            # The next epoch aborts this transaction. Even closing this producer might block.
            self._abandoned = True
            raise BrokerError(f"Adding offsets to a transaction failed: the group coordinator does not answer ({exc})") from exc

    def flush(self) -> None:
        """Wait until all written records are acknowledged."""
        left = self._producer.flush(_TIMEOUT)
        self._raise_failure(self._failures)
        if left:
            raise BrokerError(f"{left} records were not acknowledged within {_TIMEOUT:.0f} s. Check that the brokers are up")

    def start_over(self, reason: RecordsRefusedError | None = None, alone: bool = False) -> None:
        """Abort the batch and begin again, with batches that the brokers accept.

        If batches were too large, they are smaller from now on. `alone` writes each record of this batch as a Kafka batch of
        its own.
        """
        self.abort()
        if reason is not None and reason.too_large:
            # A batch is refused as a whole. librdkafka does not split it as Java's producer does.
            self._config |= largest_batch(self._client_config, reason.topics)
        self.alone = self.alone or alone or (reason is not None and reason.of_a_batch)
        # Always a new producer: after a refusal librdkafka may continue with sequence numbers that the broker does not expect.
        self._close()
        self._open()
        self._begin()

    def abort(self) -> None:
        """Abort the open transaction. Errors are ignored: a fenced producer has nothing to abort."""
        if self._abandoned:
            return
        try:
            self._producer.purge()
            if self.transactional:
                self._producer.abort_transaction(_ABORT_TIMEOUT)
        except KafkaException:
            pass

    def close(self) -> None:
        """Close the producer."""
        if not self._abandoned:
            self._close()

    def _close(self) -> None:
        """Close the producer without delivering its queue, which would take up to delivery.timeout.ms."""
        producer = self._producer

        def close() -> None:
            with suppress(KafkaException):
                producer.purge()
            producer.close()

        close_within("a producer", close)

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the offset after this batch's last record in a partition, or None."""
        return self._ends.get(partition)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offsets after the last records written to each partition since the transaction began."""
        return dict(self._ends)

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append((message.topic(), error))

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append((message.topic(), error))
            return
        partition = TopicPartition(message.topic(), message.partition())
        self._ends[partition] = max(self._ends.get(partition, 0), message.offset() + 1)

    # -- errors --------------------------------------------------------------------------------------------------------

    def _fatal_failures(self) -> list[tuple[str, KafkaError]]:
        """Return failures that are not about single records. Purged records only follow from another error."""
        followed = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._INVALID_DIFFERENT_RECORD)
        return [(topic, error) for topic, error in self._failures if error.code() not in (*followed, *_ABOUT_RECORDS)]

    def _raise_failure(self, failures: Sequence[tuple[str, KafkaError]]) -> None:
        if failures:
            # Errors without a handler come first.
            topic, error = next((f for f in failures if f[1].code() not in _ABOUT_RECORDS), failures[0])
            self._raise(f"writing to {topic}", error)

    def _raise_refusal(self, record: ProducedRecord, exc: KafkaException) -> NoReturn:
        """Raise the error for a record that the producer rejected and no handler decides on."""
        if exc.args[0].code() in _FAILED_STATE and self.transactional:
            self._call("writing records", self._producer.commit_transaction, _TIMEOUT)
        if exc.args[0].code() in _FAILED_STATE:
            self._raise("writing records", exc.args[0], exc)
        raise production_error(record, Verdict(exc.args[0], record.partition))

    def _call(self, doing: str, function: Any, *arguments: Any) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                function(*arguments)
                return
            except KafkaException as exc:
                error = exc.args[0]
                retriable = error.retriable() and not error.txn_requires_abort() and not error.fatal()
                # Giving up in time frees the thread from an unavailable broker. The next epoch finds out whether the commit
                # succeeded.
                if not retriable or time.monotonic() > deadline:
                    self._raise(doing, error, exc)

    def _raise(self, doing: str, error: KafkaError, cause: KafkaException | None = None) -> NoReturn:
        if error.code() in _FENCED:
            raise TaskMigratedError(
                f"{doing} was refused ({error.name()}): another member of the group owns these tasks"
            ) from cause
        self._producer.poll(0)
        if error.code() == KafkaError._INCONSISTENT:  # records were not delivered; their reports have the reason
            self._raise_failure(self._failures)
            raise RecordsRefusedError(f"{doing} failed: {error.str()}", self._topics) from cause
        topics = [topic for topic, reported in self._failures if reported.code() == error.code()]
        if error.code() in _ABOUT_RECORDS:
            raise RecordsRefusedError(f"{doing} failed: {error.str()}", topics, error.code()) from cause
        if is_access_error(error) and (topics or self._topics):
            doing = f"writing to {', '.join(sorted({*topics} or self._topics))}"
        if error.code() == KafkaError.TOPIC_EXCEPTION:
            raise ProductionError(f"{doing} failed: {error.str()}. Check the topic's name") from cause
        raise refused(doing, error) from cause


def _as_written(headers: Headers) -> list[tuple[str, bytes | None]] | None:
    """Convert headers for librdkafka. Lone surrogates in a name, which would crash librdkafka, become "?" as in Java."""
    return [(n if n.isascii() else n.encode("utf-8", "replace").decode(), value) for n, value in headers] if headers else None


def _code_of(cause: BaseException | None) -> int | None:
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def fence(client_config: Mapping[str, Any], transactional_id: str) -> None:
    """Abort the open transaction of a transactional id and fence its other producers."""
    ThreadProducer(client_config, transactional_id).close()


def production_error(record: ProducedRecord, verdict: Verdict) -> ProductionError:
    """Return the error for the production exception handler. `retriable`: the same write may succeed later."""
    error, partition = verdict
    where = record.topic if partition is None or partition < 0 else f"{record.topic}-{partition}"
    found = ProductionError(f"A record for {where} was refused: {error.name()}, {error.str()}")
    found.__cause__ = KafkaException(error)
    found.retriable = error.code() in _MAY_PASS  # type: ignore[attr-defined]  # handlers read it, as in Java
    return found

"""Write what tasks hand back: one producer per lane, transactional under exactly-once, idempotent otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from penstock.columns import Produced, ProducedColumns
from penstock.errors import BrokerError, ProductionError, TaskMigratedError
from penstock.ids import TopicPartition
from penstock.record import ProducedRecord
from penstock.runtime.carry_over import OffsetAndMetadata

_TIMEOUT = 60.0
_ABORT_TIMEOUT = 10.0
_CHUNK = 20_000

Refused = Callable[[ProducedRecord, Exception], None]

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


class LaneProducer:
    """The producer of one lane, kept for its life.

    Under exactly-once a turn is `begin`, `write`, `commit`; under at-least-once `write` and `flush`.
    """

    def __init__(self, client_config: Mapping[str, Any], transactional_id: str | None) -> None:
        self._transactional = transactional_id is not None
        config: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "retry.backoff.ms": 5,  # init_transactions: 500 -> 55 ms, librdkafka backs off before its first retry
            "partitioner": "murmur2_random",
            **client_config,
        }
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        self._producer = Producer(config)
        self._failure: KafkaError | None = None
        self._ends: dict[TopicPartition, int] = {}
        if self._transactional:
            self._call("opening transactions", self._producer.init_transactions, _TIMEOUT)

    def begin(self) -> None:
        """Open the turn's transaction."""
        self._failure = None
        self._ends.clear()
        if self._transactional:
            self._call("beginning a transaction", self._producer.begin_transaction)

    def write(self, produced: Sequence[Produced], refused: Refused | None = None) -> None:
        """Queue records in their order; a full queue is waited for.

        `refused(record, error)` is asked about a record the producer does not take (one that is too large, say): it returns
        where to go on without it, or raises.
        """
        for is_columns, items in groupby(produced, lambda item: isinstance(item, ProducedColumns)):
            if not is_columns:
                self._write_records(list(items), refused)  # type: ignore[arg-type]
                continue
            for columns in items:
                assert isinstance(columns, ProducedColumns)
                done = 0 if columns.headers is not None else self._write_columns(columns)
                if done < len(columns):
                    self._write_records(list(columns)[done:], refused)

    def _write_columns(self, columns: ProducedColumns) -> int:
        """Queue plain records in a tight loop; returns how many went well, `_write_records` knows what to do about the next."""
        produce, topic, where = self._producer.produce, columns.topic, -1 if columns.partition is None else columns.partition
        callback = None if self._transactional else self._acknowledged
        # The last one of a fixed partition is left to `_write_records`, which asks where it landed.
        rows = zip(columns.keys, columns.values, columns.timestamps)
        done = 0
        try:
            for key, value, timestamp in islice(rows, len(columns) - (columns.partition is not None)):
                produce(topic, value, key, where, callback, None, timestamp)
                done += 1
                if not done % _CHUNK:
                    self._producer.poll(0)
        except (BufferError, KafkaException):
            pass
        return done

    def _write_records(self, records: Sequence[ProducedRecord], refused: Refused | None = None) -> None:
        produce, acknowledged, every = self._producer.produce, self._acknowledged, not self._transactional
        # In a transaction the commit fails if any record did, so only the last record of a partition is asked where it landed.
        last = {} if every else {(record.topic, record.partition): i for i, record in enumerate(records)}
        for i, (topic, partition, key, value, timestamp, headers) in enumerate(records):
            callback = acknowledged if every or last[topic, partition] == i else None
            where = -1 if partition is None else partition
            while True:
                try:
                    produce(topic, value, key, where, callback, None, timestamp, list(headers) if headers else None)
                    break
                except BufferError:
                    self._producer.poll(0.05)
                except KafkaException as exc:
                    error = ProductionError(f"a record for {topic} was refused by the producer: {exc.args[0].str()}")
                    error.__cause__ = exc
                    if refused is None:
                        raise error from exc
                    refused(records[i], error)
                    break
            if not i % _CHUNK:
                self._producer.poll(0)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: bytes) -> None:
        """Commit outputs and offsets in one transaction; afterwards all of it is visible, or none."""
        positions = [ClientPartition(p.topic, p.partition, o.offset, o.metadata) for p, o in offsets.items()]
        if positions:
            self._call(
                "adding offsets to the transaction",
                self._producer.send_offsets_to_transaction,
                positions,
                group_metadata,
                _TIMEOUT,
            )
        self._call("committing the transaction", self._producer.commit_transaction, _TIMEOUT)
        self._raise_failure()

    def flush(self) -> None:
        """Return when everything written has been acknowledged."""
        left = self._producer.flush(_TIMEOUT)
        self._raise_failure()
        if left:
            raise BrokerError(f"{left} records were not acknowledged within {_TIMEOUT:.0f} s: check that the brokers are up")

    def abort(self) -> None:
        """Give up the open transaction, best effort: a fenced producer has nothing left to abort."""
        try:
            self._producer.purge()
            if self._transactional:
                self._producer.abort_transaction(_ABORT_TIMEOUT)
        except KafkaException:
            pass

    def close(self) -> None:
        """Release the connections."""
        self._producer.close()

    def end_of(self, partition: TopicPartition) -> int | None:
        """The position after the last record this turn wrote to a partition; None where it wrote none."""
        return self._ends.get(partition)

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        partition = TopicPartition(message.topic(), message.partition())
        self._ends[partition] = max(self._ends.get(partition, 0), message.offset() + 1)

    # -- errors --------------------------------------------------------------------------------------------------------

    def _raise_failure(self) -> None:
        if self._failure is not None:
            _raise("writing records", self._failure)

    def _call(self, doing: str, function: Any, *arguments: Any) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                function(*arguments)
                return
            except KafkaException as exc:
                error = exc.args[0]
                retriable = error.retriable() and not error.txn_requires_abort() and not error.fatal()
                # Given up in time, a lane is not held by a broker that is away; a new epoch finds out how the commit ended.
                if not retriable or time.monotonic() > deadline:
                    _raise(doing, error, exc)


def _raise(doing: str, error: KafkaError, cause: KafkaException | None = None) -> NoReturn:
    if error.code() in _FENCED:
        raise TaskMigratedError(
            f"{doing} was refused ({error.name()}): another member of the group has taken over this work"
        ) from cause
    raise BrokerError(f"{doing} failed: {error.name()}, {error.str()}") from cause

"""Input without end at a steady rate, and all of the output: what the truth is computed from, and what it is compared with."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.harness.kafka import Kafka, Message, _message
from tests.soak.applications import PARTITIONS, Application, Inputs
from tests.soak.plan import Setup

_QUIET = {"log_level": 2, "socket.timeout.ms": 30_000}


class Load:
    """Feeds batches to all applications, one after the other, and remembers what it has fed."""

    def __init__(self, kafka: Kafka, applications: Mapping[str, Application], setup: Setup, seed: int) -> None:
        self._applications, self._chance = applications, random.Random(seed)
        self._rate, self._batch = setup.rate, setup.batch
        self._producer = Producer(
            {
                **_QUIET,
                "bootstrap.servers": kafka.bootstrap_servers,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,  # whatever is done to the brokers
                "topic.metadata.refresh.interval.ms": 5_000,
            }
        )
        self.inputs: dict[str, dict[str, list[Message]]] = {n: {t: [] for t in a.inputs} for n, a in applications.items()}
        self.records = 0
        self.failure: BaseException | None = None
        self._next = 0
        self._flows, self._ended = threading.Event(), threading.Event()
        self._at_rest = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        topics = [f"{n}-{topic}" for n, a in applications.items() for topic in (*a.inputs, "out")]
        kafka.create(*topics, partitions=PARTITIONS, configs={"retention.ms": "-1"})
        for name, application in applications.items():
            self._feed(name, application, application.first())
        self._flush()
        self._at_rest.set()
        self._thread.start()

    def flow(self) -> None:
        """Feed from now on."""
        self._at_rest.clear()
        self._flows.set()

    def pause(self, timeout: float = 700.0) -> None:
        """Feed no more; returns when all that was fed is acknowledged."""
        self._flows.clear()
        assert self._at_rest.wait(timeout), "what was fed is not acknowledged"
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._flows.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                if not self._flows.is_set():
                    self._at_rest.set()
                self._flows.wait()
                if self._ended.is_set():
                    return
                started = time.monotonic()
                for name, application in self._applications.items():
                    self._feed(name, application, application.make(self._chance, self._next, self._batch))
                self._flush()
                self._next += self._batch
                self._ended.wait(max(0.0, self._batch / self._rate - (time.monotonic() - started)))
        except BaseException as exc:  # noqa: BLE001 - whoever waits for the load raises it
            self.failure = exc
        finally:
            self._at_rest.set()

    def _feed(self, name: str, application: Application, made: Inputs) -> None:
        for topic in application.inputs:
            for record in made.get(topic, ()):
                self._produce(f"{name}-{topic}", record)
                self.inputs[name][topic].append(record)
                self.records += 1

    def _produce(self, topic: str, record: Message) -> None:
        while True:
            try:
                self._producer.produce(topic, record.value, record.key, timestamp=record.timestamp, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self.failure = AssertionError(f"the soak could not write its input: {error}")

    def _flush(self) -> None:
        left = self._producer.flush(650)
        if left and self.failure is None:
            self.failure = AssertionError(f"the soak could not write {left} records of its input")
        if self.failure is not None:
            raise self.failure


class Output:
    """All committed records of a topic, read on from where the last reading ended; `kafka` may be another each time."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.kafka, self._topic = kafka, topic
        self._positions: dict[int, int] = {}
        self.messages: list[Message] = []

    def read(self) -> list[Message]:
        """Everything up to now, in order per partition."""
        ends = self.kafka.ends(self._topic)
        behind = {p: end for p, end in ends.items() if self._positions.get(p, 0) < end}
        if not behind:
            return self.messages
        consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "group.id": "soak-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, p, self._positions.get(p, 0)) for p in behind])
            ended, deadline = set[int](), time.monotonic() + 60
            while len(ended) < len(behind):
                message = consumer.poll(1.0)
                if message is None:
                    if time.monotonic() > deadline:
                        break  # a broker is away; the next reading goes on from here
                elif message.error() is None:
                    self.messages.append(_message(message))
                    self._positions[message.partition()] = message.offset() + 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                    self._positions[message.partition()] = max(message.offset(), self._positions.get(message.partition(), 0))
            return self.messages
        finally:
            consumer.close()

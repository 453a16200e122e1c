"""Which keys belong to which Kafka client, and what an application of streams needs of each: Kafka Streams' own overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_COMMON: Final = frozenset(
    [
        "bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "config.providers", "connections.max.idle.ms",
        "default.api.timeout.ms", "enable.metrics.push", "interceptor.classes", "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms",
        "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "security.protocol",
        "security.providers", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ]
)  # fmt: skip
CONSUMER_KEYS: Final = _COMMON | frozenset(
    [
        "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "enable.auto.commit",
        "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id",
        "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "isolation.level", "key.deserializer",
        "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
        "session.timeout.ms", "value.deserializer",
    ]
)  # fmt: skip
PRODUCER_KEYS: Final = _COMMON | frozenset(
    [
        "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type",
        "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "key.serializer", "linger.ms", "max.block.ms",
        "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
        "partitioner.ignore.keys", "retries", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
        "transactional.id", "value.serializer",
    ]
)  # fmt: skip
ADMIN_KEYS: Final = _COMMON | frozenset(["bootstrap.controllers", "retries"])

SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "https.")
"""Keys of every client, with names beyond Java's where librdkafka has its own (`sasl.username`, `https.ca.location`)."""

CONSUMER_PREFIX: Final = "consumer."
MAIN_CONSUMER_PREFIX: Final = "main.consumer."
RESTORE_CONSUMER_PREFIX: Final = "restore.consumer."
GLOBAL_CONSUMER_PREFIX: Final = "global.consumer."
PRODUCER_PREFIX: Final = "producer."
ADMIN_PREFIX: Final = "admin."
TOPIC_PREFIX: Final = "topic."
CLIENT_TAG_PREFIX: Final = "client.tag."
SPARK_PREFIX: Final = "spark."

KNOWN_PREFIXES: Final = (
    CONSUMER_PREFIX,
    MAIN_CONSUMER_PREFIX,
    RESTORE_CONSUMER_PREFIX,
    GLOBAL_CONSUMER_PREFIX,
    PRODUCER_PREFIX,
    ADMIN_PREFIX,
    TOPIC_PREFIX,
    CLIENT_TAG_PREFIX,
    SPARK_PREFIX,
    "config.providers.",
    # Of the Schema Registry's serdes, as Java names them.
    "schema.registry.",
    "basic.auth.",
    "bearer.auth.",
    "auto.register.schemas",
    "use.latest.version",
    "normalize.schemas",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
    "__",
    *SECURITY_PREFIXES,
)

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 10_000

CONSUMER_OVERRIDES: Final[Mapping[str, Any]] = {
    "max.poll.records": 1000,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
    "group.protocol": "classic",
}
CONSUMER_EOS_OVERRIDES: Final[Mapping[str, Any]] = {"isolation.level": "read_committed"}
PRODUCER_OVERRIDES: Final[Mapping[str, Any]] = {"linger.ms": 100}
PRODUCER_EOS_OVERRIDES: Final[Mapping[str, Any]] = {
    "delivery.timeout.ms": 2**31 - 1,
    "enable.idempotence": True,
    "transaction.timeout.ms": DEFAULT_TRANSACTION_TIMEOUT_MS,
}
FIXED_CONSUMER_KEYS: Final = ("enable.auto.commit", "allow.auto.create.topics", "group.protocol")
FIXED_CONSUMER_EOS_KEYS: Final = ("isolation.level",)
FIXED_PRODUCER_EOS_KEYS: Final = ("enable.idempotence", "transactional.id")
EOS_MAX_IN_FLIGHT: Final = 5

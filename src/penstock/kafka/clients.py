"""Settings of the Kafka clients, from Kafka's own names to librdkafka's and kafka-python's."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.config.clients import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from penstock.config.secrets import without_secrets
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerAccessError, BrokerError, ConfigError
from penstock.kafka.client_supplier import supplied_client, with_supplier
from penstock.kafka.oauth import token_source
from penstock.kafka.security import is_security, member_security, security_settings

_log = logging.getLogger(__name__)

C = TypeVar("C")

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}

# What only the Java clients know; librdkafka refuses unknown names.
# fmt: off
_JAVA_ONLY = frozenset({
    "max.poll.records", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
    "interceptor.classes", "metric.reporters", "partition.assignment.strategy", "default.api.timeout.ms",
    "exclude.internal.topics", "group.protocol", "group.remote.assignor", "max.block.ms", "buffer.memory",
    "partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "metadata.max.idle.ms", "enable.metrics.push", "metrics.num.samples",
    "metrics.recording.level", "metrics.sample.window.ms", "auto.include.jmx.reporter", "config.providers",
    "client.dns.lookup", "allow.auto.create.topics",
    "socket.connection.setup.timeout.max.ms", "throw.on.fetch.stable.offset.unsupported",
    "transaction.two.phase.commit.enable", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "share.acknowledgement.mode", "internal.leave.group.on.close", "bootstrap.controllers",
})
# fmt: on

_CLIENT_KEYS = CONSUMER_KEYS | PRODUCER_KEYS | ADMIN_KEYS

FETCH_BYTES: Final = 4 << 20
"""The most that one answer of a broker has, as the producers compressed it; a batch that is larger comes alone.

librdkafka unpacks an answer whole. Less than this costs time: with 1 MB a million records take 2.4 s instead of 1.3.
"""

_DEFAULT_MAX_REQUEST_SIZE = 1_048_576  # Java's; librdkafka's message.max.bytes is 1,000,000
_DEFAULT_MAX_POLL_SECONDS = 300.0  # Kafka's
_TOKEN_PATIENCE = 10.0  # as long as Java's clients try

_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')
# To librdkafka a line that breaks while it logs in again, and a login too soon after the last, are refused logins as well.
_HANDSHAKE_BROKE_OFF = re.compile(r"handshake failed: (Local: |Broker: Request not valid in current SASL state)")
_ACCESS_ERRORS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SECURITY_DISABLED,
    }
)


def consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the consumers that read input topics; they belong to no group, the instance's member does."""
    given = config.main_consumer_configs(config["application.id"], client_id)
    for key in ("group.instance.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"):
        given.pop(key, None)
    return with_supplier(config, {**_consumer(given), "enable.auto.commit": False, "auto.offset.reset": "error"})


def restore_consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the consumers that bring stores back; librdkafka wants a group even where none is used."""
    given = _consumer(config.restore_consumer_configs(client_id))
    settings = {**given, "group.id": config["application.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
    return with_supplier(config, settings, "get_restore_consumer")


def log_reader_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For a `LogReader` beside these consumers, in kafka-python's names."""
    return _kafka_python(config.restore_consumer_configs(client_id))


def global_consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the consumers of global tables."""
    given = _consumer(config.global_consumer_configs(client_id))
    settings = {**given, "group.id": config["application.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
    return with_supplier(config, settings, "get_global_consumer")


def producer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the producer of a thread."""
    given = config.producer_configs(client_id)
    if config.eos_enabled:
        given.pop("delivery.timeout.ms", None)  # librdkafka bounds it by the transaction's
    translated = {"message.max.bytes": _DEFAULT_MAX_REQUEST_SIZE, **_translated(given)}
    if config.eos_enabled and "socket.timeout.ms" in translated:
        # A request must end before its transaction does.
        translated["socket.timeout.ms"] = min(
            int(translated["socket.timeout.ms"]), int(translated["transaction.timeout.ms"]) - 100
        )
    if "producer.linger.ms" not in config.originals and "linger.ms" not in config.originals:
        translated["linger.ms"] = 5  # a turn hands over all it has at once and flushes: Kafka Streams' 100 ms would only delay it
    return with_supplier(config, translated)


def max_poll_seconds(config: StreamsConfig) -> float:
    """How long a turn of a thread may take before the thread counts as lost: `max.poll.interval.ms` of the main consumer."""
    given = config.main_consumer_configs(config["application.id"], "").get("max.poll.interval.ms")
    return _DEFAULT_MAX_POLL_SECONDS if given is None else int(_plain(given)) / 1000


def reads_committed(consumer: Mapping[str, Any]) -> bool:
    """Whether a consumer with these settings sees committed records only: then its logs end at the last stable offset."""
    return str(consumer["isolation.level"]).lower() == "read_committed"


def admin_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the admin client."""
    return with_supplier(config, _translated(config.admin_configs(f"{client_id}-admin")))


def member_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the group member, in kafka-python's names."""
    return _kafka_python(config.main_consumer_configs(config["application.id"], f"{client_id}-consumer"))


def group_admin_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the administration of the group, in kafka-python's names."""
    return _kafka_python(config.admin_configs(f"{client_id}-admin"))


def check_client_settings(config: StreamsConfig) -> None:
    """Translate every client's settings once, so that what cannot be is told before anything starts."""
    for client in (consumer_config, restore_consumer_config, global_consumer_config, producer_config, admin_config):
        client(config, "check")
    member_config(config, "check")


def open_client(what: str, make: Callable[[dict[str, Any]], C], settings: Mapping[str, Any]) -> C:
    """A client of librdkafka, or that of the configured supplier; settings it does not know are left out with a warning.

    Where it needs a token one is got first: librdkafka would only say that there was none.
    """
    left = dict(settings)
    make = supplied_client(what, left) or make
    tokens = token_source(left)
    if tokens is not None:
        tokens.current(_TOKEN_PATIENCE)
    while True:
        try:
            return make(dict(left))
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.SASL_AUTHENTICATION_FAILED:
                raise refused(f"opening the {what}", exc.args[0]) from None
            unknown = _UNKNOWN.search(exc.args[0].str())
            if unknown is None or unknown.group(1) not in left:
                problem = without_secrets(exc.args[0].str(), settings)
                raise ConfigError(f"the {what} cannot be opened: {problem}") from None
            del left[unknown.group(1)]
            _log.warning("the setting %s is not known to the %s and has no effect", unknown.group(1), what)


def is_access_error(error: KafkaError) -> bool:
    """Whether the brokers do not let the client in; one that misses a certificate of ours closes the line with an alert."""
    if error.code() == KafkaError._AUTHENTICATION and _HANDSHAKE_BROKE_OFF.search(error.str()):
        return False
    return error.code() in _ACCESS_ERRORS or "SSL alert" in error.str()


def refused(doing: str, error: KafkaError) -> BrokerError:
    """A broker's refusal in penstock's words; what more patience cannot cure is a `BrokerAccessError`."""
    if is_access_error(error):
        return BrokerAccessError(
            f"{doing} is not allowed ({error.name()}, {error.str()}): check security.protocol, the credentials and certificates, "
            "and the rights the brokers give them"
        )
    return BrokerError(f"{doing} failed: {error.name()}, {error.str()}")


def _consumer(given: Mapping[str, Any]) -> dict[str, Any]:
    # Java's default; librdkafka's is read_committed.
    translated = {"isolation.level": "read_uncommitted", **_translated(given)}
    translated.pop("message.max.bytes", None)  # of no use to a consumer, and no fetch may be smaller
    if "receive.message.max.bytes" in translated:
        translated.setdefault("fetch.max.bytes", min(FETCH_BYTES, int(translated["receive.message.max.bytes"]) - 512))
    if "fetch.max.bytes" in translated:
        # librdkafka wants the limits of a message, a fetch and an answer in this order.
        limit = max(1000, int(translated["fetch.max.bytes"]))
        translated |= {"fetch.max.bytes": limit, "message.max.bytes": min(limit, 1 << 20)}
        answer = int(translated.get("receive.message.max.bytes", 100_000_000))
        translated["receive.message.max.bytes"] = max(answer, limit + 512)
    return translated


def _kafka_python(given: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "bootstrap.servers": "bootstrap_servers",
        "group.id": "group_id",
        "group.instance.id": "group_instance_id",
        "client.id": "client_id",
        "client.rack": "client_rack",
        "session.timeout.ms": "session_timeout_ms",
        "heartbeat.interval.ms": "heartbeat_interval_ms",
        "max.poll.interval.ms": "max_poll_interval_ms",
        "metadata.max.age.ms": "metadata_max_age_ms",
        "request.timeout.ms": "request_timeout_ms",
        "connections.max.idle.ms": "connections_max_idle_ms",
        "reconnect.backoff.ms": "reconnect_backoff_ms",
        "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
        "retry.backoff.ms": "retry_backoff_ms",
    }
    # Heartbeats come from a loop of their own that no record passes through: a silence of 10 s means that the process is gone.
    found: dict[str, Any] = {} if "session.timeout.ms" in given else {"session_timeout_ms": 10_000}
    if "heartbeat.interval.ms" not in given and "session.timeout.ms" not in given:
        found["heartbeat_interval_ms"] = 1_000
    found |= {names[key]: _plain(value) for key, value in given.items() if key in names}
    for key in found:
        if key.endswith("_ms"):
            found[key] = int(found[key])
    if "connections_max_idle_ms" in found:
        # kafka-python wants a connection to live longer than a request may take.
        found["connections_max_idle_ms"] = max(found["connections_max_idle_ms"], found.get("request_timeout_ms", 30_000) + 1)
    return {**found, **member_security(security_settings(given))}


def _translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's names to librdkafka's, without what only Java's clients know, and without objects in settings of the user's own."""
    found: dict[str, Any] = {"log_level": 2}  # a broker that is away is told by our own errors, once
    for key, value in given.items():
        if key in _JAVA_ONLY or is_security(key) or value is None:
            continue
        plain = _plain(value)
        if isinstance(plain, (str, int, float)) or key in _CLIENT_KEYS:
            found[_RENAMED.get(key, key)] = plain
    for key in ("socket.receive.buffer.bytes", "socket.send.buffer.bytes"):
        if key in found and int(found[key]) < 0:
            found[key] = 0  # the system's own size
    return found | security_settings(given)


def _plain(value: Any) -> Any:
    """What librdkafka takes: a duration in milliseconds, a list as text."""
    if isinstance(value, timedelta):
        return int(value.total_seconds() * 1000)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

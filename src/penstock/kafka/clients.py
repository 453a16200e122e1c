"""Settings of the Kafka clients: Kafka's names are translated to those of librdkafka and kafka-python."""

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

# Settings of the Java clients alone. librdkafka refuses unknown names.
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
"""The largest fetch response in compressed bytes. A larger batch comes alone.

librdkafka decompresses a whole response at once. Smaller responses are slower: with 1 MB a million records take 2.4 s instead
of 1.3.
"""

_DEFAULT_MAX_REQUEST_SIZE = 1_048_576  # Java's; librdkafka's message.max.bytes is 1,000,000
_DEFAULT_MAX_POLL_SECONDS = 300.0  # Kafka's
_TOKEN_PATIENCE = 10.0  # as Java's clients

_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')
# librdkafka also reports a connection lost during re-authentication, and a re-authentication too soon, as a refused login.
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
    """Return the settings of input consumers. They join no group: the driver's group member does."""
    given = config.main_consumer_configs(config["application.id"], client_id)
    for key in ("group.instance.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"):
        given.pop(key, None)
    return with_supplier(config, {**_consumer(given), "enable.auto.commit": False, "auto.offset.reset": "error"})


def restore_consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Return the settings of restore consumers. librdkafka requires a group id, although none is used."""
    given = _consumer(config.restore_consumer_configs(client_id))
    settings = {**given, "group.id": config["application.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
    return with_supplier(config, settings, "get_restore_consumer")


def log_reader_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Return the settings of a `LogReader`, with kafka-python's names."""
    return _kafka_python(config.restore_consumer_configs(client_id))


def global_consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    given = _consumer(config.global_consumer_configs(client_id))
    settings = {**given, "group.id": config["application.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}
    return with_supplier(config, settings, "get_global_consumer")


def producer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    given = config.producer_configs(client_id)
    if config.eos_enabled:
        given.pop("delivery.timeout.ms", None)  # librdkafka bounds it by the transaction's
    translated = {"message.max.bytes": _DEFAULT_MAX_REQUEST_SIZE, **_translated(given)}
    if config.eos_enabled and "socket.timeout.ms" in translated:
        # A request must end before the transaction times out.
        translated["socket.timeout.ms"] = min(
            int(translated["socket.timeout.ms"]), int(translated["transaction.timeout.ms"]) - 100
        )
    if "producer.linger.ms" not in config.originals and "linger.ms" not in config.originals:
        translated["linger.ms"] = 5  # a batch is sent at once and flushed: Kafka Streams' 100 ms would only delay it
    return with_supplier(config, translated)


def max_poll_seconds(config: StreamsConfig) -> float:
    """Return `max.poll.interval.ms` of the main consumer in seconds: a thread whose batch takes longer counts as lost."""
    given = config.main_consumer_configs(config["application.id"], "").get("max.poll.interval.ms")
    return _DEFAULT_MAX_POLL_SECONDS if given is None else int(_plain(given)) / 1000


def reads_committed(consumer: Mapping[str, Any]) -> bool:
    """Return True if the consumer reads committed records only. Its logs then end at the last stable offset."""
    return str(consumer["isolation.level"]).lower() == "read_committed"


def admin_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    return with_supplier(config, _translated(config.admin_configs(f"{client_id}-admin")))


def member_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Return the settings of the group member, with kafka-python's names."""
    return _kafka_python(config.main_consumer_configs(config["application.id"], f"{client_id}-consumer"))


def group_admin_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """Return the settings of group administration, with kafka-python's names."""
    return _kafka_python(config.admin_configs(f"{client_id}-admin"))


def check_client_settings(config: StreamsConfig) -> None:
    """Translate the settings of all clients once, so that invalid settings fail before the start."""
    for client in (consumer_config, restore_consumer_config, global_consumer_config, producer_config, admin_config):
        client(config, "check")
    member_config(config, "check")


def open_client(what: str, make: Callable[[dict[str, Any]], C], settings: Mapping[str, Any]) -> C:
    """Open a librdkafka client, or the configured supplier's. Unknown settings are omitted with a warning.

    The client's OAuth token is fetched first: without one librdkafka reports no reason.
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
                raise ConfigError(f"The {what} cannot be opened: {problem}") from None
            del left[unknown.group(1)]
            _log.warning("The setting %s is unknown to the %s and has no effect", unknown.group(1), what)


def is_access_error(error: KafkaError) -> bool:
    """Return True if the brokers refuse the client. For a missing certificate they close the connection with an SSL alert."""
    if error.code() == KafkaError._AUTHENTICATION and _HANDSHAKE_BROKE_OFF.search(error.str()):
        return False
    return error.code() in _ACCESS_ERRORS or "SSL alert" in error.str()


def refused(doing: str, error: KafkaError) -> BrokerError:
    """Return the error for a broker's refusal: a `BrokerAccessError` if retrying cannot help."""
    if is_access_error(error):
        return BrokerAccessError(
            f"{doing} is not allowed ({error.name()}, {error.str()}). Check security.protocol, the credentials and certificates, "
            "and the rights the brokers give them"
        )
    return BrokerError(f"{doing} failed: {error.name()}, {error.str()}")


def _consumer(given: Mapping[str, Any]) -> dict[str, Any]:
    # Java's default. librdkafka's default is read_committed.
    translated = {"isolation.level": "read_uncommitted", **_translated(given)}
    translated.pop("message.max.bytes", None)  # unused by consumers, and a fetch limit must not be smaller
    if "receive.message.max.bytes" in translated:
        translated.setdefault("fetch.max.bytes", min(FETCH_BYTES, int(translated["receive.message.max.bytes"]) - 512))
    if "fetch.max.bytes" in translated:
        # librdkafka requires message limit <= fetch limit <= response limit.
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
    # A separate loop without records sends the heartbeats, so 10 s of silence mean that the process is gone.
    found: dict[str, Any] = {} if "session.timeout.ms" in given else {"session_timeout_ms": 10_000}
    if "heartbeat.interval.ms" not in given and "session.timeout.ms" not in given:
        found["heartbeat_interval_ms"] = 1_000
    found |= {names[key]: _plain(value) for key, value in given.items() if key in names}
    for key in found:
        if key.endswith("_ms"):
            found[key] = int(found[key])
    if "connections_max_idle_ms" in found:
        # kafka-python requires connections to outlive requests.
        found["connections_max_idle_ms"] = max(found["connections_max_idle_ms"], found.get("request_timeout_ms", 30_000) + 1)
    return {**found, **member_security(security_settings(given))}


def _translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate Kafka's names to librdkafka's. Omit settings of the Java clients and the user's own objects."""
    found: dict[str, Any] = {"log_level": 2}  # an unavailable broker is reported once, by penstock's own errors
    for key, value in given.items():
        if key in _JAVA_ONLY or is_security(key) or value is None:
            continue
        plain = _plain(value)
        if isinstance(plain, (str, int, float)) or key in _CLIENT_KEYS:
            found[_RENAMED.get(key, key)] = plain
    for key in ("socket.receive.buffer.bytes", "socket.send.buffer.bytes"):
        if key in found and int(found[key]) < 0:
            found[key] = 0  # the system's default
    return found | security_settings(given)


def _plain(value: Any) -> Any:
    """Convert a value for librdkafka: a duration to milliseconds, a list to text."""
    if isinstance(value, timedelta):
        return int(value.total_seconds() * 1000)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

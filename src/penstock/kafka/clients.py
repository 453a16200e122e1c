"""Settings of the Kafka clients, from Kafka's own names to librdkafka's and kafka-python's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.config import StreamsConfig
from penstock.errors import ConfigError

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
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
    "security.providers", "sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
    "sasl.login.class", "ssl.truststore.type", "ssl.keystore.type", "ssl.truststore.password", "ssl.protocol",
    "ssl.enabled.protocols", "ssl.provider", "ssl.trustmanager.algorithm", "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation", "ssl.engine.factory.class", "client.dns.lookup", "allow.auto.create.topics",
    "request.timeout.ms", "socket.connection.setup.timeout.max.ms", "metadata.recovery.strategy",
    "metadata.recovery.rebootstrap.trigger.ms", "delivery.timeout.ms", "throw.on.fetch.stable.offset.unsupported",
    "transaction.two.phase.commit.enable", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "share.acknowledgement.mode", "internal.leave.group.on.close",
})
# fmt: on

_JAAS_ENTRY = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the consumers that read input topics; they belong to no group, the instance's member does."""
    given = config.main_consumer_configs(config["application.id"], client_id)
    for key in ("group.instance.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"):
        given.pop(key, None)
    return {**_translated(given), "enable.auto.commit": False, "auto.offset.reset": "error"}


def restore_consumer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the consumers that bring stores back; librdkafka wants a group even where none is used."""
    given = _translated(config.restore_consumer_configs(client_id))
    return {**given, "group.id": config["application.id"], "enable.auto.commit": False, "auto.offset.reset": "error"}


def producer_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the producer of a lane."""
    given = _translated(config.producer_configs(client_id))
    if "producer.linger.ms" not in config.originals and "linger.ms" not in config.originals:
        given["linger.ms"] = 5  # a turn hands over all it has at once and flushes: Kafka Streams' 100 ms would only delay it
    return given


def admin_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the admin client."""
    return _translated(config.admin_configs(f"{client_id}-admin"))


def member_config(config: StreamsConfig, client_id: str) -> dict[str, Any]:
    """For the group member, in kafka-python's names."""
    given = config.main_consumer_configs(config["application.id"], f"{client_id}-consumer")
    names = {
        "bootstrap.servers": "bootstrap_servers",
        "group.id": "group_id",
        "group.instance.id": "group_instance_id",
        "client.id": "client_id",
        "session.timeout.ms": "session_timeout_ms",
        "heartbeat.interval.ms": "heartbeat_interval_ms",
        "max.poll.interval.ms": "max_poll_interval_ms",
        "metadata.max.age.ms": "metadata_max_age_ms",
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.mechanisms": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
        "ssl.key.password": "ssl_password",
    }
    # Heartbeats come from a loop of their own that no record passes through: a silence of 10 s means that the process is gone.
    found: dict[str, Any] = {} if "session.timeout.ms" in given else {"session_timeout_ms": 10_000}
    if "heartbeat.interval.ms" not in given and "session.timeout.ms" not in given:
        found["heartbeat_interval_ms"] = 1_000
    translated = _translated(given)
    found |= {names[key]: value for key, value in translated.items() if key in names}
    for key in ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "metadata_max_age_ms"):
        if key in found:
            found[key] = int(found[key])
    if translated.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl_check_hostname"] = False
    return found


def _translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's names to librdkafka's; what only Java's clients know is left out."""
    found: dict[str, Any] = {"log_level": 2}  # a broker that is away is told by our own errors, once
    for key, value in given.items():
        if key not in _JAVA_ONLY:
            found[_RENAMED.get(key, key)] = value
    if "sasl.jaas.config" in given:
        found |= _from_jaas(str(given["sasl.jaas.config"]))
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"  # Java's way to say none
    for store in ("ssl.truststore.location", "ssl.keystore.location"):
        if str(given.get(store, "")).endswith((".jks", ".p12", ".pfx")):
            raise ConfigError(
                f"{store} = {given[store]!r}: librdkafka reads PEM files; convert the store and set ssl.ca.location, or "
                "ssl.certificate.location and ssl.key.location"
            )
    return found


def _from_jaas(text: str) -> dict[str, str]:
    entries = {name: value.replace('\\"', '"') for name, value in _JAAS_ENTRY.findall(text)}
    if set(entries) != {"username", "password"}:
        raise ConfigError(
            "sasl.jaas.config is understood for PLAIN and SCRAM (username and password); "
            "for other mechanisms set librdkafka's own keys"
        )
    return {"sasl.username": entries["username"], "sasl.password": entries["password"]}

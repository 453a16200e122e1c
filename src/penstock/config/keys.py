"""Every configuration key: its type, default, what is allowed, and a sentence on what it does.

The keys and defaults are Kafka Streams' own (4.3); where penstock's default differs the sentence says so.
"""

from __future__ import annotations

import enum
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from penstock.import_paths import imported
from penstock.windows import to_ms


class Importance(enum.Enum):
    """How likely a user has to care for a key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Type(enum.Enum):
    """What a value is, once parsed; text is accepted for each, as it comes from a properties file."""

    BOOLEAN = "true or false"
    INT = "an integer of 32 bits"
    LONG = "an integer of 64 bits"
    DURATION = "a whole number of milliseconds or a timedelta"
    STRING = "text"
    LIST = "a list, or text separated by commas"
    CLASS = "an object, its class, or its import path"
    FUNCTION = "a function, its import path, or a class whose objects are called"
    HANDLER = "log_and_fail, log_and_continue, a handler, its class, or its import path"


class _NoDefault:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Final = _NoDefault()
"""The default of a key that has none and must be given."""


@dataclass(frozen=True)
class Allowed:
    """Which values of its type a key takes; a value that fits one of `choices` in another case becomes that choice."""

    check: Callable[[Any], bool]
    text: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigKey:
    """One key of the configuration."""

    name: str
    type: Type
    default: Any
    importance: Importance
    doc: str
    allowed: Allowed | None = None
    without_effect: str | None = None  # why a key of Kafka Streams has nothing to set here

    def parse(self, value: Any) -> Any:
        """The value in its own type; ValueError says what was expected."""
        if value is None and self.default is None:
            return None
        try:
            parsed = _PARSERS[self.type](value)
        except ImportError as exc:
            raise ValueError(f"{self.type.value}, but {exc}. {self.doc}") from exc
        if self.allowed is None:
            return parsed
        if not self.allowed.check(parsed):
            raise ValueError(self.allowed.text)
        return next((choice for choice in self.allowed.choices if choice.lower() == parsed.lower()), parsed)


def _parse_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(Type.BOOLEAN.value)


def _parse_integer(value: Any, bits: int, expected: str) -> int:
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            raise ValueError(expected) from None
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(expected)
    return value


def _parse_duration(value: Any) -> int:
    if isinstance(value, timedelta):
        return to_ms(value, "duration")
    return _parse_integer(value, 64, Type.DURATION.value)


def _parse_string(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, enum.Enum) and isinstance(value.value, str):
        return value.value
    raise ValueError(Type.STRING.value)


def _parse_list(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    raise ValueError(Type.LIST.value)


def _parse_function(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | bytes):
        raise ValueError(Type.FUNCTION.value)
    return value  # it is imported where the clients' settings are checked


def _parse_class(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | bytes):
        raise ValueError(Type.CLASS.value)
    if isinstance(value, str) and not value.startswith(_JAVAS) and not value.endswith(_NAMED_BY_LAST_PART) and _is_path(value):
        _check_import(value)
    return value


def _is_path(value: str) -> bool:
    return "." in value or ":" in value


def _check_import(path: str) -> None:
    try:
        imported(path)
    except Exception as exc:
        raise ImportError(f"cannot import {path!r} ({type(exc).__name__}: {exc})") from exc


def _parse_handler(value: Any) -> Any:
    if isinstance(value, str) and value.rpartition(".")[2] not in _HANDLERS:
        if not _is_path(value):
            raise ValueError(Type.HANDLER.value)
        _check_import(value)
        return value
    return _parse_class(value)


_JAVAS: Final = "org.apache.kafka."
_NAMED_BY_LAST_PART: Final = ("Serde", "TimestampExtractor", "OnInvalidTimestamp", "StickyTaskAssignor")
"""Classes of Java's whose last part names a built-in one here, so that the properties of a Java application keep working."""
_HANDLERS: Final = frozenset(
    {
        "log_and_fail",
        "log_and_continue",
        "LogAndFailExceptionHandler",
        "LogAndContinueExceptionHandler",
        "LogAndFailProcessingExceptionHandler",
        "LogAndContinueProcessingExceptionHandler",
        "DefaultProductionExceptionHandler",
        "LogAndContinueProductionExceptionHandler",
    }
)


_PARSERS: Final[Mapping[Type, Callable[[Any], Any]]] = {
    Type.BOOLEAN: _parse_boolean,
    Type.INT: lambda value: _parse_integer(value, 32, Type.INT.value),
    Type.LONG: lambda value: _parse_integer(value, 64, Type.LONG.value),
    Type.DURATION: _parse_duration,
    Type.STRING: _parse_string,
    Type.LIST: _parse_list,
    Type.CLASS: _parse_class,
    Type.FUNCTION: _parse_function,
    Type.HANDLER: _parse_handler,
}


def at_least(minimum: int) -> Allowed:
    """Numbers from a minimum on."""
    return Allowed(lambda value: value >= minimum, f"a number of at least {minimum}")


def between(low: int, high: int) -> Allowed:
    """Numbers from one to another, both included."""
    return Allowed(lambda value: low <= value <= high, f"a number from {low} to {high}")


def one_of(*choices: str) -> Allowed:
    """One of a few words, in any case."""
    lower = frozenset(choice.lower() for choice in choices)
    return Allowed(lambda value: value.lower() in lower, f"one of {', '.join(choices)}", choices)


TOPOLOGY_OPTIMIZATIONS: Final = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _is_application_id(value: str) -> bool:
    return _LEGAL_NAME.fullmatch(value) is not None and value not in (".", "..")


def _are_optimizations(value: str) -> bool:
    names = re.split(r"\s*,\s*", value)
    return names in (["all"], ["none"]) or all(name in TOPOLOGY_OPTIMIZATIONS for name in names)


_HOST_AND_PORT: Final = re.compile(r"(?:[A-Za-z0-9+.-]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):([0-9]{1,5})")


def _is_host_and_port(value: str) -> bool:
    match = _HOST_AND_PORT.fullmatch(value)
    return value == "" or (match is not None and int(match.group(1)) <= 65535)


_APPLICATION_ID: Final = Allowed(_is_application_id, "up to 249 letters, digits, '.', '_' and '-'")
_OPTIMIZATIONS: Final = Allowed(
    _are_optimizations,
    f"none, all, or some of {', '.join(TOPOLOGY_OPTIMIZATIONS)} separated by commas",
)
_SERVER: Final = Allowed(_is_host_and_port, "host:port")
_SERVERS: Final = Allowed(
    lambda servers: bool(servers) and all(isinstance(server, str) and server and _is_host_and_port(server) for server in servers),
    "host:port, or several separated by commas",
)
_UPGRADE_FROM: Final = (
    *("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2"),
)
_DAY_MS: Final = 24 * 60 * 60 * 1000
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _keys() -> tuple[ConfigKey, ...]:
    key = ConfigKey
    return (
        key("application.id", Type.STRING, REQUIRED, _HIGH,
            "Names the application: its group, the prefix of its internal topics, its state folder.", _APPLICATION_ID),
        key("bootstrap.servers", Type.LIST, REQUIRED, _HIGH, "The Kafka brokers to ask first.", _SERVERS),
        key("num.standby.replicas", Type.INT, 0, _HIGH,
            "How many standby copies of each task's state are kept on other instances or hosts.", at_least(0)),
        key("state.dir", Type.STRING, str(Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"), _HIGH,
            "The folder of the state stores; it must be this instance's own on a shared file system."),
        key("processing.exception.handler.global.enabled", Type.BOOLEAN, False, _HIGH,
            "Whether the processing exception handler is asked for global stores too."),
        key("ensure.explicit.internal.resource.naming", Type.BOOLEAN, False, _HIGH,
            "Refuse a topology in which a store or an internal topic has a generated name."),
        key("acceptable.recovery.lag", Type.LONG, 10_000, _MEDIUM,
            "How many records a copy of a task's state may lack to take over the task.", at_least(0)),
        key("cache.max.bytes.buffering", Type.LONG, 10 * 1024 * 1024, _MEDIUM,
            "Deprecated: statestore.cache.max.bytes.", at_least(0)),
        key("statestore.cache.max.bytes", Type.LONG, 10 * 1024 * 1024, _MEDIUM,
            "Memory of the record caches of all threads together; 0 turns caching off.", at_least(0)),
        key("client.id", Type.STRING, "", _MEDIUM, "The prefix of the clients' ids; default <application.id>-<random UUID>."),
        key("deserialization.exception.handler", Type.HANDLER, "log_and_fail", _MEDIUM,
            "Decides what happens to records that cannot be read: log_and_fail, log_and_continue, a handler, its class or "
            "import path."),
        key("default.deserialization.exception.handler", Type.HANDLER, "log_and_fail", _MEDIUM,
            "Deprecated: deserialization.exception.handler."),
        key("production.exception.handler", Type.HANDLER, "log_and_fail", _MEDIUM,
            "Decides what happens to records that cannot be written: log_and_fail, log_and_continue, a handler, its class or "
            "import path."),
        key("default.production.exception.handler", Type.HANDLER, "log_and_fail", _MEDIUM,
            "Deprecated: production.exception.handler."),
        key("processing.exception.handler", Type.HANDLER, "log_and_fail", _MEDIUM,
            "Decides what happens to records that a processor fails on: log_and_fail, log_and_continue, a handler, its class "
            "or import path."),
        key("errors.dead.letter.queue.topic.name", Type.STRING, None, _MEDIUM,
            "The dead letter topic: the built-in handlers write failed records to it."),
        key("default.key.serde", Type.CLASS, None, _MEDIUM,
            "The serde of keys if an operator has none: a serde, its class, its import path, or a name such as string."),
        key("default.value.serde", Type.CLASS, None, _MEDIUM,
            "The serde of values if an operator has none: a serde, its class, its import path, or a name such as string."),
        key("default.list.key.serde.inner", Type.CLASS, None, _MEDIUM, "The serde of the entries if default.key.serde is list."),
        key("default.list.value.serde.inner", Type.CLASS, None, _MEDIUM,
            "The serde of the entries if default.value.serde is list."),
        key("default.list.key.serde.type", Type.CLASS, None, _MEDIUM, "Java's class of lists of keys.",
            without_effect="a list is always Python's list"),
        key("default.list.value.serde.type", Type.CLASS, None, _MEDIUM, "Java's class of lists of values.",
            without_effect="a list is always Python's list"),
        key("default.timestamp.extractor", Type.CLASS, "FailOnInvalidTimestamp", _MEDIUM,
            "Computes the timestamp of a record: an extractor, its class, its name, its import path, or a callable."),
        key("max.task.idle.ms", Type.DURATION, 0, _MEDIUM,
            "How long a task waits for an input partition without data before it processes the others; -1 never waits."),
        key("max.warmup.replicas", Type.INT, 2, _MEDIUM, "How many tasks may warm up elsewhere at a time.", at_least(1)),
        key("num.stream.threads", Type.INT, None, _MEDIUM,
            "How many stream threads run. Tasks are spread evenly over them. Default: one for each core of Spark, and tasks "
            "share one thread while it has time to spare (Kafka Streams: 1).", at_least(0)),
        key("processing.guarantee", Type.STRING, "at_least_once", _MEDIUM,
            "Whether a crash may repeat records (at_least_once) or not (exactly_once_v2).",
            one_of("at_least_once", "exactly_once_v2")),
        key("task.assignor.class", Type.CLASS, None, _MEDIUM,
            "Assigns tasks to instances: a TaskAssignor, its class or its import path; default: the high-availability assignor."),
        key("replication.factor", Type.INT, -1, _MEDIUM, "Replicas of internal topics; -1: the brokers' default.", at_least(-1)),
        key("security.protocol", Type.STRING, "PLAINTEXT", _MEDIUM,
            "The protocol between clients and brokers.", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        key("task.timeout.ms", Type.DURATION, 300_000, _MEDIUM,
            "How long a task retries after temporary errors before it fails.", at_least(0)),
        key("topology.optimization", Type.STRING, "none", _MEDIUM,
            "Which optimisations of the topology are applied.", _OPTIMIZATIONS),
        key("group.protocol", Type.STRING, "classic", _MEDIUM, "Who assigns tasks: classic: a member of the group; "
            "streams: the brokers (KIP-1071, Kafka 4.2), also with members in Java.", one_of("classic", "streams")),
        key("topology.description.push.enabled", Type.BOOLEAN, True, _MEDIUM, "Java's upload of the topology to the brokers.",
            without_effect="it belongs to the streams protocol; penstock describe shows the topology"),
        key("allow.os.group.write.access", Type.BOOLEAN, False, _LOW, "Whether the state folder may be written by its group."),
        key("application.server", Type.STRING, "", _LOW, "host:port on which this instance answers queries.", _SERVER),
        key("buffered.records.per.partition", Type.INT, 1000, _LOW, "How many records a task holds per partition.", at_least(1),
            without_effect="batch.max.records bounds how many records a stream thread takes at a time"),
        key("built.in.metrics.version", Type.STRING, "latest", _LOW, "Which metrics there are.", one_of("latest")),
        key("commit.interval.ms", Type.DURATION, 100, _LOW,
            "The longest time that a result waits for its commit under little load; "
            "default 100 in both guarantees (Kafka Streams: 30000 or 100).", at_least(0)),
        key("config.providers", Type.LIST, (), _LOW,
            "Providers of values such as ${env:NAME}: names, each with config.providers.<name>.class = "
            "EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider."),
        key("enable.metrics.push", Type.BOOLEAN, True, _LOW, "Java's upload of its clients' metrics to the brokers.",
            without_effect="librdkafka decides by itself whether the brokers ask for them; see metrics() and metrics.port"),
        key("enable.transactional.statestores", Type.BOOLEAN, False, _LOW, "Whether stores are written together with a commit.",
            without_effect="stores are always written in one step with their position, after Kafka has the commit"),
        key("statestore.uncommitted.max.bytes", Type.LONG, 64 * 1024 * 1024, _LOW,
            "Memory for writes that are not committed yet; -1: no limit.", at_least(-1),
            without_effect="every batch ends in a commit, so batch.max.records limits uncommitted writes"),
        key("rack.aware.assignment.strategy", Type.STRING, "none", _LOW,
            "Whether the assignment considers racks: none, min_traffic (least traffic between racks), or balance_subtopology "
            "(the same, with even sub-topologies). Needs client.rack on all instances and broker.rack on all brokers.",
            one_of("none", "min_traffic", "balance_subtopology")),
        key("rack.aware.assignment.tags", Type.LIST, (), _LOW, "Tags over which standby copies are spread.",
            Allowed(lambda tags: len(tags) <= 5, "at most 5 tags")),
        key("rack.aware.assignment.traffic_cost", Type.INT, None, _LOW,
            "The cost of a partition in another rack (10).", at_least(0)),
        key("rack.aware.assignment.non_overlap_cost", Type.INT, None, _LOW,
            "The cost of moving a task with state (1).", at_least(0)),
        key("repartition.purge.interval.ms", Type.DURATION, 30_000, _LOW,
            "How often consumed records of repartition topics are deleted.", at_least(0)),
        key("connections.max.idle.ms", Type.DURATION, 540_000, _LOW, "Idle connections close after this."),
        key("default.dsl.store", Type.STRING, "rocksDB", _LOW, "Deprecated: dsl.store.suppliers.class.",
            one_of("rocksDB", "in_memory")),
        key("dsl.store.suppliers.class", Type.CLASS, "rocksdb", _LOW,
            "Which stores the DSL uses: rocksdb, in_memory, or suppliers."),
        key("dsl.store.format", Type.STRING, "DEFAULT", _LOW,
            "The format of the DSL's stores. HEADERS adds headers to each value; the DSL's operators write none, as in Kafka "
            "Streams.", one_of("DEFAULT", "HEADERS")),
        key("default.interactive.query.isolation.level", Type.STRING, "READ_COMMITTED", _LOW,
            "The isolation level of queries.", one_of("READ_UNCOMMITTED", "READ_COMMITTED"),
            without_effect="queries always read committed state"),
        key("default.client.supplier", Type.CLASS, None, _LOW,
            "Creates the Kafka clients: a KafkaClientSupplier, its class, or its import path."),
        key("log.summary.interval.ms", Type.DURATION, 120_000, _LOW, "How often a summary is logged; negative: never."),
        key("metadata.max.age.ms", Type.DURATION, 300_000, _LOW, "How long metadata of topics counts as fresh.", at_least(0)),
        key("metadata.recovery.strategy", Type.STRING, "rebootstrap", _LOW,
            "What a client does when no known broker answers.", one_of("none", "rebootstrap")),
        key("metadata.recovery.rebootstrap.trigger.ms", Type.DURATION, 300_000, _LOW,
            "A client asks bootstrap.servers again if no known broker has answered for this long.", at_least(0)),
        key("metrics.num.samples", Type.INT, 2, _LOW, "How many samples a rate is computed from.", at_least(1)),
        key("metric.reporters", Type.LIST, (), _LOW,
            "Classes that export metrics (MetricsReporter), or their import paths."),
        key("metrics.recording.level", Type.STRING, "INFO", _LOW,
            "The recording level of metrics.", one_of("INFO", "DEBUG", "TRACE")),
        key("metrics.sample.window.ms", Type.DURATION, 30_000, _LOW, "How long a sample of a rate is.", at_least(0)),
        key("poll.ms", Type.DURATION, 100, _LOW,
            "How often the driver looks for new records for an idle stream thread.", at_least(0)),
        key("probing.rebalance.interval.ms", Type.DURATION, 600_000, _LOW,
            "How often the leader checks whether warmed-up tasks can move.", at_least(60_000)),
        key("processor.wrapper.class", Type.CLASS, None, _LOW,
            "Wraps every processor: a ProcessorWrapper, its class, or its import path."),
        key("receive.buffer.bytes", Type.INT, 32 * 1024, _LOW, "The sockets' receive buffer; -1: the system's.", at_least(-1)),
        key("send.buffer.bytes", Type.INT, 128 * 1024, _LOW, "The sockets' send buffer; -1: the system's.", at_least(-1)),
        key("reconnect.backoff.ms", Type.DURATION, 50, _LOW, "The first wait before a reconnect.", at_least(0)),
        key("reconnect.backoff.max.ms", Type.DURATION, 1000, _LOW, "The longest wait before a reconnect.", at_least(0)),
        key("retry.backoff.ms", Type.DURATION, 100, _LOW, "The wait before a request is tried again.", at_least(0)),
        key("request.timeout.ms", Type.INT, 40_000, _LOW, "How long a request may take.", at_least(0)),
        key("rocksdb.config.setter", Type.CLASS, None, _LOW, "Sets RocksDB's options of each store."),
        key("state.cleanup.delay.ms", Type.DURATION, 600_000, _LOW, "How long a task's folder is kept after the task has moved."),
        key("state.cleanup.dir.max.age.ms", Type.DURATION, -1, _LOW, "At start, folders older than this are deleted; -1: none."),
        key("upgrade.from", Type.STRING, None, _LOW,
            "The version of Kafka Streams that is upgraded from.", one_of(*_UPGRADE_FROM)),
        key("windowstore.changelog.additional.retention.ms", Type.DURATION, _DAY_MS, _LOW,
            "Extra retention of the changelog topics of window stores, to tolerate clocks that differ."),
        key("window.size.ms", Type.DURATION, None, _LOW, "The size of the windows if default.key.serde is TimeWindowedSerde."),
        key("windowed.inner.class.serde", Type.CLASS, None, _LOW,
            "The serde of the inner keys if default.key.serde is TimeWindowedSerde or SessionWindowedSerde."),
        # penstock's own
        key("repartition.transport", Type.STRING, "auto", _MEDIUM,
            "A setting of earlier releases, accepted with a warning.", one_of("auto", "shuffle", "topic"),
            without_effect="records cross a repartition in memory within a stream thread, and through the topic otherwise"),
        key("repartition.transport.delay.ms", Type.DURATION, 60_000, _LOW,
            "A setting of earlier releases, accepted with a warning.", at_least(0),
            without_effect="records cross a repartition in memory within a stream thread, and through the topic otherwise"),
        key("repartition.format", Type.STRING, "blocks", _MEDIUM,
            "How records are written to a repartition topic: blocks writes many records as one Kafka record; records writes "
            "them as Kafka Streams does, so that a Java application can read them.", one_of("blocks", "records")),
        key("history.dir", Type.STRING, None, _LOW,
            "The folder in which the history of sources is staged; without it below state.dir. On a cluster the driver and all "
            "executors must share it."),
        key("task.spread", Type.STRING, "auto", _MEDIUM,
            "Where tasks run if num.stream.threads is not set. auto: together in one stream thread while that has time to "
            "spare and nothing fails. always: spread over all stream threads from the start.",
            one_of("auto", "always")),
        key("batch.max.records", Type.LONG, 500_000, _MEDIUM, "The most records one batch takes.", at_least(1)),
        key("application.server.token", Type.STRING, None, _MEDIUM,
            "The token that callers of the query server must send. Instances prove to each other that they know it."),
        key("sasl.oauthbearer.token.provider", Type.FUNCTION, None, _MEDIUM,
            "Returns the tokens for sasl.mechanism = OAUTHBEARER: a function without arguments, its import path, or a class with "
            "a __call__ method."),
        key("application.server.ssl.certificate.location", Type.STRING, None, _MEDIUM,
            "A PEM file with the certificate chain of the query server. It turns on TLS."),
        key("application.server.ssl.key.location", Type.STRING, None, _MEDIUM,
            "A PEM file with the certificate's key; default: the file of the certificate."),
        key("application.server.ssl.key.password", Type.STRING, None, _MEDIUM, "The password of that key, if it has one."),
        key("application.server.ssl.ca.location", Type.STRING, None, _MEDIUM,
            "A PEM file with the trusted authorities for the certificates of other instances and callers; default: the "
            "system's."),
        key("application.server.ssl.client.auth", Type.STRING, "none", _MEDIUM,
            "Whether callers of the query server need a certificate in addition to the token.",
            one_of("none", "requested", "required")),
        key("application.server.ssl.enabled.protocols", Type.LIST, ("TLSv1.2", "TLSv1.3"), _LOW,
            "The TLS versions of the query server.",
            Allowed(lambda names: bool(names) and set(names) <= {"TLSv1.2", "TLSv1.3"}, "TLSv1.2, TLSv1.3 or both")),
        key("application.server.plaintext.allowed", Type.BOOLEAN, False, _MEDIUM,
            "Whether the query server may use plain text with other hosts, because a proxy or a mesh encrypts."),
        key("metrics.port", Type.INT, None, _LOW,
            "The port on which metrics are served for Prometheus; 0: one that is free; default: none.", between(0, 65535)),
        key("metrics.host", Type.STRING, "127.0.0.1", _LOW,
            "The address on which metrics are served; any address but loopback needs application.server.token."),
        key("class.archive.enabled", Type.BOOLEAN, True, _LOW,
            "Whether an archive of Spark's classes is made in the background, for the next start on this machine."),
        key("tracing.enabled", Type.BOOLEAN, False, _LOW,
            "Whether batches are sent to OpenTelemetry as traces; needs the extra otel."),
    )  # fmt: skip


KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _keys()}

"""The configuration of an application: Kafka's own dotted keys, parsed, checked, with defaults."""

from __future__ import annotations

import difflib
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from penstock.config.clients import (
    ADMIN_KEYS,
    ADMIN_PREFIX,
    CLIENT_TAG_PREFIX,
    CONSUMER_EOS_OVERRIDES,
    CONSUMER_KEYS,
    CONSUMER_OVERRIDES,
    CONSUMER_PREFIX,
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    EOS_MAX_IN_FLIGHT,
    FIXED_CONSUMER_EOS_KEYS,
    FIXED_CONSUMER_KEYS,
    FIXED_PRODUCER_EOS_KEYS,
    GLOBAL_CONSUMER_PREFIX,
    KNOWN_PREFIXES,
    MAIN_CONSUMER_PREFIX,
    PRODUCER_EOS_OVERRIDES,
    PRODUCER_KEYS,
    PRODUCER_OVERRIDES,
    PRODUCER_PREFIX,
    RESTORE_CONSUMER_PREFIX,
    SECURITY_PREFIXES,
    SPARK_PREFIX,
    TOPIC_PREFIX,
)
from penstock.config.constants import ConfigConstants
from penstock.config.default_serdes import default_serde
from penstock.config.keys import KEYS, REQUIRED, TOPOLOGY_OPTIMIZATIONS
from penstock.config.providers import resolve_references
from penstock.config.secrets import MASK, is_secret, shown
from penstock.errors import ConfigError
from penstock.serdes.serde import Serde
from penstock.timestamps import ExtractTimestamp, resolve_timestamp_extractor

_log = logging.getLogger(__name__)

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE_V2: Final = "exactly_once_v2"

_DEPRECATED: Final[Mapping[str, str]] = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
    "default.dsl.store": "dsl.store.suppliers.class",
}
_CLIENT_KEYS: Final = CONSUMER_KEYS | PRODUCER_KEYS | ADMIN_KEYS
_MAX_TAGS: Final = 5
_MAX_TAG_KEY: Final = 20
_MAX_TAG_VALUE: Final = 30


class UnknownConfigWarning(UserWarning):
    """A key that penstock does not know: processors find it in `app_configs`, and the Kafka clients get it."""


class StreamsConfig(ConfigConstants, Mapping[str, Any]):
    """A read-only mapping of every known key to its value or default, and of the user's own keys.

    Values may be text, as from a properties file, or Python objects. Unknown keys warn; a value that is not allowed
    raises `ConfigError`. Secrets are hidden where the configuration is printed.

    >>> config = StreamsConfig({"application.id": "wordcount", "bootstrap.servers": "localhost:9092", "poll.ms": "50"})
    >>> config["poll.ms"], config["processing.guarantee"]
    (50, 'at_least_once')
    >>> StreamsConfig({"application.id": "wordcount", "poll.ms": "soon"})
    Traceback (most recent call last):
        ...
    penstock.errors.ConfigError: poll.ms = 'soon' is not allowed: expected a whole number of milliseconds or a timedelta
    """

    __slots__ = ("_originals", "_serdes", "_values")

    _serdes: dict[str, Serde[Any]]

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._originals, self._values = _parse(values)
        self._serdes = {}
        missing = [key.name for key in KEYS.values() if key.default is REQUIRED and self._values.get(key.name) is None]
        if missing:
            raise ConfigError(f"missing configuration {' and '.join(missing)}: {' '.join(KEYS[key].doc for key in missing)}")
        for key in self._originals:
            if key in KEYS and KEYS[key].without_effect:
                level = logging.WARNING if self._originals[key] == "shuffle" else logging.INFO
                _log.log(level, "%s has no effect here: %s", key, KEYS[key].without_effect)
        for key in _unknown(self._originals):
            message = _unknown_message(key)
            _log.warning(message)
            warnings.warn(message, UnknownConfigWarning, stacklevel=2)

    @classmethod
    def partial(cls, values: Mapping[str, Any] | None) -> StreamsConfig:
        """The same without the keys an application must have, for building and testing topologies; `None` is no key at all.

        Values are checked as always; unknown keys are only logged.

        >>> StreamsConfig.partial({"topology.optimization": "all"}).get("application.id") is None
        True
        """
        if isinstance(values, StreamsConfig):
            return values
        config = cls.__new__(cls)
        config._originals, config._values = _parse({} if values is None else values)
        config._serdes = {}
        for key in _unknown(config._originals):
            _log.info(_unknown_message(key))
        return config

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StreamsConfig:
        """The configuration itself, or one made of a plain mapping."""
        return values if isinstance(values, StreamsConfig) else cls(values)

    # A mapping

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamsConfig):
            return NotImplemented
        return self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # values may be mutable objects

    def __repr__(self) -> str:
        settings = {key: shown(key, value) for key, value in self._originals.items()}
        return f"StreamsConfig({settings!r})"

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._originals, self._values

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._originals, self._values = state
        self._serdes = {}

    @property
    def originals(self) -> Mapping[str, Any]:
        """What the user gave, as given."""
        return MappingProxyType(self._originals)

    def originals_with_prefix(self, prefix: str) -> dict[str, Any]:
        """The user's keys that start with a prefix, without it."""
        return {key[len(prefix) :]: value for key, value in self._originals.items() if key.startswith(prefix)}

    def with_values(self, changes: Mapping[str, Any]) -> StreamsConfig:
        """A copy with some keys set anew."""
        return StreamsConfig.partial({**self._originals, **changes})

    # What several keys say together

    @property
    def eos_enabled(self) -> bool:
        """Whether the processing guarantee is exactly-once."""
        return bool(self._values["processing.guarantee"] == EXACTLY_ONCE_V2)

    @property
    def total_cache_size(self) -> int:
        """The memory of all record caches."""
        return int(self._values["statestore.cache.max.bytes"])

    @property
    def topology_optimizations(self) -> frozenset[str]:
        """The names of the rewrites that are switched on."""
        return verify_topology_optimization_configs(self._values["topology.optimization"])

    @property
    def default_key_serde(self) -> Serde[Any]:
        """The serde of `default.key.serde`; ConfigError where it is not set."""
        return self._default_serde("key")

    @property
    def default_value_serde(self) -> Serde[Any]:
        """The serde of `default.value.serde`; ConfigError where it is not set."""
        return self._default_serde("value")

    def _default_serde(self, which: str) -> Serde[Any]:
        # Made once in a process: a serde may keep something open, which does not travel.
        if which not in self._serdes:
            self._serdes[which] = default_serde(which, self._values, self.originals)
        return self._serdes[which]

    def close_default_serdes(self) -> None:
        """Close the default serdes that were made of names and classes; whoever asks again gets new ones."""
        for which in list(self._serdes):
            serde = self._serdes.pop(which)
            if serde is not self._values[f"default.{which}.serde"]:
                serde.close()

    @property
    def default_timestamp_extractor(self) -> ExtractTimestamp:
        """The extractor of `default.timestamp.extractor`."""
        return resolve_timestamp_extractor(self._values["default.timestamp.extractor"], "default.timestamp.extractor")

    # Configurations of the Kafka clients, in Java's names

    def main_consumer_configs(self, group_id: str, client_id: str, thread_index: int = 0) -> dict[str, Any]:
        """The consumer of input topics: the user's `main.consumer.` keys over the `consumer.` ones."""
        configs = self._common_consumer_configs(MAIN_CONSUMER_PREFIX)
        configs["group.id"] = group_id
        configs["client.id"] = client_id
        if configs.get("group.instance.id") is not None:
            configs["group.instance.id"] = f"{configs['group.instance.id']}-{thread_index}"
        return configs

    def restore_consumer_configs(self, client_id: str) -> dict[str, Any]:
        """The consumer that brings stores back: no group, and a lost offset is an error."""
        return self._groupless(RESTORE_CONSUMER_PREFIX, client_id)

    def global_consumer_configs(self, client_id: str) -> dict[str, Any]:
        """The consumer of global tables: no group, and a lost offset is an error."""
        return self._groupless(GLOBAL_CONSUMER_PREFIX, f"{client_id}-global-consumer")

    def producer_configs(self, client_id: str) -> dict[str, Any]:
        """The producer: the user's `producer.` keys over Kafka Streams' own."""
        given = self._client_configs(PRODUCER_KEYS, PRODUCER_PREFIX)
        overrides = dict(PRODUCER_OVERRIDES)
        if self.eos_enabled:
            overrides |= PRODUCER_EOS_OVERRIDES
            self._refuse_fixed("producer", given, FIXED_PRODUCER_EOS_KEYS, overrides)
            _check_in_flight(given)
        return {**overrides, **given, "client.id": client_id}

    def admin_configs(self, client_id: str) -> dict[str, Any]:
        """The admin client: the user's `admin.` keys."""
        return {**self._client_configs(ADMIN_KEYS, ADMIN_PREFIX), "client.id": client_id}

    def _common_consumer_configs(self, special_prefix: str) -> dict[str, Any]:
        overrides = dict(CONSUMER_OVERRIDES)
        fixed: tuple[str, ...] = FIXED_CONSUMER_KEYS
        if self.eos_enabled:
            overrides |= CONSUMER_EOS_OVERRIDES
            fixed += FIXED_CONSUMER_EOS_KEYS
        given = self._client_configs(CONSUMER_KEYS, CONSUMER_PREFIX)
        given |= self.originals_with_prefix(special_prefix)
        given.pop("group.protocol", None)
        self._refuse_fixed("consumer", given, fixed, overrides)
        return {**overrides, **given}

    def _groupless(self, prefix: str, client_id: str) -> dict[str, Any]:
        configs = self._common_consumer_configs(prefix)
        configs.pop("group.id", None)
        configs.pop("group.instance.id", None)
        return {**configs, "client.id": client_id, "auto.offset.reset": "none"}

    def _client_configs(self, names: frozenset[str], prefix: str) -> dict[str, Any]:
        # Settings that nobody knows here go to every client, as in Kafka Streams: the client may know them.
        given = {key: self._originals[key] for key in _unknown(self._originals)}
        given |= {key: value for key, value in self._originals.items() if key in names or key.startswith(SECURITY_PREFIXES)}
        given |= self.originals_with_prefix(prefix)
        servers = self._values.get("bootstrap.servers")
        if servers is not None:
            given["bootstrap.servers"] = ",".join(servers)
        return given

    @staticmethod
    def _refuse_fixed(client: str, given: dict[str, Any], fixed: tuple[str, ...], overrides: Mapping[str, Any]) -> None:
        for key in fixed:
            if key in given and str(given[key]).lower() != str(overrides.get(key)).lower():
                _log.warning("the %s setting %s = %r is ignored: it has to be %r", client, key, given[key], overrides.get(key))
                del given[key]

    @property
    def client_tags(self) -> dict[str, str]:
        """The tags of this instance, from `client.tag.<name>`."""
        return {key: str(value) for key, value in self.originals_with_prefix(CLIENT_TAG_PREFIX).items()}

    @property
    def topic_configs(self) -> dict[str, str]:
        """The configuration of internal topics, from `topic.<key>`."""
        return {key: str(value) for key, value in self.originals_with_prefix(TOPIC_PREFIX).items()}

    @property
    def spark_configs(self) -> dict[str, str]:
        """The `spark.*` keys, with their prefix."""
        return {key: str(value) for key, value in self._originals.items() if key.startswith(SPARK_PREFIX)}


def verify_topology_optimization_configs(value: str) -> frozenset[str]:
    """The names behind a value of `topology.optimization`; ConfigError where one is not known."""
    names = re.split(r"\s*,\s*", value)
    if names == ["all"]:
        return frozenset(TOPOLOGY_OPTIMIZATIONS)
    if names == ["none"]:
        return frozenset()
    if not set(names) <= set(TOPOLOGY_OPTIMIZATIONS):
        raise ConfigError(f"topology.optimization = {value!r} is not allowed: expected {_expected('topology.optimization')}")
    return frozenset(names)


def _expected(key: str) -> str:
    definition = KEYS[key]
    return definition.type.value if definition.allowed is None else definition.allowed.text


def _parse(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"a configuration is a mapping of keys to values, got {type(given).__name__}")
    originals = dict(given.originals) if isinstance(given, StreamsConfig) else resolve_references(given)
    values: dict[str, Any] = {key.name: None if key.default is REQUIRED else key.default for key in KEYS.values()}
    for key, value in originals.items():
        if not isinstance(key, str):
            raise ConfigError(f"a configuration key is text, got {key!r}")
        values[key] = _parse_value(key, value)
    for old, new in _DEPRECATED.items():
        if old in originals:
            _take_deprecated(originals, values, old, new)
    _check_tags(originals, values)
    _check_transaction_timeout(originals, values)
    _fit_group_protocol(originals, values)
    return originals, values


def _fit_group_protocol(originals: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Write records to repartition topics in a streams group: a member in Java may read them, and cannot read blocks."""
    if values["group.protocol"] != "streams":
        return
    if "repartition.format" in originals and values["repartition.format"] == "blocks":
        raise ConfigError(
            "repartition.format = 'blocks' is not allowed with group.protocol = streams: members in Java cannot read blocks. "
            "Leave it out, or set it to records"
        )
    values["repartition.format"] = "records"


def _parse_value(key: str, value: Any) -> Any:
    definition = KEYS.get(key)
    if definition is None:
        return value
    if key == "num.stream.threads" and value == "auto":
        return None
    try:
        return definition.parse(value)
    except ValueError as exc:
        found = MASK if is_secret(key) else repr(shown(key, value))
        raise ConfigError(f"{key} = {found} is not allowed: expected {exc}") from None


def _take_deprecated(originals: Mapping[str, Any], values: dict[str, Any], old: str, new: str) -> None:
    if new in originals:
        _log.warning("both %s and the deprecated %s are set; %s is ignored", new, old, old)
        return
    _log.warning("%s is deprecated: set %s", old, new)
    values[new] = values[old]


def _check_tags(originals: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    tags = {key[len(CLIENT_TAG_PREFIX) :]: str(value) for key, value in originals.items() if key.startswith(CLIENT_TAG_PREFIX)}
    if len(tags) > _MAX_TAGS:
        raise ConfigError(f"at most {_MAX_TAGS} client tags can be given with {CLIENT_TAG_PREFIX}, got {len(tags)}")
    for tag, value in tags.items():
        if not tag.strip() or len(tag) > _MAX_TAG_KEY:
            raise ConfigError(f"{CLIENT_TAG_PREFIX}{tag} is not allowed: expected a tag's name of 1 to {_MAX_TAG_KEY} characters")
        if not value.strip() or len(value) > _MAX_TAG_VALUE:
            key = f"{CLIENT_TAG_PREFIX}{tag}"
            raise ConfigError(f"{key} = {shown(key, value)!r} is not allowed: expected 1 to {_MAX_TAG_VALUE} characters")
    for tag in values["rack.aware.assignment.tags"]:
        if tag not in tags:
            raise ConfigError(f"rack.aware.assignment.tags = {tag!r} is not allowed: set {CLIENT_TAG_PREFIX}{tag} too")


def _check_transaction_timeout(originals: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if values["processing.guarantee"] != EXACTLY_ONCE_V2:
        return
    key = f"{PRODUCER_PREFIX}transaction.timeout.ms"
    timeout = originals.get(key, originals.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))
    try:
        timeout = int(timeout)
    except (TypeError, ValueError):
        raise ConfigError(f"{key} = {timeout!r} is not allowed: expected a whole number of milliseconds") from None
    if timeout < values["commit.interval.ms"]:
        raise ConfigError(
            f"{key} = {timeout} is not allowed: a transaction must last at least commit.interval.ms = "
            f"{values['commit.interval.ms']}; raise the one or lower the other"
        )


def _check_in_flight(given: Mapping[str, Any]) -> None:
    key = "max.in.flight.requests.per.connection"
    value = given.get(key)
    if value is None:
        return
    try:
        allowed = int(value) <= EOS_MAX_IN_FLIGHT
    except (TypeError, ValueError):
        allowed = False
    if not allowed:
        raise ConfigError(f"{key} = {value!r} is not allowed: expected at most {EOS_MAX_IN_FLIGHT} under exactly-once")


def _unknown(originals: Mapping[str, Any]) -> list[str]:
    return [key for key in originals if key not in KEYS and key not in _CLIENT_KEYS and not key.startswith(KNOWN_PREFIXES)]


def _unknown_message(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.8)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"the configuration key {key!r} is not known{hint}"

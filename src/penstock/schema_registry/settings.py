"""The settings of a Schema Registry: Java's names are converted to those of confluent-kafka's client and serializers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import ConfigError

PREFIX: Final = "schema.registry."

_FLAGS: Final = ("auto.register.schemas", "use.latest.version", "normalize.schemas")
_NUMBERS: Final = ("timeout", "cache.capacity", "cache.latest.ttl.sec", "max.retries", "retries.wait.ms", "retries.max.wait.ms")
_STRATEGY: Final = "subject.name.strategy"
_ID_PLACE: Final = "schema.id.serializer"
_SOURCE: Final = "basic.auth.credentials.source"
_USER_INFO: Final = "basic.auth.user.info"

# The application settings that a serde reads. TLS settings need the prefix: without it they are the brokers'.
_OF_APPLICATIONS: Final = ("basic.auth.", "bearer.auth.", *_FLAGS, "use.schema.id", "key.subject.", "value.subject.", _ID_PLACE)
_LOGIN_IN_JAAS: Final = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")


@dataclass(frozen=True)
class Settings:
    """The settings of client and serializer, the subject name strategy, and the place of the schema id."""

    client: dict[str, Any]
    serializer: dict[str, Any]
    strategy: str | Callable[..., Any] | None
    id_in_headers: bool


def of_application(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the registry settings of an application."""
    taken = {key: value for key, value in configs.items() if key.startswith((PREFIX, *_OF_APPLICATIONS))}
    if str(taken.get(_SOURCE, "")).upper() == "SASL_INHERIT":
        taken |= {key: configs[key] for key in ("sasl.username", "sasl.password", "sasl.jaas.config") if key in configs}
    return taken


def parse(given: Mapping[str, Any], is_key: bool) -> Settings:
    """Convert the settings. Raises ConfigError for missing or invalid ones."""
    rest = {key.removeprefix(PREFIX): value for key, value in given.items()}
    if not rest.get("url"):
        raise ConfigError(
            "no Schema Registry is configured: pass registry={'schema.registry.url': …} to the serde, or set its class "
            "as default.key.serde or "
            "default.value.serde and set schema.registry.url (mock://name for tests)"
        )
    if not isinstance(rest["url"], str):
        rest["url"] = ",".join(rest["url"])
    serializer: dict[str, Any] = {key: _flag(key, rest.pop(key)) for key in _FLAGS if key in rest}
    for key in ("use.schema.id", "use.latest.with.metadata"):
        if key in rest:
            serializer[key] = int(rest.pop(key)) if key == "use.schema.id" else rest.pop(key)
    if serializer.get("use.latest.version") or "use.schema.id" in serializer:
        serializer.setdefault("auto.register.schemas", False)
    part, other = ("key", "value") if is_key else ("value", "key")
    rest.pop(f"{other}.{_STRATEGY}", None)
    strategy = rest.pop(f"{part}.{_STRATEGY}", None) or rest.pop(_STRATEGY, None)
    rest.pop(_STRATEGY, None)
    in_headers = _in_headers(rest.pop(_ID_PLACE, "prefix"))
    _take_login(rest)
    _take_tls(rest)
    for key in _NUMBERS:
        if isinstance(rest.get(key), str):
            rest[key] = _number(key, rest[key])
    return Settings(rest, serializer, strategy, in_headers)


def strategy_function(strategy: Any) -> Callable[..., Any]:
    """Return the subject name strategy: `topic`, `record`, `topic_record`, Java's class, or a function `(context,
    record_name)`.
    """
    if not isinstance(strategy, str) and callable(strategy):
        chosen: Callable[..., Any] = strategy
        return chosen
    from confluent_kafka import schema_registry

    name = str(strategy).rpartition(".")[2]
    found = {
        "topic": schema_registry.topic_subject_name_strategy,
        "topicnamestrategy": schema_registry.topic_subject_name_strategy,
        "record": schema_registry.record_subject_name_strategy,
        "recordnamestrategy": schema_registry.record_subject_name_strategy,
        "topic_record": schema_registry.topic_record_subject_name_strategy,
        "topicrecordnamestrategy": schema_registry.topic_record_subject_name_strategy,
    }.get(name.lower())
    if found is None:
        raise ConfigError(
            f"subject_name_strategy = {strategy!r} is not known: expected topic, record, topic_record, or a function "
            "(context, record_name) -> subject"
        )
    return found  # type: ignore[no-any-return]


def _take_login(rest: dict[str, Any]) -> None:
    source = str(rest.pop(_SOURCE, "") or "").upper()
    jaas = rest.pop("sasl.jaas.config", None)
    username, password = rest.pop("sasl.username", None), rest.pop("sasl.password", None)
    if source == "SASL_INHERIT":
        if jaas is not None and username is None:
            found = {one[1]: one[2] or one[3] or one[4] or "" for one in _LOGIN_IN_JAAS.finditer(str(jaas))}
            username, password = found.get("username"), found.get("password")
        if username is None or password is None:
            raise ConfigError(f"{_SOURCE} = SASL_INHERIT needs sasl.username and sasl.password, or sasl.jaas.config with both")
        rest[_USER_INFO] = f"{username}:{password}"
    elif source == "USER_INFO":
        if not rest.get(_USER_INFO):
            raise ConfigError(f"{_SOURCE} = USER_INFO needs {_USER_INFO}: user:password")
    elif source == "URL":
        rest.pop(_USER_INFO, None)
    elif source:
        raise ConfigError(f"{_SOURCE} = {source!r} is not allowed: expected URL, USER_INFO or SASL_INHERIT")


def _take_tls(rest: dict[str, Any]) -> None:
    """Convert Java's PEM stores to the client's file settings."""
    for store, names in (("truststore", ("ssl.ca.location",)), ("keystore", ("ssl.certificate.location", "ssl.key.location"))):
        location = rest.pop(f"ssl.{store}.location", None)
        kind = str(rest.pop(f"ssl.{store}.type", "") or "").upper()
        rest.pop(f"ssl.{store}.password", None)
        if location is None:
            continue
        if kind != "PEM":
            raise ConfigError(
                f"{PREFIX}ssl.{store}.location is a Java keystore, which only Java can read: export it as PEM and set "
                f"{PREFIX}ssl.{store}.type = PEM, or {' and '.join(PREFIX + name for name in names)}"
            )
        for name in names:
            rest.setdefault(name, location)
    rest.pop("ssl.protocol", None)


def _in_headers(place: Any) -> bool:
    name = str(place).rpartition(".")[2].lower()
    if name in ("header", "headerschemaidserializer"):
        return True
    if name in ("prefix", "prefixschemaidserializer"):
        return False
    raise ConfigError(f"{_ID_PLACE} = {place!r} is not allowed: expected prefix or header")


def _flag(key: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key} = {value!r} is not allowed: expected true or false")
    return text == "true"


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{key} = {text!r} is not allowed: expected a number") from None

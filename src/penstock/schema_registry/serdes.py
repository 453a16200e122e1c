"""The serdes: settings that can be pickled, and the serializers made from them in each process."""

from __future__ import annotations

import importlib
import inspect
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from penstock.config.secrets import shown, without_secrets
from penstock.errors import ConfigError, RegistryUnavailableError, SerializationError
from penstock.schema_registry.avro_bounds import MAX_DEPTH
from penstock.schema_registry.bounded import avro_deserializer, json_schema_half, protobuf_deserializer
from penstock.schema_registry.clients import client_for, is_outage
from penstock.schema_registry.settings import Settings, of_application, parse, strategy_function
from penstock.serdes.codecs import encode_json, parse_json
from penstock.serdes.serde import Serde

T = TypeVar("T")


class RegistrySerde(Serde[T]):
    """The base class of the three serdes. The first record opens a serde in its worker."""

    _module: ClassVar[str]
    _extra: ClassVar[str]

    def __init__(self, registry: Mapping[str, Any] | None, subject_name_strategy: str | Callable[..., Any], is_key: bool) -> None:
        self._check_extra()
        self._registry = dict(registry or {})
        self._strategy = subject_name_strategy
        self._is_key = is_key
        self._halves: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._take_settings()
        super().__init__()

    def _take_settings(self) -> None:
        self._settings = parse(self._registry, self._is_key) if self._registry else None
        self._subject_name()
        # Headers are requested only if the schema id is in them: passing them costs time, and counts do not have them.
        in_headers = self._settings is not None and self._settings.id_in_headers
        self.serializer = self._serialize_with_headers if in_headers else self._serialize  # type: ignore[assignment]
        self.deserializer = self._deserialize_with_headers if in_headers else self._deserialize  # type: ignore[assignment]

    def _subject_name(self) -> Callable[..., Any]:
        """Return the subject name strategy of the constructor, or that of the settings."""
        configured = None if self._settings is None else self._settings.strategy
        return strategy_function(configured if configured and self._strategy == "topic" else self._strategy)

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Add the registry settings of an application. The constructor's settings take precedence."""
        self.close()
        self._registry = {**of_application(configs), **self._registry}
        self._is_key = is_key
        self._take_settings()

    def close(self) -> None:
        """Discard serializers and deserializers. The next record makes new ones."""
        self._halves = {}

    @property
    def is_key(self) -> bool:
        """True for keys, which have their own subjects. Set by `configure` or the constructor."""
        return self._is_key

    def _serialize(self, topic: str, value: Any) -> bytes | None:
        return self._serialize_with_headers(topic, value, None)

    def _deserialize(self, topic: str, data: bytes | None) -> Any:
        return self._deserialize_with_headers(topic, data, None)

    def _serialize_with_headers(self, topic: str, value: Any, headers: Any) -> bytes | None:
        try:
            write, _ = self._halves.get(topic) or self._opened(topic)
            data: bytes | None = write(value, self._context(topic, headers))
        except ConfigError:
            raise
        except Exception as exc:
            raise _kind_of(exc)(
                f"{type(self).__name__} cannot serialize a value of type {type(value).__name__} for topic {topic!r} "
                f"({self._where()}): {self._said(exc)}"
            ) from exc
        return data

    def _deserialize_with_headers(self, topic: str, data: bytes | None, headers: Any) -> Any:
        try:
            _, read = self._halves.get(topic) or self._opened(topic)
            return read(data, self._context(topic, headers))
        except ConfigError:
            raise
        except Exception as exc:
            raise _kind_of(exc)(
                f"{type(self).__name__} cannot read {len(data or b'')} bytes of topic {topic!r} ({self._where()}): "
                f"{self._said(exc)}"
            ) from exc

    def _context(self, topic: str, headers: Any) -> Any:
        # confluent-kafka accepts headers only as a list.
        return self._make_context(topic, self._field, list(headers) if type(headers) is tuple else headers)

    def _opened(self, topic: str) -> tuple[Any, Any]:
        """Return serializer and deserializer of a topic. A shared one would write the id of the last topic's subject."""
        with self._lock:
            if topic not in self._halves:
                self._halves[topic] = self._open()
            return self._halves[topic]

    def _open(self) -> tuple[Any, Any]:
        from confluent_kafka.serialization import MessageField, SerializationContext

        if self._settings is None:
            self._settings = parse(self._registry, self._is_key)
        self._make_context, self._field = SerializationContext, MessageField.KEY if self._is_key else MessageField.VALUE
        settings = self._settings
        strategy = {"subject.name.strategy": self._subject_name()}
        write: dict[str, Any] = {**settings.serializer, **strategy}
        read: dict[str, Any] = dict(strategy)
        if settings.id_in_headers:
            write["schema.id.serializer"] = _header_schema_id_serializer()
        client = client_for(settings.client)
        try:
            return self._make(importlib.import_module(self._module), client, write, read)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"{type(self).__name__} cannot be opened ({self._where()}): {self._said(exc)}") from exc

    def _make(self, module: Any, client: Any, write: dict[str, Any], read: dict[str, Any]) -> tuple[Any, Any]:
        raise TypeError(f"{type(self).__name__} must implement _make")

    def _check_extra(self) -> None:
        try:
            importlib.import_module(self._module)
        except ImportError as exc:
            name = type(self).__name__
            raise ConfigError(f"{name} needs an extra: pip install 'penstock-streams[{self._extra}]' ({exc})") from exc

    def _where(self) -> str:
        url = "" if self._settings is None else shown("url", self._settings.client["url"])
        return f"Schema Registry {url}"

    def _said(self, exc: Exception) -> str:
        text = str(exc) or type(exc).__name__
        return without_secrets(text, {} if self._settings is None else self._settings.client)

    def _plain(self) -> tuple[Any, ...]:
        """Return the values that equality compares."""
        return self._registry, self._strategy, self._is_key

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash((type(self), self._is_key, self._registry.get("schema.registry.url")))

    def __getstate__(self) -> dict[str, Any]:
        opened = ("_halves", "_lock", "_make_context", "_field", "serializer", "deserializer")
        return {name: value for name, value in self.__dict__.items() if name not in opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._halves = {}
        self._lock = threading.Lock()
        self._take_settings()

    def __repr__(self) -> str:
        registry = {key: shown(key, value) for key, value in self._registry.items()}
        return f"{type(self).__name__}({self._subject()}, registry={registry})"

    def _subject(self) -> str:
        return ""


def _kind_of(exc: Exception) -> type[SerializationError]:
    return RegistryUnavailableError if is_outage(exc) else SerializationError


class _SchemaSerde(RegistrySerde[T]):
    """A serde with a JSON schema text, for plain values or for dicts that the user's functions convert."""

    def __init__(
        self,
        schema: Any = None,
        registry: Mapping[str, Any] | None = None,
        subject_name_strategy: str | Callable[..., Any] = "topic",
        to_dict: Callable[..., Any] | None = None,
        from_dict: Callable[..., Any] | None = None,
        *,
        is_key: bool = False,
    ) -> None:
        self._schema = _schema_text(schema, type(self).__name__)
        self._to_dict, self._from_dict = to_dict, from_dict
        super().__init__(registry, subject_name_strategy, is_key)

    def _plain(self) -> tuple[Any, ...]:
        return *super()._plain(), self._schema, self._to_dict, self._from_dict

    def _subject(self) -> str:
        return _name_of(self._schema)

    __hash__ = RegistrySerde.__hash__


class AvroSerde(_SchemaSerde[T]):
    """Avro with its schema in a registry. Without `from_dict` records are dicts.

    `schema` is the text of a schema, the same as a dict, or a `Schema` of confluent-kafka, which may refer to other subjects.
    Records of another version of the schema are converted to this one. Without a schema, values are read as written, and
    written with the latest version of the subject. `is_key` is for keys, which have their own subjects.

    >>> serde = AvroSerde('"string"', registry={"schema.registry.url": "mock://doctest"})
    >>> serde.serializer("names", "ann")
    b'\\x00\\x00\\x00\\x00\\x01\\x06ann'
    """

    _module = "confluent_kafka.schema_registry.avro"
    _extra = "avro"

    def _make(self, module: Any, client: Any, write: dict[str, Any], read: dict[str, Any]) -> tuple[Any, Any]:
        if self._schema is None and "use.schema.id" not in write:
            write |= {"auto.register.schemas": False, "use.latest.version": True}
        serializer = module.AvroSerializer(client, self._schema, _with_context(self._to_dict), write)
        deserializer = avro_deserializer(module.AvroDeserializer)
        return serializer, deserializer(client, self._schema, _with_context(self._from_dict), conf=read)


class JsonSchemaSerde(_SchemaSerde[T]):
    """JSON with its JSON Schema in a registry, validated in both directions. Without `from_dict` objects are dicts.

    `schema` is the text of a schema, the same as a dict, or a `Schema` of confluent-kafka, which may refer to other subjects.
    """

    _module = "confluent_kafka.schema_registry.json_schema"
    _extra = "jsonschema"

    def __init__(
        self,
        schema: Any,
        registry: Mapping[str, Any] | None = None,
        subject_name_strategy: str | Callable[..., Any] = "topic",
        to_dict: Callable[..., Any] | None = None,
        from_dict: Callable[..., Any] | None = None,
        *,
        is_key: bool = False,
    ) -> None:
        if schema is None:
            raise ConfigError("JsonSchemaSerde needs a schema: its text, a dict, or a Schema of confluent-kafka")
        super().__init__(schema, registry, subject_name_strategy, to_dict, from_dict, is_key=is_key)

    def _make(self, module: Any, client: Any, write: dict[str, Any], read: dict[str, Any]) -> tuple[Any, Any]:
        # Compact, as in Java, with the rules of Serdes.json().
        serializer = json_schema_half(module.JSONSerializer)(
            self._schema, client, _with_context(self._to_dict), write, json_encode=lambda value: encode_json(value).decode()
        )
        deserializer = json_schema_half(module.JSONDeserializer)(
            self._schema, _with_context(self._from_dict), client, conf=read, json_decode=_parse_bounded
        )
        return serializer, deserializer


class ProtobufSerde(RegistrySerde[T]):
    """Messages of a `protoc` class. Their schema and its imports are in a registry."""

    _module = "confluent_kafka.schema_registry.protobuf"
    _extra = "protobuf"

    def __init__(
        self,
        message_type: Any,
        registry: Mapping[str, Any] | None = None,
        subject_name_strategy: str | Callable[..., Any] = "topic",
        *,
        is_key: bool = False,
    ) -> None:
        if not isinstance(message_type, type) or not hasattr(message_type, "DESCRIPTOR"):
            raise ConfigError(f"ProtobufSerde needs a class of messages that protoc made, got {message_type!r}")
        self._message_type = message_type
        super().__init__(registry, subject_name_strategy, is_key)

    def _make(self, module: Any, client: Any, write: dict[str, Any], read: dict[str, Any]) -> tuple[Any, Any]:
        # the format before 1.8 differs from Java's
        no_deprecated = {"use.deprecated.format": False}
        serializer = module.ProtobufSerializer(self._message_type, client, {**write, **no_deprecated})
        deserializer = protobuf_deserializer(module.ProtobufDeserializer)
        return serializer, deserializer(self._message_type, {**read, **no_deprecated}, client)

    def _plain(self) -> tuple[Any, ...]:
        return *super()._plain(), self._message_type

    def _subject(self) -> str:
        return str(self._message_type.DESCRIPTOR.full_name)

    __hash__ = RegistrySerde.__hash__


def _header_schema_id_serializer() -> Any:
    from confluent_kafka import schema_registry

    found = getattr(schema_registry, "header_schema_id_serializer", None)
    if found is None:
        raise ConfigError("schema.id.serializer = header needs a later confluent-kafka: pip install -U confluent-kafka")
    return found


def _schema_text(schema: Any, who: str) -> Any:
    """Return a schema's text. A `Schema` of confluent-kafka, which has references, is returned unchanged."""
    if schema is None or hasattr(schema, "schema_str"):
        return schema
    if isinstance(schema, dict | list):
        return json.dumps(schema)
    if isinstance(schema, str):
        try:
            json.loads(schema)
        except ValueError as exc:
            raise ConfigError(f"the schema of {who} is not JSON: {exc}") from exc
        return schema
    raise ConfigError(f"{who} needs a schema as text, as a dict, or as a Schema of confluent-kafka, got {type(schema).__name__}")


def _name_of(schema: Any) -> str:
    text = getattr(schema, "schema_str", schema)
    if text is None:
        return "None"
    parsed = json.loads(text)
    found = parsed.get("name") or parsed.get("title") or parsed.get("type") if isinstance(parsed, dict) else parsed
    return repr(found)


def _with_context(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function of value and context. A function of the value alone is adapted."""
    if function is None:
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda value, _: function(value)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in places if p.default is p.empty]
    return function if len(required) == 2 else lambda value, _: function(value)


def _parse_bounded(data: str | bytes) -> Any:
    """Parse JSON. Values deeper than `MAX_DEPTH` are refused: validation needs an equally deep stack."""
    parsed = parse_json(_text(data))
    level: list[Any] = [parsed]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
        if not level:
            return parsed
    raise ValueError(f"the value has more than {MAX_DEPTH} levels")


def _text(data: Any) -> str:
    return data if isinstance(data, str) else str(data, "utf-8")

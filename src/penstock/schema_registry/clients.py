"""Registry clients, one for each registry in a process, so that all serdes share its schema cache."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from penstock.config.secrets import without_secrets
from penstock.errors import ConfigError

_clients: dict[Any, Any] = {}
_lock = threading.Lock()


def client_for(settings: Mapping[str, Any]) -> Any:
    """Return the client of a registry. `mock://name` is an in-memory registry of this process, as in Java."""
    url = settings["url"]
    is_mock = url.startswith("mock://")
    key = url if is_mock else tuple(sorted((name, str(value)) for name, value in settings.items()))
    with _lock:
        if key not in _clients:
            try:
                _clients[key] = _mock(url) if is_mock else _client(settings)
            except (TypeError, ValueError, OSError) as exc:
                said = without_secrets(str(exc), settings)
                raise ConfigError(f"The client of the Schema Registry cannot be made with these settings: {said}") from None
        return _clients[key]


def _client(settings: Mapping[str, Any]) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient(dict(settings))


def _mock(url: str) -> Any:
    from confluent_kafka.schema_registry import RegisteredSchema, SchemaRegistryClient

    made: Any = SchemaRegistryClient.new_client({"url": url})
    firsts: dict[Any, Any] = {}

    def with_one_id(method: Any) -> Any:
        # A real registry gives a schema one id in all subjects, so that equal keys have equal bytes in all topics. The mock
        # does not.
        def call(*arguments: Any, **named: Any) -> Any:
            found = method(*arguments, **named)
            first = firsts.setdefault(found.schema, found)
            return RegisteredSchema(
                schema_id=first.schema_id, guid=first.guid, subject=found.subject, version=found.version, schema=found.schema
            )

        return call

    for name in ("register_schema_full_response", "lookup_schema", "get_latest_version", "get_version"):
        if hasattr(made, name):
            setattr(made, name, with_one_id(getattr(made, name)))
    return made


def is_outage(exc: BaseException | None) -> bool:
    """Return True if the registry was unreachable or failed. The client has already retried."""
    from confluent_kafka.schema_registry.common.schema_registry_client import is_retriable
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    while exc is not None:
        if isinstance(exc, SchemaRegistryError):
            return bool(is_retriable(exc.http_status_code))
        # httpx or its successor, whichever the client has taken
        if any(kind.__name__ == "TransportError" and kind.__module__.startswith("httpx") for kind in type(exc).__mro__):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def drop_mock(name: str) -> None:
    """Delete the registry `mock://name` with its schemas, for the next test.

    >>> drop_mock("shop")
    """
    with _lock:
        _clients.pop(f"mock://{name}", None)

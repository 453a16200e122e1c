"""`default.client.supplier`: a user class that creates the Kafka clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError
from penstock.import_paths import imported_for, instance_for

CLIENT_SUPPLIER = "default.client.supplier"
_IN_SETTINGS = "penstock.client.supplier"
_METHODS = ("get_producer", "get_consumer", "get_restore_consumer", "get_global_consumer", "get_admin")
_ALLOWED = "give a KafkaClientSupplier, its class, or its import path ('package.module:Class')"


class KafkaClientSupplier:
    """Creates the librdkafka clients of an application. Override a method to change one.

    Each method gets settings with librdkafka's names and returns a client of `confluent_kafka` or of a subclass. Spark's
    executors create clients too, so a supplier must be picklable or given by its import path. The group member and the direct
    changelog reader do not use the supplier.
    """

    def get_producer(self, config: dict[str, Any]) -> Producer:
        """Return the producer of a stream thread."""
        return Producer(config)

    def get_consumer(self, config: dict[str, Any]) -> Consumer:
        """Return a consumer of input topics."""
        return Consumer(config)

    def get_restore_consumer(self, config: dict[str, Any]) -> Consumer:
        """Return a consumer that restores stores from their changelogs."""
        return Consumer(config)

    def get_global_consumer(self, config: dict[str, Any]) -> Consumer:
        """Return a consumer of global stores."""
        return Consumer(config)

    def get_admin(self, config: dict[str, Any]) -> AdminClient:
        """Return an admin client."""
        return AdminClient(config)


def client_supplier(config: Mapping[str, Any]) -> Any:
    """Return the configured supplier, or None."""
    given = config.get(CLIENT_SUPPLIER)
    if given is None:
        return None
    if isinstance(given, str):
        given = imported_for(CLIENT_SUPPLIER, given, _ALLOWED)
    supplier = instance_for(CLIENT_SUPPLIER, given, _ALLOWED)
    missing = [method for method in _METHODS if not callable(getattr(supplier, method, None))]
    if missing:
        raise ConfigError(f"{CLIENT_SUPPLIER}: {supplier!r} lacks {', '.join(missing)}; {_ALLOWED}")
    return supplier


def with_supplier(config: StreamsConfig, settings: dict[str, Any], consumer: str = "get_consumer") -> dict[str, Any]:
    """Add the configured supplier to settings for `open_client`. `consumer` is the supplier's method for a consumer."""
    supplier = client_supplier(config)
    return settings if supplier is None else {**settings, _IN_SETTINGS: (supplier, consumer)}


def supplied_client(what: str, settings: dict[str, Any]) -> Any:
    """Remove the supplier from the settings and return its method for this client, or None without a supplier."""
    supplier, consumer = settings.pop(_IN_SETTINGS, (None, ""))
    if supplier is None:
        return None
    return getattr(supplier, {"producer": "get_producer", "admin client": "get_admin"}.get(what, consumer))

"""The commands' connection to the brokers: settings, and an error within seconds if no broker answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.commands.common import fail, streams_config
from penstock.config.streams_config import StreamsConfig

if TYPE_CHECKING:
    from penstock.kafka.admin import Admin

_PATIENCE = 3.0
_OF_BROKERS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Internal topics of the brokers."""


def broker_config(file: Path | None, settings: list[str] | None, client_id: str) -> StreamsConfig:
    """Return the settings of a command without an application. The default broker is localhost:9092."""
    return streams_config(file, settings, {"application.id": client_id, "bootstrap.servers": "localhost:9092"})


def open_admin(config: StreamsConfig, client_id: str) -> Admin:
    """Return a connected admin client. Raises BrokerError if no broker answers within a few seconds."""
    from penstock.kafka.admin import Admin
    from penstock.kafka.clients import admin_config

    admin = Admin(admin_config(config, client_id), patience=_PATIENCE)
    admin.partition_counts()
    return admin


def users_topics(admin: Admin) -> dict[str, int]:
    """Return the number of partitions of each topic, without the brokers' internal ones."""
    return {name: count for name, count in sorted(admin.partition_counts().items()) if name not in _OF_BROKERS}


def partitions_of(admin: Admin, topic: str) -> int:
    """Return the number of partitions of a topic. Ends the command if the topic does not exist."""
    count = users_topics(admin).get(topic)
    if count is None:
        fail(f"There is no topic {topic}. Create it with: penstock topics create {topic}")
    return count

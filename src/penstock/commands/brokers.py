"""How commands reach the brokers: the settings they need, and an error within seconds where nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.commands.common import fail, streams_config
from penstock.config.streams_config import StreamsConfig

if TYPE_CHECKING:
    from penstock.kafka.admin import Admin

_PATIENCE = 3.0
_OF_BROKERS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that the brokers keep for themselves."""


def broker_config(file: Path | None, settings: list[str] | None, client_id: str) -> StreamsConfig:
    """The settings of a command that needs brokers and no application; localhost:9092 unless the settings name brokers."""
    return streams_config(file, settings, {"application.id": client_id, "bootstrap.servers": "localhost:9092"})


def open_admin(config: StreamsConfig, client_id: str) -> Admin:
    """An admin client whose brokers have answered; BrokerError after a few seconds where they do not."""
    from penstock.kafka.admin import Admin
    from penstock.kafka.clients import admin_config

    admin = Admin(admin_config(config, client_id), patience=_PATIENCE)
    admin.partition_counts()
    return admin


def users_topics(admin: Admin) -> dict[str, int]:
    """The number of partitions of each topic that is not one of the brokers' own."""
    return {name: count for name, count in sorted(admin.partition_counts().items()) if name not in _OF_BROKERS}


def partitions_of(admin: Admin, topic: str) -> int:
    """The number of partitions of a topic; ends the command where there is no such topic."""
    count = users_topics(admin).get(topic)
    if count is None:
        fail(f"there is no topic {topic}. Create it with: penstock topics create {topic}")
    return count

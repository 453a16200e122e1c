"""A supplier of Kafka clients of a user's own, where workers find it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from penstock import KafkaClientSupplier


class Noting(KafkaClientSupplier):
    """Leaves a file for each kind of client and process in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _note(self, kind: str) -> None:
        (self._folder / f"{kind}-{os.getpid()}").touch()

    def get_producer(self, config: dict[str, Any]) -> Producer:
        """Note a producer."""
        self._note("producer")
        return super().get_producer(config)

    def get_consumer(self, config: dict[str, Any]) -> Consumer:
        """Note a consumer of inputs."""
        self._note("consumer")
        return super().get_consumer(config)

    def get_admin(self, config: dict[str, Any]) -> AdminClient:
        """Note an admin client."""
        self._note("admin")
        return super().get_admin(config)

"""How large a batch the brokers take for some topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from penstock.kafka.clients import open_client

_log = logging.getLogger(__name__)

_TIMEOUT = 15.0
_ROOM = 0.9  # for what frames the records of a batch


def largest_batch(client_config: Mapping[str, Any], topics: Iterable[str]) -> dict[str, Any]:
    """Settings of a producer whose batches fit `max.message.bytes` of every topic; one record a batch where that is not known."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    limits: list[int] = []
    if resources:
        admin = open_client("admin client", AdminClient, client_config)
        try:
            answers = admin.describe_configs(resources, request_timeout=_TIMEOUT).values()
            limits = [int(answer.result(_TIMEOUT)["max.message.bytes"].value) for answer in answers]
        except (KafkaException, KeyError, ValueError):
            limits = []
    if not limits:
        _log.warning(
            "a batch was too large for the brokers, and its topics' max.message.bytes cannot be read: one record a batch"
        )
        return {"batch.num.messages": 1}
    size = max(1, int(min(limits) * _ROOM))
    _log.warning("a batch was too large for the brokers: batches are at most %d bytes from now on", size)
    return {"batch.size": min(size, int(client_config.get("batch.size", size)))}

"""Limit the producer's batches to the size that the brokers accept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from penstock.kafka.clients import open_client

_log = logging.getLogger(__name__)

_TIMEOUT = 15.0
_ROOM = 0.9  # the rest is for the batch header


def largest_batch(client_config: Mapping[str, Any], topics: Iterable[str]) -> dict[str, Any]:
    """Return producer settings whose batches fit `max.message.bytes` of all topics. If it cannot be read, use one record per
    batch.
    """
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    limits: list[int] = []
    if resources:
        admin = open_client("admin client", AdminClient, client_config)
        try:
            answers = admin.describe_configs(resources, request_timeout=_TIMEOUT).values()
            limits = [int(answer.result(_TIMEOUT)["max.message.bytes"].value) for answer in answers]
        except (KafkaException, FutureTimeout, KeyError, ValueError):
            limits = []
    if not limits:
        _log.warning(
            "A batch was too large for the brokers, and max.message.bytes of its topics cannot be read. "
            "Each batch now has one record"
        )
        return {"batch.num.messages": 1}
    size = max(1, int(min(limits) * _ROOM))
    _log.warning("A batch was too large for the brokers. Batches now have at most %d bytes", size)
    return {"batch.size": min(size, int(client_config.get("batch.size", size)))}

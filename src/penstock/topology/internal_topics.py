"""The topics an application owns, repartition and changelog: their configurations and partition counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import TopologyError
from penstock.state.store import StoreBuilder
from penstock.topology.specs import InternalTopicConfig, Subtopology
from penstock.topology.validation import repartition_partition_counts, source_partition_count

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")
_MAX_TOPIC_LENGTH = 249
_MAX_LONG = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

TOPIC_PREFIX = "topic."
ADDITIONAL_RETENTION = "windowstore.changelog.additional.retention.ms"


@dataclass(frozen=True)
class InternalTopicProperties:
    """What the DSL asks of a repartition topic; None leaves the number of partitions to its upstream topics."""

    number_of_partitions: int | None = None

    def __post_init__(self) -> None:
        if self.number_of_partitions is not None and self.number_of_partitions < 1:
            raise TopologyError(f"Number of partitions must be at least 1, but it is {self.number_of_partitions}.")


@dataclass(frozen=True)
class RepartitionTopicConfig(InternalTopicConfig):
    """A repartition topic: records are deleted once they are processed, never by age."""

    def properties(self, defaults: Mapping[str, str], additional_retention_ms: int) -> dict[str, str]:
        """The configuration to create the topic with."""
        library = {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}
        return _merged(library, defaults, self.configs)


@dataclass(frozen=True)
class ChangelogTopicConfig(InternalTopicConfig):
    """The changelog of a key-value store: compacted."""

    def properties(self, defaults: Mapping[str, str], additional_retention_ms: int) -> dict[str, str]:
        """The configuration to create the topic with."""
        return _merged({"cleanup.policy": "compact"}, defaults, self.configs)


@dataclass(frozen=True)
class WindowedChangelogTopicConfig(ChangelogTopicConfig):
    """The changelog of a window or session store: compacted, and deleted some time after the store has."""

    retention_ms: int = 0

    def properties(self, defaults: Mapping[str, str], additional_retention_ms: int) -> dict[str, str]:
        merged = _merged({"cleanup.policy": "compact,delete"}, defaults, self.configs)
        if "retention.ms" not in self.configs:
            merged["retention.ms"] = str(min(self.retention_ms + additional_retention_ms, _MAX_LONG))
        return merged


@dataclass(frozen=True)
class VersionedChangelogTopicConfig(ChangelogTopicConfig):
    """The changelog of a versioned store: compacted, but not before the history has run out."""

    min_compaction_lag_ms: int = 0

    def properties(self, defaults: Mapping[str, str], additional_retention_ms: int) -> dict[str, str]:
        merged = _merged({"cleanup.policy": "compact"}, defaults, self.configs)
        if "min.compaction.lag.ms" not in self.configs:
            merged["min.compaction.lag.ms"] = str(min(self.min_compaction_lag_ms + DAY_MS, _MAX_LONG))
        return merged


def _merged(library: Mapping[str, str], defaults: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The library's settings, under the application's `topic.` settings, under the topic's own."""
    return {"message.timestamp.type": "CreateTime", **library, **defaults, **own}


def repartition_topic(name: str, properties: InternalTopicProperties) -> RepartitionTopicConfig:
    """The configuration of a repartition topic."""
    partitions = properties.number_of_partitions
    return RepartitionTopicConfig(validate_topic_name(name), {}, partitions, enforce_partitions=partitions is not None)


def changelog_topic(name: str, store: StoreBuilder[Any]) -> ChangelogTopicConfig:
    """The configuration of a store's changelog topic, according to the kind of store."""
    validate_topic_name(name)
    configs = dict(store.log_config)
    history, retention = store.history_retention, store.retention_period
    if history is not None:
        return VersionedChangelogTopicConfig(name, configs, min_compaction_lag_ms=history)
    if retention is not None:
        return WindowedChangelogTopicConfig(name, configs, retention_ms=retention)
    return ChangelogTopicConfig(name, configs)


def validate_topic_name(name: str) -> str:
    """The name, if Kafka accepts it for a topic; raises TopologyError otherwise."""
    problem = None
    if name in ("", ".", ".."):
        problem = "it is empty or made of dots only"
    elif len(name) > _MAX_TOPIC_LENGTH:
        problem = f"it is longer than {_MAX_TOPIC_LENGTH} characters"
    elif not _LEGAL_TOPIC.match(name):
        problem = "it contains a character other than ASCII alphanumerics, '.', '_' and '-'"
    if problem is not None:
        raise TopologyError(
            f"The internal topic name {name!r} is not allowed: {problem}. "
            "Internal topics are named after the application.id and the store or the operator; rename the one at fault."
        )
    return name


def topic_defaults(config: Mapping[str, Any]) -> dict[str, str]:
    """The `topic.` settings of the application, without their prefix."""
    return {
        key[len(TOPIC_PREFIX) :]: str(value)
        for key, value in config.items()
        if key.startswith(TOPIC_PREFIX) and value is not None
    }


def internal_topics(
    subtopologies: Iterable[Subtopology], partition_counts: Mapping[str, int], config: Mapping[str, Any] | None = None
) -> dict[str, InternalTopicConfig]:
    """Every internal topic with its number of partitions and the configuration to create it with.

    `partition_counts` says how many partitions the topics have that the application reads but does not own. A
    repartition topic gets what its co-partitioned topics demand, else the most any topic upstream has; a changelog
    gets one partition per task. The configuration is the library's, under the application's `topic.` settings,
    under the store's own. Raises TopologyError where topics are missing or not co-partitioned.
    """
    plans = list(subtopologies)
    settings = config or {}
    defaults = topic_defaults(settings)
    additional_retention_ms = int(settings.get(ADDITIONAL_RETENTION, DAY_MS))
    counts = {**partition_counts, **repartition_partition_counts(plans, partition_counts)}
    topics: dict[str, InternalTopicConfig] = {}
    for plan in plans:
        tasks = source_partition_count(plan, counts)
        wanted = {name: (topic, counts[name]) for name, topic in plan.repartition_source_topics.items()}
        wanted.update({name: (topic, tasks) for name, topic in plan.changelog_topics.items() if tasks > 0})
        for name, (topic, partitions) in wanted.items():
            assert isinstance(topic, RepartitionTopicConfig | ChangelogTopicConfig)
            topics[name] = replace(topic, configs=topic.properties(defaults, additional_retention_ms), partitions=partitions)
    return topics

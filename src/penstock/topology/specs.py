"""The built topology as plain data: what a task needs to make its own nodes and stores. Pickles.

`added_at` of a node is the line of the user's code that added it, for messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.state.store import StoreBuilder

Serializer = Callable[[str, Any], "bytes | None"]
Deserializer = Callable[[str, "bytes | None"], Any]
TimestampExtractor = Callable[[Any, int], int]
TopicNameExtractor = Callable[[Any, Any, Any], str]
StreamPartitioner = Callable[..., "int | Iterable[int] | None"]
ProcessorSupplier = Callable[[], Any]


@dataclass(frozen=True)
class SourceSpec:
    """A source node; `topics` carry the application id where they are internal."""

    name: str
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: Any = None
    added_at: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class ProcessorSpec:
    """A processor node with its parents and the names of the stores it may use."""

    name: str
    supplier: ProcessorSupplier
    parents: tuple[str, ...]
    stores: tuple[str, ...] = ()
    added_at: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class SinkSpec:
    """A sink node: a fixed topic, or a function that names one for each record."""

    name: str
    parents: tuple[str, ...]
    topic: str | None = None
    topic_extractor: TopicNameExtractor | None = None
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    partitioner: StreamPartitioner | None = None
    added_at: str = field(default="", compare=False, repr=False)


NodeSpec = SourceSpec | ProcessorSpec | SinkSpec


@dataclass(frozen=True)
class InternalTopicConfig:
    """A topic the application owns: repartition or changelog."""

    name: str
    configs: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    enforce_partitions: bool = False


@dataclass(frozen=True)
class Subtopology:
    """One connected component: the plan from which the tasks of one sub-topology are made.

    `nodes` are in topological order. `stores` holds the builders of local stores; `global_stores` the names of
    global stores its processors read.
    """

    id: int
    nodes: tuple[NodeSpec, ...]
    stores: Mapping[str, StoreBuilder[Any]]
    global_stores: tuple[str, ...]
    store_to_changelog: Mapping[str, str]
    source_topics: tuple[str, ...]
    sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopicConfig]
    changelog_topics: Mapping[str, InternalTopicConfig]
    copartition_groups: tuple[frozenset[str], ...] = ()
    source_patterns: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True)
class GlobalTopology:
    """The nodes that keep the global stores, one instance per host.

    On restore, the records of a store in `reprocess_on_restore` go through its processor again; those of the other
    stores are put as they are.
    """

    nodes: tuple[NodeSpec, ...]
    stores: Mapping[str, StoreBuilder[Any]]
    store_to_topic: Mapping[str, str]
    reprocess_on_restore: frozenset[str] = frozenset()

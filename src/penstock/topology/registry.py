"""What has been added to a topology so far: nodes in topological order, stores, internal topics, and who uses what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import TopologyError
from penstock.history import SourceHistory
from penstock.state.store import StoreBuilder
from penstock.topology.grouping import QuickUnion, node_groups
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.specs import NodeSpec, SourceSpec
from penstock.user_code import call_site

# Patterns compare equal by text and flags; the text alone will do as well.
MatchedTopics = Mapping[re.Pattern[str], Iterable[str]] | Mapping[str, Iterable[str]]


@dataclass
class TopologyRegistry:
    """Plain data, filled by `InternalTopologyBuilder`; topic names are without the application id.

    `nodes` keeps the order of insertion, which is a topological one: a parent is always added before its children.
    `changelog_sources` maps a store to the source topic that serves as its changelog.
    """

    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    processor_stores: dict[str, dict[str, None]] = field(default_factory=dict)
    stores: dict[str, StoreBuilder[Any]] = field(default_factory=dict)
    store_users: dict[str, list[str]] = field(default_factory=dict)
    global_stores: dict[str, StoreBuilder[Any]] = field(default_factory=dict)
    global_nodes: set[str] = field(default_factory=set)
    global_topics: set[str] = field(default_factory=set)
    reprocess_on_restore: set[str] = field(default_factory=set)
    source_topics: set[str] = field(default_factory=set)
    internal_topics: dict[str, InternalTopicProperties] = field(default_factory=dict)
    changelog_sources: dict[str, str] = field(default_factory=dict)
    histories: dict[str, SourceHistory] = field(default_factory=dict)
    copartition_sources: list[set[str]] = field(default_factory=list)
    grouper: QuickUnion = field(default_factory=QuickUnion)
    line: str | None = None
    """The line of the user's code that nodes are being added for; None: the line that calls."""

    def node_groups(self) -> dict[int, tuple[str, ...]]:
        """The names of the nodes of each sub-topology; global stores have a number as well."""
        return node_groups(self.nodes, self.grouper)

    def is_global_group(self, names: Iterable[str]) -> bool:
        """Whether a group keeps a global store, so that it gets no tasks."""
        return any(name in self.global_nodes for name in names)

    def sources(self) -> Iterator[SourceSpec]:
        """The sources of tasks, without those of global stores."""
        return (node for node in self.nodes.values() if isinstance(node, SourceSpec) and node.name not in self.global_nodes)

    def add_node(self, node: NodeSpec, *parents: str) -> None:
        """Add a node that has been checked, and join it with its parents."""
        self.nodes[node.name] = replace(node, added_at=call_site().line if self.line is None else self.line)
        self.grouper.add(node.name)
        self.grouper.unite(node.name, *parents)

    def connect(self, processor: str, store: str) -> None:
        """Let a processor use a store: everyone who does lands in the same sub-topology."""
        users = self.store_users.setdefault(store, [])
        if users:
            self.grouper.unite(users[0], processor)
        users.append(processor)
        self.processor_stores.setdefault(processor, {})[store] = None

    def match_topics(self, topics: Iterable[str]) -> dict[re.Pattern[str], tuple[str, ...]]:
        """The existing topics that each pattern of a source matches.

        Raises TopologyError where a topic would be read by two sources.
        """
        patterns = [source.pattern for source in self.sources() if source.pattern is not None]
        matched: dict[re.Pattern[str], list[str]] = {pattern: [] for pattern in patterns}
        for topic in sorted(set(topics) - self.global_topics):
            found = [pattern for pattern in patterns if pattern.fullmatch(topic)]
            if len(found) > 1:
                raise TopologyError(
                    f"Topic {topic} is already matched for another regex pattern {found[0].pattern} and hence cannot be "
                    f"matched to this regex pattern {found[1].pattern} any more."
                )
            for pattern in found:
                matched[pattern].append(topic)
        return {pattern: tuple(names) for pattern, names in matched.items()}


@dataclass(frozen=True)
class TopicNames:
    """Topic names as the brokers know them: internal ones carry the application id."""

    prefix: str
    internal: frozenset[str]
    matched: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, registry: TopologyRegistry, prefix: str, matched_topics: MatchedTopics | None) -> TopicNames:
        """Names under an application id, with the topics that patterns have matched."""
        matched = {}
        for pattern, topics in (matched_topics or {}).items():
            text = pattern if isinstance(pattern, str) else pattern.pattern
            matched[text] = tuple(topic for topic in dict.fromkeys(topics) if topic not in registry.global_topics)
        return cls(prefix, frozenset(registry.internal_topics), matched)

    def full(self, topic: str) -> str:
        """The topic's name with the application id where it is internal."""
        return f"{self.prefix}-{topic}" if topic in self.internal else topic

    def changelog(self, store_name: str) -> str:
        """The changelog topic of a store."""
        return f"{self.prefix}-{store_name}-changelog"

    def of_source(self, source: SourceSpec) -> tuple[str, ...]:
        """The topics of a source, by name or as matched by its pattern."""
        if source.pattern is not None:
            return self.matched.get(source.pattern.pattern, ())
        return tuple(self.full(topic) for topic in source.topics)

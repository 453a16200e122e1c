"""`Topology.describe()`: the topology as value objects, and as the text Kafka Streams prints for it."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.topology.java_order import TreeSet, hash_copy_order, hash_order, utf16_units
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import NodeSpec, SinkSpec, SourceSpec, TopicNameExtractor


class Node:
    """A node of a description, with the nodes before and after it in the order in which they are printed."""

    def __init__(self, name: str) -> None:
        self.name = name
        # The node itself and everything below it, counted once for each path that leads there.
        self._size = 1
        self._predecessors: TreeSet[Node] = TreeSet(_compare)
        self._successors: TreeSet[Node] = TreeSet(_compare)

    @property
    def predecessors(self) -> tuple[Node, ...]:
        """The nodes that hand records to this one."""
        return tuple(self._predecessors)

    @property
    def successors(self) -> tuple[Node, ...]:
        """The nodes that get this one's records."""
        return tuple(self._successors)

    def _identity(self) -> tuple[Any, ...]:
        """What makes two nodes equal, besides their predecessors."""
        return (self.name,)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node) or type(self) is not type(other):
            return NotImplemented
        if self is other:
            return True
        return self._identity() == other._identity() and self.predecessors == other.predecessors

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<{self}>".replace("\n     ", "")

    def _connect(self, predecessor: Node) -> None:
        """Hang this node below another one, and count what is below it there and above."""
        self._predecessors.add(predecessor)
        predecessor._successors.add(self)
        # Level by level with multiplicities: walking every path takes exponential time where streams split and merge.
        level = Counter({predecessor: 1})
        while level:
            above: Counter[Node] = Counter()
            for node, paths in level.items():
                node._size += paths * self._size
                for parent in node._predecessors:
                    above[parent] += paths
            level = above


def _compare(first: Node, second: Node) -> int:
    """Larger sub-trees first, then by name."""
    if first is second:
        return 0
    if first._size != second._size:
        return second._size - first._size
    first_name, second_name = utf16_units(first.name), utf16_units(second.name)
    return (first_name > second_name) - (first_name < second_name)


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes) or "none"


class Source(Node):
    """A source: the topics it reads, or the pattern that their names match."""

    def __init__(self, name: str, topics: Iterable[str] | None, topic_pattern: re.Pattern[str] | None = None) -> None:
        super().__init__(name)
        self._topics = None if topics is None else tuple(hash_copy_order(topics))
        self.topic_pattern = topic_pattern

    @property
    def topic_set(self) -> frozenset[str] | None:
        """The topics; None where there is a pattern."""
        return None if self._topics is None else frozenset(self._topics)

    def _identity(self) -> tuple[Any, ...]:
        return self.name, self.topic_set, None if self.topic_pattern is None else self.topic_pattern.pattern

    def __str__(self) -> str:
        if self._topics is not None:
            topics = f"[{', '.join(self._topics)}]"
        else:
            assert self.topic_pattern is not None
            topics = self.topic_pattern.pattern
        return f"Source: {self.name} (topics: {topics})\n      --> {_names(self._successors)}"


class Processor(Node):
    """A processor and the stores it is connected to."""

    def __init__(self, name: str, stores: Iterable[str]) -> None:
        super().__init__(name)
        self._stores = tuple(hash_copy_order(stores))

    @property
    def stores(self) -> frozenset[str]:
        """The names of the stores."""
        return frozenset(self._stores)

    def _identity(self) -> tuple[Any, ...]:
        return self.name, self.stores

    def __str__(self) -> str:
        return (
            f"Processor: {self.name} (stores: [{', '.join(self._stores)}])\n"
            f"      --> {_names(self._successors)}\n      <-- {_names(self._predecessors)}"
        )


class Sink(Node):
    """A sink: the topic it writes to, or the function that names one for each record."""

    def __init__(self, name: str, topic: str | None, topic_name_extractor: TopicNameExtractor | None = None) -> None:
        super().__init__(name)
        self.topic = topic
        self.topic_name_extractor = topic_name_extractor

    def _identity(self) -> tuple[Any, ...]:
        return self.name, self.topic, self.topic_name_extractor

    def __str__(self) -> str:
        dynamic = f"extractor class: {_extractor_text(self.topic_name_extractor)}"
        target = dynamic if self.topic is None else f"topic: {self.topic}"
        return f"Sink: {self.name} ({target})\n      <-- {_names(self._predecessors)}"


def _extractor_text(extractor: Any) -> str:
    return str(extractor.__name__) if inspect.isroutine(extractor) else str(extractor)


class Subtopology:
    """A connected part of the topology, from which tasks are made."""

    def __init__(self, id: int, nodes: Iterable[Node]) -> None:
        self.id = id
        self.nodes = tuple(sorted(nodes, key=lambda node: (-node._size, utf16_units(node.name))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subtopology) and self.id == other.id and set(self.nodes) == set(other.nodes)

    def __hash__(self) -> int:
        return hash((self.id, frozenset(self.nodes)))

    def __str__(self) -> str:
        return f"Sub-topology: {self.id}\n" + "".join(f"    {node}\n" for node in self.nodes) + "\n"

    def __repr__(self) -> str:
        return f"Subtopology({self.id}, {[node.name for node in self.nodes]})"


class GlobalStore:
    """A global store: its source and the processor that keeps it. It has a number, but no tasks."""

    def __init__(self, source_name: str, processor_name: str, store_name: str, topic: str, id: int) -> None:
        self.id = id
        self.source = Source(source_name, [topic])
        self.processor = Processor(processor_name, [store_name])
        self.processor._connect(self.source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalStore) and self.source == other.source and self.processor == other.processor

    def __hash__(self) -> int:
        return hash((self.source, self.processor))

    def __str__(self) -> str:
        header = f"Sub-topology: {self.id} for global store (will not generate tasks)"
        return f"{header}\n    {self.source}\n    {self.processor}\n"

    def __repr__(self) -> str:
        return f"GlobalStore({self.id}, {self.source.name!r}, {self.processor.name!r})"


class TopologyDescription:
    """The sub-topologies and global stores of a topology; `str` gives Kafka Streams' text, character for character.

    >>> nodes = [Source("orders-source", ["orders"])]
    >>> print(TopologyDescription([Subtopology(0, nodes)], []))
    Topologies:
       Sub-topology: 0
        Source: orders-source (topics: [orders])
          --> none
    <BLANKLINE>
    <BLANKLINE>
    """

    def __init__(self, subtopologies: Iterable[Subtopology], global_stores: Iterable[GlobalStore]) -> None:
        self.subtopologies = tuple(sorted(subtopologies, key=lambda part: part.id))
        self.global_stores = tuple(sorted(global_stores, key=lambda part: part.id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopologyDescription):
            return NotImplemented
        return self.subtopologies == other.subtopologies and self.global_stores == other.global_stores

    def __hash__(self) -> int:
        return hash((self.subtopologies, self.global_stores))

    def __str__(self) -> str:
        parts: list[Subtopology | GlobalStore] = [*self.subtopologies, *self.global_stores]
        return "Topologies:\n " + "".join(f"  {part}" for part in sorted(parts, key=lambda part: part.id))

    def __repr__(self) -> str:
        return f"TopologyDescription({list(self.subtopologies)!r}, {list(self.global_stores)!r})"


def describe(registry: TopologyRegistry) -> TopologyDescription:
    """The description of what has been added so far."""
    subtopologies: list[Subtopology] = []
    global_stores: list[GlobalStore] = []
    for number, names in registry.node_groups().items():
        if registry.is_global_group(names):
            global_stores.append(_describe_global_store(registry, number, names))
        else:
            subtopologies.append(_describe_subtopology(registry, number, names))
    return TopologyDescription(subtopologies, global_stores)


def _describe_subtopology(registry: TopologyRegistry, number: int, names: Iterable[str]) -> Subtopology:
    """Connect the nodes in the order of Java's HashMap: the sizes, and with them the order of siblings, depend on it."""
    nodes = {name: _describe_node(registry, registry.nodes[name]) for name in hash_order(hash_order(names))}
    for name, node in nodes.items():
        spec = registry.nodes[name]
        for parent in () if isinstance(spec, SourceSpec) else spec.parents:
            node._connect(nodes[parent])
    return Subtopology(number, nodes.values())


def _describe_node(registry: TopologyRegistry, spec: NodeSpec) -> Node:
    if isinstance(spec, SourceSpec):
        return Source(spec.name, spec.topics if spec.pattern is None else None, spec.pattern)
    if isinstance(spec, SinkSpec):
        return Sink(spec.name, spec.topic, spec.topic_extractor)
    return Processor(spec.name, hash_order(registry.processor_stores.get(spec.name, ())))


def _describe_global_store(registry: TopologyRegistry, number: int, names: tuple[str, ...]) -> GlobalStore:
    source_name, processor_name = names
    source = registry.nodes[source_name]
    assert isinstance(source, SourceSpec)
    (store_name,) = registry.processor_stores[processor_name]
    return GlobalStore(source_name, processor_name, store_name, source.topics[0], number)

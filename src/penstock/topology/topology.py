"""`Topology`: sources, processors, sinks and stores put together by hand, the Processor API's way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import TopologyError
from penstock.java_names import JavaNames
from penstock.serdes.arguments import is_serde
from penstock.serdes.serde import as_deserializer, as_serializer
from penstock.state.store import StoreBuilder
from penstock.timestamps import resolve_timestamp_extractor
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.description import TopologyDescription
from penstock.topology.offset_reset import AutoOffsetReset
from penstock.topology.specs import ProcessorSupplier, StreamPartitioner, TimestampExtractor, TopicNameExtractor
from penstock.topology.store_feed import StoreFeed
from penstock.user_code import misuse


class Topology(JavaNames):
    """A graph of sources, processors and sinks, and the stores that processors use.

    Nodes are added after their parents, and every method returns the topology. What cannot work is refused with a
    TopologyError at once. A serde is accepted where a serializer or a deserializer is.

    >>> from penstock.processor import Processor
    >>> class Upper(Processor):
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(record.value.upper()))
    >>> topology = Topology().add_source("in", "words").add_processor("upper", Upper, "in")
    >>> print(topology.add_sink("out", "shouts", "upper").describe())
    Topologies:
       Sub-topology: 0
        Source: in (topics: [words])
          --> upper
        Processor: upper (stores: [])
          --> out
          <-- in
        Sink: out (topic: shouts)
          <-- upper
    <BLANKLINE>
    <BLANKLINE>
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.internal_topology_builder = InternalTopologyBuilder(config)

    def _repr_svg_(self) -> str:
        """What a notebook shows of the topology: its picture."""
        from penstock.drawing.picture import draw_topology  # only notebooks draw; drawing is above topology

        return draw_topology(self.describe())

    def add_source(
        self,
        name: str,
        *topics: str | Iterable[str] | re.Pattern[str],
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        timestamp_extractor: TimestampExtractor | type | str | None = None,
        offset_reset: Any = None,
    ) -> Topology:
        """Read topics, given by name, as a list, or by a pattern that their whole names match.

        What is None is taken from the configuration. `offset_reset` is "earliest", "latest", "none", or how far to
        look back as a timedelta.
        """
        if isinstance(name, AutoOffsetReset) or any(is_serde(topic) for topic in topics):
            raise misuse(
                "the name comes first, then the topics; all else by name: write "
                "add_source(name, topic, key_deserializer=…, value_deserializer=…, offset_reset=…)"
            )
        self.internal_topology_builder.add_source(
            offset_reset,
            name,
            None if timestamp_extractor is None else resolve_timestamp_extractor(timestamp_extractor),
            as_deserializer(key_deserializer),
            as_deserializer(value_deserializer),
            *_flatten(topics),
        )
        return self

    def add_processor(self, name: str, supplier: ProcessorSupplier, *parents: str) -> Topology:
        """Process the records of the parents.

        `supplier` returns a new processor with each call; often it is the class. If it has a list `stores`, or the class
        of what it returns has, those store builders are added and connected.
        """
        self.internal_topology_builder.add_processor(name, supplier, *parents)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key_serializer: Any = None,
        value_serializer: Any = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        """Write the records of the parents to a topic.

        A function in place of the topic names one for each record: `(key, value, record_context) -> topic`.
        """
        if any(is_serde(parent) for parent in parents):
            raise misuse(
                "serializers are given by name: write add_sink(name, topic, parent, key_serializer=…, value_serializer=…)"
            )
        self.internal_topology_builder.add_sink(
            name,
            topic,
            as_serializer(key_serializer),
            as_serializer(value_serializer),
            partitioner,
            *parents,
        )
        return self

    def add_state_store(self, store_builder: StoreBuilder[Any], *processor_names: str) -> Topology:
        """Add a store and connect it to processors; those that share a store run in the same tasks."""
        self.internal_topology_builder.add_state_store(store_builder, *processor_names)
        return self

    def connect_processor_and_state_stores(self, processor_name: str, *state_store_names: str) -> Topology:
        """Let a processor use stores that were added before."""
        self.internal_topology_builder.connect_processor_and_state_stores(processor_name, *state_store_names)
        return self

    def add_global_store(self, store_builder: StoreBuilder[Any], source_name: str, *arguments: Any, **named: Any) -> Topology:
        """Keep a whole topic in a store on every instance, filled by a processor of its own.

        Arguments are `topic`, `processor_name` and `state_update_supplier`; `key_deserializer`, `value_deserializer`
        and `timestamp_extractor` by name, or before the topic in this order. Any processor can read the store without
        being connected to it. The topic is the store's changelog.
        """
        feed = StoreFeed.of(source_name, arguments, named)
        self.internal_topology_builder.add_global_store(store_builder, source_name, *vars(feed).values())
        return self

    def add_read_only_state_store(
        self, store_builder: StoreBuilder[Any], source_name: str, *arguments: Any, **named: Any
    ) -> Topology:
        """Keep each task's partition of a topic in a store, filled by a processor of its own.

        Arguments as for `add_global_store`. The topic is the store's changelog, so nobody but that processor should
        write to the store.
        """
        feed = StoreFeed.of(source_name, arguments, named)
        self.internal_topology_builder.add_read_only_state_store(store_builder, source_name, *vars(feed).values())
        return self

    def describe(self) -> TopologyDescription:
        """The topology as value objects; `str` of it is the text that Kafka Streams prints."""
        return self.internal_topology_builder.describe()


def required_topology(given: Any, owner: str) -> Topology:
    """What is to be run; a builder is refused with the call that is missing."""
    if isinstance(given, Topology):
        return given
    if callable(getattr(given, "build", None)):
        raise misuse(f"the builder is not the topology yet: write {owner}(builder.build(), …)", owner)
    raise misuse(f"the topology comes first, got {given!r}: write {owner}(topology, config)", owner)


def _flatten(topics: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for topic in topics:
        flat.extend([topic] if isinstance(topic, str | re.Pattern) or not isinstance(topic, Iterable) else topic)
    if len(flat) > 1 and any(isinstance(topic, re.Pattern) for topic in flat):
        raise TopologyError("A source reads either topics given by name or one pattern, not both: add a source for each pattern.")
    return flat

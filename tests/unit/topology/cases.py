"""Topologies written as lists of operations, so that Kafka Streams and penstock can build the same ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.processor import Processor
from penstock.state.store import StoreBuilder
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.topology import Topology


class Echo(Processor[Any, Any, Any, Any]):
    """Forwards what it gets."""

    def process(self, record: Any) -> None:
        self.context.forward(record)


class FakeStoreBuilder(StoreBuilder[Any]):
    """A builder that only carries what the topology looks at."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logging = True
        self._caching = False
        self._log_config: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def logging_enabled(self) -> bool:
        return self._logging

    @property
    def caching_enabled(self) -> bool:
        return self._caching

    @property
    def log_config(self) -> Mapping[str, str]:
        return self._log_config

    def with_logging_enabled(self, topic_config: Mapping[str, Any] | None = None) -> FakeStoreBuilder:
        self._logging = True
        self._log_config = {key: str(value) for key, value in (topic_config or {}).items()}
        return self

    def with_logging_disabled(self) -> FakeStoreBuilder:
        self._logging = False
        return self

    def with_caching_enabled(self) -> FakeStoreBuilder:
        self._caching = True
        return self

    def with_caching_disabled(self) -> FakeStoreBuilder:
        self._caching = False
        return self

    def build(self) -> Any:
        raise AssertionError("the topology does not build stores")


class FakeWindowStoreBuilder(FakeStoreBuilder):
    """A window or session store."""

    def __init__(self, name: str, retention_period: int) -> None:
        super().__init__(name)
        self.retention_period = retention_period


class FakeVersionedStoreBuilder(FakeStoreBuilder):
    """A versioned store."""

    def __init__(self, name: str, history_retention: int) -> None:
        super().__init__(name)
        self.history_retention = history_retention


class NamedExtractor:
    """A dynamic sink's function with a text of its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, key: Any, value: Any, context: Any) -> str:
        return "x"

    def __str__(self) -> str:
        return self.text


class SupplierWithStores:
    """A supplier that brings its stores along."""

    def __init__(self, stores: Sequence[StoreBuilder[Any]]) -> None:
        self.stores = list(stores)

    def __call__(self) -> Echo:
        return Echo()


def make_store(name: str) -> FakeStoreBuilder:
    """The kind of store goes by the first letters of its name."""
    if name.startswith("win"):
        return FakeWindowStoreBuilder(name, 5000)
    if name.startswith("ses"):
        return FakeWindowStoreBuilder(name, 7000)
    if name.startswith("ver"):
        return FakeVersionedStoreBuilder(name, 9000)
    return FakeStoreBuilder(name)


def build_case(operations: Sequence[Sequence[Any]]) -> Topology:
    """The topology that the operations describe."""
    topology = Topology()
    stores: dict[str, FakeStoreBuilder] = {}

    def store(name: str) -> FakeStoreBuilder:
        return stores.setdefault(name, make_store(name))

    for kind, name, *rest in operations:
        builder = topology.internal_topology_builder
        if kind == "source":
            topology.add_source(name, *rest[0])
        elif kind == "pattern":
            topology.add_source(name, re.compile(rest[0]))
        elif kind == "processor":
            supplier = SupplierWithStores([store(one) for one in rest[1]]) if len(rest) > 1 else Echo
            topology.add_processor(name, supplier, *rest[0])
        elif kind == "sink":
            topology.add_sink(name, rest[0], *rest[1])
        elif kind == "dynamic_sink":
            topology.add_sink(name, NamedExtractor(rest[0]), *rest[1])
        elif kind == "store":
            topology.add_state_store(store(name), *rest[0])
        elif kind == "other_store":
            topology.add_state_store(make_store(name), *rest[0])
        elif kind == "connect":
            topology.connect_processor_and_state_stores(name, *rest[0])
        elif kind == "global":
            topology.add_global_store(store(name), rest[0], rest[1], rest[2], Echo)
        elif kind == "read_only":
            topology.add_read_only_state_store(store(name), rest[0], rest[1], rest[2], Echo)
        elif kind == "internal":
            builder.add_internal_topic(name, InternalTopicProperties(rest[0]))
        elif kind == "copartition":
            builder.copartition_sources(rest[0])
        else:
            raise ValueError(f"unknown operation {kind}")
    return topology

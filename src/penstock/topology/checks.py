"""What may be added to a topology: each check raises a TopologyError that says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.errors import TopologyError
from penstock.state.store import StoreBuilder
from penstock.topology.registry import TopologyRegistry
from penstock.topology.specs import ProcessorSpec, SinkSpec
from penstock.user_code import is_async


def require_text(value: Any, what: str) -> str:
    """The value, if it is a string with something in it."""
    if not isinstance(value, str) or not value:
        raise TopologyError(f"{what} must be a non-empty string, but it is {value!r}.")
    return value


def verify_new_node(registry: TopologyRegistry, name: Any) -> None:
    """A node needs a name that no other node has."""
    require_text(name, "The name of a node")
    if name in registry.nodes:
        raise TopologyError(f"Processor {name} is already added.")


def verify_parents(registry: TopologyRegistry, name: str, parents: Sequence[Any]) -> None:
    """Parents exist already, which also rules out cycles, and hand records on."""
    if not parents:
        raise TopologyError(f"The parents of {name} cannot be empty: name at least one source or processor.")
    for parent in parents:
        require_text(parent, f"The name of a parent of {name}")
        if parent == name:
            raise TopologyError(f"Parent node {parent} is unknown (self-reference).")
        if parent not in registry.nodes:
            raise TopologyError(f"Parent node {parent} of {name} is unknown: add a node before its children.")
        if isinstance(registry.nodes[parent], SinkSpec):
            raise TopologyError(f"Sink {parent} cannot be used as a parent, of {name}.")
        if parent in registry.global_nodes:
            raise TopologyError(
                f"{parent} keeps a global store and cannot be used as a parent, of {name}: it runs outside of the tasks."
            )


def verify_new_topic(registry: TopologyRegistry, topic: Any) -> None:
    """A topic is read by one source only."""
    require_text(topic, "The name of a topic")
    if topic in registry.source_topics or topic in registry.global_topics:
        raise TopologyError(f"Topic {topic} has already been registered by another source.")
    for source in registry.sources():
        if source.pattern is not None and source.pattern.fullmatch(topic):
            raise TopologyError(f"Topic {topic} matches a Pattern already registered by another source: {source.name}.")


def verify_new_topics(registry: TopologyRegistry, name: str, topics: Sequence[Any]) -> None:
    """A source reads at least one topic, and each of them once."""
    if not topics:
        raise TopologyError(f"The topics of source {name} cannot be empty.")
    for topic in topics:
        verify_new_topic(registry, topic)
        if topics.count(topic) > 1:
            raise TopologyError(f"Topic {topic} is given more than once to source {name}.")


def verify_new_pattern(registry: TopologyRegistry, pattern: Any) -> None:
    """A pattern does not match a topic that another source reads by name."""
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise TopologyError(f"A topic pattern must be a compiled regular expression of str, but it is {pattern!r}.")
    for topic in registry.source_topics:
        if pattern.fullmatch(topic):
            raise TopologyError(
                f"Pattern {pattern.pattern} will match a topic that has already been registered by another source: {topic}."
            )


def verify_supplier(supplier: Any, name: str) -> None:
    """A supplier makes a new processor with each call: every task needs its own."""
    if not callable(supplier):
        raise TopologyError(
            f"The supplier of processor {name} must be a callable that returns a new processor, but it is {supplier!r}: "
            "give a class, or a function such as lambda: Processor(…)."
        )
    try:
        one, other = supplier(), supplier()
    except Exception as exc:
        raise TopologyError(
            f"The supplier of processor {name}, {supplier!r}, cannot make a processor: {exc!r}. It is called without arguments; "
            "those of a class are given by a function, as in lambda: Processor(argument)."
        ) from exc
    for method in ("init", "process", "close"):
        if is_async(getattr(one, method, None)):
            raise TopologyError(
                f"The processor {name}, a {type(one).__name__}, has an async method {method}, which would not be awaited: "
                "write a plain method."
            )
    if one is other:
        raise TopologyError(
            f"The supplier of processor {name}, {supplier!r}, generates a single reference: "
            "it must return a new object each time it is called."
        )


def verify_new_store(registry: TopologyRegistry, store: Any, *, allow_override: bool = False) -> None:
    """A store's name is free, or the very same builder is added again."""
    _require_store_builder(store)
    known = registry.stores.get(store.name)
    if known is not None and not allow_override and known is not store and known != store:
        raise TopologyError(f"A different StateStore has already been added with the name {store.name}.")
    _verify_no_global_store(registry, store.name)


def verify_new_global_store(registry: TopologyRegistry, store: Any) -> None:
    """A global store's name is free."""
    _require_store_builder(store)
    if store.name in registry.stores:
        raise TopologyError(f"A different StateStore has already been added with the name {store.name}.")
    _verify_no_global_store(registry, store.name)


def verify_connection(registry: TopologyRegistry, processor: Any, stores: Iterable[Any]) -> None:
    """Stores are connected to processors, and both exist."""
    for store in stores:
        require_text(store, f"The name of a store to be connected to {processor}")
        if store in registry.global_stores:
            raise TopologyError(
                f"Global StateStore {store} can be used by a Processor without being specified; "
                f"it should not be explicitly passed, to {processor}."
            )
        if store not in registry.stores:
            raise TopologyError(f"StateStore {store} is not added yet: add it before it is connected to {processor}.")
    verify_store_user(registry, processor)


def verify_store_user(registry: TopologyRegistry, processor: Any) -> None:
    """Only processors that run in tasks use local stores."""
    require_text(processor, "The name of a processor")
    if processor not in registry.nodes:
        raise TopologyError(f"Processor {processor} is not added yet: add it before stores are connected to it.")
    if not isinstance(registry.nodes[processor], ProcessorSpec):
        raise TopologyError(f"State stores cannot be connected to sources or sinks, as {processor} is one.")
    if processor in registry.global_nodes:
        raise TopologyError(f"{processor} keeps a global store, so no other store can be connected to it.")


def _require_store_builder(store: Any) -> None:
    if not isinstance(store, StoreBuilder):
        raise TopologyError(f"A store is added by its StoreBuilder, see Stores, but this is {store!r}.")
    require_text(store.name, "The name of a state store")


def _verify_no_global_store(registry: TopologyRegistry, name: str) -> None:
    if name in registry.global_stores:
        raise TopologyError(f"A different GlobalStateStore has already been added with the name {name}.")


def check_before_start(registry: TopologyRegistry, application: str) -> None:
    """Let processors check what they need outside of Kafka, such as folders, before anything is processed."""
    for node in registry.nodes.values():
        check = getattr(node.supplier, "check_before_start", None) if isinstance(node, ProcessorSpec) else None
        if check is not None:
            check(application)

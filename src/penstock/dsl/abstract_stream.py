"""What streams, tables and groups have in common: a place in the graph, serdes, and the sources above them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from penstock.dsl.arguments import required
from penstock.dsl.typevars import K, V
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.node import GraphNode
from penstock.java_names import JavaNames
from penstock.operators.functions import IgnoreKey, IgnoreKeyJoiner
from penstock.user_code import misuse

_WITH_KEY = "; with_key=True gives it the key first"


class AbstractStream(JavaNames, Generic[K, V]):
    """A node of the graph with the key and value it gives, and the names of the sources its partitions come from."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        self._name = name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._source_nodes = source_nodes
        self._graph_node = graph_node
        self._builder = builder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def _ensure_copartition_with(self, others: Iterable[AbstractStream[Any, Any]]) -> frozenset[str]:
        all_sources = self._source_nodes.union(*(other._source_nodes for other in others))
        self._builder.topology.copartition_sources(all_sources)
        return all_sources


def _check_with_key(with_key: object) -> None:
    if not isinstance(with_key, bool):
        raise misuse(f"with_key is True or False, got {with_key!r}: give other options by their names, as in name=…")


def value_mapper_with_key(mapper: Callable[..., Any], with_key: bool, what: str = "the mapper") -> Callable[[Any, Any], Any]:
    """A mapper in the form operators call: with key and value."""
    _check_with_key(with_key)
    if with_key:
        required(mapper, what, "key", "value")
    else:
        required(mapper, what, "value", hint=_WITH_KEY)
    return mapper if with_key else IgnoreKey(mapper)


def joiner_with_key(joiner: Callable[..., Any], with_key: bool) -> Callable[[Any, Any, Any], Any]:
    """A joiner in the form operators call: with key and both values."""
    _check_with_key(with_key)
    if with_key:
        required(joiner, "the joiner", "key", "value", "other_value")
    else:
        required(joiner, "the joiner", "value", "other_value", hint=_WITH_KEY)
    return joiner if with_key else IgnoreKeyJoiner(joiner)

"""`BranchedKStream`: a stream that is being split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from penstock.dsl import kstream
from penstock.dsl.arguments import required
from penstock.dsl.options import Branched, renamed
from penstock.dsl.typevars import K, V
from penstock.graph.naming import STREAM_BRANCH, Named
from penstock.graph.node import ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.java_names import JavaNames
from penstock.operators import KStreamBranch, PassThrough


class BranchedKStream(JavaNames, Generic[K, V]):
    """The branches of a split: a record goes to the first whose predicate it fulfils.

    >>> from penstock import Branched, StreamsBuilder
    >>> numbers = StreamsBuilder().stream("numbers")
    >>> branches = (
    ...     numbers.split("number-")
    ...     .branch(lambda k, v: v % 2 == 0, Branched("even"))
    ...     .default_branch(Branched("odd"))
    ... )
    >>> sorted(branches)
    ['number-even', 'number-odd']
    """

    def __init__(self, source: kstream.KStream[K, V], name: str | None) -> None:
        self._source = source
        self._builder = source._builder
        self._splitter_name = Named(name).or_generate(self._builder.names, STREAM_BRANCH)
        # The processor keeps these lists: what is added to them later belongs to it.
        self._predicates: list[Callable[[Any, Any], Any]] = []
        self._child_names: list[str] = []
        self._branches: dict[str, kstream.KStream[K, V]] = {}
        supplier = KStreamBranch(self._predicates, self._child_names)
        self._splitter = ProcessorGraphNode(ProcessorParameters(supplier, self._splitter_name))
        self._builder.add_graph_node(source._graph_node, self._splitter)

    def branch(
        self, predicate: Callable[[K, V], Any], branched: Branched[K, V] | None = None, *, name: str | None = None
    ) -> BranchedKStream[K, V]:
        """One more branch, for records that fulfil the predicate and none before it."""
        required(predicate, "the predicate", "key", "value")
        self._predicates.append(predicate)
        self._create_branch(renamed(branched or Branched(), name), len(self._predicates))
        return self

    def default_branch(
        self, branched: Branched[K, V] | None = None, *, name: str | None = None
    ) -> dict[str, kstream.KStream[K, V]]:
        """A last branch for all other records; returns the branches by name."""
        self._create_branch(renamed(branched or Branched(), name), 0)
        return self._branches

    def no_default_branch(self) -> dict[str, kstream.KStream[K, V]]:
        """Drop all other records; returns the branches by name."""
        return self._branches

    def _create_branch(self, branched: Branched[K, V], index: int) -> None:
        name = self._splitter_name + (str(index) if branched.name is None else branched.name)
        self._child_names.append(name)
        self._builder.names.new_processor_name(name)
        node = ProcessorGraphNode(ProcessorParameters(PassThrough(), name))
        self._builder.add_graph_node(self._splitter, node)
        branch: kstream.KStream[K, V] = self._source._derive(node)
        if branched.function is not None:
            transformed = branched.function(branch)
            if transformed is not None:
                self._branches[name] = transformed
        elif branched.consumer is not None:
            branched.consumer(branch)
        else:
            self._branches[name] = branch

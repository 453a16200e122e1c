"""The join of a stream with a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.dsl import kstream
from penstock.dsl.arguments import required
from penstock.graph import naming
from penstock.graph.naming import Named
from penstock.graph.node import ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.operators import KStreamDataFrameJoin
from penstock.operators.joins.lookup_table import DataFrameSource
from penstock.processor import Duration
from penstock.serdes.guessed import guess_value
from penstock.user_code import is_async, misuse
from penstock.windows import to_ms

_ON = 'give the column, as in on="user_id", or the column and a function, as in on=("user_id", lambda key, value: value["user"])'


def join_dataframe(
    stream: kstream.KStream[Any, Any],
    make_dataframe: Callable[..., Any],
    joiner: Callable[[Any, Any, Any], Any],
    on: Any,
    refresh: Duration | None,
    name: str | None,
) -> kstream.KStream[Any, Any]:
    """The stream of what the joiner makes of records and rows; the joiner takes the key first."""
    if not callable(make_dataframe) or is_async(make_dataframe):
        raise misuse(f"make_dataframe is a function that returns a DataFrame, got {make_dataframe!r}: write lambda spark: …")
    columns, mapper = _lookup(on)
    refresh_ms = None if refresh is None else to_ms(refresh, "refresh")
    if refresh_ms is not None and refresh_ms < 1:
        raise misuse(f"refresh is a positive time, or None to load the DataFrame once, got {refresh!r}")
    node_name = Named(name).or_generate(stream._builder.names, naming.STREAM_JOINDATAFRAME)
    supplier = KStreamDataFrameJoin(DataFrameSource(make_dataframe, columns, refresh_ms), node_name, joiner, mapper)
    node = ProcessorGraphNode(ProcessorParameters(supplier, node_name))
    node.is_value_changing_operation = True
    stream._builder.add_graph_node(stream._graph_node, node)
    return stream._derive(node, value_serde=guess_value(joiner))


def _lookup(on: Any) -> tuple[tuple[str, ...], Callable[[Any, Any], Any] | None]:
    mapper = None
    if isinstance(on, tuple) and len(on) == 2 and not isinstance(on[1], str):
        on, mapper = on
        required(mapper, "the function of on", "key", "value")
    columns = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise misuse(f"on names no column: {_ON}")
    return columns, mapper

"""Joins with tables: stream-table, stream-global, table-table, foreign key."""

from __future__ import annotations

from typing import Any

from penstock import Joined, Materialized, TableJoined
from tests.conformance.inputs import LETTERS, TEXTS
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    JSON_GROUPED,
    JSON_OUT,
    OUT,
    J,
    L,
    S,
    append,
    boxed,
    by_key,
    initial,
    keyed_pair,
    note,
    noted,
    pair,
    stored,
    stream,
    strike,
    table,
    zero,
)
from tests.conformance.scenarios.registry import dsl

JOINED = Joined(S, S, S)
_FOREIGN = {"left": TEXTS, "right": LETTERS}


@dsl("stream_table_inner", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").join(table(b, "right"), pair, JOINED).to("out", OUT)


@dsl("stream_table_left", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").left_join(table(b, "right"), pair, JOINED).to("out", OUT)


@dsl("stream_table_inner_with_key", "left", "right")
def _(b: Any) -> None:
    left = stream(b, "left")
    kept = b.table("right", IN, stored(S, "kept"))
    left.join(kept, keyed_pair, Joined(S, S, S, name="look-up"), with_key=True).to("out", OUT)


@dsl("stream_table_left_repartitioned", "left", "right")
def _(b: Any) -> None:
    rekeyed = stream(b, "left").select_key(lambda k, v: initial(v))
    rekeyed.left_join(table(b, "right"), keyed_pair, JOINED, with_key=True).to("out", OUT)


@dsl("stream_table_inner_repartitioned_named", "left", "right")
def _(b: Any) -> None:
    rekeyed = stream(b, "left").select_key(lambda k, v: initial(v))
    rekeyed.join(table(b, "right"), pair, Joined(S, S, S, name="look-up")).to("out", OUT)


@dsl("stream_table_of_filtered", "left", "right")
def _(b: Any) -> None:
    left = stream(b, "left")
    right = table(b, "right").filter(lambda k, v: len(v) > 1).map_values(lambda v: v + "!")
    left.left_join(right, pair, JOINED).to("out", OUT)


@dsl("stream_table_of_aggregate", "left", "right")
def _(b: Any) -> None:
    counts = by_key(b, "right").count(stored(L, "counts"))
    stream(b, "left").left_join(counts, pair, Joined(S, S, L)).to("out", OUT)


@dsl("stream_global_inner", "left", feeds=_FOREIGN)
def _(b: Any) -> None:
    left = stream(b, "left")
    left.join(b.global_table("right", IN, Materialized("global")), lambda k, v: initial(v), pair).to("out", OUT)


@dsl("stream_global_left", "left", feeds=_FOREIGN)
def _(b: Any) -> None:
    left = stream(b, "left")
    left.left_join(b.global_table("right", IN), lambda k, v: None if k is None else v, pair, name="globally").to("out", OUT)


@dsl("stream_global_left_with_key", "left", "right")
def _(b: Any) -> None:
    everywhere = b.global_table("right", IN, stored(S, "global", store_type="in_memory"))
    stream(b, "left").left_join(everywhere, lambda k, v: k, keyed_pair, with_key=True).to("out", OUT)


def _tables(b: Any) -> tuple[Any, Any]:
    return table(b, "left"), table(b, "right")


@dsl("table_join_inner", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.join(right, pair).to_stream().to("out", OUT)


@dsl("table_join_json", "left", "right")
def _(b: Any) -> None:
    left, right = (
        stream(b, topic).map_values(boxed).group_by_key(JSON_GROUPED).aggregate(noted, note, stored(J, f"{topic}s"))
        for topic in ("left", "right")
    )
    left.join(right, lambda one, other: [one, other]).to_stream().to("out", JSON_OUT)


@dsl("table_join_left", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.left_join(right, pair).to_stream().to("out", OUT)


@dsl("table_join_outer", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.outer_join(right, pair).to_stream().to("out", OUT)


@dsl("table_join_inner_materialized", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.join(right, pair, stored(S, "joined"), name="both").to_stream().to("out", OUT)


@dsl("table_join_left_materialized", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.left_join(right, pair, stored(S, "joined", caching=False)).to_stream().to("out", OUT)


@dsl("table_join_outer_materialized", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.outer_join(right, pair, stored(S, "joined", store_type="in_memory")).to_stream().to("out", OUT)


@dsl("table_join_of_materialized", "left", "right")
def _(b: Any) -> None:
    left = b.table("left", IN, stored(S, "one"))
    left.outer_join(b.table("right", IN, stored(S, "two")), pair).to_stream().to("out", OUT)


@dsl("table_join_chain", "left", "right", "third")
def _(b: Any) -> None:
    left, right = _tables(b)
    left.join(right, pair).left_join(table(b, "third"), pair).to_stream().to("out", OUT)


@dsl("table_join_chain_outer", "left", "right", "third")
def _(b: Any) -> None:
    left, right = _tables(b)
    everything = left.outer_join(right, pair).outer_join(table(b, "third"), pair, stored(S, "all"))
    everything.filter(lambda k, v: len(v) < 20).to_stream().to("out", OUT)


@dsl("table_join_of_filtered", "left", "right")
def _(b: Any) -> None:
    left = table(b, "left").filter(lambda k, v: len(v) > 1)
    left.left_join(table(b, "right").map_values(lambda v: v + "!"), pair).to_stream().to("out", OUT)


@dsl("table_join_self", "left")
def _(b: Any) -> None:
    source = table(b, "left")
    source.join(source.map_values(lambda v: v + "'"), pair).to_stream().to("out", OUT)


@dsl("table_join_then_group", "left", "right")
def _(b: Any) -> None:
    left, right = _tables(b)
    groups = left.outer_join(right, pair).group_by(lambda k, v: (initial(v), v), GROUPED)
    groups.aggregate(zero, append, strike, stored(S, "grouped")).to_stream().to("out", OUT)


@dsl("foreign_key_inner", feeds=_FOREIGN)
def _(b: Any) -> None:
    left, right = _tables(b)
    left.join(right, pair, foreign_key=initial, materialized=stored(S)).to_stream().to("out", OUT)


@dsl("foreign_key_left", feeds=_FOREIGN)
def _(b: Any) -> None:
    left, right = _tables(b)
    left.left_join(right, pair, foreign_key=initial, materialized=stored(S)).to_stream().to("out", OUT)


@dsl("foreign_key_inner_named", feeds=_FOREIGN)
def _(b: Any) -> None:
    left, right = _tables(b)
    matching = TableJoined(name="matching")
    joined = left.join(right, pair, foreign_key=initial, table_joined=matching, materialized=stored(S, "joined"))
    joined.to_stream().to("out", OUT)


@dsl("foreign_key_left_named", feeds=_FOREIGN)
def _(b: Any) -> None:
    left, right = b.table("left", IN, stored(S, "one")), b.table("right", IN, stored(S, "two"))
    kept = stored(S, "joined", caching=False)
    joined = left.left_join(right, pair, foreign_key=initial, table_joined=TableJoined(name="matching"), materialized=kept)
    joined.to_stream().to("out", OUT)


@dsl("foreign_key_inner_in_memory", feeds=_FOREIGN)
def _(b: Any) -> None:
    left, right = _tables(b)
    kept = stored(S, "joined", store_type="in_memory")
    left.join(right, pair, foreign_key=initial, materialized=kept).to_stream().to("out", OUT)


@dsl("foreign_key_self", feeds={"left": LETTERS})
def _(b: Any) -> None:
    source = table(b, "left")
    source.left_join(source, pair, foreign_key=initial, materialized=stored(S, "joined")).to_stream().to("out", OUT)


@dsl("foreign_key_chain", feeds={"left": TEXTS, "right": LETTERS, "third": LETTERS})
def _(b: Any) -> None:
    left, right = _tables(b)
    both = left.join(right, pair, foreign_key=initial, materialized=stored(S))
    chained = both.left_join(table(b, "third"), pair, foreign_key=lambda v: v[-1:], materialized=stored(S, "all"))
    chained.to_stream().to("out", OUT)


@dsl("foreign_key_of_filtered", feeds=_FOREIGN)
def _(b: Any) -> None:
    left = table(b, "left").filter(lambda k, v: len(v) > 1)
    right = table(b, "right").map_values(lambda v: v + "!", materialized=stored(S, "marked"))
    left.left_join(right, pair, foreign_key=initial, materialized=stored(S)).to_stream().to("out", OUT)

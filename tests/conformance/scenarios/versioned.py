"""Tables that keep their history."""

from __future__ import annotations

from typing import Any

from penstock import Joined, Materialized, Stores
from tests.conformance.inputs import KEYED_TEXTS, LETTERS, TEXTS
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    LONGS_OUT,
    OUT,
    L,
    S,
    append,
    by_key,
    initial,
    keyed_pair,
    pair,
    plus,
    stored,
    stream,
    strike,
    table,
    zero,
)
from tests.conformance.scenarios.registry import dsl


def _history(name: str, retention: int, values: Any) -> Materialized[Any, Any]:
    return Materialized(supplier=Stores.persistent_versioned_key_value_store(name, retention), key_serde=S, value_serde=values)


def _versioned(b: Any, topic: str) -> Any:
    return b.table(topic, IN, _history(f"{topic}-history", 100, S))


@dsl("versioned_source")
def _(b: Any) -> None:
    _versioned(b, "in").to_stream().to("out", OUT)


@dsl("versioned_filter")
def _(b: Any) -> None:
    _versioned(b, "in").filter(lambda k, v: len(v) > 1).to_stream().to("out", OUT)


@dsl("versioned_filter_materialized")
def _(b: Any) -> None:
    _versioned(b, "in").filter(lambda k, v: len(v) > 1, _history("long-ones", 50, S)).to_stream().to("out", OUT)


@dsl("versioned_map_values")
def _(b: Any) -> None:
    _versioned(b, "in").map_values(lambda v: v + "!", materialized=_history("mapped", 50, S)).to_stream().to("out", OUT)


@dsl("versioned_count")
def _(b: Any) -> None:
    by_key(b, "in").count(_history("counts", 60, L)).to_stream().to("out", LONGS_OUT)


@dsl("versioned_reduce")
def _(b: Any) -> None:
    by_key(b, "in").reduce(plus, _history("reduced", 60, S)).to_stream().to("out", OUT)


@dsl("versioned_to_table")
def _(b: Any) -> None:
    stream(b, "in").to_table(_history("tabled", 40, S)).to_stream().to("out", OUT)


@dsl("versioned_group")
def _(b: Any) -> None:
    groups = _versioned(b, "in").group_by(lambda k, v: (initial(v), k + v), GROUPED)
    groups.aggregate(zero, append, strike, stored(S, "grouped")).to_stream().to("out", OUT)


@dsl("versioned_group_into_history")
def _(b: Any) -> None:
    groups = table(b, "in").group_by(lambda k, v: (initial(v), k + v), GROUPED)
    groups.reduce(plus, lambda a, v: f"{a}-{v}", _history("grouped", 80, S)).to_stream().to("out", OUT)


@dsl("versioned_stream_table_inner", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").join(_versioned(b, "right"), pair, Joined(S, S, S)).to("out", OUT)


@dsl("versioned_stream_table_left", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").left_join(_versioned(b, "right"), pair, Joined(S, S, S)).to("out", OUT)


@dsl("versioned_stream_table_grace", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").join(_versioned(b, "right"), pair, Joined(S, S, S, grace_period=10)).to("out", OUT)


# A record without a key cannot be held back: it is an error.
@dsl(
    "versioned_stream_table_left_grace_named",
    variants={"": {"feeds": {"left": KEYED_TEXTS, "right": TEXTS}}, "null keys": {"feeds": {"left": TEXTS, "right": TEXTS}}},
)
def _(b: Any) -> None:
    waiting = Joined(S, S, S, name="waiting", grace_period=6)
    stream(b, "left").left_join(_versioned(b, "right"), keyed_pair, waiting, with_key=True).to("out", OUT)


@dsl("versioned_stream_table_grace_repartitioned", "left", "right")
def _(b: Any) -> None:
    rekeyed = stream(b, "left").select_key(lambda k, v: initial(v))
    rekeyed.join(_versioned(b, "right"), pair, Joined(S, S, S, name="waiting", grace_period=10)).to("out", OUT)


@dsl("versioned_table_join", "left", "right")
def _(b: Any) -> None:
    _versioned(b, "left").join(_versioned(b, "right"), pair).to_stream().to("out", OUT)


@dsl("versioned_table_outer_join", "left", "right")
def _(b: Any) -> None:
    joined = _versioned(b, "left").outer_join(table(b, "right"), pair, _history("joined", 70, S))
    joined.to_stream().to("out", OUT)


@dsl("versioned_foreign_key", feeds={"left": TEXTS, "right": LETTERS})
def _(b: Any) -> None:
    left = _versioned(b, "left")
    joined = left.left_join(_versioned(b, "right"), pair, foreign_key=initial, materialized=stored(S, "joined"))
    joined.to_stream().to("out", OUT)

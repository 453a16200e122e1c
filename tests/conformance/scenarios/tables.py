"""Tables: sources, their stateless operators, and regrouping."""

from __future__ import annotations

from typing import Any

from penstock import Grouped, Materialized, Stores, ValueTransformerWithKey
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    LONGS_OUT,
    OUT,
    L,
    S,
    append,
    initial,
    plus,
    stored,
    stream,
    strike,
    table,
    text,
    zero,
)
from tests.conformance.scenarios.registry import dsl


def regroup(key: str, value: str) -> tuple[str | None, str]:
    return initial(value), key + value


def minus(a: Any, v: Any) -> str:
    return f"{a}-{v}"


class Numbering(ValueTransformerWithKey):  # type: ignore[type-arg]
    """Numbers the values of a key with a store of its own."""

    def init(self, context: Any) -> None:
        self._seen = context.get_state_store("seen")

    def transform(self, key: str, value: str | None) -> str | None:
        now = (self._seen.get(key) or 0) + 1
        self._seen.put(key, now)
        return None if value is None else f"{value}#{now}"


class Tagging(ValueTransformerWithKey):  # type: ignore[type-arg]
    """Stateless transformer."""

    def transform(self, key: str, value: str | None) -> str | None:
        return None if value is None else f"{key}.{value}"


@dsl("table_source")
def _(b: Any) -> None:
    table(b, "in").to_stream().to("out", OUT)


@dsl("table_source_materialized")
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept")).to_stream().to("out", OUT)


@dsl("table_source_uncached_in_memory")
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept", caching=False, store_type="in_memory")).to_stream().to("out", OUT)


@dsl("table_source_unlogged")
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept", logging=False)).to_stream().to("out", OUT)


@dsl("table_source_plain_store")
def _(b: Any) -> None:
    b.table("in", IN, Materialized(supplier=Stores.persistent_key_value_store("plain"))).to_stream().to("out", OUT)


@dsl("table_source_same_topic_twice")
def _(b: Any) -> None:
    table(b, "in").to_stream().to("first", OUT)
    table(b, "in").filter(lambda k, v: len(v) > 1).to_stream().to("second", OUT)


@dsl("table_and_stream_of_one_topic")
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept")).to_stream().to("first", OUT)
    stream(b, "in").map_values(lambda v: text(v) + "!").to("second", OUT)


@dsl("table_filter")
def _(b: Any) -> None:
    table(b, "in").filter(lambda k, v: len(v) > 1).to_stream().to("out", OUT)


@dsl("table_filter_materialized")
def _(b: Any) -> None:
    table(b, "in").filter(lambda k, v: len(v) > 1, stored(S, "long-ones")).to_stream().to("out", OUT)


@dsl("table_filter_not")
def _(b: Any) -> None:
    table(b, "in").filter_not(lambda k, v: v.startswith("x"), name="no-x").to_stream().to("out", OUT)


@dsl("table_filter_not_of_materialized")
def _(b: Any) -> None:
    kept = b.table("in", IN, stored(S, "kept"))
    kept.filter_not(lambda k, v: v.startswith("x"), stored(S, "no-x", caching=False)).to_stream().to("out", OUT)


@dsl("table_map_values")
def _(b: Any) -> None:
    doubled = table(b, "in").map_values(lambda v: v + v)
    doubled.map_values(lambda k, v: f"{k}={v}", with_key=True).to_stream().to("out", OUT)


@dsl("table_map_values_materialized")
def _(b: Any) -> None:
    lengths = table(b, "in").map_values(len, materialized=stored(L, "lengths"))
    lengths.filter(lambda k, v: v != 2).to_stream().to("out", LONGS_OUT)


@dsl("table_map_values_unnamed_materialized")
def _(b: Any) -> None:
    table(b, "in").map_values(lambda k, v: k + v, with_key=True, materialized=stored(S)).to_stream().to("out", OUT)


@dsl("table_transform_values")
def _(b: Any) -> None:
    table(b, "in").transform_values(Tagging).to_stream().to("out", OUT)


@dsl("table_transform_values_with_store")
def _(b: Any) -> None:
    b.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), S, L))
    table(b, "in").transform_values(Numbering, "seen", materialized=stored(S, "numbered")).to_stream().to("out", OUT)


@dsl("table_to_stream_mapped")
def _(b: Any) -> None:
    table(b, "in").to_stream(lambda k, v: text(v) + k, name="rekey").to("out", OUT)


@dsl("table_chain")
def _(b: Any) -> None:
    marked = b.table("in", IN, stored(S, "kept")).filter(lambda k, v: v != "").map_values(lambda v: v + "!")
    rest = marked.filter_not(lambda k, v: v.startswith("x"), stored(S, "rest"))
    rest.map_values(lambda v: str(len(v)) + v).to_stream().to("out", OUT)


@dsl("table_group_count")
def _(b: Any) -> None:
    table(b, "in").group_by(regroup, GROUPED).count().to_stream().to("out", LONGS_OUT)


@dsl("table_group_count_named")
def _(b: Any) -> None:
    groups = table(b, "in").group_by(regroup, Grouped("by-initial", S, S))
    groups.count(Materialized("counts"), name="counting").to_stream().to("out", LONGS_OUT)


@dsl("table_group_reduce")
def _(b: Any) -> None:
    table(b, "in").group_by(regroup, GROUPED).reduce(plus, minus).to_stream().to("out", OUT)


@dsl("table_group_reduce_materialized")
def _(b: Any) -> None:
    groups = b.table("in", IN, stored(S, "kept")).group_by(regroup, GROUPED)
    groups.reduce(plus, minus, stored(S, "reduced", caching=False)).to_stream().to("out", OUT)


@dsl("table_group_aggregate")
def _(b: Any) -> None:
    table(b, "in").group_by(regroup, GROUPED).aggregate(zero, append, strike, stored(S)).to_stream().to("out", OUT)


@dsl("table_group_aggregate_same_key")
def _(b: Any) -> None:
    groups = table(b, "in").group_by(lambda k, v: (k, v + v), GROUPED)
    added = groups.aggregate(zero, append, strike, stored(S, "added", store_type="in_memory"), name="adding")
    added.to_stream().to("out", OUT)


@dsl("table_group_of_filtered")
def _(b: Any) -> None:
    groups = table(b, "in").filter(lambda k, v: len(v) > 1).group_by(regroup, GROUPED)
    groups.count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("table_group_of_mapped_longs")
def _(b: Any) -> None:
    lengths = table(b, "in").map_values(len)
    groups = lengths.group_by(lambda k, v: (k[:1], v), Grouped(key_serde=S, value_serde=L))
    groups.reduce(lambda a, v: a + v, lambda a, v: a - v, stored(L, "sums")).to_stream().to("out", LONGS_OUT)


@dsl("table_group_twice")
def _(b: Any) -> None:
    counts = table(b, "in").group_by(regroup, GROUPED).count(stored(L, "counts"))
    by_count = counts.group_by(lambda k, v: (str(v), k), GROUPED).aggregate(zero, append, strike, stored(S, "by-count"))
    by_count.to_stream().to("out", OUT)


@dsl("table_global")
def _(b: Any) -> None:
    b.global_table("in", IN, Materialized("everywhere"))

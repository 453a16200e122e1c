"""What things are called: everything named, some of it, and what clashes."""

from __future__ import annotations

from typing import Any

from penstock import (
    Branched,
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    Suppressed,
    TableJoined,
    TimeWindows,
)
from tests.conformance.scenarios.kit import (
    GROUPED,
    LONGS_OUT,
    OUT,
    L,
    S,
    append,
    initial,
    pair,
    plus,
    show,
    stored,
    stream,
    table,
    text,
    zero,
)
from tests.conformance.scenarios.registry import dsl
from tests.conformance.scenarios.stream_joins import joined, within
from tests.conformance.scenarios.tables import Tagging, minus


@dsl("names_stateless")
def _(b: Any) -> None:
    source = b.stream("in", Consumed(S, S, name="source"))
    chain = source.filter(lambda k, v: v is not None, name="filtered").filter_not(lambda k, v: v == "", name="not-empty")
    chain = chain.map(lambda k, v: (k, v), name="mapped").map_values(lambda v: v, name="values-mapped")
    chain = chain.map_values(lambda k, v: v, with_key=True, name="values-mapped-with-key")
    chain = chain.flat_map(lambda k, v: [(k, v)], name="flat-mapped").flat_map_values(lambda v: [v], name="values-flat-mapped")
    chain = chain.select_key(lambda k, v: v, name="key-selected").peek(lambda k, v: None, name="peeked")
    chain = chain.merge(source, name="merged").repartition(Repartitioned(name="spread", key_serde=S, value_serde=S))
    chain.to("out", Produced(S, S, name="sink"))
    source.foreach(lambda k, v: None, name="each")


@dsl("names_stateful", "left", "right", "third")
def _(b: Any) -> None:
    kept = b.table("right", Consumed(S, S, name="table-source"), stored(S, "table-store"))
    source = b.stream("left", Consumed(S, S, name="stream-source"))
    groups = source.group_by(lambda k, v: initial(v), Grouped("grouping", S, S))
    counted = groups.count(stored(L, "counts"), name="counting")
    counted.to_stream(name="counted-stream").to("counted", Produced(S, L, name="counted-sink"))
    looked_up = source.left_join(kept, pair, Joined(S, S, name="looking-up"))
    looked_up.to("looked-up", Produced(S, S, name="looked-up-sink"))
    third = b.stream("third", Consumed(S, S, name="third-source"))
    met = source.outer_join(third, pair, within(10, 5), joined(name="meeting", store_name="meeting-store"))
    met.to("met", Produced(S, S, name="met-sink"))


@dsl("names_tables", "left", "right")
def _(b: Any) -> None:
    left = b.table("left", Consumed(S, S, name="left-source"), stored(S, "left-store"))
    right = b.table("right", Consumed(S, S, name="right-source"), stored(S, "right-store"))
    chain = left.filter(lambda k, v: v != "", stored(S, "filtered-store"), name="filtered")
    chain = chain.map_values(lambda v: v + "!", materialized=stored(S, "mapped-store"), name="mapped")
    chain = chain.transform_values(Tagging, materialized=stored(S, "tagged-store"), name="tagged")
    chain = chain.outer_join(right, pair, stored(S, "joined-store"), name="joined")
    matched, matched_store = TableJoined(name="matched"), stored(S, "matched-store")
    chain = chain.left_join(right, pair, foreign_key=initial, table_joined=matched, materialized=matched_store)
    groups = chain.group_by(lambda k, v: (initial(v), v), Grouped("regrouped", S, S))
    reduced = groups.reduce(plus, minus, stored(S, "reduced-store"), name="reducing")
    held = reduced.suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()).with_name("held"))
    held.to_stream(name="streamed").to("out", Produced(S, S, name="sink"))


@dsl("names_windows")
def _(b: Any) -> None:
    windows = stream(b, "in").group_by_key(Grouped("grouping", S, S)).windowed_by(TimeWindows(10, grace=5))
    texts = windows.aggregate(zero, append, stored(S, "store"), name="windowing")
    closed = texts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closing"))
    closed.to_stream(lambda w, v: show(w), name="showing").to("out", Produced(S, S, name="sink"))


@dsl("names_branches")
def _(b: Any) -> None:
    split = stream(b, "in").split(name="by-").branch(lambda k, v: v is None, Branched(name="null"))
    for name, branch in sorted(split.branch(lambda k, v: v == "").default_branch().items()):
        tagged = branch.map_values(lambda v, name=name: name + text(v), name=f"{name}-tag")
        tagged.to(f"out-{name}", Produced(S, S, name=f"{name}-sink"))


@dsl("names_global", "left", "right")
def _(b: Any) -> None:
    everywhere = b.global_table("right", Consumed(S, S, name="global-source"), Materialized("global-store"))
    stream(b, "left").join(everywhere, lambda k, v: v, pair, name="globally").to("out", OUT)


@dsl("names_mixed")
def _(b: Any) -> None:
    source = stream(b, "in").filter(lambda k, v: v is not None).select_key(lambda k, v: v, name="rekeyed")
    source.group_by_key(Grouped("only-grouping", S, S)).count().to_stream().to("counted", LONGS_OUT)
    source.group_by_key(GROUPED).reduce(plus, stored(S), name="only-processor").to_stream().to("reduced", OUT)
    source.group_by_key(GROUPED).aggregate(zero, append, stored(S, "only-store")).to_stream().to("gathered", OUT)


@dsl("names_many_nodes")
def _(b: Any) -> None:
    source = stream(b, "in")
    for i in range(12):
        source = source.map_values(lambda v, i=i: f"{text(v)}{i}")
        source.filter(lambda k, v: len(text(v)) % 2 == 0).to(f"out-{i}", OUT)


@dsl("names_explicit_required", config={"ensure.explicit.internal.resource.naming": True})
def _(b: Any) -> None:
    stream(b, "in").group_by(lambda k, v: v, GROUPED).count().to_stream().to("out", LONGS_OUT)


@dsl("names_explicit_given", config={"ensure.explicit.internal.resource.naming": True})
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), Grouped("grouping", S, S))
    groups.count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("names_clashing_grouping", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").group_by(lambda k, v: v, Grouped("same", S, S)).count()
    stream(b, "right").group_by(lambda k, v: v, Grouped("same", S, S)).count()


@dsl("names_clashing_processor")
def _(b: Any) -> None:
    stream(b, "in").map_values(lambda v: v, name="same").map_values(lambda v: v, name="same").to("out", OUT)


@dsl("names_clashing_store", "left", "right")
def _(b: Any) -> None:
    table(b, "left").filter(lambda k, v: True, stored(S, "same"))
    table(b, "right").filter(lambda k, v: True, stored(S, "same"))

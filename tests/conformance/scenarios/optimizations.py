"""Topologies that `topology.optimization` rewrites; each runs with several settings."""

from __future__ import annotations

from typing import Any

from penstock import Grouped, Joined, JoinWindows, Repartitioned, TimeWindows
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
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
from tests.conformance.scenarios.stream_joins import JOINED, joined, within


def _settings(*values: str) -> dict[str, Any]:
    return {value: {"config": {"topology.optimization": value}} for value in values}


_REUSE = _settings("none", "all", "reuse.ktable.source.topics")
_MERGE = _settings("none", "all", "merge.repartition.topics")
_SELF = _settings("none", "all", "single.store.self.join")
_EACH = _settings(
    "none",
    "all",
    "reuse.ktable.source.topics",
    "merge.repartition.topics",
    "single.store.self.join",
    "merge.repartition.topics,reuse.ktable.source.topics",
)


@dsl("optimized_table", variants=_REUSE)
def _(b: Any) -> None:
    b.table("in", IN, stored(S, "kept")).filter(lambda k, v: len(v) > 1).to_stream().to("out", OUT)


@dsl("optimized_table_join", "left", "right", variants=_REUSE)
def _(b: Any) -> None:
    left, right = table(b, "left"), table(b, "right")
    left.join(right, pair).to_stream().to("out", OUT)


@dsl("optimized_stream_and_table", "left", "right", variants=_REUSE)
def _(b: Any) -> None:
    kept = b.table("right", IN, stored(S, "kept"))
    stream(b, "left").left_join(kept, pair, Joined(S, S, S)).to("out", OUT)


@dsl("optimized_two_groupings", variants=_MERGE)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").filter(lambda k, v: v is not None).select_key(lambda k, v: initial(v))
    rekeyed.group_by_key(GROUPED).count(stored(L, "counts")).to_stream().to("counted", LONGS_OUT)
    rekeyed.group_by_key(GROUPED).reduce(plus, stored(S, "reduced")).to_stream().to("reduced", OUT)


@dsl("optimized_groupings_after_values", variants=_MERGE)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").map(lambda k, v: (text(v), text(k)))
    rekeyed.map_values(lambda v: v + "!").group_by_key(GROUPED).count().to_stream().to("counted", LONGS_OUT)
    gathered = rekeyed.filter(lambda k, v: len(v) > 1).group_by_key(GROUPED).aggregate(zero, append, stored(S))
    gathered.to_stream().to("gathered", OUT)
    groups = rekeyed.filter_not(lambda k, v: v == "").peek(lambda k, v: None).group_by_key(GROUPED)
    counts = groups.windowed_by(TimeWindows(10, grace=5)).count()
    counts.to_stream(lambda w, v: show(w)).to("windowed", LONGS_OUT)


@dsl("optimized_named_groupings", variants=_MERGE)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: initial(v))
    rekeyed.group_by_key(Grouped("one", S, S)).count().to_stream().to("counted", LONGS_OUT)
    rekeyed.group_by_key(Grouped("two", S, S)).reduce(plus).to_stream().to("reduced", OUT)


@dsl("optimized_grouping_and_join", "left", "right", "third", variants=_MERGE)
def _(b: Any) -> None:
    rekeyed = stream(b, "left").select_key(lambda k, v: initial(v))
    counts = rekeyed.group_by_key(GROUPED).count(stored(L, "counts"))
    rekeyed.left_join(table(b, "right"), pair, Joined(S, S, S)).to("joined", OUT)
    rekeyed.join(stream(b, "third"), pair, within(10, 5), JOINED).to("met", OUT)
    counts.to_stream().to("counted", LONGS_OUT)


@dsl("optimized_merged_streams", "left", "right", variants=_MERGE)
def _(b: Any) -> None:
    one = stream(b, "left").select_key(lambda k, v: v)
    two = stream(b, "right").select_key(lambda k, v: v)
    merged = one.merge(two)
    merged.group_by_key(GROUPED).count(stored(L, "counts")).to_stream().to("counted", LONGS_OUT)
    merged.group_by_key(GROUPED).reduce(plus, stored(S, "reduced")).to_stream().to("reduced", OUT)


@dsl("optimized_self_join", variants=_SELF)
def _(b: Any) -> None:
    source = stream(b, "in")
    source.join(source, pair, within(6, 4), JOINED).to("out", OUT)


@dsl("optimized_self_join_asymmetric", variants=_SELF)
def _(b: Any) -> None:
    source = stream(b, "in").filter(lambda k, v: v is not None)
    source.join(source, pair, JoinWindows(before=2, after=7, grace=4), JOINED).to("out", OUT)


@dsl("optimized_self_join_of_two_sources", variants=_SELF)
def _(b: Any) -> None:
    left, right = stream(b, "in"), stream(b, "in")
    left.join(right, pair, within(6, 4), joined(name="self")).to("out", OUT)


@dsl("optimized_self_outer_join", variants=_SELF)
def _(b: Any) -> None:
    source = stream(b, "in")
    source.left_join(source, pair, within(6, 4), JOINED).to("out", OUT)


@dsl("optimized_self_join_mapped", variants=_SELF)
def _(b: Any) -> None:
    source = stream(b, "in").filter(lambda k, v: v is not None)
    one, two = source.map_values(lambda v: v + "1"), source.map_values(lambda v: v + "2")
    one.join(two, pair, within(6, 4), JOINED).to("out", OUT)


@dsl("optimized_repartition_then_group", variants=_REUSE)
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: initial(v)).repartition(Repartitioned(key_serde=S, value_serde=S))
    rekeyed.to_table(stored(S, "kept")).to_stream().to("out", OUT)


@dsl("optimized_everything", "left", "right", variants=_EACH)
def _(b: Any) -> None:
    rekeyed = stream(b, "left").filter(lambda k, v: v is not None).map(lambda k, v: (initial(v), v))
    kept = b.table("right", IN, stored(S, "kept"))
    gathered = rekeyed.map_values(lambda v: v + "?").group_by_key(GROUPED).aggregate(zero, append, stored(S, "gathered"))
    gathered.join(kept, pair).to_stream().to("gathered", OUT)
    counts = rekeyed.flat_map_values(lambda v: [v, v]).group_by_key(GROUPED).count(stored(L, "counts"))
    counts.to_stream().to("counted", LONGS_OUT)
    rekeyed.join(rekeyed, pair, within(5, 5), JOINED).to("self", OUT)

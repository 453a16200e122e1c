"""Several operators in one topology."""

from __future__ import annotations

from typing import Any

from penstock import (
    Branched,
    BufferConfig,
    EmitStrategy,
    Grouped,
    Joined,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
)
from tests.conformance.inputs import LETTERS, TEXTS
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    LONGS_OUT,
    OUT,
    L,
    S,
    add_length,
    append,
    by_key,
    fuse,
    initial,
    keyed_pair,
    pair,
    plus,
    show,
    stored,
    stream,
    strike,
    table,
    text,
    zero,
)
from tests.conformance.scenarios.processors import Enumerate
from tests.conformance.scenarios.registry import dsl
from tests.conformance.scenarios.stream_joins import JOINED, within
from tests.conformance.scenarios.tables import minus

_TABLE = Joined(S, S, S)
_CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


def _shown(windowed: Any) -> Any:
    return windowed.to_stream().map(lambda w, v: (w.key, f"{show(w)}={text(v)}"))


@dsl("combined_join_after_window", "left", "right")
def _(b: Any) -> None:
    counts = _shown(by_key(b, "left").windowed_by(TimeWindows(10, grace=5)).count())
    counts.join(stream(b, "right"), pair, within(10, 5), JOINED).to("out", OUT)


@dsl("combined_table_join_after_window", "left", "right")
def _(b: Any) -> None:
    counts = _shown(by_key(b, "left").windowed_by(SlidingWindows(10, grace=5)).count())
    counts.left_join(table(b, "right"), pair, _TABLE).to("out", OUT)


@dsl("combined_aggregate_after_stream_join", "left", "right")
def _(b: Any) -> None:
    met = stream(b, "left").outer_join(stream(b, "right"), pair, within(6, 2), JOINED)
    met.group_by_key(GROUPED).aggregate(zero, append, stored(S, "gathered")).to_stream().to("out", OUT)


@dsl("combined_aggregate_after_table_join", "left", "right")
def _(b: Any) -> None:
    joined = stream(b, "left").left_join(table(b, "right"), pair, _TABLE)
    joined.group_by(lambda k, v: v, GROUPED).count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("combined_window_after_stream_join", "left", "right")
def _(b: Any) -> None:
    met = stream(b, "left").join(stream(b, "right"), pair, within(10, 5), JOINED)
    windows = met.group_by_key(GROUPED).windowed_by(TimeWindows(10, grace=10))
    _shown(windows.reduce(plus, stored(S, "reduced")).suppress(_CLOSED)).to("out", OUT)


@dsl("combined_two_stateful_steps")
def _(b: Any) -> None:
    counts = by_key(b, "in").count(stored(L, "counts")).to_stream()
    groups = counts.group_by(lambda k, v: "even" if v % 2 == 0 else "odd", Grouped(key_serde=S, value_serde=L))
    groups.reduce(lambda a, v: a + v, stored(L, "sums")).to_stream().to("out", LONGS_OUT)


@dsl("combined_window_of_window")
def _(b: Any) -> None:
    inner = _shown(by_key(b, "in").windowed_by(TimeWindows(5, grace=5)).count())
    outer = inner.group_by_key(GROUPED).windowed_by(TimeWindows(20, grace=0)).aggregate(zero, append, stored(S))
    _shown(outer).to("out", OUT)


@dsl("combined_session_then_count")
def _(b: Any) -> None:
    sessions = _shown(by_key(b, "in").windowed_by(SessionWindows(5, grace=5)).reduce(plus))
    sessions.group_by(lambda k, v: k, GROUPED).count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("combined_table_of_windowed_stream", "left", "right")
def _(b: Any) -> None:
    counts = _shown(by_key(b, "left").windowed_by(TimeWindows(10, grace=5, advance=5)).count())
    counts.to_table(stored(S, "last-window")).join(table(b, "right"), pair).to_stream().to("out", OUT)


@dsl("combined_windowed_table_operators")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "counts"))
    many = counts.filter(lambda w, v: v > 1).map_values(lambda v: v * 10)
    many.to_stream(lambda w, v: show(w)).to("out", LONGS_OUT)


@dsl("combined_windowed_table_join", "left", "right")
def _(b: Any) -> None:
    left = by_key(b, "left").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "left-counts"))
    right = by_key(b, "right").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "right-counts"))
    left.outer_join(right, pair).to_stream(lambda w, v: show(w)).to("out", OUT)


@dsl("combined_branches_into_joins", "left", "right", "third")
def _(b: Any) -> None:
    kept = table(b, "right")
    split = stream(b, "left").split(name="way-").branch(lambda k, v: v is not None and len(v) > 1, Branched(name="table"))
    branches = split.branch(lambda k, v: v is not None, Branched(name="stream")).default_branch()
    branches["way-table"].left_join(kept, pair, _TABLE).to("looked-up", OUT)
    branches["way-stream"].left_join(stream(b, "third"), pair, within(6, 3), JOINED).to("met", OUT)
    branches["way-0"].group_by_key(GROUPED).count().to_stream().to("nulls", LONGS_OUT)


@dsl("combined_merge_of_joins", "left", "right", "third")
def _(b: Any) -> None:
    kept = b.table("third", IN, stored(S, "kept"))
    inner = stream(b, "left").join(kept, pair, _TABLE)
    merged = inner.merge(stream(b, "right").left_join(kept, keyed_pair, _TABLE, with_key=True))
    merged.group_by_key(GROUPED).reduce(plus, stored(S, "merged")).to_stream().to("out", OUT)


@dsl("combined_table_joins_and_group", "left", "right", "third")
def _(b: Any) -> None:
    both = table(b, "left").join(table(b, "right"), pair)
    joined = both.left_join(table(b, "third").filter(lambda k, v: v != ""), pair, stored(S, "joined"))
    groups = joined.group_by(lambda k, v: (initial(v), v), GROUPED)
    groups.reduce(plus, minus, stored(S, "grouped")).to_stream().to("out", OUT)


@dsl("combined_foreign_key_of_aggregate", feeds={"left": TEXTS, "right": LETTERS})
def _(b: Any) -> None:
    gathered = by_key(b, "left").reduce(lambda a, v: v + a, stored(S, "gathered"))
    joined = gathered.left_join(table(b, "right"), pair, foreign_key=initial, materialized=stored(S, "joined"))
    groups = joined.group_by(lambda k, v: (initial(v), k), GROUPED)
    groups.count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("combined_global_then_window", feeds={"left": TEXTS, "right": LETTERS})
def _(b: Any) -> None:
    joined = stream(b, "left").join(b.global_table("right", IN), lambda k, v: initial(v), pair)
    windows = joined.group_by_key(GROUPED).windowed_by(TimeWindows(10, grace=5)).emit_strategy(EmitStrategy.on_window_close())
    _shown(windows.count(stored(L, "counts"))).to("out", OUT)


@dsl("combined_two_global_tables", "left", "right", "third")
def _(b: Any) -> None:
    first, second = b.global_table("right", IN), b.global_table("third", IN)
    joined = stream(b, "left").left_join(first, lambda k, v: k, pair).left_join(second, lambda k, v: k, pair)
    joined.to("out", OUT)


@dsl("combined_process_then_window")
def _(b: Any) -> None:
    b.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("numbers"), S, L))
    groups = stream(b, "in").process_values(Enumerate, "numbers").group_by_key(GROUPED)
    sessions = groups.windowed_by(SessionWindows(6, grace=3))
    _shown(sessions.aggregate(zero, append, merger=fuse, materialized=stored(S, "sessions"))).to("out", OUT)


@dsl("combined_close_then_close")
def _(b: Any) -> None:
    on_close = EmitStrategy.on_window_close()
    inner = _shown(by_key(b, "in").windowed_by(TimeWindows(5, grace=0)).emit_strategy(on_close).count())
    outer = inner.group_by_key(GROUPED).windowed_by(TimeWindows(20, grace=0)).emit_strategy(on_close).reduce(plus)
    _shown(outer).to("out", OUT)


@dsl("combined_suppressed_into_join", "left", "right")
def _(b: Any) -> None:
    closed = _shown(by_key(b, "left").windowed_by(TimeWindows(10, grace=0)).count().suppress(_CLOSED))
    closed.outer_join(stream(b, "right"), pair, within(20, 5), JOINED).to("out", OUT)


@dsl("combined_two_joins_of_one_stream", "left", "right")
def _(b: Any) -> None:
    left, right = stream(b, "left"), stream(b, "right")
    left.join(right, pair, within(5, 5), JOINED).to("inner", OUT)
    left.left_join(right, pair, within(10, 1), JOINED).to("left-out", OUT)


@dsl("combined_cogroup_then_join", "left", "right", "third")
def _(b: Any) -> None:
    together = by_key(b, "left").cogroup(append).cogroup(by_key(b, "right"), strike).aggregate(zero, stored(S, "together"))
    together.left_join(table(b, "third"), pair).to_stream().to("out", OUT)


@dsl("combined_orders", feeds={"left": TEXTS, "right": LETTERS})
def _(b: Any) -> None:
    customers = b.table("right", IN, stored(S, "customers"))
    orders = stream(b, "left").filter(lambda k, v: v is not None)
    enriched = orders.select_key(lambda k, v: initial(v)).join(customers, pair, Joined(S, S, S, name="enrich"))
    windows = enriched.group_by_key(Grouped("per-customer", S, S)).windowed_by(TimeWindows(20, grace=5))
    limit = Suppressed.until_time_limit(5, BufferConfig.max_records(10).emit_early_when_full())
    spent = windows.aggregate(lambda: 0, add_length, stored(L, "spent")).suppress(limit)
    spent.to_stream(lambda w, v: show(w)).to("spent", LONGS_OUT)
    groups = enriched.group_by(lambda k, v: v, Grouped("per-value", S, S))
    groups.count(stored(L, "seen")).to_stream().to("seen", LONGS_OUT)

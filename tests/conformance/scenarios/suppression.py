"""Suppressed updates."""

from __future__ import annotations

from typing import Any

from penstock import BufferConfig, Grouped, SessionWindows, SlidingWindows, Suppressed, TimeWindows
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
    plus,
    session_out,
    show,
    stored,
    strike,
    table,
    windowed_out,
    zero,
)
from tests.conformance.scenarios.registry import dsl

_CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


def _counts(b: Any, grace: int = 5) -> Any:
    return by_key(b, "in").windowed_by(TimeWindows(10, grace=grace)).count()


@dsl("suppress_window_closes")
def _(b: Any) -> None:
    _counts(b).suppress(_CLOSED).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_hopping_closes")
def _(b: Any) -> None:
    texts = by_key(b, "in").windowed_by(TimeWindows(10, grace=3, advance=5)).reduce(plus)
    texts.suppress(_CLOSED).to_stream().to("out", windowed_out(10, S))


@dsl("suppress_sliding_closes")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(SlidingWindows(10, grace=3)).count()
    counts.suppress(_CLOSED).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_session_closes")
def _(b: Any) -> None:
    by_key(b, "in").windowed_by(SessionWindows(5, grace=3)).count().suppress(_CLOSED).to_stream().to("out", session_out(L))


@dsl("suppress_named")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=0)).count(stored(L, "counts"))
    counts.suppress(_CLOSED.with_name("final")).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_window_shut_down_when_full")
def _(b: Any) -> None:
    bounded = Suppressed.until_window_closes(BufferConfig.max_records(3).shut_down_when_full())
    _counts(b).suppress(bounded).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_window_shut_down_when_bytes_full")
def _(b: Any) -> None:
    bounded = Suppressed.until_window_closes(BufferConfig.max_bytes(300).shut_down_when_full())
    _counts(b).suppress(bounded).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_window_unlogged")
def _(b: Any) -> None:
    unlogged = Suppressed.until_window_closes(BufferConfig.unbounded().with_logging_disabled())
    _counts(b).suppress(unlogged).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_window_topic_config")
def _(b: Any) -> None:
    logged = BufferConfig.unbounded().with_logging_enabled({"segment.bytes": "1000000"})
    _counts(b).suppress(Suppressed.until_window_closes(logged)).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_time_limit")
def _(b: Any) -> None:
    table(b, "in").suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded())).to_stream().to("out", OUT)


@dsl("suppress_time_limit_zero")
def _(b: Any) -> None:
    kept = b.table("in", IN, stored(S, "kept"))
    kept.suppress(Suppressed.until_time_limit(0, BufferConfig.unbounded())).to_stream().to("out", OUT)


@dsl("suppress_time_limit_max_records")
def _(b: Any) -> None:
    limit = Suppressed.until_time_limit(20, BufferConfig.max_records(2).emit_early_when_full())
    by_key(b, "in").count(stored(L, "counts")).suppress(limit).to_stream().to("out", LONGS_OUT)


@dsl("suppress_time_limit_max_records_default")
def _(b: Any) -> None:
    table(b, "in").suppress(Suppressed.until_time_limit(20, BufferConfig.max_records(1))).to_stream().to("out", OUT)


@dsl("suppress_time_limit_max_bytes")
def _(b: Any) -> None:
    limit = Suppressed.until_time_limit(50, BufferConfig.max_bytes(180).emit_early_when_full())
    table(b, "in").suppress(limit).to_stream().to("out", OUT)


@dsl("suppress_time_limit_both_bounds")
def _(b: Any) -> None:
    limit = Suppressed.until_time_limit(50, BufferConfig.max_records(3).with_max_bytes(250).emit_early_when_full())
    table(b, "in").suppress(limit).to_stream().to("out", OUT)


@dsl("suppress_time_limit_shut_down_when_full")
def _(b: Any) -> None:
    limit = Suppressed.until_time_limit(30, BufferConfig.max_records(2).shut_down_when_full())
    table(b, "in").suppress(limit).to_stream().to("out", OUT)


@dsl("suppress_of_windows_by_time")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "counts"))
    limit = Suppressed.until_time_limit(7, BufferConfig.unbounded())
    counts.suppress(limit).to_stream().to("out", windowed_out(10, L))


@dsl("suppress_then_filter_and_group")
def _(b: Any) -> None:
    held = table(b, "in").suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
    groups = held.filter(lambda k, v: len(v) > 1).group_by(lambda k, v: (initial(v), v), GROUPED)
    groups.aggregate(zero, append, strike, stored(S, "grouped")).to_stream().to("out", OUT)


@dsl("suppress_then_rekey")
def _(b: Any) -> None:
    final = _counts(b, grace=0).suppress(_CLOSED).to_stream(lambda w, v: show(w))
    sums = final.group_by_key(Grouped(key_serde=S, value_serde=L)).reduce(lambda a, v: a + v)
    sums.to_stream().to("out", LONGS_OUT)

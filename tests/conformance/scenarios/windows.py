"""Windowed aggregations: kinds of windows x aggregations x when they emit."""

from __future__ import annotations

from typing import Any

from penstock import EmitStrategy, Materialized, SessionWindows, SlidingWindows, Stores, TimeWindows, UnlimitedWindows
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    L,
    S,
    append,
    by_key,
    fuse,
    initial,
    plus,
    session_out,
    stored,
    stream,
    windowed_out,
    zero,
)
from tests.conformance.scenarios.registry import dsl

FOREVER = 2**63 - 1
_EMIT = {"update": EmitStrategy.on_window_update(), "close": EmitStrategy.on_window_close()}
_TIME_WINDOWS = {
    "tumbling": (10, TimeWindows(10, grace=5)),
    "tumbling_no_grace": (10, TimeWindows(10, grace=0)),
    "hopping": (12, TimeWindows(12, grace=4, advance=5)),
    "sliding": (10, SlidingWindows(10, grace=6)),
    "sliding_no_grace": (8, SlidingWindows(8, grace=0)),
}
_SESSIONS = {"session": SessionWindows(8, grace=5), "session_no_grace": SessionWindows(6, grace=0)}


def _register_time_windows(name: str, size: int, windows: Any, when: str) -> None:
    def grouped(b: Any) -> Any:
        return by_key(b, "in").windowed_by(windows).emit_strategy(_EMIT[when])

    @dsl(f"window_{name}_count_{when}")
    def _(b: Any) -> None:
        grouped(b).count().to_stream().to("out", windowed_out(size, L))

    @dsl(f"window_{name}_reduce_{when}")
    def _(b: Any) -> None:
        grouped(b).reduce(plus, stored(S, "store")).to_stream().to("out", windowed_out(size, S))

    @dsl(f"window_{name}_aggregate_{when}")
    def _(b: Any) -> None:
        grouped(b).aggregate(zero, append, stored(S)).to_stream().to("out", windowed_out(size, S))


def _register_sessions(name: str, windows: Any, when: str) -> None:
    def grouped(b: Any) -> Any:
        return by_key(b, "in").windowed_by(windows).emit_strategy(_EMIT[when])

    @dsl(f"window_{name}_count_{when}")
    def _(b: Any) -> None:
        grouped(b).count().to_stream().to("out", session_out(L))

    @dsl(f"window_{name}_reduce_{when}")
    def _(b: Any) -> None:
        grouped(b).reduce(plus, stored(S, "store")).to_stream().to("out", session_out(S))

    @dsl(f"window_{name}_aggregate_{when}")
    def _(b: Any) -> None:
        grouped(b).aggregate(zero, append, merger=fuse, materialized=stored(S)).to_stream().to("out", session_out(S))


for _when in _EMIT:
    for _name, (_size, _windows) in _TIME_WINDOWS.items():
        _register_time_windows(_name, _size, _windows, _when)
    for _name, _session in _SESSIONS.items():
        _register_sessions(_name, _session, _when)


@dsl("window_unlimited_count")
def _(b: Any) -> None:
    by_key(b, "in").windowed_by(UnlimitedWindows(start=20)).count().to_stream().to("out", windowed_out(FOREVER, L))


@dsl("window_unlimited_aggregate")
def _(b: Any) -> None:
    texts = by_key(b, "in").windowed_by(UnlimitedWindows()).aggregate(zero, append, stored(S, "store"))
    texts.to_stream().to("out", windowed_out(FOREVER, S))


@dsl("window_count_named")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=3)).count(stored(L, "counts"), name="counting")
    counts.to_stream().to("out", windowed_out(10, L))


@dsl("window_count_uncached")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=0, advance=5)).count(stored(L, "counts", caching=False))
    counts.to_stream().to("out", windowed_out(10, L))


@dsl("window_count_in_memory")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "counts", store_type="in_memory"))
    counts.to_stream().to("out", windowed_out(10, L))


@dsl("window_count_unlogged")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "counts", logging=False))
    counts.to_stream().to("out", windowed_out(10, L))


@dsl("window_count_retention")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).count(stored(L, "counts", retention=200_000))
    counts.to_stream().to("out", windowed_out(10, L))


@dsl("window_count_grouped_by")
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), GROUPED)
    groups.windowed_by(TimeWindows(10, grace=5)).count().to_stream().to("out", windowed_out(10, L))


@dsl("window_topic_list", "left", "right")
def _(b: Any) -> None:
    groups = b.stream(["left", "right"], IN).group_by_key(GROUPED)
    groups.windowed_by(TimeWindows(10, grace=5)).count().to_stream().to("counted", windowed_out(10, L))
    texts = groups.windowed_by(TimeWindows(12, grace=4, advance=5)).aggregate(zero, append, stored(S, "texts"))
    texts.to_stream().to("gathered", windowed_out(12, S))


@dsl("window_plain_store")
def _(b: Any) -> None:
    plain = Materialized(supplier=Stores.persistent_window_store("plain", 100, 10), key_serde=S, value_serde=S)
    texts = by_key(b, "in").windowed_by(TimeWindows(10, grace=5)).aggregate(zero, append, plain)
    texts.to_stream().to("out", windowed_out(10, S))


@dsl("window_supplied_store")
def _(b: Any) -> None:
    supplier = Stores.persistent_timestamped_window_store("stamped", 100, 10)
    stamped = Materialized(supplier=supplier, key_serde=S, value_serde=S, caching=False)
    texts = by_key(b, "in").windowed_by(SlidingWindows(10, grace=5)).aggregate(zero, append, stamped)
    texts.to_stream().to("out", windowed_out(10, S))


@dsl("window_supplied_in_memory_store")
def _(b: Any) -> None:
    memory = Materialized(supplier=Stores.in_memory_window_store("memory", 60, 10), key_serde=S, value_serde=S)
    texts = by_key(b, "in").windowed_by(TimeWindows(10, grace=3, advance=4)).reduce(plus, memory)
    texts.to_stream().to("out", windowed_out(10, S))


@dsl("window_sliding_uncached")
def _(b: Any) -> None:
    texts = by_key(b, "in").windowed_by(SlidingWindows(10, grace=20)).aggregate(zero, append, stored(S, "store", caching=False))
    texts.to_stream().to("out", windowed_out(10, S))


@dsl("window_sliding_in_memory")
def _(b: Any) -> None:
    texts = by_key(b, "in").windowed_by(SlidingWindows(10, grace=5)).reduce(plus, stored(S, "store", store_type="in_memory"))
    texts.to_stream().to("out", windowed_out(10, S))


@dsl("window_session_named")
def _(b: Any) -> None:
    sessions = by_key(b, "in").windowed_by(SessionWindows(5, grace=20))
    kept = stored(S, "sessions", caching=False)
    sessions.aggregate(zero, append, merger=fuse, materialized=kept, name="sessioning").to_stream().to("out", session_out(S))


@dsl("window_session_in_memory")
def _(b: Any) -> None:
    counts = by_key(b, "in").windowed_by(SessionWindows(5, grace=3)).count(stored(L, "sessions", store_type="in_memory"))
    counts.to_stream().to("out", session_out(L))


@dsl("window_session_grouped_by")
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), GROUPED)
    groups.windowed_by(SessionWindows(5, grace=10)).reduce(plus).to_stream().to("out", session_out(S))


@dsl("window_session_supplied_store")
def _(b: Any) -> None:
    memory = Materialized(supplier=Stores.in_memory_session_store("memory", 100), key_serde=S, value_serde=S)
    by_key(b, "in").windowed_by(SessionWindows(5, grace=10)).reduce(plus, memory).to_stream().to("out", session_out(S))


@dsl("window_close_uncached_in_memory")
def _(b: Any) -> None:
    windows = by_key(b, "in").windowed_by(TimeWindows(10, grace=2)).emit_strategy(EmitStrategy.on_window_close())
    counts = windows.count(stored(L, "counts", caching=False, store_type="in_memory"))
    counts.to_stream().to("out", windowed_out(10, L))

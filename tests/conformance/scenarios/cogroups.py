"""Several grouped streams into one aggregate."""

from __future__ import annotations

from typing import Any

from penstock import Grouped, SessionWindows, SlidingWindows, TimeWindows
from tests.conformance.scenarios.kit import (
    GROUPED,
    OUT,
    S,
    append,
    by_key,
    fuse,
    initial,
    session_out,
    stored,
    stream,
    text,
    windowed_out,
    zero,
)
from tests.conformance.scenarios.registry import dsl


def _append_other(key: Any, value: Any, aggregate: Any) -> str:
    return f"{text(aggregate)}~{text(value)}"


def _two(b: Any) -> Any:
    return by_key(b, "left").cogroup(append).cogroup(by_key(b, "right"), _append_other)


@dsl("cogroup_one")
def _(b: Any) -> None:
    by_key(b, "in").cogroup(append).aggregate(zero, stored(S)).to_stream().to("out", OUT)


@dsl("cogroup_one_tumbling")
def _(b: Any) -> None:
    together = by_key(b, "in").cogroup(append).windowed_by(TimeWindows(10, grace=5)).aggregate(zero, stored(S))
    together.to_stream().to("out", windowed_out(10, S))


@dsl("cogroup_one_sliding")
def _(b: Any) -> None:
    together = by_key(b, "in").cogroup(append).windowed_by(SlidingWindows(8, grace=4)).aggregate(zero, stored(S))
    together.to_stream().to("out", windowed_out(8, S))


@dsl("cogroup_one_session")
def _(b: Any) -> None:
    sessions = by_key(b, "in").cogroup(append).windowed_by(SessionWindows(6, grace=4))
    sessions.aggregate(zero, merger=fuse, materialized=stored(S)).to_stream().to("out", session_out(S))


@dsl("cogroup_one_session_no_grace")
def _(b: Any) -> None:
    sessions = by_key(b, "in").cogroup(append).windowed_by(SessionWindows(6, grace=0))
    sessions.aggregate(zero, merger=fuse, materialized=stored(S, "together")).to_stream().to("out", session_out(S))


@dsl("cogroup_two", "left", "right")
def _(b: Any) -> None:
    _two(b).aggregate(zero, stored(S, "together")).to_stream().to("out", OUT)


@dsl("cogroup_two_unnamed", "left", "right")
def _(b: Any) -> None:
    _two(b).aggregate(zero, stored(S)).to_stream().to("out", OUT)


@dsl("cogroup_named", "left", "right")
def _(b: Any) -> None:
    _two(b).aggregate(zero, stored(S, "together", caching=False), name="gathering").to_stream().to("out", OUT)


@dsl("cogroup_repartitioned", "left", "right", "third")
def _(b: Any) -> None:
    first = stream(b, "left").group_by(lambda k, v: initial(v), GROUPED).cogroup(append)
    first = first.cogroup(by_key(b, "right"), _append_other)
    third = stream(b, "third").group_by(lambda k, v: initial(v), Grouped("third-by-initial", S, S))
    first.cogroup(third, append).aggregate(zero, stored(S, "together")).to_stream().to("out", OUT)


@dsl("cogroup_tumbling", "left", "right")
def _(b: Any) -> None:
    together = _two(b).windowed_by(TimeWindows(10, grace=5)).aggregate(zero, stored(S, "together"))
    together.to_stream().to("out", windowed_out(10, S))


@dsl("cogroup_hopping_named", "left", "right")
def _(b: Any) -> None:
    together = _two(b).windowed_by(TimeWindows(10, grace=2, advance=4)).aggregate(zero, stored(S), name="gathering")
    together.to_stream().to("out", windowed_out(10, S))


@dsl("cogroup_sliding", "left", "right")
def _(b: Any) -> None:
    together = _two(b).windowed_by(SlidingWindows(8, grace=4)).aggregate(zero, stored(S))
    together.to_stream().to("out", windowed_out(8, S))


@dsl("cogroup_session", "left", "right")
def _(b: Any) -> None:
    together = _two(b).windowed_by(SessionWindows(6, grace=4)).aggregate(zero, merger=fuse, materialized=stored(S))
    together.to_stream().to("out", session_out(S))


@dsl("cogroup_session_named", "left", "right")
def _(b: Any) -> None:
    sessions = _two(b).windowed_by(SessionWindows(6, grace=0))
    together = sessions.aggregate(zero, merger=fuse, materialized=stored(S, "together"), name="gathering")
    together.to_stream().to("out", session_out(S))

"""Joins of two streams."""

from __future__ import annotations

from typing import Any

from penstock import JoinWindows, Stores, StreamJoined
from tests.conformance.scenarios.kit import OUT, S, initial, keyed_pair, pair, stream
from tests.conformance.scenarios.registry import dsl

JOINED = StreamJoined(S, S, S)


def within(difference: int, grace: int) -> JoinWindows:
    return JoinWindows(difference, grace=grace)


def joined(**options: Any) -> StreamJoined[Any, Any, Any]:
    return StreamJoined(S, S, S, **options)


def _both(b: Any) -> tuple[Any, Any]:
    return stream(b, "left"), stream(b, "right")


@dsl("stream_join_inner", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.join(right, pair, within(10, 5), JOINED).to("out", OUT)


@dsl("stream_join_left", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.left_join(right, pair, within(10, 5), JOINED).to("out", OUT)


@dsl("stream_join_outer", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(10, 5), JOINED).to("out", OUT)


@dsl("stream_join_inner_no_grace", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.join(right, pair, within(8, 0), JOINED).to("out", OUT)


@dsl("stream_join_outer_no_grace", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(5, 0), JOINED).to("out", OUT)


@dsl("stream_join_inner_with_key", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.join(right, keyed_pair, within(4, 20), JOINED, with_key=True).to("out", OUT)


@dsl("stream_join_left_with_key", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.left_join(right, keyed_pair, within(4, 2), JOINED, with_key=True).to("out", OUT)


@dsl("stream_join_inner_asymmetric", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.join(right, pair, JoinWindows(before=3, after=12, grace=5), JOINED).to("out", OUT)


@dsl("stream_join_left_asymmetric", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.left_join(right, pair, JoinWindows(before=0, after=10, grace=3), JOINED).to("out", OUT)


@dsl("stream_join_outer_asymmetric", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, JoinWindows(before=10, after=2, grace=3), JOINED).to("out", OUT)


@dsl("stream_join_zero_window", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(0, 0), JOINED).to("out", OUT)


@dsl("stream_join_negative_before", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.left_join(right, pair, JoinWindows(before=-3, after=10, grace=4), JOINED).to("out", OUT)


@dsl("stream_join_self")
def _(b: Any) -> None:
    source = stream(b, "in")
    source.join(source, pair, within(6, 4), JOINED).to("out", OUT)


@dsl("stream_join_repartitioned", "left", "right")
def _(b: Any) -> None:
    left, right = (stream(b, name).select_key(lambda k, v: initial(v)) for name in ("left", "right"))
    left.join(right, pair, within(10, 5), JOINED).to("out", OUT)


@dsl("stream_join_left_repartitioned_named", "left", "right")
def _(b: Any) -> None:
    left, right = stream(b, "left").select_key(lambda k, v: initial(v)), stream(b, "right")
    left.left_join(right, pair, within(10, 5), joined(name="meeting", store_name="meeting-store")).to("out", OUT)


@dsl("stream_join_outer_named", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(10, 5), joined(name="meeting")).to("out", OUT)


@dsl("stream_join_inner_store_named", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.join(right, pair, within(10, 5), joined(store_name="buffers")).to("out", OUT)


@dsl("stream_join_unlogged", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.left_join(right, pair, within(10, 5), joined(logging=False)).to("out", OUT)


@dsl("stream_join_topic_config", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(10, 5), joined(topic_config={"segment.bytes": "1000000"})).to("out", OUT)


@dsl("stream_join_in_memory", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    left.outer_join(right, pair, within(10, 5), joined(store_type="in_memory")).to("out", OUT)


@dsl("stream_join_supplied_stores", "left", "right")
def _(b: Any) -> None:
    left, right = _both(b)
    supplied = joined(
        this_store_supplier=Stores.in_memory_window_store("this-store", 25, 20, retain_duplicates=True),
        other_store_supplier=Stores.persistent_window_store("other-store", 25, 20, retain_duplicates=True),
    )
    left.join(right, pair, within(10, 5), supplied).to("out", OUT)


@dsl("stream_join_three", "left", "right", "third")
def _(b: Any) -> None:
    left, right = _both(b)
    both = left.join(right, pair, within(10, 5), JOINED)
    both.outer_join(stream(b, "third"), pair, within(6, 2), JOINED).to("out", OUT)


@dsl("stream_join_same_stream_mapped")
def _(b: Any) -> None:
    source = stream(b, "in")
    mapped = source.map_values(lambda v: None if v is None else v + "'")
    source.outer_join(mapped, pair, within(3, 1), JOINED).to("out", OUT)

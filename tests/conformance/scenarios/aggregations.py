"""Unwindowed aggregations of streams."""

from __future__ import annotations

from typing import Any

from penstock import Grouped, Materialized, Stores
from tests.conformance.scenarios.kit import (
    GROUPED,
    IN,
    JSON_GROUPED,
    JSON_OUT,
    LONGS_OUT,
    OUT,
    J,
    L,
    S,
    add_length,
    append,
    boxed,
    by_key,
    initial,
    note,
    noted,
    plus,
    stored,
    stream,
    zero,
)
from tests.conformance.scenarios.registry import dsl


def _sum_or_forget(key: Any, value: str, total: int | None) -> int | None:
    """Aggregator that forgets its key on the value "x"."""
    return None if value == "x" else (total or 0) + len(value)


@dsl("aggregate_count")
def _(b: Any) -> None:
    by_key(b, "in").count().to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_named")
def _(b: Any) -> None:
    by_key(b, "in").count(Materialized("counts"), name="counter").to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_unnamed_materialized")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L)).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_in_memory")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L, "counts", store_type="in_memory")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_rocksdb")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L, "counts", store_type="rocksdb")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_uncached")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L, "counts", caching=False)).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_unlogged")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L, "counts", logging=False)).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_topic_config")
def _(b: Any) -> None:
    by_key(b, "in").count(stored(L, "counts", topic_config={"segment.bytes": "1000000"})).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_grouped_by")
def _(b: Any) -> None:
    stream(b, "in").group_by(lambda k, v: initial(v), GROUPED).count().to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_grouped_by_named")
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), Grouped("by-initial", S, S))
    groups.count(Materialized("counts")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_count_after_select_key")
def _(b: Any) -> None:
    groups = stream(b, "in").select_key(lambda k, v: initial(v)).group_by_key(GROUPED)
    groups.count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_reduce")
def _(b: Any) -> None:
    by_key(b, "in").reduce(plus).to_stream().to("out", OUT)


@dsl("aggregate_reduce_named")
def _(b: Any) -> None:
    by_key(b, "in").reduce(plus, stored(S, "reduced", caching=False), name="reducer").to_stream().to("out", OUT)


@dsl("aggregate_reduce_grouped_by")
def _(b: Any) -> None:
    stream(b, "in").group_by(lambda k, v: initial(v), GROUPED).reduce(plus, stored(S, "reduced")).to_stream().to("out", OUT)


@dsl("aggregate_reduce_to_null")
def _(b: Any) -> None:
    by_key(b, "in").reduce(lambda a, v: None if v == "x" else a + v, stored(S, "reduced")).to_stream().to("out", OUT)


@dsl("aggregate_aggregate")
def _(b: Any) -> None:
    by_key(b, "in").aggregate(zero, append, stored(S)).to_stream().to("out", OUT)


@dsl("aggregate_aggregate_named")
def _(b: Any) -> None:
    by_key(b, "in").aggregate(lambda: 0, add_length, stored(L, "lengths"), name="adder").to_stream().to("out", LONGS_OUT)


@dsl("aggregate_aggregate_to_null")
def _(b: Any) -> None:
    by_key(b, "in").aggregate(lambda: 0, _sum_or_forget, stored(L, "sums")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_aggregate_uncached_in_memory")
def _(b: Any) -> None:
    texts = stored(S, "texts", caching=False, store_type="in_memory")
    by_key(b, "in").aggregate(lambda: "", append, texts).to_stream().to("out", OUT)


@dsl("aggregate_twice")
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), GROUPED)
    groups.count(stored(L, "counts")).to_stream().to("counted", LONGS_OUT)
    groups.reduce(plus, stored(S, "reduced")).to_stream().to("reduced", OUT)


@dsl("aggregate_twice_named_grouping")
def _(b: Any) -> None:
    groups = stream(b, "in").group_by(lambda k, v: initial(v), Grouped("letters", S, S))
    groups.count().to_stream().to("counted", LONGS_OUT)
    groups.aggregate(lambda: "-", append, stored(S)).to_stream().to("gathered", OUT)


@dsl("aggregate_of_aggregate")
def _(b: Any) -> None:
    by_count = by_key(b, "in").count(stored(L, "counts")).to_stream().map(lambda k, v: (str(v), k))
    by_count.group_by_key(GROUPED).reduce(plus, stored(S, "by-count")).to_stream().to("out", OUT)


@dsl("aggregate_lru")
def _(b: Any) -> None:
    recent = Materialized(supplier=Stores.lru_map("recent", 2), key_serde=S, value_serde=L)
    by_key(b, "in").count(recent).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_plain_store")
def _(b: Any) -> None:
    plain = Materialized(supplier=Stores.persistent_key_value_store("plain"), key_serde=S, value_serde=S)
    by_key(b, "in").aggregate(zero, append, plain).to_stream().to("out", OUT)


@dsl("aggregate_plain_store_uncached")
def _(b: Any) -> None:
    plain = Materialized(supplier=Stores.in_memory_key_value_store("plain"), key_serde=S, value_serde=S, caching=False)
    by_key(b, "in").aggregate(zero, append, plain).to_stream().to("out", OUT)


@dsl("aggregate_word_count")
def _(b: Any) -> None:
    words = stream(b, "in").filter(lambda k, v: v is not None).flat_map_values(lambda v: v.lower().split(" "))
    words.group_by(lambda k, v: v, GROUPED).count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_json")
def _(b: Any) -> None:
    boxes = stream(b, "in").map_values(boxed).group_by_key(JSON_GROUPED)
    boxes.aggregate(noted, note, stored(J, "noted")).to_stream().to("out", JSON_OUT)


@dsl("aggregate_json_uncached")
def _(b: Any) -> None:
    boxes = stream(b, "in").map_values(boxed).group_by_key(JSON_GROUPED)
    boxes.aggregate(noted, note, stored(J, "noted", caching=False)).to_stream().to("out", JSON_OUT)


@dsl("aggregate_json_grouped_by")
def _(b: Any) -> None:
    boxes = stream(b, "in").map_values(boxed).group_by(lambda k, v: None if v is None else initial(v["text"]), JSON_GROUPED)
    boxes.aggregate(noted, note, stored(J, "noted")).to_stream().to("out", JSON_OUT)


@dsl("aggregate_merged_streams", "left", "right")
def _(b: Any) -> None:
    merged = stream(b, "left").select_key(lambda k, v: v).merge(stream(b, "right"))
    merged.group_by_key(GROUPED).count(stored(L, "counts")).to_stream().to("out", LONGS_OUT)


@dsl("aggregate_topic_list", "left", "right")
def _(b: Any) -> None:
    groups = b.stream(["left", "right"], IN).group_by_key(GROUPED)
    groups.count(stored(L, "counts")).to_stream().to("counted", LONGS_OUT)
    groups.reduce(plus, stored(S, "reduced")).to_stream().to("reduced", OUT)


@dsl("aggregate_topic_list_grouped_by", "left", "right")
def _(b: Any) -> None:
    groups = b.stream(["left", "right"], IN).group_by(lambda k, v: initial(v), GROUPED)
    groups.aggregate(zero, append, stored(S, "texts")).to_stream().to("out", OUT)

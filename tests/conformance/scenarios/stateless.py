"""Operators that keep no state of their own, sources, sinks, branches and repartitioning."""

from __future__ import annotations

import re
from typing import Any

from penstock import Branched, Materialized, Produced, Repartitioned, Stores
from tests.conformance.scenarios.kit import IN, LONGS_OUT, OUT, S, initial, stored, stream, text
from tests.conformance.scenarios.registry import dsl


def by_initial(key: str, value: str, context: Any) -> str:
    return f"out-{text(initial(value))}-{context.partition}-{context.topic}"


def _letters(key: Any, value: Any) -> list[tuple[str, str]]:
    return [(letter, text(key)) for letter in text(value)]


@dsl("stateless_filter")
def _(b: Any) -> None:
    stream(b, "in").filter(lambda k, v: v is not None and len(v) > 1).to("out", OUT)


@dsl("stateless_filter_not")
def _(b: Any) -> None:
    stream(b, "in").filter_not(lambda k, v: v is None or k is None).to("out", OUT)


@dsl("stateless_map")
def _(b: Any) -> None:
    stream(b, "in").map(lambda k, v: (text(v), text(k) + "!")).to("out", OUT)


@dsl("stateless_map_values")
def _(b: Any) -> None:
    doubled = stream(b, "in").map_values(lambda v: None if v is None else v + v)
    doubled.map_values(lambda k, v: f"{text(k)}={text(v)}", with_key=True).to("out", OUT)


@dsl("stateless_flat_map")
def _(b: Any) -> None:
    stream(b, "in").flat_map(_letters).to("out", OUT)


def _java_split(value: str) -> list[str]:
    """Java's split drops trailing empty strings, but keeps one for an empty text."""
    parts = value.split(" ")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


@dsl("stateless_flat_map_values")
def _(b: Any) -> None:
    words = stream(b, "in").flat_map_values(lambda v: _java_split(text(v)))
    words.flat_map_values(lambda k, v: [v, text(k)], with_key=True).to("out", OUT)


@dsl("stateless_select_key")
def _(b: Any) -> None:
    stream(b, "in").select_key(lambda k, v: initial(v)).to("out", OUT)


@dsl("stateless_peek_foreach")
def _(b: Any) -> None:
    peeked = stream(b, "in").peek(lambda k, v: print(f"peek {text(k)} {text(v)}"))
    peeked.foreach(lambda k, v: print(f"each {text(k)} {text(v)}"))
    peeked.to("out", OUT)


@dsl("stateless_print")
def _(b: Any) -> None:
    source = stream(b, "in")
    source.print()
    source.print(label="label")
    source.print(label="mapped", key_value_mapper=lambda k, v: f"{text(k)}~{text(v)}")


@dsl("stateless_merge", "left", "right")
def _(b: Any) -> None:
    stream(b, "left").merge(stream(b, "right")).to("out", OUT)


@dsl("stateless_merge_chain", "left", "right", "third")
def _(b: Any) -> None:
    first = stream(b, "left").map_values(lambda v: "l" + text(v))
    first = first.merge(stream(b, "right").filter(lambda k, v: v is not None), name="first-merge")
    first.merge(stream(b, "third").select_key(lambda k, v: v)).to("out", OUT)


@dsl("stateless_split_unnamed")
def _(b: Any) -> None:
    branches = (
        stream(b, "in").split().branch(lambda k, v: k == "a").branch(lambda k, v: v is not None and len(v) > 1).default_branch()
    )
    for name, branch in sorted(branches.items()):
        branch.to(f"out-{name}", OUT)


@dsl("stateless_split_named")
def _(b: Any) -> None:
    branches = (
        stream(b, "in")
        .split(name="kind-")
        .branch(lambda k, v: k == "a", Branched(name="a"))
        .branch(lambda k, v: k == "b", Branched(name="b", function=lambda s: s.map_values(lambda v: text(v) + "!")))
        .branch(lambda k, v: k is None, Branched(name="null", consumer=lambda s: s.to("out-null", OUT)))
        .default_branch(Branched(name="rest"))
    )
    for name, branch in sorted(branches.items()):
        branch.to(f"out-{name}", OUT)


@dsl("stateless_split_no_default")
def _(b: Any) -> None:
    branches = (
        stream(b, "in")
        .split(name="part")
        .branch(lambda k, v: v is None)
        .branch(lambda k, v: len(v) == 1, Branched(name="-one"))
        .no_default_branch()
    )
    for name, branch in sorted(branches.items()):
        branch.to(f"out{name}", OUT)


@dsl("stateless_repartition")
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: initial(v)).repartition(Repartitioned(key_serde=S, value_serde=S))
    rekeyed.map_values(lambda v: text(v) + "?").to("out", OUT)


@dsl("stateless_repartition_named")
def _(b: Any) -> None:
    spread = stream(b, "in").repartition(Repartitioned(name="spread", key_serde=S, value_serde=S, number_of_partitions=7))
    spread.filter(lambda k, v: v is not None).to("out", OUT)


@dsl("stateless_repartition_partitioner")
def _(b: Any) -> None:
    repartitioned = Repartitioned(name="by-value", key_serde=S, value_serde=S, partitioner=lambda topic, key, value, count: 0)
    stream(b, "in").repartition(repartitioned).to("out", OUT)


@dsl("stateless_to_dynamic")
def _(b: Any) -> None:
    stream(b, "in").filter(lambda k, v: v is not None).to(by_initial, OUT)


@dsl("stateless_to_partitioner")
def _(b: Any) -> None:
    stream(b, "in").to("out", Produced(S, S, partitioner=lambda topic, key, value, count: 0))


@dsl("stateless_to_partitioner_drop")
def _(b: Any) -> None:
    stream(b, "in").to("out", Produced(S, S, partitioner=lambda topic, key, value, count: [] if value == "x" else None))


@dsl("stateless_merge_with_itself")
def _(b: Any) -> None:
    source = stream(b, "in")
    source.map_values(lambda v: text(v) + "'").merge(source).merge(source).to("out", OUT)


@dsl("stateless_to_table")
def _(b: Any) -> None:
    stream(b, "in").to_table().to_stream().to("out", OUT)


@dsl("stateless_to_table_named")
def _(b: Any) -> None:
    rekeyed = stream(b, "in").select_key(lambda k, v: initial(v))
    rekeyed.to_table(stored(S, "kept"), name="tabled").to_stream().to("out", OUT)


@dsl("stateless_to_table_repartitioned")
def _(b: Any) -> None:
    stream(b, "in").select_key(lambda k, v: initial(v)).to_table(stored(S)).to_stream().to("out", OUT)


@dsl("stateless_topic_list", "left", "right")
def _(b: Any) -> None:
    b.stream(["left", "right"], IN).map_values(lambda v: text(v) + ".").to("out", OUT)


# The driver feeds a pattern through the pattern's own text, as Java's does.
@dsl("stateless_topic_pattern", "in-a", "in-b")
def _(b: Any) -> None:
    b.stream(re.compile("in-[ab]"), IN).map_values(lambda v: text(v) + ".").to("out", OUT)


@dsl("stateless_same_topic_twice")
def _(b: Any) -> None:
    stream(b, "in").filter(lambda k, v: v is None).to("nulls", OUT)
    stream(b, "in").filter(lambda k, v: v is not None).to("values", OUT)


@dsl("stateless_two_subtopologies", "left", "right", "third")
def _(b: Any) -> None:
    stream(b, "left").map_values(lambda v: text(v) + "-l").to("out-left", OUT)
    stream(b, "right").map_values(lambda v: text(v) + "-r").to("out-right", OUT)
    third = stream(b, "third").select_key(lambda k, v: v)
    third.repartition(Repartitioned(key_serde=S, value_serde=S)).to("out-third", OUT)


@dsl("stateless_source_is_sink")
def _(b: Any) -> None:
    shorter = stream(b, "in").filter(lambda k, v: v is not None and len(v) > 1).map_values(lambda v: v[1:])
    shorter.to("in", OUT)
    stream(b, "in").to("out", OUT)


@dsl("stateless_chain")
def _(b: Any) -> None:
    letters = stream(b, "in").filter(lambda k, v: v is not None).map(lambda k, v: (v, text(k))).flat_map(_letters)
    marked = letters.map_values(lambda v: v + "#").select_key(lambda k, v: k + v).peek(lambda k, v: None)
    marked.filter_not(lambda k, v: k.startswith("x")).flat_map_values(lambda v: [v, v + v]).to("out", OUT)


@dsl("stateless_to_longs")
def _(b: Any) -> None:
    stream(b, "in").filter(lambda k, v: v is not None).map_values(len).to("out", LONGS_OUT)


@dsl(
    "stateless_default_serdes",
    java={
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    },
    python={"default.key.serde": S, "default.value.serde": S},
)
def _(b: Any) -> None:
    b.stream("in").group_by_key().count().to_stream().map_values(text).to("out")


@dsl("stateless_to_table_supplied")
def _(b: Any) -> None:
    kept = Materialized(supplier=Stores.in_memory_key_value_store("plain"), key_serde=S, value_serde=S, caching=False)
    stream(b, "in").to_table(kept).to_stream().to("out", OUT)

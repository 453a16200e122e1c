"""Behaviour without state: what a stream does with single records."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock import Branched, Consumed, Produced, Repartitioned, StreamsBuilder, Topology
from tests.behaviour.case import In, Names, Out, case, ins, outs, string

_BOTH = ("exactly_once_v2", "at_least_once")
_TEXT: Consumed[str, str] = Consumed(string, string)
_OUT: Produced[str, str] = Produced(string, string)


@case(
    "filter, map, flat map",
    inputs=ins("in", ("a", "x y", 1), ("b", "drop me", 2), ("a", "z", 3), ("c", "", 4)),
    expected={"out": outs(("a", "X!", 1), ("a", "Y!", 1), ("a", "Z!", 3))},
    guarantees=_BOTH,
)
def filter_map(t: Names) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(t("in"), _TEXT).filter(lambda _, v: "drop" not in v).flat_map_values(str.split)
    stream.map_values(str.upper).map(lambda k, v: (k, v + "!")).to(t("out"), _OUT)
    return builder.build()


@case(
    "branch and merge",
    inputs=ins("in", ("a", "1", 1), ("b", "22", 2), ("c", "333", 3), ("d", "4", 4)),
    expected={
        "short": outs(("a", "1", 1), ("d", "4", 4)),
        "rest": outs(("b", "22", 2), ("c", "333", 3)),
        "all": outs(("a", "short 1", 1), ("b", "rest 22", 2), ("c", "rest 333", 3), ("d", "short 4", 4)),
    },
)
def branch_and_merge(t: Names) -> Topology:
    builder = StreamsBuilder()
    split = builder.stream(t("in"), _TEXT).split("by-")
    branches = split.branch(lambda _, v: len(v) == 1, Branched("short")).default_branch(Branched("rest"))
    short, rest = branches["by-short"], branches["by-rest"]
    short.to(t("short"), _OUT)
    rest.to(t("rest"), _OUT)
    short.map_values(lambda v: "short " + v).merge(rest.map_values(lambda v: "rest " + v)).to(t("all"), _OUT)
    return builder.build()


@case(
    "headers go along",
    inputs=[
        In("in", "a", "x", 1, (("trace", b"1"), ("trace", b"2"), ("empty", None))),
        In("in", "b", "y", 2),
    ],
    expected={
        "out": [Out("a", "X", 1, (("trace", b"1"), ("trace", b"2"), ("empty", None))), Out("b", "Y", 2, ())],
        "grouped": [Out("X", "X", 1, (("trace", b"1"), ("trace", b"2"), ("empty", None))), Out("Y", "Y", 2, ())],
    },
)
def headers(t: Names) -> Topology:
    builder = StreamsBuilder()
    upper = builder.stream(t("in"), _TEXT).map_values(str.upper)
    upper.to(t("out"), _OUT)
    upper.select_key(lambda _, v: v).repartition(Repartitioned(None, string, string)).to(t("grouped"), _OUT)
    return builder.build()


@case(
    "dynamic sinks",
    inputs=ins("in", ("a", "1", 1), ("b", "2", 2), ("a", "3", 3)),
    expected={"to-a": outs(("a", "1", 1), ("a", "3", 3)), "to-b": outs(("b", "2", 2))},
)
def dynamic_sinks(t: Names) -> Topology:
    to_a, to_b = t("to-a"), t("to-b")
    builder = StreamsBuilder()
    builder.stream(t("in"), _TEXT).to(lambda k, v, context: to_a if k == "a" else to_b, _OUT)
    return builder.build()


@case(
    "null keys and null values pass",
    inputs=ins("in", (None, "1", 1), ("a", None, 2), (None, None, 3), (None, "4", 4)),
    expected={"out": outs((None, "1", 1), ("a", None, 2), (None, None, 3), (None, "4", 4))},
    partitions=1,
)
def null_keys(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.stream(t("in"), _TEXT).peek(lambda k, v: None).to(t("out"), _OUT)
    return builder.build()


@case(
    "several source topics",
    inputs=[In("one", "a", "1", 1), In("two", "a", "2", 2), In("one", "b", "3", 3), In("two", "b", "4", 4)],
    expected={"out": outs(("a", "1", 1), ("a", "2", 2), ("b", "3", 3), ("b", "4", 4))},
)
def several_topics(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.stream([t("one"), t("two")], _TEXT).to(t("out"), _OUT)
    return builder.build()


@case(
    "a pattern of source topics",
    inputs=[In("log.a", "a", "1", 1), In("log.b", "b", "2", 2), In("log.a", "a", "3", 3)],
    expected={"out": outs(("a", "1", 1), ("b", "2", 2), ("a", "3", 3))},
)
def pattern(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.stream(re.compile(re.escape(t("log")) + r"\.[a-z]"), _TEXT).to(t("out"), _OUT)
    return builder.build()


def _build_compressed(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.stream(t("in"), _TEXT).map_values(len).map_values(str).to(t("out"), _OUT)
    return builder.build()


for _codec in ("gzip", "snappy", "lz4", "zstd"):
    case(
        f"{_codec} topics",
        inputs=ins("in", *((f"k{i}", "x" * 100 * i, i) for i in range(20))),
        expected={"out": outs(*((f"k{i}", str(100 * i), i) for i in range(20)))},
        compression=_codec,
    )(_build_compressed)


def _upper_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
    columns["value"] = pc.utf8_upper(columns["value"])
    return pa.record_batch(columns)


@case(
    "map_batches",
    inputs=ins("in", ("a", "x", 1), ("b", "y", 2), ("a", "z", 3)),
    expected={"out": outs(("a", "X", 1), ("b", "Y", 2), ("a", "Z", 3))},
)
def map_batches(t: Names) -> Topology:
    builder = StreamsBuilder()
    builder.stream(t("in"), _TEXT).map_batches(_upper_batch).to(t("out"), _OUT)
    return builder.build()

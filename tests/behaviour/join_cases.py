"""Behaviour of joins."""

from __future__ import annotations

from penstock import Consumed, Joined, JoinWindows, Materialized, Produced, StreamJoined, StreamsBuilder, Topology
from tests.behaviour.case import Names, by_time, case, ins, outs, string

_BOTH = ("exactly_once_v2", "at_least_once")
_TEXT: Consumed[str, str] = Consumed(string, string)
_OUT: Produced[str, str] = Produced(string, string)
_JOINED: StreamJoined[str, str, str] = StreamJoined(string, string, string)
# Results of left and outer joins wait up to a second of wall-clock time otherwise.
_AT_ONCE = {"__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0}


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


@case(
    "stream-stream join",
    inputs=by_time(
        ins("left", ("a", "l1", 0), ("a", "l2", 20), ("b", "l3", 21)),
        ins("right", ("a", "r1", 5), ("b", "r2", 25), ("a", "r3", 29), ("c", "r4", 30)),
    ),
    expected={"out": outs(("a", "l1+r1", 5), ("b", "l3+r2", 25), ("a", "l2+r3", 29))},
    partitions=1,
    guarantees=_BOTH,
)
def stream_stream(t: Names) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream(t("left"), _TEXT), builder.stream(t("right"), _TEXT)
    left.join(right, pair, JoinWindows(10, grace=100), _JOINED).to(t("out"), _OUT)
    return builder.build()


@case(
    "outer stream-stream join",
    inputs=by_time(
        ins("left", ("a", "l1", 0), ("b", "l2", 2), ("z", "l3", 200)),
        ins("right", ("a", "r1", 5), ("c", "r2", 7)),
    ),
    expected={"out": outs(("a", "l1+r1", 5), ("b", "l2+None", 2), ("c", "None+r2", 7))},
    partitions=1,
    config=_AT_ONCE,
)
def outer_stream_stream(t: Names) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream(t("left"), _TEXT), builder.stream(t("right"), _TEXT)
    left.outer_join(right, pair, JoinWindows(10, grace=10), _JOINED).to(t("out"), _OUT)
    return builder.build()


@case(
    "stream-stream join after a change of keys",
    inputs=by_time(
        ins("left", ("1", "a", 0), ("2", "b", 2), ("3", "a", 4)),
        ins("right", ("4", "b", 5), ("5", "a", 7)),
    ),
    expected={"out": outs(("b", "b+b", 5), ("a", "a+a", 7), ("a", "a+a", 7))},
    partitions=1,
)
def join_after_key_change(t: Names) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream(t("left"), _TEXT).select_key(lambda _, v: v)
    right = builder.stream(t("right"), _TEXT).select_key(lambda _, v: v)
    left.join(right, pair, JoinWindows(10, grace=100), _JOINED).to(t("out"), _OUT)
    return builder.build()


@case(
    "stream-table join",
    inputs=by_time(
        ins("table", ("a", "t1", 0), ("b", "t2", 10), ("a", "t3", 20), ("b", None, 30)),
        ins("stream", ("a", "s1", 5), ("b", "s2", 6), ("a", "s3", 25), ("b", "s4", 26), ("b", "s5", 35)),
    ),
    expected={
        "inner": outs(("a", "s1+t1", 5), ("a", "s3+t3", 25), ("b", "s4+t2", 26)),
        "left": outs(("a", "s1+t1", 5), ("b", "s2+None", 6), ("a", "s3+t3", 25), ("b", "s4+t2", 26), ("b", "s5+None", 35)),
    },
    partitions=2,
    guarantees=_BOTH,
)
def stream_table(t: Names) -> Topology:
    builder = StreamsBuilder()
    table = builder.table(t("table"), _TEXT, Materialized("people", string, string))
    stream = builder.stream(t("stream"), _TEXT)
    stream.join(table, pair, Joined(string, string, string)).to(t("inner"), _OUT)
    stream.left_join(table, pair, Joined(string, string, string)).to(t("left"), _OUT)
    return builder.build()


@case(
    "table-table joins",
    inputs=by_time(
        ins("left", ("a", "l1", 0), ("b", "l2", 10), ("a", None, 30)),
        ins("right", ("a", "r1", 5), ("c", "r2", 15), ("b", "r3", 20), ("c", None, 40)),
    ),
    expected={
        "inner": outs(("a", "l1+r1", 5), ("b", "l2+r3", 20), ("a", None, 30)),
        "outer": outs(
            ("a", "l1+None", 0), ("a", "l1+r1", 5), ("b", "l2+None", 10), ("c", "None+r2", 15), ("b", "l2+r3", 20),
            ("a", "None+r1", 30), ("c", None, 40),
        ),
    },
    partitions=2,
)  # fmt: skip
def table_table(t: Names) -> Topology:
    builder = StreamsBuilder()
    left = builder.table(t("left"), _TEXT, Materialized("left", string, string))
    right = builder.table(t("right"), _TEXT, Materialized("right", string, string))
    left.join(right, pair, Materialized("inner", string, string)).to_stream().to(t("inner"), _OUT)
    left.outer_join(right, pair, Materialized("outer", string, string)).to_stream().to(t("outer"), _OUT)
    return builder.build()


@case(
    "foreign-key join",
    inputs=by_time(
        ins("orders", ("o1", "c1:book", 0), ("o2", "c2:pen", 10), ("o3", "c1:lamp", 20), ("o4", "c9:none", 25), ("o2", None, 40)),
        ins("customers", ("c1", "Ann", 5), ("c2", "Bob", 15), ("c1", "Anna", 30)),
    ),
    expected={"out": outs(("o1", "c1:book+Anna"), ("o3", "c1:lamp+Anna"), ("o2", None))},
    partitions=2,
    final=True,
    guarantees=_BOTH,
)
def foreign_key(t: Names) -> Topology:
    builder = StreamsBuilder()
    orders = builder.table(t("orders"), _TEXT, Materialized("orders", string, string))
    customers = builder.table(t("customers"), _TEXT, Materialized("customers", string, string))
    joined = orders.join(
        customers, pair, foreign_key=lambda order: order.split(":")[0], materialized=Materialized("joined", string, string)
    )
    joined.to_stream().to(t("out"), _OUT)
    return builder.build()


@case(
    "global table join",
    inputs=[
        *ins("countries", ("at", "Austria", 0), ("ch", "Switzerland", 0), ("at", "Österreich", 1)),
        *ins("stream", ("1", "at", 5), ("2", "ch", 6), ("3", "xx", 7), ("4", "at", 8)),
    ],
    expected={
        "inner": outs(("1", "at+Österreich", 5), ("2", "ch+Switzerland", 6), ("4", "at+Österreich", 8)),
        "left": outs(("1", "at+Österreich", 5), ("2", "ch+Switzerland", 6), ("3", "xx+None", 7), ("4", "at+Österreich", 8)),
    },
    partitions=2,
    global_topics=("countries",),
)
def global_table(t: Names) -> Topology:
    builder = StreamsBuilder()
    countries = builder.global_table(t("countries"), _TEXT, Materialized("countries", string, string))
    stream = builder.stream(t("stream"), _TEXT)
    stream.join(countries, lambda _, code: code, pair).to(t("inner"), _OUT)
    stream.left_join(countries, lambda _, code: code, pair).to(t("left"), _OUT)
    return builder.build()

"""DSL programs whose descriptions are compared with those of Kafka Streams 4.3, see `describe.txt`.

Each is a twin of a Java program with the same operators in the same order; the functions do nothing of interest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from penstock.dsl.suppressed import BufferConfig, Suppressed
from penstock.processor import FixedKeyProcessor, Processor, ValueTransformerWithKey
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

TEXT, LONG = Serdes.string(), Serdes.long()
PROGRAMS: dict[str, Callable[[StreamsBuilder], None]] = {}


def program(define: Callable[[StreamsBuilder], None]) -> Callable[[StreamsBuilder], None]:
    PROGRAMS[define.__name__.replace("_", "-")] = define
    return define


def stream(b: StreamsBuilder, topic: str) -> Any:
    return b.stream(topic, Consumed(TEXT, TEXT))


def table(b: StreamsBuilder, topic: str) -> Any:
    return b.table(topic, Consumed(TEXT, TEXT))


def windows() -> JoinWindows:
    return JoinWindows(100, grace=10)


def yes(key: Any, value: Any) -> bool:
    return True


def no(key: Any, value: Any) -> bool:
    return False


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def swap(key: Any, value: Any) -> tuple[Any, Any]:
    return value, key


def pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(key, value)]


def same(value: Any) -> Any:
    return value


def values(value: Any) -> list[Any]:
    return [value]


def by_key(key: Any, value: Any) -> Any:
    return key


def by_value(key: Any, value: Any) -> Any:
    return value


def ignore(key: Any, value: Any) -> None:
    pass


def cat(left: Any, right: Any) -> Any:
    return left + right


def first(left: Any, right: Any) -> Any:
    return left


def empty() -> str:
    return ""


def take(key: Any, value: Any, aggregate: Any) -> Any:
    return value


def merge(key: Any, one: Any, other: Any) -> Any:
    return one


class Pass(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class FixedPass(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Keep(ValueTransformerWithKey[Any, Any, Any]):
    def transform(self, key: Any, value: Any) -> Any:
        return value


class PassWithStore:
    def __init__(self, name: str) -> None:
        self.stores = [store(name)]

    def __call__(self) -> Pass:
        return Pass()


def store(name: str) -> Any:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), TEXT, TEXT)


@program
def stateless(b: StreamsBuilder) -> None:
    x = stream(b, "in")
    y = x.filter(yes).filter_not(no).map(pair).map_values(same).flat_map(pairs).flat_map_values(values)
    y.select_key(by_key).peek(ignore).to("out")
    x.foreach(ignore)
    x.print()
    x.merge(stream(b, "in2")).to(extract)


def extract(key: Any, value: Any, context: Any) -> str:
    return "x"


@program
def stateless_named(b: StreamsBuilder) -> None:
    x: Any = b.stream("in", Consumed(name="src"))
    y = x.filter(yes, name="f").filter_not(no, name="fn").map(pair, name="m").map_values(same, name="mv")
    z = y.flat_map(pairs, name="fm").flat_map_values(values, name="fmv").select_key(by_key, name="sk")
    z.peek(ignore, name="p").to("out", Produced(name="snk"))
    x.foreach(ignore, name="fe")
    x.print(name="pr")
    x.merge(stream(b, "in2"), name="mg").filter(yes).to("out2")


@program
def sources(b: StreamsBuilder) -> None:
    b.stream(["a", "b", "c"]).to("o1")
    b.stream(re.compile("x-.*")).to("o2")
    b.stream("d").to("o3")
    b.stream("d").to("o4")
    b.stream(re.compile("x-.*")).to("o5")
    b.stream(["c", "b", "a"]).to("o6")


@program
def split(b: StreamsBuilder) -> None:
    branches = (
        stream(b, "in")
        .split()
        .branch(yes)
        .branch(no, Branched("two"))
        .branch(no, Branched(consumer=lambda branch: branch.to("c3")))
        .branch(yes, Branched("four", function=lambda branch: branch.map_values(same)))
        .default_branch()
    )
    assert set(branches) == {
        "KSTREAM-BRANCH-00000000011",
        "KSTREAM-BRANCH-0000000001two",
        "KSTREAM-BRANCH-0000000001four",
        "KSTREAM-BRANCH-00000000010",
    }
    branches["KSTREAM-BRANCH-00000000010"].to("o0")
    branches["KSTREAM-BRANCH-0000000001four"].to("o4")


@program
def split_named(b: StreamsBuilder) -> None:
    branches = stream(b, "in").split("branch-processor").branch(yes, Branched("-1")).branch(no).no_default_branch()
    branches["branch-processor-1"].to("o1")
    branches["branch-processor2"].to("o2")


@program
def repartition(b: StreamsBuilder) -> None:
    stream(b, "in").repartition().to("o1")
    stream(b, "in2").repartition(Repartitioned("named")).to("o2")
    stream(b, "in3").select_key(by_value).repartition(Repartitioned(number_of_partitions=5)).group_by_key().count()


@program
def count_by_key(b: StreamsBuilder) -> None:
    stream(b, "in").group_by_key().count().to_stream().to("out")


@program
def count_by_key_materialized_unnamed(b: StreamsBuilder) -> None:
    stream(b, "in").group_by_key().count(Materialized(key_serde=TEXT, value_serde=LONG)).to_stream().to("out")


@program
def count_by_key_materialized(b: StreamsBuilder) -> None:
    stream(b, "in").group_by_key().count(Materialized("counts")).to_stream().to("out")


@program
def wordcount(b: StreamsBuilder) -> None:
    words = stream(b, "lines").flat_map_values(str.split)
    words.group_by(by_value).count(Materialized("counts")).to_stream().to("out")


@program
def wordcount_unnamed(b: StreamsBuilder) -> None:
    stream(b, "lines").flat_map_values(str.split).group_by(by_value).count().to_stream().to("out")


@program
def grouped_named(b: StreamsBuilder) -> None:
    g = stream(b, "in").group_by(by_value, Grouped("G"))
    g.count(name="N").to_stream().to("out")
    g.reduce(first, Materialized("red"))
    g.aggregate(empty, take, Materialized(key_serde=TEXT, value_serde=TEXT))


@program
def grouped_unnamed_twice(b: StreamsBuilder) -> None:
    g = stream(b, "in").group_by(by_value)
    g.count()
    g.reduce(first)
    g.aggregate(empty, take)


@program
def named_aggregates(b: StreamsBuilder) -> None:
    g = stream(b, "in").group_by_key()
    g.count(Materialized(key_serde=TEXT, value_serde=LONG), name="c")
    g.reduce(first, Materialized(key_serde=TEXT, value_serde=TEXT), name="r")
    g.aggregate(empty, take, Materialized("astore"), name="a")


@program
def windowed(b: StreamsBuilder) -> None:
    unnamed: Any = Materialized(key_serde=TEXT, value_serde=LONG)
    g = stream(b, "in").group_by_key()
    w = g.windowed_by(TimeWindows(10, grace=1))
    w.count()
    w.count(unnamed)
    w.reduce(first)
    w.aggregate(empty, take)
    w.count(name="wc")
    w.count(Materialized("wstore"))
    sliding = g.windowed_by(SlidingWindows(10, grace=1))
    sliding.count()
    sliding.count(unnamed)
    sliding.reduce(first)
    sliding.aggregate(empty, take)
    sessions = g.windowed_by(SessionWindows(10, grace=1))
    sessions.count()
    sessions.count(unnamed)
    sessions.reduce(first)
    sessions.aggregate(empty, take, merge)
    sessions.count(Materialized("sstore"), name="sc")
    g.windowed_by(UnlimitedWindows()).count()
    g.windowed_by(TimeWindows(10, grace=1)).emit_strategy(EmitStrategy.on_window_close()).count()


@program
def windowed_repartition(b: StreamsBuilder) -> None:
    g = stream(b, "in").group_by(by_value, Grouped("grp"))
    g.windowed_by(TimeWindows(10, grace=1)).count(Materialized("w1"))
    g.windowed_by(SessionWindows(10, grace=1)).count(Materialized("w2"))
    g.count(Materialized("w3"))


@program
def suppress(b: StreamsBuilder) -> None:
    w = stream(b, "in").group_by_key().windowed_by(TimeWindows(10, grace=1)).count()
    w.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("o1")
    limited = Suppressed.until_time_limit(5, BufferConfig.max_records(5)).with_name("sup")
    w.suppress(limited).to_stream(lambda key, value: key.key).to("o2")
    unnamed = Suppressed.until_time_limit(5, BufferConfig.unbounded())
    w.map_values(same).filter(yes).suppress(unnamed).to_stream(name="ts").to("o3")


@program
def table_(b: StreamsBuilder) -> None:
    table(b, "t1").to_stream().to("o1")
    b.table("t2", Consumed(TEXT, TEXT), Materialized("store2")).to_stream().to("o2")
    x: Any = b.table("t3", Consumed(TEXT, TEXT, name="src"))
    y = x.filter(yes).filter_not(no, Materialized("f")).map_values(same)
    z = y.map_values(by_value, True, Materialized("mv")).transform_values(Keep)
    z.transform_values(Keep, materialized=Materialized("tv")).to_stream().to("o3")


PROGRAMS["table"] = PROGRAMS.pop("table-")


@program
def table_named(b: StreamsBuilder) -> None:
    unnamed: Any = Materialized(key_serde=TEXT, value_serde=TEXT)
    x = table(b, "t").filter(yes, name="f1").filter_not(no, unnamed, name="f2").map_values(same, name="mv1")
    y = x.map_values(same, materialized=unnamed).filter(yes, unnamed).transform_values(Keep, materialized=unnamed)
    y.transform_values(Keep, name="tv").to_stream(name="ts").to("o")


@program
def table_groupby(b: StreamsBuilder) -> None:
    g = table(b, "t").group_by(swap)
    g.count()
    g.reduce(first, first)
    g.aggregate(empty, take, take)
    g.count(Materialized("cnt"), name="N")


@program
def table_groupby_named(b: StreamsBuilder) -> None:
    g = table(b, "t").group_by(swap, Grouped("G"))
    g.count(name="N")
    g.reduce(first, first, Materialized("r"))
    g.aggregate(empty, take, take)


@program
def to_table(b: StreamsBuilder) -> None:
    stream(b, "a").to_table().to_stream().to("o1")
    stream(b, "b").select_key(by_value).to_table(Materialized("store")).filter(yes).to_stream().to("o2")
    stream(b, "c").select_key(by_value).to_table(name="named-table").to_stream().to("o3")
    stream(b, "d").map(pair).to_table(Materialized("store2"), name="nt2")
    stream(b, "e").to_table().group_by(swap).count()


@program
def stream_stream_inner(b: StreamsBuilder) -> None:
    stream(b, "l").join(stream(b, "r"), cat, windows()).to("o")


@program
def stream_stream_left(b: StreamsBuilder) -> None:
    stream(b, "l").left_join(stream(b, "r"), cat, windows()).to("o")


@program
def stream_stream_outer(b: StreamsBuilder) -> None:
    stream(b, "l").outer_join(stream(b, "r"), cat, windows()).to("o")


@program
def stream_stream_named(b: StreamsBuilder) -> None:
    serdes = (TEXT, TEXT, TEXT)
    stream(b, "l1").join(stream(b, "r1"), cat, windows(), StreamJoined(*serdes, "N1", "S1")).to("o1")
    stream(b, "l2").left_join(stream(b, "r2"), cat, windows(), StreamJoined(*serdes, "N2", "S2")).to("o2")
    stream(b, "l3").outer_join(stream(b, "r3"), cat, windows(), StreamJoined(*serdes, "N3", "S3")).to("o3")
    stream(b, "l4").outer_join(stream(b, "r4"), cat, windows(), StreamJoined(*serdes), name="N4").to("o4")
    stream(b, "l5").left_join(stream(b, "r5"), cat, windows(), StreamJoined(*serdes, store_name="S5")).to("o5")


@program
def stream_stream_repartition(b: StreamsBuilder) -> None:
    stream(b, "l").select_key(by_value).join(stream(b, "r").map(swap), cat, windows()).to("o")
    left = stream(b, "l2").select_key(by_value)
    left.left_join(stream(b, "r2").map(swap), cat, windows(), StreamJoined(name="nm", store_name="st")).to("o2")


@program
def stream_stream_suppliers(b: StreamsBuilder) -> None:
    joined: Any = StreamJoined(
        TEXT,
        this_store_supplier=Stores.in_memory_window_store("w1", 210, 200, True),
        other_store_supplier=Stores.in_memory_window_store("w2", 210, 200, True),
    )
    stream(b, "l").left_join(stream(b, "r"), cat, windows(), joined).to("o")


@program
def self_join(b: StreamsBuilder) -> None:
    x = stream(b, "in")
    x.join(x, cat, windows()).to("o")


@program
def self_join_two_sources(b: StreamsBuilder) -> None:
    stream(b, "in").join(stream(b, "in"), cat, windows()).to("o")


@program
def self_join_map(b: StreamsBuilder) -> None:
    x = stream(b, "in").map_values(same)
    x.join(x, cat, windows()).join(x, cat, windows()).to("o")


@program
def stream_table(b: StreamsBuilder) -> None:
    t = table(b, "t")
    stream(b, "a").join(t, cat).to("o1")
    stream(b, "b").left_join(t, cat, Joined(name="J")).to("o2")
    stream(b, "c").select_key(by_value).join(t, cat).to("o3")
    stream(b, "d").select_key(by_value).left_join(t.filter(yes).map_values(same), cat, name="JJ").to("o4")


@program
def stream_table_two_joins(b: StreamsBuilder) -> None:
    t1, t2 = table(b, "t1"), table(b, "t2")
    x = stream(b, "a").select_key(by_value)
    x.join(t1, cat).to("o1")
    x.join(t2, cat).to("o2")
    x.left_join(t1, cat, Joined(name="J")).to("o3")


@program
def stream_table_versioned_grace(b: StreamsBuilder) -> None:
    versioned: Any = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 1000))
    t = b.table("t", Consumed(TEXT, TEXT), versioned)
    stream(b, "a").join(t, cat, Joined(TEXT, TEXT, TEXT, grace_period=10)).to("o1")
    stream(b, "b").left_join(t, cat, Joined(TEXT, TEXT, TEXT, "J", 10)).to("o2")


@program
def global_(b: StreamsBuilder) -> None:
    g = b.global_table("g", Consumed(TEXT, TEXT))
    g2 = b.global_table("g2", Consumed(TEXT, TEXT, name="gsrc"), Materialized("gstore"))
    stream(b, "a").join(g, by_value, cat).to("o1")
    stream(b, "b").left_join(g2, by_value, cat, name="GJ").to("o2")
    stream(b, "c").select_key(by_value).join(g, by_value, cat).group_by_key().count()


PROGRAMS["global"] = PROGRAMS.pop("global-")


@program
def global_store(b: StreamsBuilder) -> None:
    stream(b, "a").to("o")
    kept = Stores.key_value_store_builder(Stores.in_memory_key_value_store("gs"), TEXT, TEXT)
    b.add_global_store(kept, "gt", Consumed(TEXT, TEXT), Pass)
    stream(b, "b").to("p")


@program
def table_table(b: StreamsBuilder) -> None:
    x, y = table(b, "a"), table(b, "b")
    x.join(y, cat).to_stream().to("o1")
    x.left_join(y, cat, Materialized("lj")).to_stream().to("o2")
    x.outer_join(y, cat, Materialized(key_serde=TEXT, value_serde=TEXT), name="OJ").to_stream().to("o3")
    z = x.join(y.filter(yes), cat, name="IJ")
    z.left_join(x.map_values(same, materialized=Materialized("mm")), cat).to_stream().to("o4")


@program
def foreign_key(b: StreamsBuilder) -> None:
    table(b, "a").join(table(b, "b"), cat, foreign_key=same).to_stream().to("o1")
    x, y = table(b, "c"), table(b, "d")
    named: Any = TableJoined("FK")
    x.left_join(y, cat, foreign_key=same, table_joined=named, materialized=Materialized("fks")).to_stream().to("o2")


@program
def foreign_key_chain(b: StreamsBuilder) -> None:
    x, y, z = table(b, "a"), table(b, "b"), table(b, "c")
    unnamed: Any = Materialized(key_serde=TEXT, value_serde=TEXT)
    both = x.join(y, cat, foreign_key=same).left_join(z, cat, unnamed, foreign_key=same)
    both.filter(yes).to_stream().to("o")
    x.join(x, cat, foreign_key=by_value, with_key=True, name="self").to_stream().to("o2")


@program
def cogroup(b: StreamsBuilder) -> None:
    x, y = stream(b, "a").group_by_key(), stream(b, "b").group_by_key()
    x.cogroup(take).cogroup(y, take).aggregate(empty).to_stream().to("o")
    x.cogroup(take).cogroup(y, take).aggregate(empty, Materialized("cg"), name="N").to_stream().to("o2")


@program
def cogroup_repartition(b: StreamsBuilder) -> None:
    x, y = stream(b, "a").group_by(by_value), stream(b, "b").group_by(by_value, Grouped("gb"))
    z = stream(b, "c").group_by_key()
    c = x.cogroup(take).cogroup(y, take).cogroup(z, take)
    c.aggregate(empty).to_stream().to("o")
    c.windowed_by(TimeWindows(10, grace=1)).aggregate(empty).to_stream().to("o2")


@program
def cogroup_windowed(b: StreamsBuilder) -> None:
    x, y = stream(b, "a").group_by_key(), stream(b, "b").group_by_key()
    x.cogroup(take).cogroup(y, take).windowed_by(TimeWindows(10, grace=1)).aggregate(empty).to_stream().to("o")
    x.cogroup(take).windowed_by(SlidingWindows(10, grace=1)).aggregate(empty, name="SL")
    y.cogroup(take).windowed_by(SessionWindows(10, grace=1)).aggregate(empty, merge, Materialized("sess"))


@program
def process(b: StreamsBuilder) -> None:
    b.add_state_store(store("st1"))
    b.add_state_store(store("st2"))
    stream(b, "a").process(Pass, "st1").to("o1")
    stream(b, "b").process(PassWithStore("own"), "st1", "st2", name="P").group_by_key().count()
    stream(b, "c").process_values(FixedPass).group_by_key().count()
    stream(b, "d").process_values(FixedPass, "st2", name="PV").to("o2")
    table(b, "e").transform_values(Keep, "st2").to_stream().to("o3")


@program
def multiple_repartitions(b: StreamsBuilder) -> None:
    x = stream(b, "in").map(pair)
    x.group_by_key(Grouped("one")).count(Materialized("c1")).to_stream().to("o1")
    x.group_by_key(Grouped("two")).reduce(first, Materialized("c2")).to_stream().to("o2")
    x.filter(yes).group_by_key().count(Materialized("c3"))
    x.map_values(same).group_by_key().count(Materialized("c4"))
    x.join(stream(b, "other"), cat, windows(), StreamJoined(TEXT, TEXT, TEXT)).to("o5")


@program
def repartition_merge(b: StreamsBuilder) -> None:
    x, y = stream(b, "a").select_key(by_value), stream(b, "b").select_key(by_value)
    merged = x.merge(y)
    merged.group_by_key().count()
    merged.group_by_key().reduce(first)


@program
def process_then_group(b: StreamsBuilder) -> None:
    x = stream(b, "a").select_key(by_value).process(Pass)
    x.group_by_key().count()
    x.group_by_key().reduce(first)


@program
def two_stateful_steps(b: StreamsBuilder) -> None:
    counts = stream(b, "a").group_by(by_value).count().to_stream().map(swap).group_by_key(Grouped(None, TEXT, TEXT))
    windowed = counts.windowed_by(TimeWindows(10, grace=1)).count().to_stream(lambda key, value: key.key)
    windowed.join(table(b, "t"), cat).to("o")


@program
def branch_into_joins(b: StreamsBuilder) -> None:
    branches = stream(b, "in").split("br-").branch(yes, Branched("x")).default_branch(Branched("y"))
    branches["br-x"].join(table(b, "t"), cat).to("o1")
    branches["br-y"].select_key(by_value).left_join(stream(b, "o"), cat, windows()).to("o2")


@program
def repartition_in_join_same_name(b: StreamsBuilder) -> None:
    x = stream(b, "a").select_key(by_value)
    x.join(stream(b, "b"), cat, windows()).to("o1")
    x.join(stream(b, "c"), cat, windows()).to("o2")
    x.group_by_key().count()


@program
def table_reused(b: StreamsBuilder) -> None:
    x = b.table("t", Consumed(TEXT, TEXT), Materialized("st"))
    x.group_by(swap).count(Materialized("g"))
    stream(b, "a").join(x, cat).to("o")
    x.to_stream().group_by_key().count()


@program
def optimized_agg_join(b: StreamsBuilder) -> None:
    mapped = stream(b, "input").map(pair)
    mapped.filter(yes).peek(ignore).process(Pass)
    counts = mapped.group_by_key().count(Materialized("count-store"), name="count").to_stream()
    counts.to("count-topic")
    aggregated = mapped.group_by_key().aggregate(empty, take, Materialized("agg-store"), name="aggregate")
    aggregated.to_stream(name="toStream").to("agg-out")
    reduced = mapped.filter(yes).peek(ignore).group_by_key().reduce(first, Materialized("red-store"), name="reducer")
    reduced.to_stream().to("red-out")
    joined: Any = StreamJoined(
        TEXT,
        name="join",
        this_store_supplier=Stores.in_memory_window_store("other-join-store", 10001, 10000, True),
        other_store_supplier=Stores.in_memory_window_store("join-store", 10001, 10000, True),
    )
    mapped.filter(yes).join(counts, cat, JoinWindows(5000, grace=1), joined).to("joined-out")

package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Kit.text;
import static penstock.conformance.Scenarios.dsl;

import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Repartitioned;

/** Topologies that {@code topology.optimization} rewrites; each runs with several settings. */
final class Optimizations {
    private Optimizations() { }

    static void register() {
        dsl("optimized_table", b -> b.table("in", in(), kv("kept", S)).filter((k, v) -> v.length() > 1).toStream().to("out", out()));
        dsl("optimized_table_join", b -> table(b, "left").join(table(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("optimized_stream_and_table", b -> {
            final KTable<String, String> kept = b.table("right", in(), kv("kept", S));
            stream(b, "left").leftJoin(kept, Kit::pair, Joined.with(S, S, S)).to("out", out());
        });
        dsl("optimized_two_groupings", b -> {
            final KStream<String, String> rekeyed = stream(b, "in").filter((k, v) -> v != null).selectKey((k, v) -> initial(v));
            rekeyed.groupByKey(grouped()).count(kv("counts", L)).toStream().to("counted", longsOut());
            rekeyed.groupByKey(grouped()).reduce(Kit::plus, kv("reduced", S)).toStream().to("reduced", out());
        });
        dsl("optimized_groupings_after_values", b -> {
            final KStream<String, String> rekeyed = stream(b, "in").map((k, v) -> KeyValue.pair(text(v), text(k)));
            rekeyed.mapValues(v -> v + "!").groupByKey(grouped()).count().toStream().to("counted", longsOut());
            rekeyed.filter((k, v) -> v.length() > 1).groupByKey(grouped()).aggregate(() -> "0", Kit::append, kv(S))
                .toStream().to("gathered", out());
            rekeyed.filterNot((k, v) -> v.isEmpty()).peek((k, v) -> { }).groupByKey(grouped())
                .windowedBy(Windows.tumbling(10, 5)).count().toStream((w, v) -> Kit.show(w)).to("windowed", longsOut());
        });
        dsl("optimized_named_groupings", b -> {
            final KStream<String, String> rekeyed = stream(b, "in").selectKey((k, v) -> initial(v));
            rekeyed.groupByKey(Grouped.with("one", S, S)).count().toStream().to("counted", longsOut());
            rekeyed.groupByKey(Grouped.with("two", S, S)).reduce(Kit::plus).toStream().to("reduced", out());
        });
        dsl("optimized_grouping_and_join", b -> {
            final KStream<String, String> rekeyed = stream(b, "left").selectKey((k, v) -> initial(v));
            final KTable<String, Long> counts = rekeyed.groupByKey(grouped()).count(kv("counts", L));
            rekeyed.leftJoin(table(b, "right"), Kit::pair, Joined.with(S, S, S)).to("joined", out());
            rekeyed.join(stream(b, "third"), Kit::pair, StreamJoins.within(10, 5), StreamJoins.joined()).to("met", out());
            counts.toStream().to("counted", longsOut());
        });
        dsl("optimized_merged_streams", b -> {
            final KStream<String, String> one = stream(b, "left").selectKey((k, v) -> v);
            final KStream<String, String> two = stream(b, "right").selectKey((k, v) -> v);
            final KStream<String, String> merged = one.merge(two);
            merged.groupByKey(grouped()).count(kv("counts", L)).toStream().to("counted", longsOut());
            merged.groupByKey(grouped()).reduce(Kit::plus, kv("reduced", S)).toStream().to("reduced", out());
        });
        dsl("optimized_self_join", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.join(stream, Kit::pair, StreamJoins.within(6, 4), StreamJoins.joined()).to("out", out());
        });
        dsl("optimized_self_join_asymmetric", b -> {
            final KStream<String, String> stream = stream(b, "in").filter((k, v) -> v != null);
            stream.join(stream, Kit::pair, StreamJoins.within(0, 4).before(Kit.ms(2)).after(Kit.ms(7)), StreamJoins.joined())
                .to("out", out());
        });
        dsl("optimized_self_join_of_two_sources", b -> stream(b, "in")
            .join(stream(b, "in"), Kit::pair, StreamJoins.within(6, 4), StreamJoins.joined().withName("self")).to("out", out()));
        dsl("optimized_self_outer_join", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.leftJoin(stream, Kit::pair, StreamJoins.within(6, 4), StreamJoins.joined()).to("out", out());
        });
        dsl("optimized_self_join_mapped", b -> {
            final KStream<String, String> stream = stream(b, "in").filter((k, v) -> v != null);
            stream.mapValues(v -> v + "1").join(stream.mapValues(v -> v + "2"), Kit::pair, StreamJoins.within(6, 4), StreamJoins.joined())
                .to("out", out());
        });
        dsl("optimized_repartition_then_group", b -> stream(b, "in").selectKey((k, v) -> initial(v))
            .repartition(Repartitioned.with(S, S)).toTable(kv("kept", S)).toStream().to("out", out()));
        dsl("optimized_everything", b -> {
            final KStream<String, String> rekeyed = stream(b, "left").filter((k, v) -> v != null).map((k, v) -> KeyValue.pair(initial(v), v));
            final KTable<String, String> kept = b.table("right", in(), kv("kept", S));
            rekeyed.mapValues(v -> v + "?").groupByKey(grouped()).aggregate(() -> "0", Kit::append, kv("gathered", S))
                .join(kept, Kit::pair).toStream().to("gathered", out());
            rekeyed.flatMapValues(v -> java.util.List.of(v, v)).groupByKey(grouped()).count(kv("counts", L))
                .toStream().to("counted", longsOut());
            rekeyed.join(rekeyed, Kit::pair, StreamJoins.within(5, 5), StreamJoins.joined()).to("self", out());
        });
    }
}

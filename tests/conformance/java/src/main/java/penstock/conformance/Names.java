package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Kit.text;
import static penstock.conformance.Kit.windows;
import static penstock.conformance.Scenarios.dsl;

import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;

/** What things are called: everything named, some of it, and what clashes. */
final class Names {
    private Names() { }

    static void register() {
        dsl("names_stateless", b -> {
            final KStream<String, String> stream = b.stream("in", Consumed.<String, String>as("source").withKeySerde(S).withValueSerde(S));
            stream.filter((k, v) -> v != null, Named.as("filtered")).filterNot((k, v) -> v.isEmpty(), Named.as("not-empty"))
                .map(KeyValue::pair, Named.as("mapped")).mapValues(v -> v, Named.as("values-mapped"))
                .mapValues((k, v) -> v, Named.as("values-mapped-with-key"))
                .flatMap((k, v) -> List.of(KeyValue.pair(k, v)), Named.as("flat-mapped"))
                .flatMapValues(v -> List.of(v), Named.as("values-flat-mapped")).selectKey((k, v) -> v, Named.as("key-selected"))
                .peek((k, v) -> { }, Named.as("peeked")).merge(stream, Named.as("merged"))
                .repartition(Repartitioned.<String, String>as("spread").withKeySerde(S).withValueSerde(S))
                .to("out", Produced.<String, String>as("sink").withKeySerde(S).withValueSerde(S));
            stream.foreach((k, v) -> { }, Named.as("each"));
        });
        dsl("names_stateful", b -> {
            final KTable<String, String> table = b.table("right",
                Consumed.<String, String>as("table-source").withKeySerde(S).withValueSerde(S), kv("table-store", S));
            final KStream<String, String> stream = b.stream("left",
                Consumed.<String, String>as("stream-source").withKeySerde(S).withValueSerde(S));
            final KTable<String, Long> counted = stream.groupBy((k, v) -> initial(v), Grouped.with("grouping", S, S))
                .count(Named.as("counting"), kv("counts", L));
            counted.toStream(Named.as("counted-stream")).to("counted",
                Produced.<String, Long>as("counted-sink").withKeySerde(S).withValueSerde(L));
            stream.leftJoin(table, Kit::pair, Joined.<String, String, String>as("looking-up").withKeySerde(S).withValueSerde(S))
                .to("looked-up", Produced.<String, String>as("looked-up-sink").withKeySerde(S).withValueSerde(S));
            stream.outerJoin(b.stream("third", Consumed.<String, String>as("third-source").withKeySerde(S).withValueSerde(S)),
                Kit::pair, StreamJoins.within(10, 5), StreamJoins.joined().withName("meeting").withStoreName("meeting-store"))
                .to("met", Produced.<String, String>as("met-sink").withKeySerde(S).withValueSerde(S));
        });
        dsl("names_tables", b -> {
            final KTable<String, String> left = b.table("left", in().withName("left-source"), kv("left-store", S));
            final KTable<String, String> right = b.table("right", in().withName("right-source"), kv("right-store", S));
            left.filter((k, v) -> !v.isEmpty(), Named.as("filtered"), kv("filtered-store", S))
                .mapValues(v -> v + "!", Named.as("mapped"), kv("mapped-store", S))
                .transformValues(Tables.Tagging::new, kv("tagged-store", S), Named.as("tagged"))
                .outerJoin(right, Kit::pair, Named.as("joined"), kv("joined-store", S))
                .leftJoin(right, Kit::initial, Kit::pair, TableJoined.as("matched"), kv("matched-store", S))
                .groupBy((k, v) -> KeyValue.pair(initial(v), v), Grouped.with("regrouped", S, S))
                .reduce(Kit::plus, (a, v) -> a + "-" + v, Named.as("reducing"), kv("reduced-store", S))
                .suppress(Suppressed.untilTimeLimit(Kit.ms(5), Suppressed.BufferConfig.unbounded()).withName("held"))
                .toStream(Named.as("streamed")).to("out", out().withName("sink"));
        });
        dsl("names_windows", b -> stream(b, "in").groupByKey(Grouped.with("grouping", S, S))
            .windowedBy(Windows.tumbling(10, 5)).aggregate(() -> "0", Kit::append, Named.as("windowing"), windows("store", S))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closing"))
            .toStream((w, v) -> Kit.show(w), Named.as("showing")).to("out", out().withName("sink")));
        dsl("names_branches", b -> {
            final var branches = stream(b, "in").split(Named.as("by-"))
                .branch((k, v) -> v == null, Branched.as("null")).branch((k, v) -> v.isEmpty()).defaultBranch();
            new java.util.TreeMap<>(branches).forEach((name, branch) -> branch.mapValues(v -> name + text(v), Named.as(name + "-tag"))
                .to("out-" + name, out().withName(name + "-sink")));
        });
        dsl("names_global", b -> {
            final var global = b.globalTable("right", Consumed.<String, String>as("global-source").withKeySerde(S).withValueSerde(S),
                Materialized.as("global-store"));
            stream(b, "left").join(global, (k, v) -> v, Kit::pair, Named.as("globally")).to("out", out());
        });
        dsl("names_mixed", b -> {
            final KStream<String, String> stream = stream(b, "in").filter((k, v) -> v != null).selectKey((k, v) -> v, Named.as("rekeyed"));
            stream.groupByKey(Grouped.with("only-grouping", S, S)).count().toStream().to("counted", Kit.longsOut());
            stream.groupByKey(grouped()).reduce(Kit::plus, Named.as("only-processor"), kv(S)).toStream().to("reduced", out());
            stream.groupByKey(grouped()).aggregate(() -> "0", Kit::append, kv("only-store", S)).toStream().to("gathered", out());
        });
        dsl("names_many_nodes", b -> {
            KStream<String, String> stream = stream(b, "in");
            for (int i = 0; i < 12; i++) {
                final String tag = String.valueOf(i);
                stream = stream.mapValues(v -> text(v) + tag);
                stream.filter((k, v) -> text(v).length() % 2 == 0).to("out-" + i, out());
            }
        });
        dsl("names_explicit_required", b -> stream(b, "in").groupBy((k, v) -> v, grouped()).count().toStream().to("out", Kit.longsOut()));
        dsl("names_explicit_given", b -> stream(b, "in").groupBy((k, v) -> initial(v), Grouped.with("grouping", S, S))
            .count(kv("counts", L)).toStream().to("out", Kit.longsOut()));
        dsl("names_clashing_grouping", b -> {
            stream(b, "left").groupBy((k, v) -> v, Grouped.with("same", S, S)).count();
            stream(b, "right").groupBy((k, v) -> v, Grouped.with("same", S, S)).count();
        });
        dsl("names_clashing_processor", b -> stream(b, "in").mapValues(v -> v, Named.as("same")).mapValues(v -> v, Named.as("same"))
            .to("out", out()));
        dsl("names_clashing_store", b -> {
            table(b, "left").filter((k, v) -> true, kv("same", S));
            table(b, "right").filter((k, v) -> true, kv("same", S));
        });
    }
}

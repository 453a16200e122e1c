package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.sessions;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Kit.text;
import static penstock.conformance.Kit.windows;
import static penstock.conformance.Scenarios.dsl;

import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.Stores;

/** Several operators in one topology. */
final class Combinations {
    private Combinations() { }

    private static KStream<String, String> shown(final KTable<Windowed<String>, ?> table) {
        return table.toStream().map((w, v) -> KeyValue.pair(w.key(), Kit.show(w) + "=" + text(v)));
    }

    static void register() {
        dsl("combined_join_after_window", b -> shown(byKey(b, "left").windowedBy(Windows.tumbling(10, 5)).count())
            .join(stream(b, "right"), Kit::pair, StreamJoins.within(10, 5), StreamJoins.joined()).to("out", out()));
        dsl("combined_table_join_after_window", b -> shown(byKey(b, "left").windowedBy(Windows.sliding(10, 5)).count())
            .leftJoin(table(b, "right"), Kit::pair, Joined.with(S, S, S)).to("out", out()));
        dsl("combined_aggregate_after_stream_join", b -> stream(b, "left")
            .outerJoin(stream(b, "right"), Kit::pair, StreamJoins.within(6, 2), StreamJoins.joined()).groupByKey(grouped())
            .aggregate(() -> "0", Kit::append, kv("gathered", S)).toStream().to("out", out()));
        dsl("combined_aggregate_after_table_join", b -> stream(b, "left").leftJoin(table(b, "right"), Kit::pair, Joined.with(S, S, S))
            .groupBy((k, v) -> v, grouped()).count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("combined_window_after_stream_join", b -> shown(stream(b, "left")
            .join(stream(b, "right"), Kit::pair, StreamJoins.within(10, 5), StreamJoins.joined()).groupByKey(grouped())
            .windowedBy(Windows.tumbling(10, 10)).reduce(Kit::plus, windows("reduced", S))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))).to("out", out()));
        dsl("combined_two_stateful_steps", b -> byKey(b, "in").count(kv("counts", L)).toStream()
            .groupBy((k, v) -> v % 2 == 0 ? "even" : "odd", Grouped.with(S, L)).reduce(Long::sum, kv("sums", L))
            .toStream().to("out", longsOut()));
        dsl("combined_window_of_window", b -> shown(shown(byKey(b, "in").windowedBy(Windows.tumbling(5, 5)).count())
            .groupByKey(grouped()).windowedBy(Windows.tumbling(20, 0)).aggregate(() -> "0", Kit::append, windows(S))).to("out", out()));
        dsl("combined_session_then_count", b -> shown(byKey(b, "in").windowedBy(Windows.session(5, 5)).reduce(Kit::plus))
            .groupBy((k, v) -> k, grouped()).count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("combined_table_of_windowed_stream", b -> shown(byKey(b, "left").windowedBy(Windows.hopping(10, 5, 5)).count())
            .toTable(kv("last-window", S)).join(table(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("combined_windowed_table_operators", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count(windows("counts", L))
            .filter((w, v) -> v > 1).mapValues(v -> v * 10).toStream((w, v) -> Kit.show(w)).to("out", longsOut()));
        dsl("combined_windowed_table_join", b -> {
            final KTable<Windowed<String>, Long> left = byKey(b, "left").windowedBy(Windows.tumbling(10, 5)).count(windows("left-counts", L));
            final KTable<Windowed<String>, Long> right = byKey(b, "right").windowedBy(Windows.tumbling(10, 5)).count(windows("right-counts", L));
            left.outerJoin(right, Kit::pair).toStream((w, v) -> Kit.show(w)).to("out", out());
        });
        dsl("combined_branches_into_joins", b -> {
            final KTable<String, String> kept = table(b, "right");
            final var branches = stream(b, "left").split(Named.as("way-"))
                .branch((k, v) -> v != null && v.length() > 1, org.apache.kafka.streams.kstream.Branched.as("table"))
                .branch((k, v) -> v != null, org.apache.kafka.streams.kstream.Branched.as("stream")).defaultBranch();
            branches.get("way-table").leftJoin(kept, Kit::pair, Joined.with(S, S, S)).to("looked-up", out());
            branches.get("way-stream").leftJoin(stream(b, "third"), Kit::pair, StreamJoins.within(6, 3), StreamJoins.joined()).to("met", out());
            branches.get("way-0").groupByKey(grouped()).count().toStream().to("nulls", longsOut());
        });
        dsl("combined_merge_of_joins", b -> {
            final KTable<String, String> kept = b.table("third", in(), kv("kept", S));
            stream(b, "left").join(kept, Kit::pair, Joined.with(S, S, S))
                .merge(stream(b, "right").leftJoin(kept, Kit::keyedPair, Joined.with(S, S, S)))
                .groupByKey(grouped()).reduce(Kit::plus, kv("merged", S)).toStream().to("out", out());
        });
        dsl("combined_table_joins_and_group", b -> table(b, "left").join(table(b, "right"), Kit::pair)
            .leftJoin(table(b, "third").filter((k, v) -> !v.isEmpty()), Kit::pair, kv("joined", S))
            .groupBy((k, v) -> KeyValue.pair(initial(v), v), grouped()).reduce(Kit::plus, (a, v) -> a + "-" + v, kv("grouped", S))
            .toStream().to("out", out()));
        dsl("combined_foreign_key_of_aggregate", b -> {
            final KTable<String, String> gathered = byKey(b, "left").reduce((a, v) -> v + a, kv("gathered", S));
            gathered.leftJoin(table(b, "right"), Kit::initial, Kit::pair, kv("joined", S))
                .groupBy((k, v) -> KeyValue.pair(initial(v), k), grouped()).count(kv("counts", L)).toStream().to("out", longsOut());
        });
        dsl("combined_global_then_window", b -> shown(stream(b, "left").join(b.globalTable("right", in()), (k, v) -> initial(v), Kit::pair)
            .groupByKey(grouped()).windowedBy(Windows.tumbling(10, 5)).emitStrategy(EmitStrategy.onWindowClose())
            .count(windows("counts", L))).to("out", out()));
        dsl("combined_two_global_tables", b -> {
            final var first = b.globalTable("right", in());
            final var second = b.globalTable("third", in());
            stream(b, "left").leftJoin(first, (k, v) -> k, Kit::pair).leftJoin(second, (k, v) -> k, Kit::pair).to("out", out());
        });
        dsl("combined_process_then_window", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("numbers"), S, L));
            shown(stream(b, "in").processValues(Processors.Enumerate::new, "numbers").groupByKey(grouped())
                .windowedBy(Windows.session(6, 3)).aggregate(() -> "0", Kit::append, Kit::fuse, sessions("sessions", S)))
                .to("out", out());
        });
        dsl("combined_close_then_close", b -> shown(shown(byKey(b, "in").windowedBy(Windows.tumbling(5, 0))
            .emitStrategy(EmitStrategy.onWindowClose()).count()).groupByKey(grouped()).windowedBy(Windows.tumbling(20, 0))
            .emitStrategy(EmitStrategy.onWindowClose()).reduce(Kit::plus)).to("out", out()));
        dsl("combined_suppressed_into_join", b -> shown(byKey(b, "left").windowedBy(Windows.tumbling(10, 0)).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())))
            .outerJoin(stream(b, "right"), Kit::pair, StreamJoins.within(20, 5), StreamJoins.joined()).to("out", out()));
        dsl("combined_two_joins_of_one_stream", b -> {
            final KStream<String, String> left = stream(b, "left");
            final KStream<String, String> right = stream(b, "right");
            left.join(right, Kit::pair, StreamJoins.within(5, 5), StreamJoins.joined()).to("inner", out());
            left.leftJoin(right, Kit::pair, StreamJoins.within(10, 1), StreamJoins.joined()).to("left-out", out());
        });
        dsl("combined_cogroup_then_join", b -> byKey(b, "left").<String>cogroup(Kit::append).cogroup(byKey(b, "right"), Kit::strike)
            .aggregate(() -> "0", kv("together", S)).leftJoin(table(b, "third"), Kit::pair).toStream().to("out", out()));
        dsl("combined_orders", b -> {
            final KTable<String, String> customers = b.table("right", in(), kv("customers", S));
            final KStream<String, String> orders = stream(b, "left").filter((k, v) -> v != null);
            final KStream<String, String> enriched = orders.selectKey((k, v) -> initial(v))
                .join(customers, Kit::pair, Joined.with(S, S, S, "enrich"));
            enriched.groupByKey(Grouped.with("per-customer", S, S)).windowedBy(Windows.tumbling(20, 5))
                .aggregate(() -> 0L, Kit::addLength, windows("spent", L))
                .suppress(Suppressed.untilTimeLimit(ms(5), Suppressed.BufferConfig.maxRecords(10).emitEarlyWhenFull()))
                .toStream((w, v) -> Kit.show(w)).to("spent", longsOut());
            enriched.groupBy((k, v) -> v, Grouped.with("per-value", S, S)).count(kv("seen", L)).toStream().to("seen", longsOut());
        });
    }
}

package penstock.conformance;

import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Kit.text;
import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Scenarios.dsl;

import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Tables: sources, their stateless operators, and regrouping. */
final class Tables {
    private Tables() { }

    private static KeyValue<String, String> regroup(final String key, final String value) {
        return KeyValue.pair(initial(value), key + value);
    }

    /** Numbers the values of a key with a store of its own. */
    static final class Numbering implements ValueTransformerWithKey<String, String, String> {
        private KeyValueStore<String, Long> seen;

        @Override
        public void init(final ProcessorContext context) {
            seen = context.getStateStore("seen");
        }

        @Override
        public String transform(final String key, final String value) {
            final Long before = seen.get(key);
            final long now = before == null ? 1 : before + 1;
            seen.put(key, now);
            return value == null ? null : value + "#" + now;
        }

        @Override
        public void close() { }
    }

    /** Stateless transformer. */
    static final class Tagging implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(final ProcessorContext context) { }

        @Override
        public String transform(final String key, final String value) {
            return value == null ? null : key + "." + value;
        }

        @Override
        public void close() { }
    }

    static void register() {
        dsl("table_source", b -> table(b, "in").toStream().to("out", out()));
        dsl("table_source_materialized", b -> b.table("in", in(), kv("kept", S)).toStream().to("out", out()));
        dsl("table_source_uncached_in_memory", b -> b.table("in", in(),
            kv("kept", S).withCachingDisabled().withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", out()));
        dsl("table_source_unlogged", b -> b.table("in", in(), kv("kept", S).withLoggingDisabled()).toStream().to("out", out()));
        dsl("table_source_plain_store", b -> b.table("in", in(),
            Materialized.<String, String>as(Stores.persistentKeyValueStore("plain"))).toStream().to("out", out()));
        dsl("table_source_same_topic_twice", b -> {
            table(b, "in").toStream().to("first", out());
            table(b, "in").filter((k, v) -> v.length() > 1).toStream().to("second", out());
        });
        dsl("table_and_stream_of_one_topic", b -> {
            b.table("in", in(), kv("kept", S)).toStream().to("first", out());
            Kit.stream(b, "in").mapValues(v -> text(v) + "!").to("second", out());
        });
        dsl("table_filter", b -> table(b, "in").filter((k, v) -> v.length() > 1).toStream().to("out", out()));
        dsl("table_filter_materialized", b -> table(b, "in").filter((k, v) -> v.length() > 1, kv("long-ones", S))
            .toStream().to("out", out()));
        dsl("table_filter_not", b -> table(b, "in").filterNot((k, v) -> v.startsWith("x"), Named.as("no-x")).toStream().to("out", out()));
        dsl("table_filter_not_of_materialized", b -> b.table("in", in(), kv("kept", S))
            .filterNot((k, v) -> v.startsWith("x"), kv("no-x", S).withCachingDisabled()).toStream().to("out", out()));
        dsl("table_map_values", b -> table(b, "in").mapValues(v -> v + v).mapValues((k, v) -> k + "=" + v).toStream().to("out", out()));
        dsl("table_map_values_materialized", b -> table(b, "in").mapValues(v -> (long) v.length(), kv("lengths", L))
            .filter((k, v) -> v != 2).toStream().to("out", longsOut()));
        dsl("table_map_values_unnamed_materialized", b -> table(b, "in").mapValues((k, v) -> k + v, kv(S)).toStream().to("out", out()));
        dsl("table_transform_values", b -> table(b, "in").transformValues(Tagging::new).toStream().to("out", out()));
        dsl("table_transform_values_with_store", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("seen"), S, L));
            table(b, "in").transformValues(Numbering::new, kv("numbered", S), "seen").toStream().to("out", out());
        });
        dsl("table_to_stream_mapped", b -> table(b, "in").toStream((k, v) -> text(v) + k, Named.as("rekey")).to("out", out()));
        dsl("table_chain", b -> b.table("in", in(), kv("kept", S)).filter((k, v) -> !v.isEmpty()).mapValues(v -> v + "!")
            .filterNot((k, v) -> v.startsWith("x"), kv("rest", S)).mapValues(v -> v.length() + v).toStream().to("out", out()));
        dsl("table_group_count", b -> table(b, "in").groupBy(Tables::regroup, grouped()).count().toStream().to("out", longsOut()));
        dsl("table_group_count_named", b -> table(b, "in").groupBy(Tables::regroup, Grouped.with("by-initial", S, S))
            .count(Named.as("counting"), Materialized.as("counts")).toStream().to("out", longsOut()));
        dsl("table_group_reduce", b -> table(b, "in").groupBy(Tables::regroup, grouped())
            .reduce(Kit::plus, (a, v) -> a + "-" + v).toStream().to("out", out()));
        dsl("table_group_reduce_materialized", b -> b.table("in", in(), kv("kept", S)).groupBy(Tables::regroup, grouped())
            .reduce(Kit::plus, (a, v) -> a + "-" + v, kv("reduced", S).withCachingDisabled()).toStream().to("out", out()));
        dsl("table_group_aggregate", b -> table(b, "in").groupBy(Tables::regroup, grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, kv(S)).toStream().to("out", out()));
        dsl("table_group_aggregate_same_key", b -> table(b, "in").groupBy((k, v) -> KeyValue.pair(k, v + v), grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, Named.as("adding"),
                kv("added", S).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", out()));
        dsl("table_group_of_filtered", b -> table(b, "in").filter((k, v) -> v.length() > 1).groupBy(Tables::regroup, grouped())
            .count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("table_group_of_mapped_longs", b -> {
            final KTable<String, Long> lengths = table(b, "in").mapValues(v -> (long) v.length());
            lengths.groupBy((k, v) -> KeyValue.pair(k.substring(0, 1), v), Grouped.with(S, L))
                .reduce(Long::sum, (a, v) -> a - v, kv("sums", L)).toStream().to("out", longsOut());
        });
        dsl("table_group_twice", b -> table(b, "in").groupBy(Tables::regroup, grouped()).count(kv("counts", L))
            .groupBy((k, v) -> KeyValue.pair(String.valueOf(v), k), grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, kv("by-count", S)).toStream().to("out", out()));
        dsl("table_global", b -> b.globalTable("in", in(), Materialized.as("everywhere")));
    }
}

package penstock.conformance;

import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Scenarios.dsl;

import java.util.Map;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.state.Stores;

/** Unwindowed aggregations of streams. */
final class Aggregations {
    private Aggregations() { }

    /** Aggregator that forgets its key on the value "x". */
    private static Long sumOrForget(final String key, final String value, final Long sum) {
        return "x".equals(value) ? null : (sum == null ? 0L : sum) + value.length();
    }

    static void register() {
        dsl("aggregate_count", b -> byKey(b, "in").count().toStream().to("out", longsOut()));
        dsl("aggregate_count_named", b -> byKey(b, "in").count(Named.as("counter"), Materialized.as("counts"))
            .toStream().to("out", longsOut()));
        dsl("aggregate_count_unnamed_materialized", b -> byKey(b, "in").count(kv(L)).toStream().to("out", longsOut()));
        dsl("aggregate_count_in_memory", b -> byKey(b, "in")
            .count(kv("counts", L).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", longsOut()));
        dsl("aggregate_count_rocksdb", b -> byKey(b, "in")
            .count(kv("counts", L).withStoreType(Materialized.StoreType.ROCKS_DB)).toStream().to("out", longsOut()));
        dsl("aggregate_count_uncached", b -> byKey(b, "in").count(kv("counts", L).withCachingDisabled())
            .toStream().to("out", longsOut()));
        dsl("aggregate_count_unlogged", b -> byKey(b, "in").count(kv("counts", L).withLoggingDisabled())
            .toStream().to("out", longsOut()));
        dsl("aggregate_count_topic_config", b -> byKey(b, "in")
            .count(kv("counts", L).withLoggingEnabled(Map.of("segment.bytes", "1000000"))).toStream().to("out", longsOut()));
        dsl("aggregate_count_grouped_by", b -> stream(b, "in").groupBy((k, v) -> initial(v), grouped())
            .count().toStream().to("out", longsOut()));
        dsl("aggregate_count_grouped_by_named", b -> stream(b, "in")
            .groupBy((k, v) -> initial(v), Grouped.with("by-initial", S, S))
            .count(Materialized.as("counts")).toStream().to("out", longsOut()));
        dsl("aggregate_count_after_select_key", b -> stream(b, "in").selectKey((k, v) -> initial(v)).groupByKey(grouped())
            .count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("aggregate_reduce", b -> byKey(b, "in").reduce(Kit::plus).toStream().to("out", out()));
        dsl("aggregate_reduce_named", b -> byKey(b, "in").reduce(Kit::plus, Named.as("reducer"), kv("reduced", S).withCachingDisabled())
            .toStream().to("out", out()));
        dsl("aggregate_reduce_grouped_by", b -> stream(b, "in").groupBy((k, v) -> initial(v), grouped())
            .reduce(Kit::plus, kv("reduced", S)).toStream().to("out", out()));
        dsl("aggregate_reduce_to_null", b -> byKey(b, "in")
            .reduce((a, v) -> "x".equals(v) ? null : a + v, kv("reduced", S)).toStream().to("out", out()));
        dsl("aggregate_aggregate", b -> byKey(b, "in").aggregate(() -> "0", Kit::append, kv(S)).toStream().to("out", out()));
        dsl("aggregate_aggregate_named", b -> byKey(b, "in")
            .aggregate(() -> 0L, Kit::addLength, Named.as("adder"), kv("lengths", L)).toStream().to("out", longsOut()));
        dsl("aggregate_aggregate_to_null", b -> byKey(b, "in")
            .aggregate(() -> 0L, Aggregations::sumOrForget, kv("sums", L)).toStream().to("out", longsOut()));
        dsl("aggregate_aggregate_uncached_in_memory", b -> byKey(b, "in")
            .aggregate(() -> "", Kit::append, kv("texts", S).withCachingDisabled().withStoreType(Materialized.StoreType.IN_MEMORY))
            .toStream().to("out", out()));
        dsl("aggregate_twice", b -> {
            final KGroupedStream<String, String> groups = stream(b, "in").groupBy((k, v) -> initial(v), grouped());
            groups.count(kv("counts", L)).toStream().to("counted", longsOut());
            groups.reduce(Kit::plus, kv("reduced", S)).toStream().to("reduced", out());
        });
        dsl("aggregate_twice_named_grouping", b -> {
            final KGroupedStream<String, String> groups = stream(b, "in").groupBy((k, v) -> initial(v), Grouped.with("letters", S, S));
            groups.count().toStream().to("counted", longsOut());
            groups.aggregate(() -> "-", Kit::append, kv(S)).toStream().to("gathered", out());
        });
        dsl("aggregate_of_aggregate", b -> byKey(b, "in").count(kv("counts", L)).toStream()
            .map((k, v) -> KeyValue.pair(String.valueOf(v), k)).groupByKey(grouped())
            .reduce(Kit::plus, kv("by-count", S)).toStream().to("out", out()));
        dsl("aggregate_lru", b -> byKey(b, "in").count(Materialized.<String, Long>as(Stores.lruMap("recent", 2)).withKeySerde(S)
            .withValueSerde(L)).toStream().to("out", longsOut()));
        dsl("aggregate_plain_store", b -> byKey(b, "in").aggregate(() -> "0", Kit::append,
            Materialized.<String, String>as(Stores.persistentKeyValueStore("plain")).withKeySerde(S).withValueSerde(S))
            .toStream().to("out", out()));
        dsl("aggregate_plain_store_uncached", b -> byKey(b, "in").aggregate(() -> "0", Kit::append,
            Materialized.<String, String>as(Stores.inMemoryKeyValueStore("plain")).withKeySerde(S).withValueSerde(S)
                .withCachingDisabled()).toStream().to("out", out()));
        dsl("aggregate_word_count", b -> stream(b, "in").filter((k, v) -> v != null)
            .flatMapValues(v -> java.util.Arrays.asList(v.toLowerCase(java.util.Locale.ROOT).split(" ")))
            .groupBy((k, v) -> v, grouped()).count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("aggregate_json", b -> stream(b, "in").mapValues(Kit::boxed).groupByKey(Grouped.with(S, Kit.J))
            .aggregate(Kit::noted, Kit::note, kv("noted", Kit.J)).toStream().to("out", Kit.jsonOut()));
        dsl("aggregate_json_uncached", b -> stream(b, "in").mapValues(Kit::boxed).groupByKey(Grouped.with(S, Kit.J))
            .aggregate(Kit::noted, Kit::note, kv("noted", Kit.J).withCachingDisabled()).toStream().to("out", Kit.jsonOut()));
        dsl("aggregate_json_grouped_by", b -> stream(b, "in").mapValues(Kit::boxed)
            .groupBy((k, v) -> v == null ? null : initial(v.get("text").asText()), Grouped.with(S, Kit.J))
            .aggregate(Kit::noted, Kit::note, kv("noted", Kit.J)).toStream().to("out", Kit.jsonOut()));
        dsl("aggregate_merged_streams", b -> {
            final KStream<String, String> merged = stream(b, "left").selectKey((k, v) -> v).merge(stream(b, "right"));
            merged.groupByKey(grouped()).count(kv("counts", L)).toStream().to("out", longsOut());
        });
        dsl("aggregate_topic_list", b -> {
            final KGroupedStream<String, String> groups = b.stream(java.util.List.of("left", "right"), in()).groupByKey(grouped());
            groups.count(kv("counts", L)).toStream().to("counted", longsOut());
            groups.reduce(Kit::plus, kv("reduced", S)).toStream().to("reduced", out());
        });
        dsl("aggregate_topic_list_grouped_by", b -> b.stream(java.util.List.of("left", "right"), in())
            .groupBy((k, v) -> initial(v), grouped()).aggregate(() -> "0", Kit::append, kv("texts", S)).toStream().to("out", out()));
    }
}

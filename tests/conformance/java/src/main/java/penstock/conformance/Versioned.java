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
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Scenarios.dsl;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Tables that keep their history. */
final class Versioned {
    private Versioned() { }

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> history(final String name, final long retention, final Serde<V> values) {
        return Materialized.<String, V>as(Stores.persistentVersionedKeyValueStore(name, ms(retention)))
            .withKeySerde(S).withValueSerde(values);
    }

    private static KTable<String, String> versioned(final StreamsBuilder b, final String topic) {
        return b.table(topic, in(), history(topic + "-history", 100, S));
    }

    static void register() {
        dsl("versioned_source", b -> versioned(b, "in").toStream().to("out", out()));
        dsl("versioned_filter", b -> versioned(b, "in").filter((k, v) -> v.length() > 1).toStream().to("out", out()));
        dsl("versioned_filter_materialized", b -> versioned(b, "in").filter((k, v) -> v.length() > 1, history("long-ones", 50, S))
            .toStream().to("out", out()));
        dsl("versioned_map_values", b -> versioned(b, "in").mapValues(v -> v + "!", history("mapped", 50, S)).toStream().to("out", out()));
        dsl("versioned_count", b -> byKey(b, "in").count(history("counts", 60, L)).toStream().to("out", longsOut()));
        dsl("versioned_reduce", b -> byKey(b, "in").reduce(Kit::plus, history("reduced", 60, S)).toStream().to("out", out()));
        dsl("versioned_to_table", b -> stream(b, "in").toTable(history("tabled", 40, S)).toStream().to("out", out()));
        dsl("versioned_group", b -> versioned(b, "in").groupBy((k, v) -> KeyValue.pair(initial(v), k + v), grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, kv("grouped", S)).toStream().to("out", out()));
        dsl("versioned_group_into_history", b -> table(b, "in").groupBy((k, v) -> KeyValue.pair(initial(v), k + v), grouped())
            .reduce(Kit::plus, (a, v) -> a + "-" + v, history("grouped", 80, S)).toStream().to("out", out()));
        dsl("versioned_stream_table_inner", b -> stream(b, "left").join(versioned(b, "right"), Kit::pair, Joined.with(S, S, S))
            .to("out", out()));
        dsl("versioned_stream_table_left", b -> stream(b, "left").leftJoin(versioned(b, "right"), Kit::pair, Joined.with(S, S, S))
            .to("out", out()));
        dsl("versioned_stream_table_grace", b -> stream(b, "left").join(versioned(b, "right"), Kit::pair,
            Joined.with(S, S, S).withGracePeriod(ms(10))).to("out", out()));
        dsl("versioned_stream_table_left_grace_named", b -> stream(b, "left").leftJoin(versioned(b, "right"), Kit::keyedPair,
            Joined.with(S, S, S, "waiting", ms(6))).to("out", out()));
        dsl("versioned_stream_table_grace_repartitioned", b -> stream(b, "left").selectKey((k, v) -> initial(v))
            .join(versioned(b, "right"), Kit::pair, Joined.with(S, S, S, "waiting", ms(10))).to("out", out()));
        dsl("versioned_table_join", b -> versioned(b, "left").join(versioned(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("versioned_table_outer_join", b -> versioned(b, "left").outerJoin(table(b, "right"), Kit::pair, history("joined", 70, S))
            .toStream().to("out", out()));
        dsl("versioned_foreign_key", b -> versioned(b, "left").leftJoin(versioned(b, "right"), Kit::initial, Kit::pair, kv("joined", S))
            .toStream().to("out", out()));
    }
}

package penstock.conformance;

import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Scenarios.dsl;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.TableJoined;

/** Joins with tables: stream-table, stream-global, table-table, foreign key. */
final class TableJoins {
    private TableJoins() { }

    private static Joined<String, String, String> joined() {
        return Joined.with(S, S, S);
    }

    private static void streamTable() {
        dsl("stream_table_inner", b -> stream(b, "left").join(table(b, "right"), Kit::pair, joined()).to("out", out()));
        dsl("stream_table_left", b -> stream(b, "left").leftJoin(table(b, "right"), Kit::pair, joined()).to("out", out()));
        dsl("stream_table_inner_with_key", b -> stream(b, "left").join(b.table("right", in(), kv("kept", S)), Kit::keyedPair,
            joined().withName("look-up")).to("out", out()));
        dsl("stream_table_left_repartitioned", b -> stream(b, "left").selectKey((k, v) -> initial(v))
            .leftJoin(table(b, "right"), Kit::keyedPair, joined()).to("out", out()));
        dsl("stream_table_inner_repartitioned_named", b -> stream(b, "left").selectKey((k, v) -> initial(v))
            .join(table(b, "right"), Kit::pair, joined().withName("look-up")).to("out", out()));
        dsl("stream_table_of_filtered", b -> stream(b, "left")
            .leftJoin(table(b, "right").filter((k, v) -> v.length() > 1).mapValues(v -> v + "!"), Kit::pair, joined()).to("out", out()));
        dsl("stream_table_of_aggregate", b -> {
            final KTable<String, Long> counts = Kit.byKey(b, "right").count(kv("counts", L));
            stream(b, "left").leftJoin(counts, Kit::pair, Joined.with(S, S, L)).to("out", out());
        });
        dsl("stream_global_inner", b -> stream(b, "left").join(b.globalTable("right", in(), Materialized.as("global")),
            (k, v) -> initial(v), Kit::pair).to("out", out()));
        dsl("stream_global_left", b -> stream(b, "left").leftJoin(b.globalTable("right", in()),
            (k, v) -> k == null ? null : v, Kit::pair, Named.as("globally")).to("out", out()));
        dsl("stream_global_left_with_key", b -> {
            final GlobalKTable<String, String> global = b.globalTable("right", in(),
                kv("global", S).withStoreType(Materialized.StoreType.IN_MEMORY));
            stream(b, "left").leftJoin(global, (k, v) -> k, Kit::keyedPair).to("out", out());
        });
    }

    private static void tableTable() {
        dsl("table_join_inner", b -> table(b, "left").join(table(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("table_join_json", b -> {
            final KTable<String, JsonNode> left = stream(b, "left").mapValues(Kit::boxed).groupByKey(Grouped.with(S, Kit.J))
                .aggregate(Kit::noted, Kit::note, kv("lefts", Kit.J));
            final KTable<String, JsonNode> right = stream(b, "right").mapValues(Kit::boxed).groupByKey(Grouped.with(S, Kit.J))
                .aggregate(Kit::noted, Kit::note, kv("rights", Kit.J));
            left.join(right, Kit::both).toStream().to("out", Kit.jsonOut());
        });
        dsl("table_join_left", b -> table(b, "left").leftJoin(table(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("table_join_outer", b -> table(b, "left").outerJoin(table(b, "right"), Kit::pair).toStream().to("out", out()));
        dsl("table_join_inner_materialized", b -> table(b, "left").join(table(b, "right"), Kit::pair, Named.as("both"),
            kv("joined", S)).toStream().to("out", out()));
        dsl("table_join_left_materialized", b -> table(b, "left").leftJoin(table(b, "right"), Kit::pair,
            kv("joined", S).withCachingDisabled()).toStream().to("out", out()));
        dsl("table_join_outer_materialized", b -> table(b, "left").outerJoin(table(b, "right"), Kit::pair,
            kv("joined", S).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", out()));
        dsl("table_join_of_materialized", b -> b.table("left", in(), kv("one", S))
            .outerJoin(b.table("right", in(), kv("two", S)), Kit::pair).toStream().to("out", out()));
        dsl("table_join_chain", b -> table(b, "left").join(table(b, "right"), Kit::pair).leftJoin(table(b, "third"), Kit::pair)
            .toStream().to("out", out()));
        dsl("table_join_chain_outer", b -> table(b, "left").outerJoin(table(b, "right"), Kit::pair)
            .outerJoin(table(b, "third"), Kit::pair, kv("all", S)).filter((k, v) -> v.length() < 20).toStream().to("out", out()));
        dsl("table_join_of_filtered", b -> table(b, "left").filter((k, v) -> v.length() > 1)
            .leftJoin(table(b, "right").mapValues(v -> v + "!"), Kit::pair).toStream().to("out", out()));
        dsl("table_join_self", b -> {
            final KTable<String, String> table = table(b, "left");
            table.join(table.mapValues(v -> v + "'"), Kit::pair).toStream().to("out", out());
        });
        dsl("table_join_then_group", b -> table(b, "left").outerJoin(table(b, "right"), Kit::pair)
            .groupBy((k, v) -> org.apache.kafka.streams.KeyValue.pair(initial(v), v), Kit.grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, kv("grouped", S)).toStream().to("out", out()));
    }

    private static void foreignKey() {
        dsl("foreign_key_inner", b -> table(b, "left").join(table(b, "right"), Kit::initial, Kit::pair, kv(S)).toStream().to("out", out()));
        dsl("foreign_key_left", b -> table(b, "left").leftJoin(table(b, "right"), Kit::initial, Kit::pair, kv(S)).toStream().to("out", out()));
        dsl("foreign_key_inner_named", b -> table(b, "left").join(table(b, "right"), Kit::initial, Kit::pair,
            TableJoined.as("matching"), kv("joined", S)).toStream().to("out", out()));
        dsl("foreign_key_left_named", b -> b.table("left", in(), kv("one", S)).leftJoin(b.table("right", in(), kv("two", S)),
            Kit::initial, Kit::pair, TableJoined.as("matching"), kv("joined", S).withCachingDisabled()).toStream().to("out", out()));
        dsl("foreign_key_inner_in_memory", b -> table(b, "left").join(table(b, "right"), Kit::initial, Kit::pair,
            kv("joined", S).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", out()));
        dsl("foreign_key_self", b -> {
            final KTable<String, String> table = table(b, "left");
            table.leftJoin(table, Kit::initial, Kit::pair, kv("joined", S)).toStream().to("out", out());
        });
        dsl("foreign_key_chain", b -> table(b, "left").join(table(b, "right"), Kit::initial, Kit::pair, kv(S))
            .leftJoin(table(b, "third"), v -> v.substring(v.length() - 1), Kit::pair, kv("all", S)).toStream().to("out", out()));
        dsl("foreign_key_of_filtered", b -> table(b, "left").filter((k, v) -> v.length() > 1)
            .leftJoin(table(b, "right").mapValues(v -> v + "!", kv("marked", S)), Kit::initial, Kit::pair, kv(S)).toStream().to("out", out()));
    }

    static void register() {
        streamTable();
        tableTable();
        foreignKey();
    }
}

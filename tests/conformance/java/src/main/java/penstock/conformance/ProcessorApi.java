package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Scenarios.dsl;
import static penstock.conformance.Scenarios.papi;

import java.util.regex.Pattern;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Topologies written with processors, and processors inside the DSL. */
final class ProcessorApi {
    private ProcessorApi() { }

    private static Topology source(final Topology t, final String name, final String... topics) {
        return t.addSource(name, S.deserializer(), S.deserializer(), topics);
    }

    private static Topology sink(final Topology t, final String name, final String topic, final String... parents) {
        return t.addSink(name, topic, S.serializer(), S.serializer(), parents);
    }

    private static Topology single(final Topology t, final ProcessorSupplier<String, String, String, String> supplier, final StoreBuilder<?>... stores) {
        source(t, "source", "in").addProcessor("process", supplier, "source");
        for (final StoreBuilder<?> store : stores) {
            t.addStateStore(store, "process");
        }
        return sink(t, "sink", "out", "process");
    }

    static void register() {
        papi("papi_shout", t -> single(t, Processors.Shout::new));
        papi("papi_count", t -> source(t, "source", "in").addProcessor("count", Processors.Count::new, "source")
            .addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), S, L), "count")
            .addSink("sink", "out", S.serializer(), L.serializer(), "count"));
        papi("papi_count_cached", t -> source(t, "source", "in").addProcessor("count", Processors.Count::new, "source")
            .addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), S, L).withCachingEnabled(), "count")
            .addSink("sink", "out", S.serializer(), L.serializer(), "count"));
        papi("papi_count_lru", t -> source(t, "source", "in").addProcessor("count", Processors.Count::new, "source")
            .addStateStore(Stores.keyValueStoreBuilder(Stores.lruMap("counts", 2), S, L), "count")
            .addSink("sink", "out", S.serializer(), L.serializer(), "count"));
        papi("papi_count_unlogged", t -> source(t, "source", "in").addProcessor("count", Processors.Count::new, "source")
            .addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("counts"), S, L).withLoggingDisabled(), "count")
            .addSink("sink", "out", S.serializer(), L.serializer(), "count"));
        papi("papi_supplier_with_stores", t -> source(t, "source", "in")
            .addProcessor("count", new Processors.CountSupplier(), "source")
            .addSink("sink", "out", S.serializer(), L.serializer(), "count"));
        papi("papi_shared_store", t -> {
            source(t, "writes", "left").addProcessor("write", Processors.Write::new, "writes");
            source(t, "reads", "right").addProcessor("read", () -> new Processors.Read("shared"), "reads");
            t.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("shared"), S, S), "write");
            t.connectProcessorAndStateStores("read", "shared");
            sink(t, "sink", "out", "read");
        });
        papi("papi_two_sources_one_processor", t -> {
            source(t, "one", "left");
            source(t, "two", "right", "third");
            t.addProcessor("origin", Processors.Origin::new, "one", "two");
            sink(t, "sink", "out", "origin");
        });
        papi("papi_children", t -> {
            source(t, "source", "in").addProcessor("route", Processors.Route::new, "source");
            sink(t, "long", "out-long", "route");
            t.addProcessor("short", Processors.Shout::new, "route");
            sink(t, "sink", "out-short", "short");
        });
        papi("papi_stream_time", t -> single(t, Processors.StreamTicker::new));
        papi("papi_anchored_ticks", t -> single(t, Processors.AnchoredTicker::new));
        papi("papi_wall_clock", t -> single(t, Processors.WallClockFlush::new,
            Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("last"), S, S)));
        papi("papi_pattern", t -> {
            t.addSource("source", S.deserializer(), S.deserializer(), Pattern.compile("in-[a-z]+"));
            t.addProcessor("shout", Processors.Shout::new, "source");
            sink(t, "sink", "out", "shout");
        });
        papi("papi_headers", t -> single(t, Processors.Head::new));
        papi("papi_origin", t -> single(t, Processors.Origin::new));
        papi("papi_shift", t -> single(t, Processors.Shift::new));
        papi("papi_window_store", t -> single(t, Processors.Recent::new,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("windows", ms(50), ms(10), false), S, S)));
        papi("papi_window_store_in_memory", t -> single(t, Processors.Recent::new,
            Stores.windowStoreBuilder(Stores.inMemoryWindowStore("windows", ms(50), ms(10), false), S, S)));
        papi("papi_window_store_duplicates", t -> single(t, Processors.Recent::new,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("windows", ms(50), ms(10), true), S, S)));
        papi("papi_window_store_in_memory_duplicates", t -> single(t, Processors.Recent::new,
            Stores.windowStoreBuilder(Stores.inMemoryWindowStore("windows", ms(50), ms(10), true), S, S)));
        papi("papi_window_store_cached", t -> single(t, Processors.Recent::new,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("windows", ms(50), ms(10), false), S, S).withCachingEnabled()));
        papi("papi_session_store", t -> single(t, Processors.Sessions::new,
            Stores.sessionStoreBuilder(Stores.persistentSessionStore("sessions", ms(60)), S, S)));
        papi("papi_session_store_in_memory", t -> single(t, Processors.Sessions::new,
            Stores.sessionStoreBuilder(Stores.inMemorySessionStore("sessions", ms(60)), S, S)));
        papi("papi_session_store_cached", t -> single(t, Processors.Sessions::new,
            Stores.sessionStoreBuilder(Stores.persistentSessionStore("sessions", ms(60)), S, S).withCachingEnabled()));
        papi("papi_versioned_store", t -> single(t, Processors.History::new,
            Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("history", ms(40)), S, S)));
        papi("papi_versioned_store_segments", t -> single(t, Processors.History::new, Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("history", ms(100), ms(10)), S, S)));
        papi("papi_timestamped_store", t -> single(t, Processors.Stamp::new,
            Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore("stamped"), S, S)));
        papi("papi_timestamped_store_in_memory", t -> single(t, Processors.Stamp::new,
            Stores.timestampedKeyValueStoreBuilder(Stores.inMemoryKeyValueStore("stamped"), S, S).withCachingEnabled()));
        papi("papi_walk", t -> single(t, Processors.Walk::new,
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("entries"), S, S)));
        papi("papi_walk_in_memory", t -> single(t, Processors.Walk::new,
            Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("entries"), S, S)));
        papi("papi_walk_cached", t -> single(t, Processors.Walk::new,
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("entries"), S, S).withCachingEnabled()));
        papi("papi_global_store", t -> {
            t.addGlobalStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("capitals"), S, S).withLoggingDisabled(),
                "global-source", S.deserializer(), S.deserializer(), "right", "global-process", Processors.Capitals::new);
            source(t, "source", "left").addProcessor("read", () -> new Processors.Read("capitals"), "source");
            sink(t, "sink", "out", "read");
        });
        papi("papi_read_only_store", t -> {
            t.addReadOnlyStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("reference"), S, S),
                "reference-source", S.deserializer(), S.deserializer(), "right", "reference-load", Processors.Load::new);
            source(t, "source", "left").addProcessor("read", () -> new Processors.Read("reference"), "source");
            t.connectProcessorAndStateStores("read", "reference");
            sink(t, "sink", "out", "read");
        });
        papi("papi_dynamic_sink", t -> {
            source(t, "source", "in");
            t.addSink("sink", new Stateless.ByInitial(), S.serializer(), S.serializer(), "source");
        });
        papi("papi_diamond", t -> {
            source(t, "source", "in").addProcessor("one", Processors.Shout::new, "source")
                .addProcessor("two", Processors.Shift::new, "source").addProcessor("three", Processors.Shout::new, "one", "two");
            sink(t, "sink", "out", "three", "source");
        });
        dsl("dsl_process", b -> stream(b, "in").process(Processors.Shout::new).process(Processors.Shift::new, Named.as("shifting"))
            .to("out", out()));
        dsl("dsl_process_with_store", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), S, L));
            stream(b, "in").process(Processors.Count::new, "counts").to("out", longsOut());
        });
        dsl("dsl_process_supplier_with_stores", b -> stream(b, "in").process(new Processors.CountSupplier()).to("out", longsOut()));
        dsl("dsl_process_then_group", b -> stream(b, "in").process(Processors.Shift::new).groupByKey(grouped())
            .count(kv("totals", L)).toStream().to("out", longsOut()));
        dsl("dsl_process_values", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("numbers"), S, L).withCachingEnabled());
            stream(b, "in").processValues(Processors.Enumerate::new, "numbers").to("out", out());
        });
        dsl("dsl_process_values_then_group", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("numbers"), S, L));
            stream(b, "in").processValues(Processors.Enumerate::new, Named.as("numbering"), "numbers").groupByKey(grouped())
                .reduce(Kit::plus).toStream().to("out", out());
        });
        dsl("dsl_process_punctuation", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("last"), S, S));
            stream(b, "in").process(Processors.WallClockFlush::new, "last").groupByKey(grouped()).count(kv("sent", L))
                .toStream().to("out", longsOut());
        });
        dsl("dsl_process_reads_table", b -> {
            b.table("right", in(), kv("kept", S));
            stream(b, "left").process(() -> new Processors.Read("kept"), "kept").to("out", out());
        });
        dsl("dsl_global_store", b -> {
            b.addGlobalStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("capitals"), S, S).withLoggingDisabled(),
                "right", Consumed.with(S, S), Processors.Capitals::new);
            stream(b, "left").process(() -> new Processors.Read("capitals")).to("out", out());
        });
    }
}

package penstock.conformance;

import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.sessionOut;
import static penstock.conformance.Kit.sessions;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.windowedOut;
import static penstock.conformance.Kit.windows;
import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Scenarios.dsl;

import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.state.Stores;

/** Windowed aggregations: kinds of windows x aggregations x when they emit. */
final class Windows {
    private Windows() { }

    private record Kind(long size, Function<KGroupedStream<String, String>, TimeWindowedKStream<String, String>> by) { }

    static TimeWindows tumbling(final long size, final long grace) {
        return TimeWindows.ofSizeAndGrace(ms(size), ms(grace));
    }

    static TimeWindows hopping(final long size, final long advance, final long grace) {
        return tumbling(size, grace).advanceBy(ms(advance));
    }

    static SlidingWindows sliding(final long difference, final long grace) {
        return SlidingWindows.ofTimeDifferenceAndGrace(ms(difference), ms(grace));
    }

    static SessionWindows session(final long gap, final long grace) {
        return SessionWindows.ofInactivityGapAndGrace(ms(gap), ms(grace));
    }

    private static void timeWindows() {
        final Map<String, Kind> kinds = Map.of(
            "tumbling", new Kind(10, g -> g.windowedBy(tumbling(10, 5))),
            "tumbling_no_grace", new Kind(10, g -> g.windowedBy(TimeWindows.ofSizeWithNoGrace(ms(10)))),
            "hopping", new Kind(12, g -> g.windowedBy(hopping(12, 5, 4))),
            "sliding", new Kind(10, g -> g.windowedBy(sliding(10, 6))),
            "sliding_no_grace", new Kind(8, g -> g.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(ms(8)))));
        kinds.forEach((name, kind) -> {
            for (final String when : new String[] {"update", "close"}) {
                final Function<KGroupedStream<String, String>, TimeWindowedKStream<String, String>> by = g -> kind.by.apply(g)
                    .emitStrategy(when.equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate());
                dsl("window_" + name + "_count_" + when, b -> by.apply(byKey(b, "in")).count()
                    .toStream().to("out", windowedOut(kind.size, L)));
                dsl("window_" + name + "_reduce_" + when, b -> by.apply(byKey(b, "in")).reduce(Kit::plus, windows("store", S))
                    .toStream().to("out", windowedOut(kind.size, S)));
                dsl("window_" + name + "_aggregate_" + when, b -> by.apply(byKey(b, "in"))
                    .aggregate(() -> "0", Kit::append, windows(S)).toStream().to("out", windowedOut(kind.size, S)));
            }
        });
    }

    private static void sessionWindows() {
        final Map<String, SessionWindows> kinds = Map.of(
            "session", session(8, 5),
            "session_no_grace", SessionWindows.ofInactivityGapWithNoGrace(ms(6)));
        kinds.forEach((name, kind) -> {
            for (final String when : new String[] {"update", "close"}) {
                final Function<KGroupedStream<String, String>, SessionWindowedKStream<String, String>> by = g -> g.windowedBy(kind)
                    .emitStrategy(when.equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate());
                dsl("window_" + name + "_count_" + when, b -> by.apply(byKey(b, "in")).count()
                    .toStream().to("out", sessionOut(L)));
                dsl("window_" + name + "_reduce_" + when, b -> by.apply(byKey(b, "in")).reduce(Kit::plus, sessions("store", S))
                    .toStream().to("out", sessionOut(S)));
                dsl("window_" + name + "_aggregate_" + when, b -> by.apply(byKey(b, "in"))
                    .aggregate(() -> "0", Kit::append, Kit::fuse, sessions(S)).toStream().to("out", sessionOut(S)));
            }
        });
    }

    static void register() {
        timeWindows();
        sessionWindows();
        dsl("window_unlimited_count", b -> byKey(b, "in").windowedBy(UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(20)))
            .count().toStream().to("out", windowedOut(Long.MAX_VALUE, L)));
        dsl("window_unlimited_aggregate", b -> byKey(b, "in").windowedBy(UnlimitedWindows.of())
            .aggregate(() -> "0", Kit::append, windows("store", S)).toStream().to("out", windowedOut(Long.MAX_VALUE, S)));
        dsl("window_count_named", b -> byKey(b, "in").windowedBy(tumbling(10, 3))
            .count(Named.as("counting"), windows("counts", L)).toStream().to("out", windowedOut(10, L)));
        dsl("window_count_uncached", b -> byKey(b, "in").windowedBy(hopping(10, 5, 0))
            .count(windows("counts", L).withCachingDisabled()).toStream().to("out", windowedOut(10, L)));
        dsl("window_count_in_memory", b -> byKey(b, "in").windowedBy(tumbling(10, 5))
            .count(windows("counts", L).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", windowedOut(10, L)));
        dsl("window_count_unlogged", b -> byKey(b, "in").windowedBy(tumbling(10, 5))
            .count(windows("counts", L).withLoggingDisabled()).toStream().to("out", windowedOut(10, L)));
        dsl("window_count_retention", b -> byKey(b, "in").windowedBy(tumbling(10, 5))
            .count(windows("counts", L).withRetention(ms(200_000))).toStream().to("out", windowedOut(10, L)));
        dsl("window_count_grouped_by", b -> stream(b, "in").groupBy((k, v) -> initial(v), grouped()).windowedBy(tumbling(10, 5))
            .count().toStream().to("out", windowedOut(10, L)));
        dsl("window_topic_list", b -> {
            final KGroupedStream<String, String> groups = b.stream(java.util.List.of("left", "right"), in()).groupByKey(grouped());
            groups.windowedBy(tumbling(10, 5)).count().toStream().to("counted", windowedOut(10, L));
            groups.windowedBy(hopping(12, 5, 4)).aggregate(() -> "0", Kit::append, windows("texts", S)).toStream()
                .to("gathered", windowedOut(12, S));
        });
        dsl("window_plain_store", b -> byKey(b, "in").windowedBy(tumbling(10, 5)).aggregate(() -> "0", Kit::append,
            Materialized.<String, String>as(Stores.persistentWindowStore("plain", ms(100), ms(10), false))
                .withKeySerde(S).withValueSerde(S)).toStream().to("out", windowedOut(10, S)));
        dsl("window_supplied_store", b -> byKey(b, "in").windowedBy(sliding(10, 5)).aggregate(() -> "0", Kit::append,
            Materialized.<String, String>as(Stores.persistentTimestampedWindowStore("stamped", ms(100), ms(10), false))
                .withKeySerde(S).withValueSerde(S).withCachingDisabled()).toStream().to("out", windowedOut(10, S)));
        dsl("window_supplied_in_memory_store", b -> byKey(b, "in").windowedBy(hopping(10, 4, 3)).reduce(Kit::plus,
            Materialized.<String, String>as(Stores.inMemoryWindowStore("memory", ms(60), ms(10), false))
                .withKeySerde(S).withValueSerde(S)).toStream().to("out", windowedOut(10, S)));
        dsl("window_sliding_uncached", b -> byKey(b, "in").windowedBy(sliding(10, 20))
            .aggregate(() -> "0", Kit::append, windows("store", S).withCachingDisabled()).toStream().to("out", windowedOut(10, S)));
        dsl("window_sliding_in_memory", b -> byKey(b, "in").windowedBy(sliding(10, 5))
            .reduce(Kit::plus, windows("store", S).withStoreType(Materialized.StoreType.IN_MEMORY))
            .toStream().to("out", windowedOut(10, S)));
        dsl("window_session_named", b -> byKey(b, "in").windowedBy(session(5, 20))
            .aggregate(() -> "0", Kit::append, Kit::fuse, Named.as("sessioning"), sessions("sessions", S).withCachingDisabled())
            .toStream().to("out", sessionOut(S)));
        dsl("window_session_in_memory", b -> byKey(b, "in").windowedBy(session(5, 3))
            .count(sessions("sessions", L).withStoreType(Materialized.StoreType.IN_MEMORY)).toStream().to("out", sessionOut(L)));
        dsl("window_session_grouped_by", b -> stream(b, "in").groupBy((k, v) -> initial(v), grouped())
            .windowedBy(session(5, 10)).reduce(Kit::plus).toStream().to("out", sessionOut(S)));
        dsl("window_session_supplied_store", b -> byKey(b, "in").windowedBy(session(5, 10)).reduce(Kit::plus,
            Materialized.<String, String>as(Stores.inMemorySessionStore("memory", ms(100))).withKeySerde(S).withValueSerde(S))
            .toStream().to("out", sessionOut(S)));
        dsl("window_close_uncached_in_memory", b -> byKey(b, "in").windowedBy(tumbling(10, 2))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(windows("counts", L).withCachingDisabled().withStoreType(Materialized.StoreType.IN_MEMORY))
            .toStream().to("out", windowedOut(10, L)));
    }
}

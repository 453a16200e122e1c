package penstock.conformance;

import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.sessionOut;
import static penstock.conformance.Kit.table;
import static penstock.conformance.Kit.windowedOut;
import static penstock.conformance.Kit.windows;
import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Scenarios.dsl;
import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.maxBytes;
import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.maxRecords;
import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.unbounded;
import static org.apache.kafka.streams.kstream.Suppressed.untilTimeLimit;
import static org.apache.kafka.streams.kstream.Suppressed.untilWindowCloses;

import java.util.Map;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/** Suppressed updates. */
final class Suppression {
    private Suppression() { }

    static void register() {
        dsl("suppress_window_closes", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count()
            .suppress(untilWindowCloses(unbounded())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_hopping_closes", b -> byKey(b, "in").windowedBy(Windows.hopping(10, 5, 3)).reduce(Kit::plus)
            .suppress(untilWindowCloses(unbounded())).toStream().to("out", windowedOut(10, S)));
        dsl("suppress_sliding_closes", b -> byKey(b, "in").windowedBy(Windows.sliding(10, 3)).count()
            .suppress(untilWindowCloses(unbounded())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_session_closes", b -> byKey(b, "in").windowedBy(Windows.session(5, 3)).count()
            .suppress(untilWindowCloses(unbounded())).toStream().to("out", sessionOut(L)));
        dsl("suppress_named", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 0)).count(windows("counts", L))
            .suppress(untilWindowCloses(unbounded()).withName("final")).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_window_shut_down_when_full", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count()
            .suppress(untilWindowCloses(maxRecords(3).shutDownWhenFull())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_window_shut_down_when_bytes_full", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count()
            .suppress(untilWindowCloses(maxBytes(300).shutDownWhenFull())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_window_unlogged", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count()
            .suppress(untilWindowCloses(unbounded().withLoggingDisabled())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_window_topic_config", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count()
            .suppress(untilWindowCloses(unbounded().withLoggingEnabled(Map.of("segment.bytes", "1000000"))))
            .toStream().to("out", windowedOut(10, L)));
        dsl("suppress_time_limit", b -> table(b, "in").suppress(untilTimeLimit(ms(10), unbounded())).toStream().to("out", out()));
        dsl("suppress_time_limit_zero", b -> b.table("in", in(), kv("kept", S))
            .suppress(untilTimeLimit(ms(0), unbounded())).toStream().to("out", out()));
        dsl("suppress_time_limit_max_records", b -> byKey(b, "in").count(kv("counts", L))
            .suppress(untilTimeLimit(ms(20), maxRecords(2).emitEarlyWhenFull())).toStream().to("out", longsOut()));
        dsl("suppress_time_limit_max_records_default", b -> table(b, "in")
            .suppress(untilTimeLimit(ms(20), maxRecords(1))).toStream().to("out", out()));
        dsl("suppress_time_limit_max_bytes", b -> table(b, "in")
            .suppress(untilTimeLimit(ms(50), maxBytes(180).emitEarlyWhenFull())).toStream().to("out", out()));
        dsl("suppress_time_limit_both_bounds", b -> table(b, "in")
            .suppress(untilTimeLimit(ms(50), maxRecords(3).withMaxBytes(250).emitEarlyWhenFull())).toStream().to("out", out()));
        dsl("suppress_time_limit_shut_down_when_full", b -> table(b, "in")
            .suppress(untilTimeLimit(ms(30), maxRecords(2).shutDownWhenFull())).toStream().to("out", out()));
        dsl("suppress_of_windows_by_time", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 5)).count(windows("counts", L))
            .suppress(untilTimeLimit(ms(7), unbounded())).toStream().to("out", windowedOut(10, L)));
        dsl("suppress_then_filter_and_group", b -> table(b, "in").suppress(untilTimeLimit(ms(5), unbounded()))
            .filter((k, v) -> v.length() > 1).groupBy((k, v) -> KeyValue.pair(Kit.initial(v), v), Kit.grouped())
            .aggregate(() -> "0", Kit::append, Kit::strike, kv("grouped", S)).toStream().to("out", out()));
        dsl("suppress_then_rekey", b -> byKey(b, "in").windowedBy(Windows.tumbling(10, 0)).count()
            .suppress(untilWindowCloses(unbounded())).toStream((Windowed<String> w, Long v) -> Kit.show(w))
            .groupByKey(org.apache.kafka.streams.kstream.Grouped.with(S, L)).reduce(Long::sum).toStream().to("out", longsOut()));
    }
}

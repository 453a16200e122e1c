package penstock.conformance;

import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.grouped;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.sessionOut;
import static penstock.conformance.Kit.sessions;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.windowedOut;
import static penstock.conformance.Kit.windows;
import static penstock.conformance.Scenarios.dsl;

import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Named;

/** Several grouped streams into one aggregate. */
final class Cogroups {
    private Cogroups() { }

    private static String appendOther(final String key, final String value, final String aggregate) {
        return aggregate + "~" + value;
    }

    private static CogroupedKStream<String, String> two(final StreamsBuilder b) {
        return byKey(b, "left").<String>cogroup(Kit::append).cogroup(byKey(b, "right"), Cogroups::appendOther);
    }

    static void register() {
        dsl("cogroup_one", b -> byKey(b, "in").<String>cogroup(Kit::append).aggregate(() -> "0", kv(S)).toStream().to("out", out()));
        dsl("cogroup_one_tumbling", b -> byKey(b, "in").<String>cogroup(Kit::append).windowedBy(Windows.tumbling(10, 5))
            .aggregate(() -> "0", windows(S)).toStream().to("out", windowedOut(10, S)));
        dsl("cogroup_one_sliding", b -> byKey(b, "in").<String>cogroup(Kit::append).windowedBy(Windows.sliding(8, 4))
            .aggregate(() -> "0", windows(S)).toStream().to("out", windowedOut(8, S)));
        dsl("cogroup_one_session", b -> byKey(b, "in").<String>cogroup(Kit::append).windowedBy(Windows.session(6, 4))
            .aggregate(() -> "0", Kit::fuse, sessions(S)).toStream().to("out", sessionOut(S)));
        dsl("cogroup_one_session_no_grace", b -> byKey(b, "in").<String>cogroup(Kit::append).windowedBy(Windows.session(6, 0))
            .aggregate(() -> "0", Kit::fuse, sessions("together", S)).toStream().to("out", sessionOut(S)));
        dsl("cogroup_two", b -> two(b).aggregate(() -> "0", kv("together", S)).toStream().to("out", out()));
        dsl("cogroup_two_unnamed", b -> two(b).aggregate(() -> "0", kv(S)).toStream().to("out", out()));
        dsl("cogroup_named", b -> two(b).aggregate(() -> "0", Named.as("gathering"), kv("together", S).withCachingDisabled())
            .toStream().to("out", out()));
        dsl("cogroup_repartitioned", b -> stream(b, "left").groupBy((k, v) -> initial(v), grouped()).<String>cogroup(Kit::append)
            .cogroup(byKey(b, "right"), Cogroups::appendOther)
            .cogroup(stream(b, "third").groupBy((k, v) -> initial(v), Grouped.with("third-by-initial", S, S)), Kit::append)
            .aggregate(() -> "0", kv("together", S)).toStream().to("out", out()));
        dsl("cogroup_tumbling", b -> two(b).windowedBy(Windows.tumbling(10, 5)).aggregate(() -> "0", windows("together", S))
            .toStream().to("out", windowedOut(10, S)));
        dsl("cogroup_hopping_named", b -> two(b).windowedBy(Windows.hopping(10, 4, 2)).aggregate(() -> "0", Named.as("gathering"), windows(S))
            .toStream().to("out", windowedOut(10, S)));
        dsl("cogroup_sliding", b -> two(b).windowedBy(Windows.sliding(8, 4)).aggregate(() -> "0", windows(S))
            .toStream().to("out", windowedOut(8, S)));
        dsl("cogroup_session", b -> two(b).windowedBy(Windows.session(6, 4)).aggregate(() -> "0", Kit::fuse, sessions(S))
            .toStream().to("out", sessionOut(S)));
        dsl("cogroup_session_named", b -> two(b).windowedBy(Windows.session(6, 0)).aggregate(() -> "0", Kit::fuse,
            Named.as("gathering"), sessions("together", S)).toStream().to("out", sessionOut(S)));
    }
}

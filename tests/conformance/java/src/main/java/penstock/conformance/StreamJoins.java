package penstock.conformance;

import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Scenarios.dsl;

import java.util.Map;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.Stores;

/** Joins of two streams. */
final class StreamJoins {
    private StreamJoins() { }

    static JoinWindows within(final long difference, final long grace) {
        return JoinWindows.ofTimeDifferenceAndGrace(ms(difference), ms(grace));
    }

    static StreamJoined<String, String, String> joined() {
        return StreamJoined.with(S, S, S);
    }

    static void register() {
        dsl("stream_join_inner", b -> stream(b, "left").join(stream(b, "right"), Kit::pair, within(10, 5), joined()).to("out", out()));
        dsl("stream_join_left", b -> stream(b, "left").leftJoin(stream(b, "right"), Kit::pair, within(10, 5), joined()).to("out", out()));
        dsl("stream_join_outer", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair, within(10, 5), joined()).to("out", out()));
        dsl("stream_join_inner_no_grace", b -> stream(b, "left").join(stream(b, "right"), Kit::pair,
            JoinWindows.ofTimeDifferenceWithNoGrace(ms(8)), joined()).to("out", out()));
        dsl("stream_join_outer_no_grace", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair,
            JoinWindows.ofTimeDifferenceWithNoGrace(ms(5)), joined()).to("out", out()));
        dsl("stream_join_inner_with_key", b -> stream(b, "left").join(stream(b, "right"), Kit::keyedPair, within(4, 20), joined())
            .to("out", out()));
        dsl("stream_join_left_with_key", b -> stream(b, "left").leftJoin(stream(b, "right"), Kit::keyedPair, within(4, 2), joined())
            .to("out", out()));
        dsl("stream_join_inner_asymmetric", b -> stream(b, "left").join(stream(b, "right"), Kit::pair,
            within(0, 5).before(ms(3)).after(ms(12)), joined()).to("out", out()));
        dsl("stream_join_left_asymmetric", b -> stream(b, "left").leftJoin(stream(b, "right"), Kit::pair,
            within(5, 3).before(ms(0)).after(ms(10)), joined()).to("out", out()));
        dsl("stream_join_outer_asymmetric", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair,
            within(5, 3).before(ms(10)).after(ms(2)), joined()).to("out", out()));
        dsl("stream_join_zero_window", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair, within(0, 0), joined())
            .to("out", out()));
        dsl("stream_join_negative_before", b -> stream(b, "left").leftJoin(stream(b, "right"), Kit::pair,
            within(0, 4).after(ms(10)).before(ms(-3)), joined()).to("out", out()));
        dsl("stream_join_self", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.join(stream, Kit::pair, within(6, 4), joined()).to("out", out());
        });
        dsl("stream_join_repartitioned", b -> stream(b, "left").selectKey((k, v) -> initial(v))
            .join(stream(b, "right").selectKey((k, v) -> initial(v)), Kit::pair, within(10, 5), joined()).to("out", out()));
        dsl("stream_join_left_repartitioned_named", b -> stream(b, "left").selectKey((k, v) -> initial(v))
            .leftJoin(stream(b, "right"), Kit::pair, within(10, 5), joined().withName("meeting").withStoreName("meeting-store"))
            .to("out", out()));
        dsl("stream_join_outer_named", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair, within(10, 5),
            joined().withName("meeting")).to("out", out()));
        dsl("stream_join_inner_store_named", b -> stream(b, "left").join(stream(b, "right"), Kit::pair, within(10, 5),
            joined().withStoreName("buffers")).to("out", out()));
        dsl("stream_join_unlogged", b -> stream(b, "left").leftJoin(stream(b, "right"), Kit::pair, within(10, 5),
            joined().withLoggingDisabled()).to("out", out()));
        dsl("stream_join_topic_config", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair, within(10, 5),
            joined().withLoggingEnabled(Map.of("segment.bytes", "1000000"))).to("out", out()));
        dsl("stream_join_in_memory", b -> stream(b, "left").outerJoin(stream(b, "right"), Kit::pair, within(10, 5),
            joined().withDslStoreSuppliers(new BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers())).to("out", out()));
        dsl("stream_join_supplied_stores", b -> stream(b, "left").join(stream(b, "right"), Kit::pair, within(10, 5), joined()
            .withThisStoreSupplier(Stores.inMemoryWindowStore("this-store", ms(25), ms(20), true))
            .withOtherStoreSupplier(Stores.persistentWindowStore("other-store", ms(25), ms(20), true))).to("out", out()));
        dsl("stream_join_three", b -> stream(b, "left").join(stream(b, "right"), Kit::pair, within(10, 5), joined())
            .outerJoin(stream(b, "third"), Kit::pair, within(6, 2), joined()).to("out", out()));
        dsl("stream_join_same_stream_mapped", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.outerJoin(stream.mapValues(v -> v == null ? null : v + "'"), Kit::pair, within(3, 1), joined()).to("out", out());
        });
    }
}

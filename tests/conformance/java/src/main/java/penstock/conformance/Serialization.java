package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Scenarios.dsl;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** Every serde: as values on a topic, as keys of a store, inside lists and windows. */
final class Serialization {
    private static final Serde<List<String>> TEXTS = Serdes.ListSerde(ArrayList.class, S);
    private static final Serde<List<Integer>> INTEGERS = Serdes.ListSerde(ArrayList.class, Serdes.Integer());

    private Serialization() { }

    private static KStream<String, String> texts(final StreamsBuilder b) {
        return stream(b, "in").filter((k, v) -> v != null);
    }

    private static UUID uuid(final String value) {
        return UUID.nameUUIDFromBytes(value.getBytes(StandardCharsets.UTF_8));
    }

    private static <K> void keys(final String name, final Serde<K> serde, final Function<String, K> key) {
        dsl("serde_keys_" + name, b -> texts(b).selectKey((k, v) -> key.apply(v)).groupByKey(Grouped.with(serde, S))
            .count(Materialized.with(serde, L)).toStream().to("out", Produced.with(serde, L)));
    }

    static void register() {
        dsl("serde_values", b -> {
            final KStream<String, String> texts = texts(b);
            texts.mapValues(v -> v.length() - 2).to("integers", Produced.with(S, Serdes.Integer()));
            texts.mapValues(v -> (short) (v.length() - 2)).to("shorts", Produced.with(S, Serdes.Short()));
            texts.mapValues(v -> v.length() - 2L).to("longs", longsOut());
            texts.mapValues(v -> (v.length() - 2) / 3.0).to("doubles", Produced.with(S, Serdes.Double()));
            texts.mapValues(v -> (float) ((v.length() - 2) / 3.0)).to("floats", Produced.with(S, Serdes.Float()));
            texts.mapValues(v -> v.length() > 1).to("booleans", Produced.with(S, Serdes.Boolean()));
            texts.mapValues(Serialization::uuid).to("uuids", Produced.with(S, Serdes.UUID()));
            texts.mapValues(v -> v.getBytes(StandardCharsets.UTF_8)).to("bytes", Produced.with(S, Serdes.ByteArray()));
            texts.mapValues(v -> (Void) null).to("nothing", Produced.with(S, Serdes.Void()));
            texts.mapValues(v -> (List<String>) new ArrayList<>(Arrays.asList(v, null, v + v))).to("lists", Produced.with(S, TEXTS));
            texts.mapValues(v -> (List<Integer>) new ArrayList<>(Arrays.asList(v.length(), -1))).to("integer-lists", Produced.with(S, INTEGERS));
        });
        keys("integer", Serdes.Integer(), v -> v.length() - 2);
        keys("long", L, v -> v.length() - 2L);
        keys("double", Serdes.Double(), v -> (v.length() - 2) / 3.0);
        keys("boolean", Serdes.Boolean(), v -> v.length() > 1);
        keys("uuid", Serdes.UUID(), Serialization::uuid);
        keys("list", TEXTS, v -> new ArrayList<>(Arrays.asList(v.split(""))));
        dsl("serde_list_aggregate", b -> texts(b).groupByKey(Kit.grouped())
            .aggregate(ArrayList::new, (String k, String v, List<String> all) -> {
                final List<String> longer = new ArrayList<>(all);
                longer.add(v);
                return longer;
            }, Materialized.<String, List<String>, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("lists")
                .withKeySerde(S).withValueSerde(TEXTS)).toStream().to("out", Produced.with(S, TEXTS)));
        dsl("serde_time_windowed_input", b -> b
            .stream("in", Consumed.<Windowed<String>, String>with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), S))
            .selectKey((w, v) -> w == null ? null : Kit.show(w)).to("out", out()));
        dsl("serde_session_windowed_input", b -> b
            .stream("in", Consumed.<Windowed<String>, String>with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), S))
            .groupByKey(Grouped.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), S)).count().toStream()
            .selectKey((w, v) -> Kit.show(w)).to("out", longsOut()));
    }
}

package penstock.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Short words for what most scenarios need; {@code scenarios/kit.py} has the same. */
final class Kit {
    static final Serde<String> S = Serdes.String();
    static final Serde<Long> L = Serdes.Long();

    private static final ObjectMapper MAPPER = new ObjectMapper();
    static final Serde<JsonNode> J = Serdes.serdeFrom((topic, value) -> json(value), (topic, data) -> node(data));

    private Kit() { }

    private static byte[] json(final JsonNode value) {
        try {
            return value == null ? null : MAPPER.writeValueAsBytes(value);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonNode node(final byte[] data) {
        try {
            return data == null ? null : MAPPER.readTree(data);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A text as an object. */
    static JsonNode boxed(final String value) {
        return value == null ? null : MAPPER.createObjectNode().put("text", value);
    }

    /** Nothing noted yet. */
    static JsonNode noted() {
        return MAPPER.createObjectNode().put("count", 0).set("texts", MAPPER.createArrayNode());
    }

    /** Aggregator that notes the text of an object. */
    static JsonNode note(final String key, final JsonNode value, final JsonNode so) {
        final ArrayNode texts = MAPPER.createArrayNode().addAll((ArrayNode) so.get("texts")).add(value.get("text"));
        return MAPPER.createObjectNode().put("count", so.get("count").asInt() + 1).set("texts", texts);
    }

    /** Joiner of two objects. */
    static JsonNode both(final JsonNode left, final JsonNode right) {
        return MAPPER.createArrayNode().add(left).add(right);
    }

    static Produced<String, JsonNode> jsonOut() {
        return Produced.with(S, J);
    }

    static Consumed<String, String> in() {
        return Consumed.with(S, S);
    }

    static Consumed<String, Long> longsIn() {
        return Consumed.with(S, L);
    }

    static Produced<String, String> out() {
        return Produced.with(S, S);
    }

    static Produced<String, Long> longsOut() {
        return Produced.with(S, L);
    }

    static <V> Produced<Windowed<String>, V> windowedOut(final long size, final Serde<V> values) {
        return Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size), values);
    }

    static <V> Produced<Windowed<String>, V> sessionOut(final Serde<V> values) {
        return Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), values);
    }

    static Grouped<String, String> grouped() {
        return Grouped.with(S, S);
    }

    static Duration ms(final long millis) {
        return Duration.ofMillis(millis);
    }

    static KStream<String, String> stream(final StreamsBuilder builder, final String topic) {
        return builder.stream(topic, in());
    }

    static KTable<String, String> table(final StreamsBuilder builder, final String topic) {
        return builder.table(topic, in());
    }

    static KGroupedStream<String, String> byKey(final StreamsBuilder builder, final String topic) {
        return stream(builder, topic).groupByKey(grouped());
    }

    static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kv(final Serde<V> values) {
        return Materialized.with(S, values);
    }

    static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kv(final String name, final Serde<V> values) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(values);
    }

    static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(final Serde<V> values) {
        return Materialized.with(S, values);
    }

    static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(final String name, final Serde<V> values) {
        return Materialized.<String, V, WindowStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(values);
    }

    static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(final Serde<V> values) {
        return Materialized.with(S, values);
    }

    static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(final String name, final Serde<V> values) {
        return Materialized.<String, V, SessionStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(values);
    }

    static String text(final Object value) {
        return String.valueOf(value);
    }

    /** Reducer: both, with a plus between. */
    static String plus(final String a, final String b) {
        return text(a) + "+" + text(b);
    }

    /** Aggregator of texts: the aggregate, a plus, the value. */
    static String append(final String key, final String value, final String aggregate) {
        return text(aggregate) + "+" + text(value);
    }

    /** Subtractor of texts: the aggregate, a minus, the value. */
    static String strike(final String key, final String value, final String aggregate) {
        return text(aggregate) + "-" + text(value);
    }

    /** Session merger of texts. */
    static String fuse(final String key, final String a, final String b) {
        return "(" + text(a) + "|" + text(b) + ")";
    }

    /** Aggregator of lengths. */
    static Long addLength(final String key, final String value, final Long aggregate) {
        return aggregate + (value == null ? 100L : value.length());
    }

    /** Joiner: both, with a slash between. */
    static String pair(final Object left, final Object right) {
        return text(left) + "/" + text(right);
    }

    /** Joiner that sees the key. */
    static String keyedPair(final Object key, final Object left, final Object right) {
        return text(key) + ":" + pair(left, right);
    }

    static String show(final Windowed<?> windowed) {
        return windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end();
    }

    /** The first letter, a grouping that changes keys; null stays null. */
    static String initial(final String value) {
        return value == null || value.isEmpty() ? null : value.substring(0, 1);
    }
}

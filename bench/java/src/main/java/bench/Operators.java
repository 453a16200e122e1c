package bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** The topologies of bench/operators.py, line by line. */
final class Operators {
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<JsonNode> JSON = Serdes.serdeFrom((topic, value) -> toBytes(value), (topic, data) -> fromBytes(data));
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration ADVANCE = Duration.ofSeconds(2);
    private static final Duration DIFFERENCE = Duration.ofSeconds(5);
    private static final Duration GAP = Duration.ofSeconds(2);
    private static final Duration DEDUP = Duration.ofSeconds(10);

    private Operators() {
    }

    /** Adds the topology of this name; false where there is none. */
    static boolean add(String name, StreamsBuilder builder, String source, String other, String sink) {
        switch (name) {
            case "hopping" -> hopping(builder, source, sink);
            case "global-table" -> globalTable(builder, source, other, sink);
            case "reduce" -> reduce(builder, source, sink);
            case "json" -> jsonChain(builder, source, sink);
            case "processor" -> numbers(builder, source).process(new Totals.Supplier()).to(sink, Produced.with(STRING, LONG));
            case "tables" -> tables(builder, source, other, sink);
            case "suppress" -> suppress(builder, source, sink);
            case "json-aggregate", "json-dataclass", "json-struct" -> jsonAggregate(builder, source, sink);
            case "texts" -> textsChain(builder, source, sink);
            case "foreign-key" -> foreignKey(builder, source, other, sink);
            case "dedup" -> texts(builder, source).process(new Dedup.Supplier()).to(sink, Produced.with(STRING, STRING));
            case "sliding" -> sliding(builder, source, sink);
            case "suppress-map" -> suppressMap(builder, source, sink);
            case "sessions" -> sessions(builder, source, sink);
            case "left-join" -> leftJoin(builder, source, other, sink);
            case "outer-join" -> outerJoin(builder, source, other, sink);
            default -> {
                return false;
            }
        }
        return true;
    }

    private static KStream<String, String> texts(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(STRING, STRING));
    }

    private static KStream<String, Long> numbers(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(STRING, LONG));
    }

    private static KStream<String, JsonNode> objects(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(STRING, JSON));
    }

    private static KTable<String, String> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(STRING, STRING));
    }

    private static KGroupedStream<String, Long> byKey(StreamsBuilder builder, String topic) {
        return numbers(builder, topic).groupByKey(Grouped.with(STRING, LONG));
    }

    private static void textsChain(StreamsBuilder builder, String source, String sink) {
        texts(builder, source).filter((key, line) -> !line.startsWith("#"))
            .mapValues(line -> line.toUpperCase())
            .flatMapValues(line -> Arrays.asList(line.split(";")))
            .filter((key, word) -> word.length() > 3)
            .mapValues(word -> "<" + word + ">")
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void jsonChain(StreamsBuilder builder, String source, String sink) {
        objects(builder, source).filter((key, order) -> order.get("amount").asLong() >= 500)
            .mapValues(order -> (JsonNode) MAPPER.createObjectNode()
                .put("user", order.get("user").asText())
                .put("cents", order.get("amount").asLong() * 100))
            .to(sink, Produced.with(STRING, JSON));
    }

    private static void reduce(StreamsBuilder builder, String source, String sink) {
        byKey(builder, source).reduce(Long::sum, Materialized.with(STRING, LONG))
            .toStream()
            .to(sink, Produced.with(STRING, LONG));
    }

    private static void jsonAggregate(StreamsBuilder builder, String source, String sink) {
        objects(builder, source).groupBy((key, order) -> order.get("user").asText(), Grouped.with(STRING, JSON))
            .aggregate(() -> (JsonNode) MAPPER.createObjectNode().put("orders", 0L).put("amount", 0L),
                (user, order, soFar) -> MAPPER.createObjectNode()
                    .put("orders", soFar.get("orders").asLong() + 1)
                    .put("amount", soFar.get("amount").asLong() + order.get("amount").asLong()),
                Materialized.with(STRING, JSON))
            .toStream()
            .to(sink, Produced.with(STRING, JSON));
    }

    private static void windows(KTable<Windowed<String>, Long> counts, Duration size, String sink) {
        counts.toStream().to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size.toMillis()), LONG));
    }

    private static void hopping(StreamsBuilder builder, String source, String sink) {
        windows(byKey(builder, source).windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW).advanceBy(ADVANCE))
            .count(Materialized.with(STRING, LONG)), WINDOW, sink);
    }

    private static void sliding(StreamsBuilder builder, String source, String sink) {
        windows(byKey(builder, source).windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(DIFFERENCE, DIFFERENCE))
            .count(Materialized.with(STRING, LONG)), DIFFERENCE, sink);
    }

    private static void suppress(StreamsBuilder builder, String source, String sink) {
        windows(byKey(builder, source).windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
            .count(Materialized.with(STRING, LONG))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())), WINDOW, sink);
    }

    private static void suppressMap(StreamsBuilder builder, String source, String sink) {
        texts(builder, source).groupByKey(Grouped.with(STRING, STRING)).windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
            .count(Materialized.with(STRING, LONG))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream()
            .map((windowed, count) -> KeyValue.pair(windowed.key() + "@" + windowed.window().start(), count))
            .to(sink, Produced.with(STRING, LONG));
    }

    private static void sessions(StreamsBuilder builder, String source, String sink) {
        byKey(builder, source).windowedBy(SessionWindows.ofInactivityGapWithNoGrace(GAP))
            .count(Materialized.with(STRING, LONG))
            .toStream()
            .to(sink, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), LONG));
    }

    private static String orDash(String mine, String theirs) {
        return (mine == null ? "-" : mine) + "," + (theirs == null ? "-" : theirs);
    }

    private static void leftJoin(StreamsBuilder builder, String source, String other, String sink) {
        texts(builder, source).leftJoin(texts(builder, other), Operators::orDash, JoinWindows.ofTimeDifferenceWithNoGrace(WINDOW),
                StreamJoined.with(STRING, STRING, STRING))
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void outerJoin(StreamsBuilder builder, String source, String other, String sink) {
        texts(builder, source).outerJoin(texts(builder, other), Operators::orDash, JoinWindows.ofTimeDifferenceWithNoGrace(WINDOW),
                StreamJoined.with(STRING, STRING, STRING))
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void globalTable(StreamsBuilder builder, String source, String other, String sink) {
        GlobalKTable<String, String> users = builder.globalTable(other, Consumed.with(STRING, STRING));
        texts(builder, source).join(users, (key, user) -> user, (user, name) -> user + "," + name)
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void tables(StreamsBuilder builder, String source, String other, String sink) {
        table(builder, source).join(table(builder, other), (mine, theirs) -> mine + "," + theirs)
            .toStream()
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void foreignKey(StreamsBuilder builder, String source, String other, String sink) {
        KTable<String, String> orders = table(builder, source);
        KTable<String, String> users = table(builder, other);
        orders.join(users, order -> order.split("\\|")[0], (order, name) -> order + "," + name, Materialized.with(STRING, STRING))
            .toStream()
            .to(sink, Produced.with(STRING, STRING));
    }

    private static byte[] toBytes(JsonNode value) {
        try {
            return value == null ? null : MAPPER.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonNode fromBytes(byte[] data) {
        try {
            return data == null ? null : MAPPER.readTree(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** The sum of each key's numbers, in a key-value store. */
    private static final class Totals implements Processor<String, Long, String, Long> {
        private ProcessorContext<String, Long> context;
        private KeyValueStore<String, Long> totals;

        @Override
        public void init(ProcessorContext<String, Long> context) {
            this.context = context;
            totals = context.getStateStore("totals");
        }

        @Override
        public void process(Record<String, Long> record) {
            Long before = totals.get(record.key());
            long total = (before == null ? 0 : before) + record.value();
            totals.put(record.key(), total);
            context.forward(record.withValue(total));
        }

        static final class Supplier implements ProcessorSupplier<String, Long, String, Long> {
            @Override
            public Processor<String, Long, String, Long> get() {
                return new Totals();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return Set.of(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("totals"), STRING, LONG));
            }
        }
    }

    /** Lets a key pass that has not been seen for a while, by a window store of those that have. */
    private static final class Dedup implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private WindowStore<String, String> seen;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            seen = context.getStateStore("seen");
        }

        @Override
        public void process(Record<String, String> record) {
            try (WindowStoreIterator<String> found =
                    seen.fetch(record.key(), record.timestamp() - DEDUP.toMillis(), record.timestamp())) {
                if (found.hasNext()) {
                    return;
                }
            }
            seen.put(record.key(), record.value(), record.timestamp());
            context.forward(record);
        }

        static final class Supplier implements ProcessorSupplier<String, String, String, String> {
            @Override
            public Processor<String, String, String, String> get() {
                return new Dedup();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                Duration retention = DEDUP.multipliedBy(6);
                return Set.of(Stores.windowStoreBuilder(
                    Stores.persistentWindowStore("seen", retention, DEDUP, false), STRING, STRING));
            }
        }
    }
}

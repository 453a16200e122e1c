package penstock.moving;

import java.time.Duration;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies of tests/moving/topologies.py, line by line. */
final class Topologies {
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(2);

    private Topologies() {
    }

    static Topology named(String name, String source, String other, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> stream = name.equals("foreign-key") ? null : builder.stream(source, Consumed.with(STRING, STRING));
        switch (name) {
            case "word-count" -> words(stream).count(Materialized.with(STRING, LONG)).toStream().to(sink, Produced.with(STRING, LONG));
            case "chain" -> chain(stream, sink);
            case "on-close" -> onClose(stream, sink);
            case "suppressed" -> suppressed(stream, sink);
            case "sessions" -> sessions(stream, sink);
            case "left-join" -> leftJoin(builder, stream, other, sink);
            case "foreign-key" -> foreignKey(builder, source, other, sink);
            case "ticker" -> ticker(builder, stream, sink);
            default -> throw new IllegalArgumentException("there is no topology " + name);
        }
        return builder.build();
    }

    private static org.apache.kafka.streams.kstream.KGroupedStream<String, String> words(KStream<String, String> lines) {
        return lines.flatMapValues(line -> Arrays.asList(line.split(" "))).groupBy((key, word) -> word, Grouped.with(STRING, STRING));
    }

    private static void chain(KStream<String, String> lines, String sink) {
        words(lines).count(Materialized.with(STRING, LONG))
            .toStream()
            .map((word, count) -> KeyValue.pair("length-" + word.length(), count))
            .groupByKey(Grouped.with(STRING, LONG))
            .reduce(Long::sum, Materialized.with(STRING, LONG))
            .toStream()
            .to(sink, Produced.with(STRING, LONG));
    }

    private static void onClose(KStream<String, String> events, String sink) {
        events.groupByKey(Grouped.with(STRING, STRING))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows").withKeySerde(STRING).withValueSerde(LONG)
                .withRetention(Duration.ofDays(1)))
            .toStream()
            .to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), LONG));
    }

    private static void suppressed(KStream<String, String> events, String sink) {
        events.selectKey((key, value) -> value.split(" ")[0])
            .groupByKey(Grouped.with(STRING, STRING))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows").withKeySerde(STRING).withValueSerde(LONG))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            .toStream()
            .to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), LONG));
    }

    private static void sessions(KStream<String, String> events, String sink) {
        events.groupByKey(Grouped.with(STRING, STRING))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(3), GRACE))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sessions").withKeySerde(STRING).withValueSerde(LONG))
            .toStream()
            .to(sink, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), LONG));
    }

    private static void leftJoin(StreamsBuilder builder, KStream<String, String> clicks, String table, String sink) {
        clicks.leftJoin(builder.table(table, Consumed.with(STRING, STRING)), (click, user) -> click + "," + user,
                Joined.with(STRING, STRING, STRING))
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void foreignKey(StreamsBuilder builder, String orders, String users, String sink) {
        KTable<String, String> left = builder.table(orders, Consumed.with(STRING, STRING));
        KTable<String, String> right = builder.table(users, Consumed.with(STRING, STRING));
        left.join(right, order -> order.split(" ")[0], (order, user) -> order + "," + user, TableJoined.as("by-user"),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined").withKeySerde(STRING).withValueSerde(STRING))
            .toStream()
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void ticker(StreamsBuilder builder, KStream<String, String> events, String sink) {
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), STRING, LONG));
        events.process(Ticker::new, "counts").to(sink, Produced.with(STRING, LONG));
    }

    /** Counts keys, and tells all counts every ten seconds of stream time. */
    private static final class Ticker implements Processor<String, String, String, Long> {
        private ProcessorContext<String, Long> context;
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(ProcessorContext<String, Long> context) {
            this.context = context;
            counts = context.getStateStore("counts");
            context.schedule(WINDOW, PunctuationType.STREAM_TIME, this::tell);
        }

        @Override
        public void process(Record<String, String> record) {
            Long before = counts.get(record.key());
            counts.put(record.key(), before == null ? 1L : before + 1);
        }

        private void tell(long timestamp) {
            try (KeyValueIterator<String, Long> all = counts.all()) {
                all.forEachRemaining(entry -> context.forward(new Record<>(entry.key, entry.value, timestamp)));
            }
        }
    }
}

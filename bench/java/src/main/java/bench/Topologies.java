package bench;

import java.time.Duration;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies of bench/topologies.py, line by line. */
final class Topologies {
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Duration WINDOW = Duration.ofSeconds(10);

    private Topologies() {
    }

    static Topology named(String name, String source, String other, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        if (Operators.add(name, builder, source, other, sink)) {
            return builder.build();
        }
        KStream<String, String> stream = builder.stream(source, Consumed.with(STRING, STRING));
        switch (name) {
            case "wordcount", "wordcount-lambda" -> wordCount(stream, sink);
            case "wordcount-opaque" -> wordCountOpaque(stream, sink);
            case "windows-on-update" -> windows(stream, sink, EmitStrategy.onWindowUpdate());
            case "windows-on-close" -> windows(stream, sink, EmitStrategy.onWindowClose());
            case "join-table" -> joinTable(builder, stream, other, sink);
            case "join-stream" -> joinStream(builder, stream, other, sink);
            case "count" -> count(stream, sink);
            default -> throw new IllegalArgumentException("there is no topology " + name);
        }
        return builder.build();
    }

    private static void wordCount(KStream<String, String> lines, String sink) {
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(STRING, STRING))
            .count(Materialized.with(STRING, LONG))
            .toStream()
            .to(sink, Produced.with(STRING, LONG));
    }

    private static void wordCountOpaque(KStream<String, String> lines, String sink) {
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(STRING, STRING))
            .aggregate(() -> 0L, (key, word, count) -> count + 1, Materialized.with(STRING, LONG))
            .toStream()
            .to(sink, Produced.with(STRING, LONG));
    }

    private static void windows(KStream<String, String> events, String sink, EmitStrategy strategy) {
        events.groupByKey(Grouped.with(STRING, STRING))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
            .emitStrategy(strategy)
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>with(STRING, LONG).withRetention(Duration.ofDays(1)))
            .toStream()
            .to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), LONG));
    }

    private static void joinTable(StreamsBuilder builder, KStream<String, String> clicks, String table, String sink) {
        clicks.join(builder.table(table, Consumed.with(STRING, STRING)), (click, user) -> click + "," + user,
                Joined.with(STRING, STRING, STRING))
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void joinStream(StreamsBuilder builder, KStream<String, String> left, String other, String sink) {
        KStream<String, String> right = builder.stream(other, Consumed.with(STRING, STRING));
        left.join(right, (mine, theirs) -> mine + "," + theirs, JoinWindows.ofTimeDifferenceWithNoGrace(WINDOW),
                StreamJoined.with(STRING, STRING, STRING))
            .to(sink, Produced.with(STRING, STRING));
    }

    private static void count(KStream<String, String> events, String sink) {
        events.groupByKey(Grouped.with(STRING, STRING))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withKeySerde(STRING).withValueSerde(LONG))
            .toStream()
            .to(sink, Produced.with(STRING, LONG));
    }
}

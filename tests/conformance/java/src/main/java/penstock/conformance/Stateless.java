package penstock.conformance;

import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.initial;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Kit.text;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Scenarios.dsl;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.Stores;

/** Operators that keep no state of their own, sources, sinks, branches and repartitioning. */
final class Stateless {
    private Stateless() { }

    /** The describe text shows an extractor by its toString. */
    static final class ByInitial implements TopicNameExtractor<String, String> {
        @Override
        public String extract(final String key, final String value, final RecordContext context) {
            return "out-" + text(initial(value)) + "-" + context.partition() + "-" + context.topic();
        }

        @Override
        public String toString() {
            return "by_initial";
        }
    }

    private static List<KeyValue<String, String>> letters(final String key, final String value) {
        final List<KeyValue<String, String>> pairs = new ArrayList<>();
        for (final char letter : text(value).toCharArray()) {
            pairs.add(KeyValue.pair(String.valueOf(letter), text(key)));
        }
        return pairs;
    }

    static void register() {
        dsl("stateless_filter", b -> stream(b, "in").filter((k, v) -> v != null && v.length() > 1).to("out", out()));
        dsl("stateless_filter_not", b -> stream(b, "in").filterNot((k, v) -> v == null || k == null).to("out", out()));
        dsl("stateless_map", b -> stream(b, "in").map((k, v) -> KeyValue.pair(text(v), text(k) + "!")).to("out", out()));
        dsl("stateless_map_values", b -> stream(b, "in")
            .mapValues(v -> v == null ? null : v + v)
            .mapValues((k, v) -> text(k) + "=" + text(v)).to("out", out()));
        dsl("stateless_flat_map", b -> stream(b, "in").flatMap(Stateless::letters).to("out", out()));
        dsl("stateless_flat_map_values", b -> stream(b, "in")
            .flatMapValues(v -> Arrays.asList(text(v).split(" ")))
            .flatMapValues((k, v) -> List.of(v, text(k))).to("out", out()));
        dsl("stateless_select_key", b -> stream(b, "in").selectKey((k, v) -> initial(v)).to("out", out()));
        dsl("stateless_peek_foreach", b -> {
            final KStream<String, String> peeked = stream(b, "in").peek((k, v) -> System.out.println("peek " + k + " " + v));
            peeked.foreach((k, v) -> System.out.println("each " + k + " " + v));
            peeked.to("out", out());
        });
        dsl("stateless_print", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.print(Printed.toSysOut());
            stream.print(Printed.<String, String>toSysOut().withLabel("label"));
            stream.print(Printed.<String, String>toSysOut().withLabel("mapped").withKeyValueMapper((k, v) -> k + "~" + v));
        });
        dsl("stateless_merge", b -> stream(b, "left").merge(stream(b, "right")).to("out", out()));
        dsl("stateless_merge_chain", b -> stream(b, "left").mapValues(v -> "l" + v)
            .merge(stream(b, "right").filter((k, v) -> v != null), Named.as("first-merge"))
            .merge(stream(b, "third").selectKey((k, v) -> v)).to("out", out()));
        dsl("stateless_split_unnamed", b -> {
            final Map<String, KStream<String, String>> branches = stream(b, "in").split()
                .branch((k, v) -> "a".equals(k)).branch((k, v) -> v != null && v.length() > 1).defaultBranch();
            new java.util.TreeMap<>(branches).forEach((name, branch) -> branch.to("out-" + name, out()));
        });
        dsl("stateless_split_named", b -> {
            final Map<String, KStream<String, String>> branches = stream(b, "in").split(Named.as("kind-"))
                .branch((k, v) -> "a".equals(k), Branched.as("a"))
                .branch((k, v) -> "b".equals(k), Branched.withFunction(s -> s.mapValues(v -> text(v) + "!"), "b"))
                .branch((k, v) -> k == null, Branched.withConsumer(s -> s.to("out-null", out()), "null"))
                .defaultBranch(Branched.as("rest"));
            new java.util.TreeMap<>(branches).forEach((name, branch) -> branch.to("out-" + name, out()));
        });
        dsl("stateless_split_no_default", b -> {
            final Map<String, KStream<String, String>> branches = stream(b, "in").split(Named.as("part"))
                .branch((k, v) -> v == null).branch((k, v) -> v.length() == 1, Branched.as("-one"))
                .noDefaultBranch();
            new java.util.TreeMap<>(branches).forEach((name, branch) -> branch.to("out" + name, out()));
        });
        dsl("stateless_repartition", b -> stream(b, "in").selectKey((k, v) -> initial(v))
            .repartition(Repartitioned.with(S, S)).mapValues(v -> text(v) + "?").to("out", out()));
        dsl("stateless_repartition_named", b -> stream(b, "in")
            .repartition(Repartitioned.<String, String>as("spread").withKeySerde(S).withValueSerde(S).withNumberOfPartitions(7))
            .filter((k, v) -> v != null).to("out", out()));
        dsl("stateless_repartition_partitioner", b -> stream(b, "in")
            .repartition(Repartitioned.<String, String>as("by-value").withKeySerde(S).withValueSerde(S)
                .withStreamPartitioner((topic, key, value, count) -> Optional.of(Set.of(0))))
            .to("out", out()));
        dsl("stateless_to_dynamic", b -> stream(b, "in").filter((k, v) -> v != null).to(new ByInitial(), out()));
        dsl("stateless_to_partitioner", b -> stream(b, "in")
            .to("out", Produced.with(S, S, (topic, key, value, count) -> Optional.of(Set.of(0)))));
        dsl("stateless_to_partitioner_drop", b -> stream(b, "in").to("out", Produced.with(S, S, (topic, key, value, count) ->
            "x".equals(value) ? Optional.of(Set.of()) : Optional.empty())));
        dsl("stateless_merge_with_itself", b -> {
            final KStream<String, String> stream = stream(b, "in");
            stream.mapValues(v -> text(v) + "'").merge(stream).merge(stream).to("out", out());
        });
        dsl("stateless_to_table", b -> stream(b, "in").toTable().toStream().to("out", out()));
        dsl("stateless_to_table_named", b -> stream(b, "in").selectKey((k, v) -> initial(v))
            .toTable(Named.as("tabled"), kv("kept", S)).toStream().to("out", out()));
        dsl("stateless_to_table_repartitioned", b -> stream(b, "in").selectKey((k, v) -> initial(v))
            .toTable(kv(S)).toStream().to("out", out()));
        dsl("stateless_topic_list", b -> b.stream(List.of("left", "right"), in()).mapValues(v -> text(v) + ".").to("out", out()));
        dsl("stateless_topic_pattern", b -> b.stream(Pattern.compile("in-[ab]"), in()).mapValues(v -> text(v) + ".").to("out", out()));
        dsl("stateless_same_topic_twice", b -> {
            stream(b, "in").filter((k, v) -> v == null).to("nulls", out());
            stream(b, "in").filter((k, v) -> v != null).to("values", out());
        });
        dsl("stateless_two_subtopologies", b -> {
            stream(b, "left").mapValues(v -> text(v) + "-l").to("out-left", out());
            stream(b, "right").mapValues(v -> text(v) + "-r").to("out-right", out());
            stream(b, "third").selectKey((k, v) -> v).repartition(Repartitioned.with(S, S)).to("out-third", out());
        });
        dsl("stateless_source_is_sink", b -> {
            stream(b, "in").filter((k, v) -> v != null && v.length() > 1).mapValues(v -> v.substring(1)).to("in", out());
            stream(b, "in").to("out", out());
        });
        dsl("stateless_chain", b -> stream(b, "in")
            .filter((k, v) -> v != null).map((k, v) -> KeyValue.pair(v, text(k))).flatMap(Stateless::letters)
            .mapValues(v -> v + "#").selectKey((k, v) -> k + v).peek((k, v) -> { })
            .filterNot((k, v) -> k.startsWith("x")).flatMapValues(v -> List.of(v, v + v)).to("out", out()));
        dsl("stateless_to_longs", b -> stream(b, "in").filter((k, v) -> v != null)
            .mapValues(v -> (long) v.length()).to("out", longsOut()));
        dsl("stateless_default_serdes", b -> b.<String, String>stream("in").groupByKey().count().toStream()
            .mapValues(v -> text(v)).to("out"));
        dsl("stateless_to_table_supplied", b -> stream(b, "in").toTable(
            org.apache.kafka.streams.kstream.Materialized.<String, String>as(Stores.inMemoryKeyValueStore("plain"))
                .withKeySerde(S).withValueSerde(S).withCachingDisabled()).toStream().to("out", out()));
    }
}

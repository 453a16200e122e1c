package penstock.conformance;

import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;

/** The scenarios by name. A new one is a line in one of the groups below, and its twin in {@code scenarios/*.py}. */
final class Scenarios {
    private static final Map<String, Scenario> BY_NAME = new TreeMap<>();

    static {
        Stateless.register();
        Aggregations.register();
        Tables.register();
        Windows.register();
        Suppression.register();
        StreamJoins.register();
        TableJoins.register();
        Cogroups.register();
        Versioned.register();
        ProcessorApi.register();
        Names.register();
        Optimizations.register();
        Combinations.register();
        Errors.register();
        Serialization.register();
    }

    private Scenarios() { }

    static Map<String, Scenario> all() {
        return BY_NAME;
    }

    static Scenario get(final String name) {
        final Scenario scenario = BY_NAME.get(name);
        if (scenario == null) {
            throw new IllegalArgumentException("there is no Java twin of the scenario " + name);
        }
        return scenario;
    }

    /** A scenario written with the DSL. */
    static void dsl(final String name, final Consumer<StreamsBuilder> definition) {
        add(name, config -> {
            final StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
            definition.accept(builder);
            return builder.build(config);
        });
    }

    /** A scenario written with the Processor API. */
    static void papi(final String name, final Consumer<Topology> definition) {
        add(name, config -> {
            final Topology topology = new Topology(new TopologyConfig(new StreamsConfig(config)));
            definition.accept(topology);
            return topology;
        });
    }

    private static void add(final String name, final Scenario scenario) {
        if (BY_NAME.put(name, scenario) != null) {
            throw new IllegalArgumentException("two scenarios are called " + name);
        }
    }
}

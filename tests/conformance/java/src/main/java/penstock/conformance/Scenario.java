package penstock.conformance;

import java.util.Properties;
import org.apache.kafka.streams.Topology;

/** Builds the topology of one scenario. */
@FunctionalInterface
interface Scenario {
    Topology build(Properties config);
}

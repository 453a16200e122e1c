package penstock.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.DriverAccess;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.internals.CachedStateStore;

/** One scenario with one list of inputs, run through the original's test driver. */
final class Run {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private static int runs;

    private final JsonNode request;
    private final Properties config = new Properties();
    private final ObjectNode answer = JSON.createObjectNode();
    private final ArrayNode steps = answer.putArray("steps");
    private ArrayNode step = JSON.createArrayNode();
    private long wallClock;
    private final boolean inTurns;
    private boolean waits;

    Run(final JsonNode request, final Path stateDir) {
        this.request = request;
        this.inTurns = request.path("turns").asBoolean();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "conformance");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        // A folder of its own: a driver that fails while it is made never closes the stores it has opened.
        config.put(StreamsConfig.STATE_DIR_CONFIG, stateDir.resolve("run-" + runs++).toString());
        request.path("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), plain(entry.getValue())));
    }

    ObjectNode answer() {
        final Topology topology;
        try {
            topology = Scenarios.get(request.get("scenario").asText()).build(config);
            answer.put("describe", topology.describe().toString());
        } catch (final RuntimeException e) {
            return fail("build", e);
        }
        TopologyTestDriver driver = null;
        try {
            driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0));
            DriverAccess.observe(driver, this::record);
            for (final JsonNode input : request.get("inputs")) {
                step = steps.addArray();
                feed(driver, input);
            }
            completeTurn(driver);
            answer.set("stores", stores(driver));
            answer.set("dropped", dropped(driver));
        } catch (final RuntimeException e) {
            fail("run", e);
            if (driver != null) {
                DriverAccess.capture(driver);
            }
        } finally {
            step = JSON.createArrayNode();
            close(driver);
        }
        return answer;
    }

    /** In turns, records wait until something else comes: a cut, the clock, a record of a global topic, the end. */
    private void feed(final TopologyTestDriver driver, final JsonNode input) {
        if (inTurns && input.has("topic") && DriverAccess.enqueue(driver, input.get("topic").asText(), bytes(input.get("key")),
                bytes(input.get("value")), input.get("timestamp").asLong(), headers(input.path("headers")))) {
            waits = true;
            return;
        }
        completeTurn(driver);
        if (input.has("cut")) {
            return;
        }
        if (input.has("advance_wall_clock")) {
            final long advance = input.get("advance_wall_clock").asLong();
            wallClock += advance;
            driver.advanceWallClockTime(Duration.ofMillis(advance));
            return;
        }
        DriverAccess.pipe(driver, input.get("topic").asText(), bytes(input.get("key")), bytes(input.get("value")),
            input.get("timestamp").asLong(), headers(input.path("headers")));
    }

    private void completeTurn(final TopologyTestDriver driver) {
        if (waits) {
            waits = false;
            DriverAccess.completeTurn(driver);
        }
    }

    private void record(final ProducerRecord<byte[], byte[]> record) {
        final ObjectNode produced = step.addObject();
        produced.put("topic", record.topic());
        produced.put("partition", record.partition());
        produced.put("key", hex(record.key()));
        produced.put("value", hex(record.value()));
        // No timestamp means the producer's clock.
        produced.put("timestamp", record.timestamp() == null ? wallClock : record.timestamp());
        produced.set("headers", headers(record.headers()));
    }

    private ObjectNode stores(final TopologyTestDriver driver) {
        final Set<String> keys = new LinkedHashSet<>();
        final Set<Long> times = new LinkedHashSet<>();
        for (final JsonNode input : request.get("inputs")) {
            if (input.hasNonNull("key")) {
                keys.add(new String(bytes(input.get("key")), java.nio.charset.StandardCharsets.UTF_8));
            }
            if (input.has("timestamp")) {
                times.add(input.get("timestamp").asLong());
            }
        }
        final ObjectNode contents = JSON.createObjectNode();
        for (final Map.Entry<String, StateStore> entry : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
            if (inTurns && entry.getValue() instanceof CachedStateStore<?, ?> cached) {
                cached.clearCache();  // it shows what the store below has let go, for as long as there is room
            }
            if (entry.getValue() != null) {
                contents.set(entry.getKey(), StoreContents.of(entry.getValue(), keys, times));
            }
        }
        return contents;
    }

    private JsonNode dropped(final TopologyTestDriver driver) {
        double total = 0;
        for (final Map.Entry<MetricName, ? extends Metric> metric : driver.metrics().entrySet()) {
            if (metric.getKey().name().equals("dropped-records-total")) {
                total += (Double) metric.getValue().metricValue();
            }
        }
        return JSON.getNodeFactory().numberNode((long) total);
    }

    private ObjectNode fail(final String stage, final RuntimeException e) {
        final ObjectNode error = answer.putObject("error");
        error.put("stage", stage);
        error.put("class", e.getClass().getSimpleName());
        error.put("message", String.valueOf(e.getMessage()));
        Throwable root = e;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        error.put("root", root.getClass().getSimpleName() + ": " + root.getMessage());
        return answer;
    }

    private static void close(final TopologyTestDriver driver) {
        if (driver != null) {
            try {
                driver.close();
            } catch (final RuntimeException alreadyReported) {
                // A task that failed fails again when it is closed; the answer has the first failure.
            }
        }
    }

    private static Object plain(final JsonNode value) {
        if (value.isBoolean()) {
            return value.asBoolean();
        }
        return value.isNumber() ? value.asLong() : value.asText();
    }

    private static Headers headers(final JsonNode pairs) {
        final Headers headers = new RecordHeaders();
        for (final JsonNode pair : pairs) {
            headers.add(pair.get(0).asText(), bytes(pair.get(1)));
        }
        return headers;
    }

    static ArrayNode headers(final Headers headers) {
        final ArrayNode pairs = JSON.createArrayNode();
        for (final Header header : headers) {
            pairs.addArray().add(header.key()).add(hex(header.value()));
        }
        return pairs;
    }

    private static byte[] bytes(final JsonNode hex) {
        return hex == null || hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    static String hex(final byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }
}

package penstock.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.Collection;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKey;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.LeftOrRightValue;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;

/** What a store holds, as JSON; the Python twin makes the same of its stores. */
final class StoreContents {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private StoreContents() { }

    @SuppressWarnings("unchecked")
    static JsonNode of(final StateStore store, final Collection<String> keys, final Collection<Long> times) {
        final ObjectNode contents = JSON.createObjectNode();
        if (store instanceof VersionedKeyValueStore) {
            contents.put("kind", "versioned");
            contents.set("entries", versions((VersionedKeyValueStore<String, Object>) store, keys, times));
        } else if (store instanceof KeyValueStore) {
            contents.put("kind", "key-value");
            contents.set("entries", drain(((KeyValueStore<Object, Object>) store).all()));
        } else if (store instanceof WindowStore) {
            contents.put("kind", "window");
            contents.set("entries", drain(((WindowStore<Object, Object>) store).all()));
        } else if (store instanceof SessionStore) {
            contents.put("kind", "session");
            contents.set("entries", drain(((SessionStore<Object, Object>) store).fetch(null, null)));
        } else {
            contents.put("kind", "other");
        }
        return contents;
    }

    private static ArrayNode drain(final KeyValueIterator<?, ?> iterator) {
        final ArrayNode entries = JSON.createArrayNode();
        try (iterator) {
            while (iterator.hasNext()) {
                final KeyValue<?, ?> entry = iterator.next();
                entries.addArray().add(typed(entry.key)).add(typed(entry.value));
            }
        }
        return entries;
    }

    private static ArrayNode versions(final VersionedKeyValueStore<String, Object> store,
                                      final Collection<String> keys,
                                      final Collection<Long> times) {
        final ArrayNode entries = JSON.createArrayNode();
        for (final String key : keys) {
            entries.addArray().add(key).add("latest").add(typed(store.get(key)));
            for (final long time : times) {
                // Not store.get(key, time): that one forgets until when the version was valid.
                final VersionedKeyQuery<String, Object> query = VersionedKeyQuery.withKey(key);
                final Object version = store.query(query.asOf(Instant.ofEpochMilli(time)), PositionBound.unbounded(),
                    new QueryConfig(false)).getResult();
                entries.addArray().add(key).add(time).add(typed(version));
            }
        }
        return entries;
    }

    static JsonNode typed(final Object value) {
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof JsonNode) {
            return (JsonNode) value;
        } else if (value instanceof String) {
            return NODES.textNode((String) value);
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short) {
            return NODES.numberNode(((Number) value).longValue());
        } else if (value instanceof Double) {
            return NODES.numberNode((Double) value);
        } else if (value instanceof Boolean) {
            return NODES.booleanNode((Boolean) value);
        } else if (value instanceof byte[]) {
            return object("hex", NODES.textNode(Run.hex((byte[]) value)));
        } else if (value instanceof Bytes) {
            return object("hex", NODES.textNode(Run.hex(((Bytes) value).get())));
        } else if (value instanceof ValueAndTimestamp) {
            final ValueAndTimestamp<?> stamped = (ValueAndTimestamp<?>) value;
            return object("value", typed(stamped.value()), "timestamp", NODES.numberNode(stamped.timestamp()));
        } else if (value instanceof ValueTimestampHeaders) {
            final ValueTimestampHeaders<?> stamped = (ValueTimestampHeaders<?>) value;
            return object("value", typed(stamped.value()), "timestamp", NODES.numberNode(stamped.timestamp()),
                "headers", Run.headers(stamped.headers()));
        } else if (value instanceof AggregationWithHeaders) {
            final AggregationWithHeaders<?> aggregation = (AggregationWithHeaders<?>) value;
            return object("value", typed(aggregation.aggregation()), "timestamp", NODES.numberNode(-1L),
                "headers", Run.headers(aggregation.headers()));
        } else if (value instanceof VersionedRecord) {
            final VersionedRecord<?> version = (VersionedRecord<?>) value;
            return object("value", typed(version.value()), "timestamp", NODES.numberNode(version.timestamp()),
                "valid_to", version.validTo().isPresent() ? NODES.numberNode(version.validTo().get()) : NODES.nullNode());
        } else if (value instanceof Windowed) {
            final Windowed<?> windowed = (Windowed<?>) value;
            return object("key", typed(windowed.key()), "start", NODES.numberNode(windowed.window().start()),
                "end", NODES.numberNode(windowed.window().end()));
        } else if (value instanceof LeftOrRightValue) {
            final LeftOrRightValue<?, ?> either = (LeftOrRightValue<?, ?>) value;
            return object("left", typed(either.leftValue()), "right", typed(either.rightValue()));
        } else if (value instanceof TimestampedKeyAndJoinSide) {
            final TimestampedKeyAndJoinSide<?> side = (TimestampedKeyAndJoinSide<?>) value;
            return object("key", typed(side.key()), "timestamp", NODES.numberNode(side.timestamp()),
                "left", NODES.booleanNode(side.isLeftSide()));
        } else if (value instanceof SubscriptionWrapper) {
            final SubscriptionWrapper<?> wrapper = (SubscriptionWrapper<?>) value;
            final ArrayNode hash = JSON.createArrayNode();
            if (wrapper.hash() != null) {
                for (final long half : wrapper.hash()) {
                    hash.add(half);
                }
            }
            return object("primary_key", typed(wrapper.primaryKey()), "hash", hash,
                "instruction", NODES.numberNode((int) wrapper.instruction().value()), "version", NODES.numberNode((int) wrapper.version()));
        } else if (value instanceof CombinedKey) {
            final CombinedKey<?, ?> combined = (CombinedKey<?, ?>) value;
            return object("foreign_key", typed(combined.foreignKey()), "primary_key", typed(combined.primaryKey()));
        } else if (value instanceof Iterable) {
            final ArrayNode items = JSON.createArrayNode();
            ((Iterable<?>) value).forEach(item -> items.add(typed(item)));
            return items;
        }
        return NODES.textNode(value.toString());
    }

    private static ObjectNode object(final Object... namesAndNodes) {
        final ObjectNode object = JSON.createObjectNode();
        for (int i = 0; i < namesAndNodes.length; i += 2) {
            object.set((String) namesAndNodes[i], (JsonNode) namesAndNodes[i + 1]);
        }
        return object;
    }
}

package penstock.conformance;

import static penstock.conformance.Kit.ms;
import static penstock.conformance.Kit.text;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** The processors of the scenarios; {@code scenarios/processors.py} has the same. */
final class Processors {
    private Processors() { }

    /** Without what is deleted: backwards, a cached store shows deleted entries too, as null. */
    private static <K, V> void each(final Iterator<KeyValue<K, V>> entries, final Consumer<KeyValue<K, V>> action) {
        entries.forEachRemaining(entry -> {
            if (entry.value != null) {
                action.accept(entry);
            }
        });
    }

    /** Adds an exclamation mark. */
    static final class Shout extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            context().forward(record.withValue(text(record.value()) + "!"));
        }
    }

    /** Counts per key in a store called "counts". */
    static final class Count extends ContextualProcessor<String, String, String, Long> {
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(final ProcessorContext<String, Long> context) {
            super.init(context);
            counts = context.getStateStore("counts");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            if (record.value() == null) {
                context().forward(record.withValue(counts.delete(record.key())));
                return;
            }
            final Long before = counts.get(record.key());
            final long now = before == null ? 1L : before + 1;
            counts.put(record.key(), now);
            context().forward(record.withValue(now));
        }
    }

    /** Puts into the store "shared" and forwards nothing. */
    static final class Write extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            if (record.key() != null) {
                context().<KeyValueStore<String, String>>getStateStore("shared").put(record.key(), record.value());
            }
        }
    }

    /** Looks the key up in the store it was given. */
    static final class Read extends ContextualProcessor<String, String, String, String> {
        private final String store;

        Read(final String store) {
            this.store = store;
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() != null) {
                final Object found = context().<KeyValueStore<String, Object>>getStateStore(store).get(record.key());
                final Object value = found instanceof ValueAndTimestamp
                    ? ((ValueAndTimestamp<?>) found).value() + "@" + ((ValueAndTimestamp<?>) found).timestamp() : found;
                context().forward(record.withValue(text(record.value()) + "/" + text(value)));
            }
        }
    }

    /** Sends to one child by the value, or to all. */
    static final class Route extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            if (record.value() == null) {
                context().forward(record);
            } else {
                context().forward(record, record.value().length() > 1 ? "long" : "short");
            }
        }
    }

    /** Ticks every 10 ms of stream time, five times, then stops itself. */
    static final class StreamTicker extends ContextualProcessor<String, String, String, String> {
        private Cancellable schedule;
        private int ticks;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            schedule = context.schedule(ms(10), PunctuationType.STREAM_TIME, this::tick);
        }

        private void tick(final long time) {
            context().forward(new Record<>("tick", "at " + time + " stream " + context().currentStreamTimeMs(), time));
            if (++ticks == 5) {
                schedule.cancel();
            }
        }

        @Override
        public void process(final Record<String, String> record) {
            context().forward(record.withValue("at " + context().currentStreamTimeMs()));
        }
    }

    /** Ticks anchored at a start time, of both clocks. */
    static final class AnchoredTicker extends ContextualProcessor<String, String, String, String> {
        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            context.schedule(Instant.ofEpochMilli(3), ms(10), PunctuationType.STREAM_TIME, time -> tick("stream", time));
            context.schedule(Instant.ofEpochMilli(3), ms(10), PunctuationType.WALL_CLOCK_TIME, time -> tick("wall", time));
        }

        private void tick(final String clock, final long time) {
            context().forward(new Record<>(clock, String.valueOf(time), Math.max(0, time)));
        }

        @Override
        public void process(final Record<String, String> record) {
            context().forward(record);
            context().commit();
        }
    }

    /** Keeps the last value of each key and sends them all every 10 ms of wall-clock time. */
    static final class WallClockFlush extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, String> last;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            last = context.getStateStore("last");
            context.schedule(ms(10), PunctuationType.WALL_CLOCK_TIME, this::flush);
        }

        private void flush(final long time) {
            final List<String> sent = new ArrayList<>();
            try (KeyValueIterator<String, String> all = last.all()) {
                while (all.hasNext()) {
                    final KeyValue<String, String> entry = all.next();
                    context().forward(new Record<>(entry.key, entry.value + " clock " + context().currentSystemTimeMs(), time));
                    sent.add(entry.key);
                }
            }
            sent.forEach(last::delete);
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() != null) {
                last.put(record.key(), record.value());
            }
        }
    }

    /** Adds a header, drops another, and tells what it saw. */
    static final class Head extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            final Headers changed = new RecordHeaders();
            final StringBuilder seen = new StringBuilder();
            for (final Header header : record.headers()) {
                seen.append(header.key()).append('=')
                    .append(header.value() == null ? "null" : new String(header.value(), StandardCharsets.UTF_8)).append(';');
                if (!header.key().equals("drop")) {
                    changed.add(header);
                }
            }
            changed.add("added", text(record.key()).getBytes(StandardCharsets.UTF_8));
            context().forward(record.withHeaders(changed).withValue(seen.toString()));
            context().forward(record);
        }
    }

    /** Forwards where the record came from. */
    static final class Origin extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            final RecordMetadata origin = context().recordMetadata().get();
            context().forward(record.withValue(context().applicationId() + " " + context().taskId() + " " + origin.topic() + " "
                + origin.partition() + " " + origin.offset() + " " + context().currentStreamTimeMs()));
        }
    }

    /** Moves records in time. */
    static final class Shift extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            context().forward(record.withTimestamp(record.timestamp() + 100));
            context().forward(record.withTimestamp(Math.max(0, record.timestamp() - 100)).withKey(text(record.key()) + "'"));
        }
    }

    /** Keeps values in the window store "windows" and forwards those of the last 10 ms. */
    static final class Recent extends ContextualProcessor<String, String, String, String> {
        private WindowStore<String, Object> windows;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            windows = context.getStateStore("windows");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            windows.put(record.key(), record.value(), record.timestamp());
            final StringBuilder found = new StringBuilder();
            try (var mine = windows.fetch(record.key(), Math.max(0, record.timestamp() - 10), record.timestamp())) {
                mine.forEachRemaining(entry -> found.append(entry.key).append('=').append(entry.value).append(' '));
            }
            found.append('|');
            try (var all = windows.fetchAll(Math.max(0, record.timestamp() - 5), record.timestamp() + 5)) {
                all.forEachRemaining(entry -> found.append(Kit.show(entry.key)).append('=').append(entry.value).append(' '));
            }
            found.append('|');
            try (var back = windows.backwardFetchAll(Math.max(0, record.timestamp() - 5), record.timestamp() + 5)) {
                each(back, entry -> found.append(Kit.show(entry.key)).append('=').append(entry.value).append(' '));
            }
            found.append('|');
            try (var range = windows.fetch("a", "c", Math.max(0, record.timestamp() - 20), record.timestamp())) {
                range.forEachRemaining(entry -> found.append(Kit.show(entry.key)).append('=').append(entry.value).append(' '));
            }
            found.append('|').append(windows.fetch(record.key(), record.timestamp()));
            context().forward(record.withValue(found.toString()));
        }
    }

    /** Merges sessions by hand in the session store "sessions". */
    static final class Sessions extends ContextualProcessor<String, String, String, String> {
        private SessionStore<String, String> sessions;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            sessions = context.getStateStore("sessions");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            long start = record.timestamp();
            long end = record.timestamp();
            String value = text(record.value());
            final List<Windowed<String>> merged = new ArrayList<>();
            try (var found = sessions.findSessions(record.key(), record.timestamp() - 5, record.timestamp() + 5)) {
                while (found.hasNext()) {
                    final KeyValue<Windowed<String>, String> entry = found.next();
                    merged.add(entry.key);
                    start = Math.min(start, entry.key.window().start());
                    end = Math.max(end, entry.key.window().end());
                    value = entry.value + "," + value;
                }
            }
            merged.forEach(sessions::remove);
            sessions.put(new Windowed<>(record.key(), new SessionWindow(start, end)), value);
            final StringBuilder kept = new StringBuilder();
            try (var all = sessions.fetch(record.key())) {
                all.forEachRemaining(entry -> kept.append(Kit.show(entry.key)).append('=').append(entry.value).append(' '));
            }
            kept.append('|');
            try (var back = sessions.backwardFetch("a", "c")) {
                each(back, entry -> kept.append(Kit.show(entry.key)).append('=').append(entry.value).append(' '));
            }
            kept.append('|').append(sessions.fetchSession(record.key(), start, end));
            context().forward(record.withValue(kept.toString()));
        }
    }

    /** Puts versions into "history" and forwards what the store says to that. */
    static final class History extends ContextualProcessor<String, String, String, String> {
        private VersionedKeyValueStore<String, String> history;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            history = context.getStateStore("history");
        }

        private static String show(final VersionedRecord<String> version) {
            return version == null ? "null" : version.value() + "@" + version.timestamp();
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            final String said = "x".equals(record.value())
                ? show(history.delete(record.key(), record.timestamp()))
                : String.valueOf(history.put(record.key(), record.value(), record.timestamp()));
            context().forward(record.withValue(said + " " + show(history.get(record.key())) + " "
                + show(history.get(record.key(), record.timestamp() - 5)) + " " + show(history.get(record.key(), record.timestamp() + 5))));
        }
    }

    /** Keeps values with a timestamp of its own in "stamped". */
    static final class Stamp extends ContextualProcessor<String, String, String, String> {
        private TimestampedKeyValueStore<String, String> stamped;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            stamped = context.getStateStore("stamped");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            final ValueAndTimestamp<String> before = stamped.get(record.key());
            stamped.put(record.key(), ValueAndTimestamp.make(record.value(), record.timestamp() * 2));
            context().forward(record.withValue(before == null ? "none" : before.value() + "@" + before.timestamp()));
        }
    }

    /** Reads a key-value store called "entries" in every way there is. */
    static final class Walk extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, String> entries;

        @Override
        public void init(final ProcessorContext<String, String> context) {
            super.init(context);
            entries = context.getStateStore("entries");
        }

        private static String list(final KeyValueIterator<String, String> iterator) {
            final StringBuilder listed = new StringBuilder("|");
            try (iterator) {
                each(iterator, entry -> listed.append(entry.key).append('=').append(entry.value).append(' '));
            }
            return listed.toString();
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            String said = "";
            if (record.value() == null) {
                said += entries.delete(record.key());
            } else if (record.value().length() == 1) {
                said += entries.putIfAbsent(record.key() + record.value(), record.value());
            } else if (record.value().isEmpty()) {
                entries.putAll(List.of(KeyValue.pair(record.key(), "all"), KeyValue.pair(record.key() + "2", "two")));
            } else {
                entries.put(record.key(), record.value());
            }
            context().forward(record.withValue(said + "|" + entries.get(record.key()) + list(entries.range("a", "b")) + list(entries.reverseRange("b", null))
                + list(entries.all()) + list(entries.reverseAll()) + list(entries.prefixScan("b", new StringSerializer()))));
        }
    }

    /** Supplies a processor together with its store. */
    static final class CountSupplier implements ProcessorSupplier<String, String, String, Long> {
        @Override
        public Processor<String, String, String, Long> get() {
            return new Count();
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("counts"), Kit.S, Kit.L));
        }
    }

    /** Values with a running number per key, in the store "numbers". */
    static final class Enumerate extends ContextualFixedKeyProcessor<String, String, String> {
        private KeyValueStore<String, Long> numbers;

        @Override
        public void init(final FixedKeyProcessorContext<String, String> context) {
            super.init(context);
            numbers = context.getStateStore("numbers");
        }

        @Override
        public void process(final FixedKeyRecord<String, String> record) {
            final String key = text(record.key());
            final Long before = numbers.get(key);
            numbers.put(key, before == null ? 1L : before + 1);
            context().forward(record.withValue(text(record.value()) + "#" + numbers.get(key)));
            if (record.value() == null) {
                context().forward(record.withTimestamp(record.timestamp() + 1).withValue("again"));
            }
        }
    }

    /** Keeps a copy of a topic in a global store, in capitals. */
    static final class Capitals implements Processor<String, String, Void, Void> {
        private KeyValueStore<String, String> store;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            store = context.getStateStore("capitals");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() != null) {
                store.put(record.key(), record.value() == null ? null : record.value().toUpperCase(java.util.Locale.ROOT));
            }
        }
    }

    /** Puts what it reads into the read-only store "reference". */
    static final class Load implements Processor<String, String, Void, Void> {
        private KeyValueStore<String, String> store;

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            store = context.getStateStore("reference");
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() != null) {
                store.put(record.key(), record.value());
            }
        }
    }

    /** Fails on the value "x". */
    static final class Picky extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(final Record<String, String> record) {
            if ("x".equals(record.value())) {
                throw new IllegalArgumentException("no x here");
            }
            context().forward(record);
        }
    }
}

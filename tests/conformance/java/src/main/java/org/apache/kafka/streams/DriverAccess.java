package org.apache.kafka.streams;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.Queue;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.test.TestRecord;

/** Lives in the driver's package to reach what its public face hides: raw bytes in, and the order of everything produced. */
public final class DriverAccess {
    private static final ByteArraySerializer RAW = new ByteArraySerializer();

    private DriverAccess() { }

    /** Hands over every record the driver captures, of all topics, in the order in which it was produced. */
    public static void observe(final TopologyTestDriver driver, final Consumer<ProducerRecord<byte[], byte[]>> observer) {
        try {
            final Field captured = TopologyTestDriver.class.getDeclaredField("outputRecordsByTopic");
            captured.setAccessible(true);
            captured.set(driver, new ObservedQueues(observer));
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Captures what was produced up to a failure; closing the driver would flush more. */
    public static void capture(final TopologyTestDriver driver) {
        try {
            final Method capture = TopologyTestDriver.class.getDeclaredMethod("captureOutputsAndReEnqueueInternalResults");
            capture.setAccessible(true);
            capture.invoke(driver);
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Pipes raw bytes; unlike a TestInputTopic it lets a negative timestamp pass. */
    public static void pipe(final TopologyTestDriver driver,
                            final String topic,
                            final byte[] key,
                            final byte[] value,
                            final long timestamp,
                            final Headers headers) {
        driver.pipeRecord(topic, new TestRecord<>(key, value, headers), RAW, RAW, Instant.ofEpochMilli(timestamp));
    }

    private static final class ObservedQueues extends HashMap<String, Queue<ProducerRecord<byte[], byte[]>>> {
        private final transient Consumer<ProducerRecord<byte[], byte[]>> observer;

        ObservedQueues(final Consumer<ProducerRecord<byte[], byte[]>> observer) {
            this.observer = observer;
        }

        @Override
        public Queue<ProducerRecord<byte[], byte[]>> computeIfAbsent(
                final String topic, final Function<? super String, ? extends Queue<ProducerRecord<byte[], byte[]>>> ignored) {
            return super.computeIfAbsent(topic, name -> new ObservedQueue(observer));
        }
    }

    private static final class ObservedQueue extends LinkedList<ProducerRecord<byte[], byte[]>> {
        private final transient Consumer<ProducerRecord<byte[], byte[]>> observer;

        ObservedQueue(final Consumer<ProducerRecord<byte[], byte[]>> observer) {
            this.observer = observer;
        }

        @Override
        public boolean add(final ProducerRecord<byte[], byte[]> record) {
            observer.accept(record);
            return super.add(record);
        }
    }
}

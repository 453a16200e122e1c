package org.apache.kafka.streams;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.Map;
import java.util.Queue;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.internals.StreamTask;
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
        call(driver, "captureOutputsAndReEnqueueInternalResults", new Class<?>[0]);
    }

    /** Leaves a record to wait for the end of its turn; false where it is not the task's to process. */
    public static boolean enqueue(final TopologyTestDriver driver,
                                  final String topic,
                                  final byte[] key,
                                  final byte[] value,
                                  final long timestamp,
                                  final Headers headers) {
        final Object partition = call(driver, "getInputTopicOrPatternPartition", new Class<?>[] {String.class}, topic);
        if (partition == null || ((Map<?, ?>) field(driver, "globalPartitionsByInputTopic")).containsKey(topic)) {
            return false;
        }
        call(driver, "enqueueTaskRecord",
            new Class<?>[] {String.class, TopicPartition.class, long.class, byte[].class, byte[].class, Headers.class},
            topic, partition, timestamp, key, value, headers);
        return true;
    }

    /** Processes all that waits, commits once, and again for what goes in again; the driver itself commits after each record. */
    public static void completeTurn(final TopologyTestDriver driver) {
        capture(driver);
        final StreamTask task = driver.task;
        if (task == null) {
            return;
        }
        final long now = ((Time) field(driver, "mockWallClockTime")).milliseconds();
        task.resumePollingForPartitionsWithAvailableSpace();
        task.updateLags();
        while (task.hasRecordsQueued() && task.isProcessable(now)) {
            do {
                task.process(now);
                task.maybePunctuateStreamTime();
            } while (task.hasRecordsQueued() && task.isProcessable(now));
            call(driver, "commit", new Class<?>[] {Map.class}, task.prepareCommit(true));
            task.postCommit(true);
            capture(driver);
        }
    }

    private static Object field(final TopologyTestDriver driver, final String name) {
        try {
            final Field field = TopologyTestDriver.class.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(driver);
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object call(final TopologyTestDriver driver, final String name, final Class<?>[] types, final Object... values) {
        try {
            final Method method = TopologyTestDriver.class.getDeclaredMethod(name, types);
            method.setAccessible(true);
            return method.invoke(driver, values);
        } catch (final InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException) {
                throw (RuntimeException) e.getCause();
            }
            throw new IllegalStateException(e);
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

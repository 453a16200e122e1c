package bench;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * Runs one of the topologies of the bench: App TOPOLOGY APPLICATION_ID BOOTSTRAP STATE_DIR SOURCE OTHER SINK [key=value ...].
 * Prints RUNNING when it runs, and how many records it restored before in how many seconds; ends when its standard input does.
 */
public final class App {
    public static void main(String[] args) throws Exception {
        Properties props = new Properties();
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[2]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        props.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        for (int i = 7; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            props.put(pair[0], pair[1]);
        }
        KafkaStreams streams = new KafkaStreams(Topologies.named(args[0], args[4], args[5], args[6]), props);
        CountDownLatch running = new CountDownLatch(1);
        Restored restored = new Restored();
        streams.setGlobalStateRestoreListener(restored);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.err.flush();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        running.await();
        System.out.println("RUNNING " + restored.total.get() + " " + restored.seconds());
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
        // Leave the group, as penstock does: a next start under the same id would wait for the old members' sessions to end.
        streams.close(CloseOptions.timeout(Duration.ofSeconds(30)).withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
    }

    /** How many records were restored, and how long it took from the first start to the last end that was told. */
    private static final class Restored implements StateRestoreListener {
        final AtomicLong total = new AtomicLong();
        private long first;
        private long last;

        synchronized double seconds() {
            return (last - first) / 1e9;
        }

        @Override
        public synchronized void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            if (first == 0) {
                first = last = System.nanoTime();
            }
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition partition, String store, long count) {
            total.addAndGet(count);
            last = System.nanoTime();
        }
    }
}

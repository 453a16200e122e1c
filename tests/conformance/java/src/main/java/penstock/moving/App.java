package penstock.moving;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs one of the topologies that are moved: App TOPOLOGY APPLICATION_ID BOOTSTRAP STATE_DIR SOURCE OTHER SINK [key=value ...].
 * Prints RUNNING when it runs, and the reason when it fails; closes when its standard input ends, out of its group at once if that
 * said "leave", and otherwise as an application closes that says nothing.
 */
public final class App {
    public static void main(String[] args) throws Exception {
        Properties props = new Properties();
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[2]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        for (int i = 7; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            props.put(pair[0], pair[1]);
        }
        KafkaStreams streams = new KafkaStreams(Topologies.named(args[0], args[4], args[5], args[6]), props);
        CountDownLatch running = new CountDownLatch(1);
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
        System.out.println("RUNNING");
        System.out.flush();
        String said = new String(System.in.readAllBytes()).trim();
        GroupMembershipOperation operation =
            said.equals("leave") ? GroupMembershipOperation.LEAVE_GROUP : GroupMembershipOperation.REMAIN_IN_GROUP;
        boolean closed = streams.close(CloseOptions.timeout(Duration.ofSeconds(60)).withGroupMembershipOperation(operation));
        Runtime.getRuntime().halt(closed ? 0 : 2);
    }
}

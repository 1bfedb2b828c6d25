import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * Two applications of Kafka Streams in one process that copy the input: bootstrap servers, input, output, folder, the
 * application id of the one that has a store on disk and a classic group, that of the one that has no store and a group
 * of the Streams protocol, the latter's transaction timeout, and a value. Whoever has copied this value says so and stops there for ever, its transaction open.
 */
public class StreamsCopies {
    @SuppressWarnings("resource") // They run until the process is killed.
    public static void main(String[] arguments) {
        Topology withStore = copy(arguments[1], arguments[2], arguments[7], true);
        Topology without = copy(arguments[1], arguments[2], arguments[7], false);
        Properties classic = settings(arguments[0], arguments[4], arguments[3], "60000");
        classic.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "1500");
        classic.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "300");
        new KafkaStreams(withStore, classic).start();
        Properties modern = settings(arguments[0], arguments[5], arguments[3], arguments[6]);
        modern.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        new KafkaStreams(without, modern).start();
    }

    private static Topology copy(String input, String output, String last, boolean hasStore) {
        return new Topology()
            .addSource("in", input)
            .addProcessor("copy", new Copy(last, hasStore), "in")
            .addSink("out", output, "copy");
    }

    private static Properties settings(String servers, String applicationId, String folder, String timeoutMs) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, applicationId);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(folder).toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // A commit for each record.
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "0");
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), "1");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), timeoutMs);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), "0");
        return settings;
    }

    private record Copy(String last, boolean hasStore) implements ProcessorSupplier<String, String, String, String> {
        @Override
        public Processor<String, String, String, String> get() {
            return new ContextualProcessor<>() {
                @Override
                public void process(Record<String, String> record) {
                    context().forward(record);
                    if (record.value().equals(last)) {
                        System.out.println("stopped");
                        waitForEver();
                    }
                }
            };
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return hasStore ? Set.of(new EmptyStoreOnDisk()) : null;
        }
    }

    private static void waitForEver() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}

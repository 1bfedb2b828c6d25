import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * One instance of a Kafka Streams application with a store on disk that copies the input with exactly_once_v2:
 * bootstrap servers, input, output, folder, application id, group protocol, session timeout (of a classic group) and
 * transaction timeout in ms, and a value. The first record with this value throws, and its thread is replaced.
 */
public class StreamsInstance {
    private static final AtomicBoolean HAS_THROWN = new AtomicBoolean();

    @SuppressWarnings("resource") // It runs until the process is killed.
    public static void main(String[] arguments) {
        Topology topology = new Topology()
            .addSource("in", arguments[1])
            .addProcessor("copy", new Copy(arguments[8]), "in")
            .addSink("out", arguments[2], "copy");
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[5]);
        if (arguments[5].equals("classic")) {
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), arguments[6]);
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "300");
        }
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), arguments[7]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "500");
        KafkaStreams streams = new KafkaStreams(topology, settings);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
    }

    private record Copy(String poison) implements ProcessorSupplier<String, String, String, String> {
        @Override
        public Processor<String, String, String, String> get() {
            return new ContextualProcessor<>() {
                @Override
                public void process(Record<String, String> record) {
                    context().forward(record);
                    if (record.value().equals(poison) && HAS_THROWN.compareAndSet(false, true)) {
                        System.out.println("thrown");
                        throw new IllegalStateException("a record that cannot be processed");
                    }
                }
            };
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(new EmptyStoreOnDisk());
        }
    }
}

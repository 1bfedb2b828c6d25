import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/** Kafka Streams from topic to topic: source, sink, job, and settings as key=value. */
public class StreamsCopy {
    /** The fields of a record that the filter and the projection use. Jackson skips the others, its fastest way. */
    @JsonIgnoreProperties(ignoreUnknown = true)
    public static class Flight {
        public long id;
        public String carrier;

        @JsonProperty(value = "arr_delay", access = JsonProperty.Access.WRITE_ONLY)
        public int delay;
    }

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final ObjectReader READER = MAPPER.readerFor(Flight.class);
    private static final ObjectWriter WRITER = MAPPER.writerFor(Flight.class);

    @SuppressWarnings("resource") // It runs until the process is killed.
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        for (int i = 3; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> records = builder.stream(arguments[0]);
        switch (arguments[2]) {
            case "identity" -> records.to(arguments[1]);
            case "filter and project" -> records
                    .mapValues(StreamsCopy::read)
                    .filter((key, flight) -> flight.delay >= 15)
                    .mapValues(StreamsCopy::written)
                    .to(arguments[1]);
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        new KafkaStreams(builder.build(), settings).start();
    }

    private static Flight read(byte[] value) {
        try {
            return READER.readValue(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static byte[] written(Flight flight) {
        try {
            return WRITER.writeValueAsBytes(flight);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Leaves one producer's transaction open and lets another one commit: bootstrap servers, topic, first id, second id. */
public class TwoProducers {
    public static void main(String[] arguments) throws Exception {
        KafkaProducer<String, String> first = producer(arguments[0], arguments[2]);
        first.beginTransaction();
        first.send(new ProducerRecord<>(arguments[1], 0, "key", "first")).get();
        KafkaProducer<String, String> second = producer(arguments[0], arguments[3]);
        second.beginTransaction();
        second.send(new ProducerRecord<>(arguments[1], 0, "key", "second")).get();
        second.commitTransaction();
        // Closing the first one would abort its transaction.
        Runtime.getRuntime().halt(0);
    }

    private static KafkaProducer<String, String> producer(String servers, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", transactionalId);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> made = new KafkaProducer<>(settings);
        made.initTransactions();
        return made;
    }
}

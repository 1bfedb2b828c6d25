package io.fenceline.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of the sink, checked.
 *
 * @param name name of the query: 1 to 80 letters, digits, '-' and '_'
 * @param topic topic of rows that name none, or null
 * @param markerTopic topic whose partitions number the markers; it needs a partition for each writer
 * @param writers number of writers, and of transactions for each batch
 * @param hasDeterministicRows whether the caller has checked that a recomputed batch has the same rows
 * @param checkpoint location of the checkpoint; null for a batch query
 * @param idempotenceKey key of a batch query; null for a streaming query
 * @param group consumer group of the markers
 * @param prefix the transactional ids without the number of the writer
 * @param kafka options of Kafka's clients, without "kafka."
 */
record SinkOptions(
    String name,
    String topic,
    String markerTopic,
    int writers,
    boolean hasDeterministicRows,
    String checkpoint,
    String idempotenceKey,
    String group,
    String prefix,
    Map<String, String> kafka)
    implements Serializable {

  private static final Set<String> KNOWN =
      Set.of(
          "name", "topic", "markertopic", "writers", "rowsaredeterministic", "checkpointlocation", "idempotencekey",
          "groupid", "transactionalidprefix", "path",
          // Spark passes the name of `DataStreamWriter.queryName` on.
          "queryname");
  private static final int MAX_WRITERS = 100;
  /** Options that the sink sets itself, and what a wrong value would break. */
  private static final Set<String> LOCKED =
      Set.of(
          ProducerConfig.TRANSACTIONAL_ID_CONFIG, ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, ProducerConfig.ACKS_CONFIG,
          ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG,
          ProducerConfig.INTERCEPTOR_CLASSES_CONFIG, ConsumerConfig.GROUP_ID_CONFIG,
          ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, ConsumerConfig.GROUP_PROTOCOL_CONFIG,
          ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, ConsumerConfig.ISOLATION_LEVEL_CONFIG,
          ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG,
          ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG);

  /** Read and check the options; a {@link Refusal} names the option. */
  static SinkOptions from(CaseInsensitiveStringMap options) {
    Map<String, String> kafka = new TreeMap<>();
    Set<String> unknown = new TreeSet<>();
    for (Map.Entry<String, String> option : options.asCaseSensitiveMap().entrySet()) {
      String key = option.getKey().toLowerCase(Locale.ROOT);
      if (key.startsWith("kafka.")) {
        kafka.put(key.substring("kafka.".length()), option.getValue());
      } else if (key.equals("asyncprogresstrackingenabled") && Boolean.parseBoolean(option.getValue())) {
        throw new Refusal("option asyncProgressTrackingEnabled cannot be exactly once: Spark may lose a batch's offsets. Remove it.");
      } else if (!KNOWN.contains(key) && !key.startsWith("asyncprogresstracking")) {
        unknown.add(option.getKey());
      }
    }
    if (!unknown.isEmpty()) {
      throw new Refusal("the sink has no option " + String.join(", ", unknown) + ". Options of Kafka's clients begin with \"kafka.\".");
    }
    Set<String> locked = new TreeSet<>(kafka.keySet());
    locked.retainAll(LOCKED);
    if (!locked.isEmpty()) {
      throw new Refusal("option kafka." + String.join(", kafka.", locked) + " is set by the sink itself. Remove it.");
    }
    if (!kafka.containsKey("bootstrap.servers")) {
      throw new Refusal("option kafka.bootstrap.servers is missing.");
    }
    String name = required(options, "name");
    if (!name.matches("[A-Za-z0-9][A-Za-z0-9_-]{0,79}")) {
      throw new Refusal("option name is \"" + name + "\". It has 1 to 80 letters, digits, '-' and '_', first a letter or digit.");
    }
    String topic = options.get("topic");
    String markerTopic = options.getOrDefault("markerTopic", topic);
    if (markerTopic == null) {
      throw new Refusal("option topic is missing. Where each row names its topic, give option markerTopic.");
    }
    String checkpoint = options.get("checkpointLocation");
    String key = options.get("idempotenceKey");
    if (checkpoint != null && key != null) {
      throw new Refusal("options checkpointLocation and idempotenceKey exclude each other: the first is of streaming queries, the second of batch queries.");
    }
    if (key != null && !key.matches("[A-Za-z0-9._:+-]{1,100}")) {
      throw new Refusal("option idempotenceKey is \"" + key + "\". It has 1 to 100 letters, digits and . _ : + -");
    }
    return new SinkOptions(
        name,
        topic,
        markerTopic,
        writers(options),
        options.getBoolean("rowsAreDeterministic", false),
        checkpoint,
        key,
        options.getOrDefault("groupId", name) + (key == null ? "" : "." + key),
        options.getOrDefault("transactionalIdPrefix", "fl.d." + name),
        kafka);
  }

  private static String required(CaseInsensitiveStringMap options, String key) {
    String value = options.get(key);
    if (value == null || value.isEmpty()) {
      throw new Refusal("option " + key + " is missing.");
    }
    return value;
  }

  private static int writers(CaseInsensitiveStringMap options) {
    String text = options.getOrDefault("writers", "1");
    if (!text.matches("[1-9][0-9]{0,2}") || Integer.parseInt(text) > MAX_WRITERS) {
      throw new Refusal("option writers is \"" + text + "\". It is a number from 1 to " + MAX_WRITERS + ".");
    }
    return Integer.parseInt(text);
  }

  /** Without the options of Kafka's clients, which may have passwords. */
  @Override
  public String toString() {
    return "fenceline " + name;
  }

  String transactionalId(int writer) {
    String of = idempotenceKey == null ? "" : "." + idempotenceKey;
    return prefix + of + "." + writer;
  }

  String instanceId() {
    return name + "-driver";
  }

  Map<String, Object> producer(int writer) {
    Map<String, Object> config = of(ProducerConfig.configNames());
    config.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId(writer));
    config.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    config.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    // Larger than Kafka's 16 KiB: a share is written at once, and fewer requests are faster. Measured in bench.
    config.putIfAbsent(ProducerConfig.BATCH_SIZE_CONFIG, 131_072);
    config.putIfAbsent(ProducerConfig.LINGER_MS_CONFIG, 5);
    return config;
  }

  Map<String, Object> consumer() {
    Map<String, Object> config = of(ConsumerConfig.configNames());
    config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
    config.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, instanceId());
    config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    config.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, Integer.MAX_VALUE);
    config.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    config.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
    return config;
  }

  Map<String, Object> admin() {
    return of(AdminClientConfig.configNames());
  }

  private Map<String, Object> of(Set<String> names) {
    Map<String, Object> config = new HashMap<>(kafka);
    // Options of the login and of security providers are not in configNames; unknown ones only cause a log line.
    for (Set<String> others : List.of(ProducerConfig.configNames(), ConsumerConfig.configNames(), AdminClientConfig.configNames())) {
      others.stream().filter(key -> !names.contains(key)).forEach(config::remove);
    }
    // Without it each client asks the broker for metrics to push (KIP-714).
    config.putIfAbsent("enable.metrics.push", false);
    return config;
  }
}

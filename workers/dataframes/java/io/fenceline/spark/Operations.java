package io.fenceline.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What an operator does after a {@link Refusal}. Python calls it; see {@code fenceline_spark}. */
public final class Operations {
  private static final int MAX_REASON = 200;
  private static final Long LOG_START = -2L;

  private Operations() {}

  /** The markers of a query: for each writer "writer query batch writers". */
  public static List<String> markers(Map<String, String> options) {
    try (Brokers brokers = new Brokers(optionsOf(options))) {
      return brokers.decidedMarkers().entrySet().stream()
          .map(entry -> String.join(" ", entry.getKey().toString(), entry.getValue().query(),
              Long.toString(entry.getValue().batch()), Integer.toString(entry.getValue().writers())))
          .toList();
    }
  }

  /**
   * The group's offsets of the sources, as Spark's option {@code startingOffsets}: {"topic":{"0":12,"1":-2}}. A partition without an
   * offset is new: it has -2, its log start, since the option must name all partitions of a topic.
   */
  public static String startingOffsets(Map<String, String> options) {
    SinkOptions sink = optionsOf(options);
    SortedMap<String, SortedMap<Integer, Long>> topics = new TreeMap<>();
    try (Brokers brokers = new Brokers(sink)) {
      brokers.decidedOffsets().forEach((partition, offset) -> {
        if (!partition.topic().equals(sink.markerTopic())) {
          topics.computeIfAbsent(partition.topic(), topic -> new TreeMap<>()).put(partition.partition(), offset.offset());
        }
      });
      topics.replaceAll((topic, known) -> {
        SortedMap<Integer, Long> all = new TreeMap<>();
        for (int partition = 0; partition < brokers.partitionsOf(topic); partition++) {
          all.put(partition, known.getOrDefault(partition, LOG_START));
        }
        return all;
      });
      topics.values().removeIf(SortedMap::isEmpty);
    }
    StringBuilder json = new StringBuilder("{");
    topics.forEach((topic, partitions) -> {
      json.append(json.length() == 1 ? "\"" : ",\"").append(topic).append("\":{");
      String separator = "";
      for (Map.Entry<Integer, Long> each : partitions.entrySet()) {
        json.append(separator).append('"').append(each.getKey()).append("\":").append(each.getValue());
        separator = ",";
      }
      json.append('}');
    });
    return json.append('}').toString();
  }

  /** Forget the batches that are written, so that the query may begin with a new checkpoint. A running driver is fenced. */
  public static void startOver(Map<String, String> options, String reason) {
    SinkOptions sink = optionsOf(options);
    overwrite(sink, reason, (markers, writer) -> Marker.beforeFirst(sink.writers()));
  }

  /** Record whether the checkpoint's newest batch is in Kafka, where its markers are gone. */
  public static void settle(Map<String, String> options, boolean isCommitted, String reason) {
    SinkOptions sink = optionsOf(options);
    if (sink.checkpoint() == null) {
      throw new Refusal("option checkpointLocation is missing.");
    }
    Checkpoint checkpoint = new Checkpoint(sink.checkpoint(), SparkSession.active().sparkContext().hadoopConfiguration());
    Checkpoint.Progress progress = checkpoint.progress();
    if (!progress.hasUnfinishedBatch()) {
      throw new Refusal("every batch of checkpoint " + checkpoint + " is finished: batch " + progress.finished() + " is the newest. Start the query.");
    }
    long batch = isCommitted ? progress.planned() : progress.finished();
    Marker settled =
        batch < 0 ? Marker.beforeFirst(sink.writers()) : new Marker(progress.query(), batch, sink.writers(), checkpoint.planOf(batch), Marker.NO_QUERY);
    overwrite(sink, reason, (markers, writer) -> {
      if (!markers.isEmpty()) {
        throw new Refusal("the markers of " + sink.name() + " are there. Start the query: it decides by them.");
      }
      return settled;
    });
  }

  /**
   * Hold a query of this JVM, by its name, before its next batch: the batch waits after Spark has planned it, and nothing of it
   * is computed or written. A held query keeps its claim.
   */
  public static void hold(String name, boolean isHeld) {
    Holds.set(name, isHeld);
  }

  /** Whether a batch of the query waits at its hold. */
  public static boolean isHeld(String name) {
    return Holds.isWaiting(name);
  }

  private interface Replacement {
    Marker of(SortedMap<Integer, Marker> markers, int writer);
  }

  private static void overwrite(SinkOptions sink, String reason, Replacement replacement) {
    String note = reason == null ? "" : reason.strip().replaceAll("\\s+", " ");
    if (note.isEmpty() || note.length() > MAX_REASON) {
      throw new Refusal("a reason of 1 to " + MAX_REASON + " characters is required. It is kept with the markers.");
    }
    try (Brokers brokers = new Brokers(sink);
        Claim claim = new Claim(sink, () -> true, () -> {})) {
      SortedMap<Integer, Marker> decided = brokers.decidedMarkers();
      int writers = Math.max(sink.writers(), decided.isEmpty() ? 0 : decided.lastKey() + 1);
      Brokers.fence(sink, writers);
      SortedMap<Integer, Marker> markers = brokers.markers();
      Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
      for (int writer = 0; writer < writers; writer++) {
        offsets.put(new TopicPartition(sink.markerTopic(), writer), replacement.of(markers, writer).toOffset(note));
      }
      claim.commit(offsets);
    }
  }

  private static SinkOptions optionsOf(Map<String, String> options) {
    return SinkOptions.from(new CaseInsensitiveStringMap(options));
  }
}

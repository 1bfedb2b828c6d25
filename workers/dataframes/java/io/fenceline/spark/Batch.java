package io.fenceline.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What the driver tells the writers of one batch.
 *
 * @param number number of the batch, as Spark counts; 0 for a batch query
 * @param query id of the streaming query; the idempotence key of a batch query
 * @param writers number of writers
 * @param plan SHA-256 of the checkpoint's offsets of this batch
 * @param member the driver's membership, whose generation the writers send with their offsets
 * @param sources end offsets of the sources, by topic and then partition, for tools that show lag
 */
record Batch(
    SinkOptions options,
    Rows rows,
    long number,
    String query,
    int writers,
    String plan,
    Claim.Member member,
    Map<String, Map<Integer, Long>> sources)
    implements Serializable {

  TopicPartition partitionOf(int writer) {
    return new TopicPartition(options.markerTopic(), writer);
  }

  /** The marker of a writer, and for writer 0 the end offsets of the sources. */
  Map<TopicPartition, OffsetAndMetadata> offsetsOf(int writer, String share) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    if (writer == 0) {
      sources.forEach(
          (topic, partitions) ->
              partitions.forEach(
                  (partition, offset) -> offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset))));
    }
    offsets.put(partitionOf(writer), new Marker(query, number, writers, plan, share).toOffset());
    return offsets;
  }

  /**
   * Whether a writer has already committed this batch.
   *
   * @param marker the writer's marker, or null if it has none
   */
  boolean isCommittedBy(int writer, Marker marker) {
    if (marker == null || marker.isBeforeFirst()) {
      return false;
    }
    if (!marker.query().equals(query)) {
      throw new Takeover("writer " + writer + " of " + options.name() + " has a marker of another query, " + marker.query() + ". A newer driver has taken over.");
    }
    if (marker.batch() > number) {
      throw new Takeover("writer " + writer + " of " + options.name() + " has already committed batch " + marker.batch() + ", after batch " + number + ". A newer driver has taken over.");
    }
    if (marker.batch() < number) {
      return false;
    }
    if (marker.writers() != writers || !marker.plan().equals(plan)) {
      throw new Refusal("batch " + number + " of " + options.name() + " was committed with another plan or number of writers. Report this as a bug.");
    }
    return true;
  }
}

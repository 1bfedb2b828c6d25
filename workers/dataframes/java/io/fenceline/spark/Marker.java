package io.fenceline.spark;

import java.io.Serializable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * The number of a writer's newest batch. It is committed as a group offset in the same transaction as the batch's rows.
 *
 * <p>The offset is {@code batch + 1}; the rest is in the offset's metadata. Batch -1 is written before the first batch.
 *
 * @param query id of the streaming query, from the checkpoint; {@link #NO_QUERY} before the first batch
 * @param batch number of the batch, as Spark counts
 * @param writers number of writers of that batch
 * @param plan SHA-256 of the checkpoint's file {@code offsets/<batch>}, or {@link #NO_QUERY}
 * @param share what the writer wrote: count and hash of its rows' keys, or {@link #NO_QUERY} with a single writer
 */
record Marker(String query, long batch, int writers, String plan, String share) implements Serializable {
  static final String NO_QUERY = "-";
  private static final Pattern METADATA = Pattern.compile("fenceline/1 (\\S+) (-?\\d+) (\\d+) (\\S+) (\\S+)(?: .*)?");

  static Marker beforeFirst(int writers) {
    return new Marker(NO_QUERY, -1, writers, NO_QUERY, NO_QUERY);
  }

  boolean isBeforeFirst() {
    return query.equals(NO_QUERY);
  }

  OffsetAndMetadata toOffset() {
    return toOffset("");
  }

  OffsetAndMetadata toOffset(String note) {
    String metadata = String.join(" ", "fenceline/1", query, Long.toString(batch), Integer.toString(writers), plan, share);
    return new OffsetAndMetadata(batch + 1, note.isEmpty() ? metadata : metadata + " " + note);
  }

  /** Read a committed offset. A value that is not a marker is a {@link Refusal}: another program uses the group. */
  static Marker of(OffsetAndMetadata committed, String where) {
    Matcher found = METADATA.matcher(committed.metadata());
    if (!found.matches() || Long.parseLong(found.group(2)) + 1 != committed.offset()) {
      throw new Refusal(
          where + " has an offset that is not a marker of this sink. Another program commits offsets in this group."
              + " Give the query a group of its own (option groupId).");
    }
    return new Marker(
        found.group(1), Long.parseLong(found.group(2)), Integer.parseInt(found.group(3)), found.group(4), found.group(5));
  }
}

package io.fenceline.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.TopicPartition;

/** Spark's checkpoint of a streaming query, read only: {@code metadata}, {@code offsets/N} and {@code commits/N}. */
final class Checkpoint {
  private static final Pattern QUERY_ID = Pattern.compile("\"id\"\\s*:\\s*\"([^\"]+)\"");
  /** A line of an offsets file about a Kafka source: {@code {"topic":{"0":12,"1":7}}}. */
  private static final Pattern KAFKA_SOURCE = Pattern.compile("\\{(\"[A-Za-z0-9._-]+\":\\{(\"\\d+\":\\d+,?)*\\},?)+\\}");
  private static final Pattern TOPIC = Pattern.compile("\"([A-Za-z0-9._-]+)\":\\{([^}]*)\\}");
  private static final Pattern OFFSET = Pattern.compile("\"(\\d+)\":(\\d+)");

  private final Path location;
  private final FileSystem files;

  Checkpoint(String location, Configuration hadoop) {
    this.location = new Path(location);
    try {
      this.files = this.location.getFileSystem(hadoop);
    } catch (IOException error) {
      throw new Unavailable("checkpoint " + location + " cannot be reached: " + error.getMessage(), error);
    }
  }

  /**
   * How far the checkpoint is.
   *
   * @param query id of the query, or null before its first start
   * @param planned newest batch with offsets, or -1
   * @param finished newest batch in the commit log, or -1
   */
  record Progress(String query, long planned, long finished) {
    boolean hasUnfinishedBatch() {
      return planned > finished;
    }
  }

  Progress progress() {
    Progress found = new Progress(queryId(), newest("offsets"), newest("commits"));
    if (found.planned() != found.finished() && found.planned() != found.finished() + 1) {
      throw new Refusal(
          "checkpoint " + location + " is damaged: its newest offsets are of batch " + found.planned()
              + ", its newest commit is of batch " + found.finished() + ". Restore it from a copy.");
    }
    return found;
  }

  /** SHA-256 of the file with the offsets of this batch, in hexadecimal digits. */
  String planOf(long batch) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(offsetsFile(batch)));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** The end offsets that this batch reads of each partition of its Kafka sources; other sources have none. */
  Map<TopicPartition, Long> sourceOffsets(long batch) {
    Map<TopicPartition, Long> found = new HashMap<>();
    // The first line is the version, the second Spark's own metadata; each further line is the offset of a source.
    new String(offsetsFile(batch), StandardCharsets.UTF_8)
        .lines()
        .skip(2)
        .filter(line -> KAFKA_SOURCE.matcher(line).matches())
        .forEach(line -> addOffsets(line, found));
    return found;
  }

  private static void addOffsets(String line, Map<TopicPartition, Long> found) {
    Matcher topic = TOPIC.matcher(line);
    while (topic.find()) {
      Matcher offset = OFFSET.matcher(topic.group(2));
      while (offset.find()) {
        // A topic that two sources read has the lower offset: nothing above it has been read by both.
        found.merge(
            new TopicPartition(topic.group(1), Integer.parseInt(offset.group(1))), Long.valueOf(offset.group(2)), Math::min);
      }
    }
  }

  private byte[] offsetsFile(long batch) {
    Path file = new Path(location, "offsets/" + batch);
    try (InputStream stream = files.open(file)) {
      return stream.readAllBytes();
    } catch (FileNotFoundException error) {
      throw new Refusal("checkpoint " + location + " has no offsets of batch " + batch + ". Restore it from a copy.", error);
    } catch (IOException error) {
      throw new Unavailable(file + " cannot be read: " + error.getMessage(), error);
    }
  }

  /** The id of the query, or null before its first start. */
  String queryId() {
    Path file = new Path(location, "metadata");
    try (InputStream stream = files.open(file)) {
      Matcher id = QUERY_ID.matcher(new String(stream.readAllBytes(), StandardCharsets.UTF_8));
      if (!id.find()) {
        throw new Refusal(file + " has no id of a query. Restore it from a copy.");
      }
      return id.group(1);
    } catch (FileNotFoundException absent) {
      return null;
    } catch (IOException error) {
      throw new Unavailable(file + " cannot be read: " + error.getMessage(), error);
    }
  }

  private long newest(String log) {
    Path folder = new Path(location, log);
    try {
      long newest = -1;
      for (FileStatus file : files.listStatus(folder)) {
        if (file.getPath().getName().matches("\\d{1,18}")) {
          newest = Math.max(newest, Long.parseLong(file.getPath().getName()));
        }
      }
      return newest;
    } catch (FileNotFoundException absent) {
      return -1;
    } catch (IOException error) {
      throw new Unavailable(folder + " cannot be read: " + error.getMessage(), error);
    }
  }

  @Override
  public String toString() {
    return location.toString();
  }
}

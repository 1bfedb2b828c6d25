package io.fenceline.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsResult;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What the sink asks of the brokers beside its transactions. */
final class Brokers implements AutoCloseable {
  private static final int MAX_THREADS = 8;
  private static final int ANSWER_TIMEOUT_MS = 15_000;
  private final SinkOptions options;
  private final Admin admin;

  Brokers(SinkOptions options) {
    this.options = options;
    try {
      this.admin = Admin.create(options.admin());
    } catch (KafkaException error) {
      throw new Unavailable("no client for " + servers() + " can be made: " + root(error).getMessage() + ". Check the options of Kafka's clients.", error);
    }
    try {
      result(admin.describeCluster(new DescribeClusterOptions().timeoutMs(ANSWER_TIMEOUT_MS)).clusterId());
    } catch (TimeoutException error) {
      admin.close(Duration.ZERO);
      throw new Unavailable(
          "no broker of " + servers() + " answered in " + ANSWER_TIMEOUT_MS / 1000
              + " s. Check the address and kafka.security.protocol, then start again.", error);
    } catch (AuthenticationException error) {
      admin.close(Duration.ZERO);
      throw new Refusal(servers() + " refused this client: " + error.getMessage() + ". Check its credentials.", error);
    }
  }

  /** The deepest cause: those around it only say that no client was made. */
  private static Throwable root(Throwable error) {
    return error.getCause() == null ? error : root(error.getCause());
  }

  private String servers() {
    return "kafka.bootstrap.servers=" + options.kafka().get("bootstrap.servers");
  }

  /**
   * The committed offsets of the group.
   *
   * @param isStable wait until the transactions of pending offsets are decided (KIP-447, {@code requireStable})
   */
  private Map<TopicPartition, OffsetAndMetadata> committed(boolean isStable) {
    // Without partitions: all of the group.
    var all = admin.listConsumerGroupOffsets(
        Map.of(options.group(), new ListConsumerGroupOffsetsSpec()), new ListConsumerGroupOffsetsOptions().requireStable(isStable));
    try {
      Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>(result(all.partitionsToOffsetAndMetadata(options.group())));
      found.values().removeIf(offset -> offset == null);
      return found;
    } catch (GroupIdNotFoundException absent) {
      return Map.of();
    }
  }

  /** The markers by writer. */
  SortedMap<Integer, Marker> markers() {
    return markers(true);
  }

  /** The markers by writer, without those of open transactions. */
  SortedMap<Integer, Marker> decidedMarkers() {
    return markers(false);
  }

  /** The group's committed offsets, markers and those of the sources, without those of open transactions. */
  Map<TopicPartition, OffsetAndMetadata> decidedOffsets() {
    return committed(false);
  }

  private SortedMap<Integer, Marker> markers(boolean isStable) {
    SortedMap<Integer, Marker> found = new TreeMap<>();
    committed(isStable).forEach((partition, offset) -> {
      if (partition.topic().equals(options.markerTopic())) {
        found.put(partition.partition(), Marker.of(offset, "group " + options.group() + ", partition " + partition));
      }
    });
    return found;
  }

  /** Number of partitions of a topic, or 0 if there is no such topic. */
  int partitionsOf(String topic) {
    try {
      return result(admin.describeTopics(List.of(topic)).topicNameValues().get(topic)).partitions().size();
    } catch (UnknownTopicOrPartitionException absent) {
      return 0;
    }
  }

  /** Those of the partitions that this cluster has. */
  Collection<TopicPartition> existing(Collection<TopicPartition> partitions) {
    Map<String, Integer> counts = new HashMap<>();
    List<TopicPartition> found = new ArrayList<>();
    for (TopicPartition partition : partitions) {
      if (partition.partition() < counts.computeIfAbsent(partition.topic(), this::partitionsOf)) {
        found.add(partition);
      }
    }
    return found;
  }

  /** The ids of members other than the driver's own. */
  List<String> otherMembers() {
    DescribeConsumerGroupsResult described = admin.describeConsumerGroups(List.of(options.group()));
    return result(described.describedGroups().get(options.group())).members().stream()
        .filter(member -> !member.groupInstanceId().equals(Optional.of(options.instanceId())))
        .map(MemberDescription::clientId)
        .toList();
  }

  /** Initialise these writers' ids: it aborts what is open, and fences their producers. */
  static void fence(SinkOptions options, int writers) {
    // Side by side: each waits for the end of what was open. New threads inherit the class loader with Kafka's client.
    ExecutorService threads = Executors.newFixedThreadPool(Math.min(writers, MAX_THREADS));
    try {
      List<Future<?>> fenced = new ArrayList<>();
      for (int writer = 0; writer < writers; writer++) {
        Map<String, Object> config = options.producer(writer);
        fenced.add(threads.submit(() -> fence(config)));
      }
      for (Future<?> each : fenced) {
        each.get();
      }
    } catch (ExecutionException failed) {
      Throwable error = failed.getCause();
      throw Unavailable.orPermanent("the transactional ids of " + options.name() + " cannot be initialised: " + error.getMessage(), error);
    } catch (InterruptedException stop) {
      throw interrupted(stop);
    } finally {
      threads.shutdownNow();
    }
  }

  private static void fence(Map<String, Object> config) {
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
      producer.initTransactions();
    }
  }

  private static InterruptException interrupted(InterruptedException stop) {
    Thread.currentThread().interrupt();
    return new InterruptException(stop);
  }

  private static <T> T result(KafkaFuture<T> future) {
    try {
      return future.get();
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof KafkaException error) {
        throw error;
      }
      throw new KafkaException(failed.getCause());
    } catch (InterruptedException stop) {
      throw interrupted(stop);
    }
  }

  @Override
  public void close() {
    admin.close();
  }
}

package io.fenceline.spark;

import java.io.Serializable;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.WakeupException;

/**
 * The driver's static membership in the group of its markers (KIP-345): the newest driver is the only one.
 *
 * <p>A later driver with the same {@code group.instance.id} replaces this one. From then on the coordinator answers
 * FENCED_INSTANCE_ID to offsets that carry this member's generation.
 */
final class Claim implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(500);
  private static final int JOIN_TIMEOUT_S = 60;

  /** The member as writers send it with their offsets. Kafka's own class cannot be serialised. */
  record Member(String group, int generation, String memberId, String instanceId) implements Serializable {
    ConsumerGroupMetadata toMetadata() {
      return memberId == null
          ? new ConsumerGroupMetadata(group)
          : new ConsumerGroupMetadata(group, generation, memberId, Optional.of(instanceId));
    }

    /** For batch queries, whose writers are fenced by their transactional id alone. */
    static Member none(String group) {
      return new Member(group, -1, null, null);
    }
  }

  private final String name;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final BooleanSupplier isNeeded;
  private final CompletableFuture<Member> joined = new CompletableFuture<>();
  private volatile Member member;
  private volatile Commit toCommit;
  private volatile boolean isClosing;
  private volatile KafkaException error;
  private final Thread thread;

  /**
   * Join, and stay a member until {@link #close} or until {@code isNeeded} is false.
   */
  Claim(SinkOptions options, BooleanSupplier isNeeded) {
    this.name = options.name();
    this.isNeeded = isNeeded;
    this.consumer = new KafkaConsumer<>(options.consumer());
    this.thread = new Thread(() -> keep(options), "fenceline-claim-" + name);
    thread.setDaemon(true);
    thread.start();
    try {
      joined.get(JOIN_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (ExecutionException failed) {
      throw new Refusal(
          "the driver of " + name + " cannot join group " + options.group() + ": " + failed.getCause().getMessage(), failed.getCause());
    } catch (TimeoutException late) {
      close();
      throw new Refusal(
          "the driver of " + name + " did not become a member of group " + options.group() + " in " + JOIN_TIMEOUT_S
              + " s. Check that the brokers of kafka.bootstrap.servers are reachable and that topic " + options.markerTopic() + " exists.", late);
    } catch (InterruptedException stop) {
      close();
      Thread.currentThread().interrupt();
      throw new Refusal("the start of " + name + " was interrupted.", stop);
    }
  }

  /** The member, for the offsets of the next batch; a {@link Refusal} if a newer driver has the claim. */
  Member member() {
    KafkaException failed = error;
    if (failed instanceof FencedInstanceIdException) {
      throw new Refusal("a newer driver has taken over " + name + ". This one stops; nothing of its open batch is committed.", failed);
    }
    if (failed != null) {
      throw new Refusal("the driver of " + name + " lost its membership in its group: " + failed.getMessage() + " Start the query again.", failed);
    }
    return member;
  }

  /** Commit offsets as this member, outside any transaction; a {@link Refusal} if the claim is lost. */
  void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    toCommit = new Commit(offsets, done);
    consumer.wakeup();
    try {
      done.get(JOIN_TIMEOUT_S, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException failed) {
      member();
      throw new Refusal("the markers of " + name + " cannot be written: " + failed.getMessage(), failed);
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new Refusal("the start of " + name + " was interrupted.", stop);
    }
  }

  private record Commit(Map<TopicPartition, OffsetAndMetadata> offsets, CompletableFuture<Void> done) {}

  private void keep(SinkOptions options) {
    try {
      consumer.subscribe(List.of(options.markerTopic()), new Pausing());
      while (!isClosing && (!joined.isDone() || isNeeded.getAsBoolean())) {
        commitWanted();
        try {
          consumer.poll(POLL);
        } catch (WakeupException wanted) {
          continue;
        }
        ConsumerGroupMetadata now = consumer.groupMetadata();
        if (!consumer.assignment().isEmpty() && now.generationId() >= 0) {
          member = new Member(now.groupId(), now.generationId(), now.memberId(), options.instanceId());
          joined.complete(member);
        }
      }
    } catch (KafkaException failed) {
      error = failed;
      joined.completeExceptionally(failed);
    } finally {
      if (error == null) {
        error = new KafkaException("its query has ended.");
      }
      if (member != null) {
        Producers.closeOf(member);
      }
      // A static member stays in the group until its session ends, or until the next driver replaces it.
      consumer.close(Duration.ofSeconds(1));
    }
  }

  private void commitWanted() {
    Commit commit = toCommit;
    if (commit != null) {
      toCommit = null;
      try {
        consumer.commitSync(commit.offsets());
        commit.done().complete(null);
      } catch (WakeupException again) {
        // The wakeup that announced this commit came during it.
        toCommit = commit;
      } catch (KafkaException failed) {
        commit.done().completeExceptionally(failed);
        throw failed;
      }
    }
  }

  /** Keeps records from being fetched: the member is here for its generation, not for records. */
  private final class Pausing implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
      consumer.pause(consumer.assignment());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}
  }

  @Override
  public void close() {
    isClosing = true;
    consumer.wakeup();
    try {
      thread.join(TimeUnit.SECONDS.toMillis(5));
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }
}

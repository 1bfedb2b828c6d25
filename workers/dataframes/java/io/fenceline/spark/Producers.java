package io.fenceline.spark;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * Transactional producers of this JVM that wait for their next batch.
 *
 * <p>A producer is used again only for the batch that follows its last commit, under the same claim: each new claim fences
 * all producers. Every other writer gets a new one, whose
 * initialisation fences the older ones; only then is its marker read.
 */
final class Producers {
  private static final Duration IDLE = Duration.ofMinutes(5);
  private static final Duration CLOSE = Duration.ofSeconds(10);
  private static final Map<Key, Idle> WAITING = new HashMap<>();
  private static final ScheduledExecutorService CLOSER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "fenceline-idle-producers");
            thread.setDaemon(true);
            return thread;
          });

  static {
    CLOSER.scheduleWithFixedDelay(Producers::closeIdle, IDLE.toMinutes(), 1, TimeUnit.MINUTES);
  }

  private Producers() {}

  private record Key(String transactionalId, Map<String, String> kafka) {}

  private record Idle(KafkaProducer<byte[], byte[]> producer, Claim.Member member, long batch, long sinceNanos) {}

  /**
   * A producer for one writer of one batch.
   *
   * @param isNew whether it was initialised for this batch, so that the marker must be read
   */
  record Lease(KafkaProducer<byte[], byte[]> producer, boolean isNew) {}

  static Lease take(Batch batch, int writer) {
    Idle idle;
    synchronized (WAITING) {
      idle = WAITING.remove(keyOf(batch, writer));
    }
    if (idle != null && idle.member().equals(batch.member()) && idle.batch() == batch.number() - 1) {
      return new Lease(idle.producer(), false);
    }
    if (idle != null) {
      idle.producer().close(Duration.ZERO);
    }
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(batch.options().producer(writer));
    try {
      producer.initTransactions();
    } catch (RuntimeException error) {
      producer.close(Duration.ZERO);
      throw error;
    }
    return new Lease(producer, true);
  }

  /** Keep a producer whose transaction of this batch is committed. */
  static void keep(Batch batch, int writer, KafkaProducer<byte[], byte[]> producer) {
    Idle previous;
    synchronized (WAITING) {
      previous = WAITING.put(keyOf(batch, writer), new Idle(producer, batch.member(), batch.number(), System.nanoTime()));
    }
    if (previous != null) {
      previous.producer().close(Duration.ZERO);
    }
  }

  /** Close a producer; an open transaction is aborted. */
  static void discard(KafkaProducer<byte[], byte[]> producer) {
    // An interrupted thread could not wait for the abort, and readers would wait for the transaction's timeout.
    boolean isInterrupted = Thread.interrupted();
    try {
      producer.close(CLOSE);
    } finally {
      if (isInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static Key keyOf(Batch batch, int writer) {
    return new Key(batch.options().transactionalId(writer), batch.options().kafka());
  }

  /** Close the producers of an ended claim that wait in this JVM. */
  static void closeOf(Claim.Member member) {
    closeIf(idle -> idle.member().equals(member));
  }

  private static void closeIdle() {
    long before = System.nanoTime() - IDLE.toNanos();
    closeIf(idle -> idle.sinceNanos() - before < 0);
  }

  private static void closeIf(Predicate<Idle> isOld) {
    List<Idle> old;
    synchronized (WAITING) {
      old = WAITING.values().stream().filter(isOld).toList();
      WAITING.values().removeAll(old);
    }
    old.forEach(idle -> idle.producer().close(Duration.ZERO));
  }
}

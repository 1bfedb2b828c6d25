package io.fenceline.spark;

import java.io.IOException;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * One writer's share of one batch: one Kafka transaction.
 *
 * <ol>
 *   <li>Take a producer. A new one is initialised, which aborts and fences older ones, and then the marker is read.
 *   <li>A share that is committed already is drained: its rows are read, so that state and watermark advance, and not written.
 *   <li>Begin, and send the marker first, with the driver's generation: a stale writer is refused before it reads a row.
 *   <li>Send the rows.
 *   <li>Commit. Rows, marker and the sources' end offsets appear together.
 * </ol>
 */
final class ShareWriter implements DataWriter<InternalRow> {
  private final Batch batch;
  private final int writer;
  private final Rows.Share share;
  private KafkaProducer<byte[], byte[]> producer;
  private final boolean isDrained;
  private final String drainedShare;
  private volatile Exception refused;
  private final Callback onSent = (metadata, error) -> {
    if (error != null && refused == null) {
      refused = error;
    }
  };
  private long written;

  ShareWriter(Batch batch, int writer) {
    this.batch = batch;
    this.writer = writer;
    this.share = batch.writers() == 1 ? null : new Rows.Share();
    try {
      Producers.Lease lease = Producers.take(batch, writer);
      producer = lease.producer();
      Marker marker = lease.isNew() ? marker() : null;
      Step.READY.reached(batch.number(), writer);
      isDrained = batch.isCommittedBy(writer, marker);
      drainedShare = isDrained ? marker.share() : null;
      if (!isDrained) {
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(batch.offsetsOf(writer, Marker.NO_QUERY), batch.member().toMetadata());
        Step.MARKED.reached(batch.number(), writer);
      }
    } catch (RuntimeException error) {
      // Spark calls abort() only for a writer that it has.
      abort();
      throw explained(error);
    }
  }

  private Marker marker() {
    try (Brokers brokers = new Brokers(batch.options())) {
      return brokers.markers().get(writer);
    }
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (isDrained && share == null) {
      return;
    }
    var record = batch.rows().record(row);
    if (share != null) {
      share.add(record);
    }
    if (isDrained) {
      return;
    }
    if (refused != null) {
      throw explained(refused);
    }
    try {
      producer.send(record, onSent);
    } catch (RuntimeException error) {
      throw explained(error);
    }
    written++;
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    try {
      if (isDrained) {
        refuseOtherRows();
      } else {
        if (share != null) {
          producer.sendOffsetsToTransaction(batch.offsetsOf(writer, share.toString()), batch.member().toMetadata());
        }
        Step.SENT.reached(batch.number(), writer);
        producer.commitTransaction();
        Step.COMMITTED.reached(batch.number(), writer);
      }
    } catch (RuntimeException error) {
      throw explained(error);
    }
    Producers.keep(batch, writer, producer);
    producer = null;
    return new Committed(writer, written, isDrained);
  }

  private void refuseOtherRows() {
    if (share != null && !share.toString().equals(drainedShare)) {
      throw new Refusal(
          "batch " + batch.number() + " of " + batch.options().name() + " has other rows than when writer " + writer + " committed it (now "
              + share + ", then " + drainedShare + "). Its rows are not deterministic: other writers may lose or repeat rows of this"
              + " batch. Use one writer.");
    }
  }

  /** What a writer did. */
  record Committed(int writer, long rows, boolean isDrained) implements WriterCommitMessage {}

  @Override
  public void abort() {
    KafkaProducer<byte[], byte[]> open = producer;
    producer = null;
    if (open != null) {
      Producers.discard(open);
    }
  }

  @Override
  public void close() {
    abort();
  }

  private RuntimeException explained(Exception error) {
    String share = "batch " + batch.number() + " of " + batch.options().name() + ", writer " + writer;
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof Refusal refusal) {
        return refusal;
      }
      if (cause instanceof FencedInstanceIdException || cause instanceof CommitFailedException) {
        return new Unavailable(share + ": refused, since a newer driver has taken over, or this driver left its group. Nothing of it is committed.", error);
      }
      if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
        return new Unavailable(
            share + ": a newer attempt has taken over the transactional id, or the transaction was open for longer than"
                + " kafka.transaction.timeout.ms. Nothing of it is committed by this attempt.", error);
      }
    }
    return error instanceof RuntimeException known ? known : new KafkaException(share + ": " + error.getMessage(), error);
  }
}

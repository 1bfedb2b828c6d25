package io.fenceline.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;

/** One batch's write: Spark shuffles the rows to as many partitions as there are writers. */
final class SinkWrite implements RequiresDistributionAndOrdering {
  private final SinkOptions options;
  private final Run run;
  private final StructType schema;
  private final int writers;

  SinkWrite(SinkOptions options, Run run, StructType schema) {
    this.options = options;
    this.run = run;
    this.schema = schema;
    this.writers = run == null ? 1 : run.writers();
  }

  @Override
  public String description() {
    return "fenceline " + options.name() + " to " + (options.topic() == null ? "topics of the rows" : options.topic());
  }

  @Override
  public Distribution requiredDistribution() {
    // With one writer any column serves: all rows go to one partition.
    List<String> columns = writers == 1 ? List.of("value") : Rows.sharedBy(schema);
    return Distributions.clustered(columns.stream().map(Expressions::column).toArray(Expression[]::new));
  }

  @Override
  public boolean distributionStrictlyRequired() {
    return true;
  }

  @Override
  public int requiredNumPartitions() {
    return writers;
  }

  @Override
  public SortOrder[] requiredOrdering() {
    return new SortOrder[0];
  }

  @Override
  public StreamingWrite toStreaming() {
    if (run == null) {
      throw new Refusal("option checkpointLocation is missing. The sink needs it at the query itself, not in Spark's configuration.");
    }
    if (options.writers() > 1 && !options.hasDeterministicRows()) {
      throw new Refusal(
          options.writers() + " writers need rows that are the same when Spark computes a batch again. Use"
              + " fenceline_spark.exactly_once, which checks the plan, or option rowsAreDeterministic=true.");
    }
    Rows rows = new Rows(schema, options.topic());
    return new Streaming(run, rows);
  }

  private record Streaming(Run run, Rows rows) implements StreamingWrite {
    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      return new Factory(run.batch(rows, info.numPartitions()));
    }

    @Override
    public boolean useCommitCoordinator() {
      // The transactional id decides between attempts.
      return false;
    }

    @Override
    public void commit(long epochId, WriterCommitMessage[] messages) {
      run.ended(epochId, Arrays.stream(messages).map(ShareWriter.Committed.class::cast).toList());
    }

    @Override
    public void abort(long epochId, WriterCommitMessage[] messages) {
      // Each writer has aborted its own transaction; what some have committed stays, and is drained when the batch is repeated.
    }

    @Override
    public String toString() {
      return run.toString();
    }
  }

  private record Factory(Batch batch) implements StreamingDataWriterFactory, DataWriterFactory {
    @Override
    public ShareWriter createWriter(int partition, long taskId, long epochId) {
      if (epochId != batch.number()) {
        throw new Refusal("Spark runs batch " + epochId + " with the plan of batch " + batch.number() + ". Report this as a bug.");
      }
      return new ShareWriter(batch, partition);
    }

    @Override
    public ShareWriter createWriter(int partition, long taskId) {
      return new ShareWriter(batch, partition);
    }
  }

  @Override
  public BatchWrite toBatch() {
    if (run != null) {
      throw new Refusal("option checkpointLocation is of streaming queries. A batch query takes idempotenceKey.");
    }
    if (options.idempotenceKey() == null) {
      throw new Refusal("option idempotenceKey is missing. Rows with the same key are written once.");
    }
    if (options.writers() != 1) {
      throw new Refusal("a batch query has one writer: its rows are one transaction. Remove option writers.");
    }
    return new OneTransaction(options, new Rows(schema, options.topic()));
  }

  private record OneTransaction(SinkOptions options, Rows rows) implements BatchWrite {
    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      if (info.numPartitions() > 1) {
        throw new Refusal("Spark hands over " + info.numPartitions() + " partitions to one writer. Report this as a bug.");
      }
      try (Brokers brokers = new Brokers(options)) {
        if (brokers.partitionsOf(options.markerTopic()) == 0) {
          throw new Refusal("topic " + options.markerTopic() + " does not exist. Create it first: the sink creates no topic.");
        }
        Brokers.fence(options, 1);
        SortedMap<Integer, Marker> markers = brokers.markers();
        Batch batch = new Batch(options, rows, 0, options.idempotenceKey(), 1, Marker.NO_QUERY, Claim.Member.none(options.group()), Map.of());
        batch.isCommittedBy(0, markers.get(0));
        return new Factory(batch);
      }
    }

    @Override
    public boolean useCommitCoordinator() {
      return false;
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {}

    @Override
    public void abort(WriterCommitMessage[] messages) {}
  }
}

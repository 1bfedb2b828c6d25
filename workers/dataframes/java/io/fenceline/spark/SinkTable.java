package io.fenceline.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** The sink of one started query, or of one batch write. */
final class SinkTable implements SupportsWrite, ReportsSinkMetrics {
  private final SinkOptions options;
  private final Run run;

  SinkTable(SinkOptions options) {
    this.options = options;
    this.run = options.checkpoint() == null ? null : Run.open(options);
  }

  @Override
  public String name() {
    return "fenceline " + options.name();
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return new StructType();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA, TableCapability.TRUNCATE);
  }

  @Override
  public String toString() {
    return name();
  }

  @Override
  public Map<String, String> metrics() {
    return run == null ? Map.of() : run.metrics();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new Builder(info.schema());
  }

  /** Update writes the changed rows, and complete writes all rows again; both are records added to the topic. */
  private final class Builder implements WriteBuilder, SupportsTruncate, SupportsStreamingUpdateAsAppend {
    private final StructType schema;

    Builder(StructType schema) {
      this.schema = schema;
    }

    @Override
    public WriteBuilder truncate() {
      return this;
    }

    @Override
    public Write build() {
      return new SinkWrite(options, run, schema);
    }
  }
}

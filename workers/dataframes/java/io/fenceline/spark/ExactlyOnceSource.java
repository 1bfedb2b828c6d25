package io.fenceline.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's data source {@code fenceline}: a Kafka sink whose rows appear exactly once.
 *
 * <p>The number of each micro-batch is committed as a group offset in the same Kafka transaction as its rows (its
 * <em>marker</em>). A batch that Spark repeats after a failure is recognised by it and not written again.
 */
public final class ExactlyOnceSource implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "fenceline";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    throw new Refusal("fenceline is a sink. Read topics with Spark's own source, format(\"kafka\").");
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new SinkTable(SinkOptions.from(new CaseInsensitiveStringMap(properties)));
  }
}

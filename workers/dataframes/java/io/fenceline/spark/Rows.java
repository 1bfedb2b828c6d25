package io.fenceline.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.Platform;

/**
 * Makes Kafka records of rows. Columns are those of Spark's own sink, and {@code timestamp}:
 *
 * <pre>
 * key        string or binary           optional
 * value      string or binary           required
 * headers    array of (key string, value binary)
 * topic      string                     required where the sink has no topic
 * partition  int                        default: by Kafka's partitioner
 * timestamp  timestamp                  default: the time of writing
 * </pre>
 *
 * <p>{@value #SHARE}, which {@code fenceline_spark.exactly_once} adds, only decides which writer has the row.
 */
final class Rows implements Serializable {
  private static final long serialVersionUID = 1;
  static final List<String> COLUMNS = List.of("key", "value", "headers", "topic", "partition", "timestamp");
  /** A hash of the key, or of the value where the key is null. */
  static final String SHARE = "fenceline_share";

  private final String topic;
  private final int key;
  private final boolean keyIsText;
  private final int value;
  private final boolean valueIsText;
  private final int headers;
  private final int topicColumn;
  private final int partition;
  private final int timestamp;

  /** Check the columns; a {@link Refusal} names the one that does not fit. */
  Rows(StructType schema, String topic) {
    for (StructField field : schema.fields()) {
      if (!COLUMNS.contains(field.name()) && !field.name().equals(SHARE)) {
        throw new Refusal(
            "column " + field.name() + " is not one of " + String.join(", ", COLUMNS) + ". Drop it, or make it part of the value,"
                + " for example with to_json(struct(…)).");
      }
    }
    this.topic = topic;
    key = column(schema, "key", "string or binary", Rows::isTextOrBinary);
    value = column(schema, "value", "string or binary", Rows::isTextOrBinary);
    headers = column(schema, "headers", "array<struct<key: string, value: binary>>", Rows::isHeaders);
    topicColumn = column(schema, "topic", "string", type -> type instanceof StringType);
    partition = column(schema, "partition", "int", DataTypes.IntegerType::equals);
    timestamp = column(schema, "timestamp", "timestamp", DataTypes.TimestampType::equals);
    if (value < 0) {
      throw new Refusal("column value is missing. It has the bytes or the text of the record.");
    }
    if (topic == null && topicColumn < 0) {
      throw new Refusal("there is no topic. Give option topic, or a column topic.");
    }
    keyIsText = key >= 0 && schema.fields()[key].dataType() instanceof StringType;
    valueIsText = schema.fields()[value].dataType() instanceof StringType;
  }

  private interface Fits {
    boolean test(DataType type);
  }

  private static int column(StructType schema, String name, String wanted, Fits fits) {
    StructField[] fields = schema.fields();
    for (int index = 0; index < fields.length; index++) {
      if (fields[index].name().equals(name)) {
        if (!fits.test(fields[index].dataType())) {
          throw new Refusal("column " + name + " is " + fields[index].dataType().sql() + ". It must be " + wanted + ".");
        }
        return index;
      }
    }
    return -1;
  }

  private static boolean isTextOrBinary(DataType type) {
    return type instanceof StringType || type.equals(DataTypes.BinaryType);
  }

  private static boolean isHeaders(DataType type) {
    return type instanceof ArrayType array
        && array.elementType() instanceof StructType header
        && header.fields().length == 2
        && header.fields()[0].dataType() instanceof StringType
        && header.fields()[1].dataType().equals(DataTypes.BinaryType);
  }

  ProducerRecord<byte[], byte[]> record(InternalRow row) {
    String to = topicColumn < 0 || row.isNullAt(topicColumn) ? topic : row.getUTF8String(topicColumn).toString();
    if (to == null) {
      throw new Refusal("a row has no topic: its column topic is null, and the sink has no option topic.");
    }
    return new ProducerRecord<>(
        to,
        partition < 0 || row.isNullAt(partition) ? null : row.getInt(partition),
        // Spark counts microseconds.
        timestamp < 0 || row.isNullAt(timestamp) ? null : Math.floorDiv(row.getLong(timestamp), 1000L),
        bytes(row, key, keyIsText),
        bytes(row, value, valueIsText),
        headers < 0 || row.isNullAt(headers) ? null : headersOf(row.getArray(headers)));
  }

  private static byte[] bytes(InternalRow row, int column, boolean isText) {
    if (column < 0 || row.isNullAt(column)) {
      return null;
    }
    return isText ? row.getUTF8String(column).getBytes() : row.getBinary(column);
  }

  private static RecordHeaders headersOf(ArrayData array) {
    RecordHeaders found = new RecordHeaders();
    for (int index = 0; index < array.numElements(); index++) {
      InternalRow header = array.getStruct(index, 2);
      if (header.isNullAt(0)) {
        throw new Refusal("a header has no key.");
      }
      found.add(header.getUTF8String(0).toString(), header.isNullAt(1) ? null : header.getBinary(1));
    }
    return found;
  }

  /** The columns that decide which writer has a row: the share, else the key, else the whole row. */
  static List<String> sharedBy(StructType schema) {
    List<String> names = List.of(schema.fieldNames());
    return names.contains(SHARE) ? List.of(SHARE) : names.contains("key") ? List.of("key") : names;
  }

  /**
   * Count and hash of the rows of a share. They do not depend on the rows' order.
   *
   * <p>They change when a row moves to another share, not when a row with the same key has another value.
   */
  static final class Share {
    private long count;
    private long hash;

    void add(ProducerRecord<byte[], byte[]> record) {
      count++;
      byte[] bytes = record.key() != null ? record.key() : record.value();
      if (bytes != null) {
        int low = Murmur3_x86_32.hashUnsafeBytes2(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 17);
        int high = Murmur3_x86_32.hashUnsafeBytes2(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 42);
        hash += ((long) high << 32) ^ (low & 0xffffffffL);
      }
    }

    @Override
    public String toString() {
      return count + ":" + Long.toHexString(hash);
    }
  }
}

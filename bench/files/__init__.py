"""File pipelines, measured beside Spark's own Avro writer."""

"""Exactly-once output of Spark DataFrames to Kafka.

    import fenceline_spark
    from fenceline_spark import exactly_once

    spark = fenceline_spark.configure(SparkSession.builder).getOrCreate()
    query = exactly_once(
        df, topic="per-carrier", bootstrap_servers="localhost:9092", name="delays-by-carrier", checkpoint="s3a://…"
    ).start()

A Spark data source in Java, `format("fenceline")`, does the work; its jar is part of this package. It commits the
number of each micro-batch as a group offset in the same Kafka transaction as the batch's rows. Every refusal is a
`pyspark.errors.IllegalArgumentException` that says what is wrong and what to do next.
"""

from fenceline_spark.classpath import FORMAT, configure, jars, packages
from fenceline_spark.operations import Marker, hold, is_holding, markers, settle, start_over, starting_offsets
from fenceline_spark.writing import exactly_once, write_once

__all__ = [
    "FORMAT",
    "Marker",
    "configure",
    "exactly_once",
    "hold",
    "is_holding",
    "jars",
    "markers",
    "packages",
    "settle",
    "start_over",
    "starting_offsets",
    "write_once",
]

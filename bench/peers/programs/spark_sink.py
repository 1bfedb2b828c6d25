"""Spark Structured Streaming from topic to topic by its own Kafka source and sink, which promises at least once.

python spark_sink.py BOOTSTRAP SOURCE SINK TASKS COMPRESSION FOLDER JARS; runs until it is killed.
"""

import sys

from pyspark.sql import SparkSession


def main() -> None:
    bootstrap_servers, source, sink, tasks, compression, folder, jars = sys.argv[1:]
    session = (
        SparkSession.builder.master(f"local[{tasks}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.local.dir", folder)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    query = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", "5000")
        .load()
        .select("key", "value", "partition")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .option("kafka.acks", "all")
        .option("kafka.linger.ms", "5")
        .option("kafka.batch.size", "1000000")
        .option("kafka.buffer.memory", "134217728")
        .option("kafka.compression.type", compression)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()

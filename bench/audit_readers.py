"""Three ways of reading for an audit, over the same topics, one after the other (docs/adr/0020).

`python -m bench.audit_readers [--ids N] [--dry]` prints the figures and writes them to
bench/results/audit_readers.json.

  rows        what the audit does: confluent-kafka in a task, 24 bytes a record, packed, compared in Python
  source      a PySpark data source over confluent-kafka, Arrow batches, compared by Spark SQL; needs pyarrow, which is
              no dependency of ours: install it beside, or put it on PYTHONPATH
  connector   spark-sql-kafka, compared by Spark SQL

Each finds the ids that are lost and doubled, by all ids of both topics. Seconds are without the start of Spark. Then
what the connector does with aborted records and with an end behind the last stable offset.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import SPARK_KAFKA_JARS, ensure_jars
from app.products.audits.wire import AuditOrder
from bench.audit import environment
from bench.audit_topics import DOUBLED, LOST, SINK, SOURCE, fill, specification
from bench.identity_loop import create_topics
from bench.machine import keep, machine
from workers.audit.brokers import ClusterBrokers
from workers.audit.ids import id_of
from workers.audit.reading import committed_records, reader
from workers.audit.resolving import resolve
from workers.audit.splits import Split, SplitPlan, splits_of
from workers.spark import audit_job

Found = dict[str, float]


def plan_of(bootstrap_servers: str, ids: int) -> SplitPlan:
    return resolve(specification(ids), ClusterBrokers({"bootstrap.servers": bootstrap_servers}, audit_id="bench"))


def rows(bootstrap_servers: str, ids: int) -> Found:
    session = a_session()
    order = AuditOrder(
        fenceline_version="bench",
        specification=specification(ids),
        client_config={"bootstrap.servers": bootstrap_servers},
    )
    began = time.monotonic()
    _, buckets = audit_job.run(session.sparkContext, order, plan_of(bootstrap_servers, ids))
    return {
        "s": time.monotonic() - began,
        "lost": sum(bucket.ids.get("lost", 0) for bucket in buckets),
        "doubled": sum(bucket.ids.get("duplicated", 0) for bucket in buckets),
    }


class SplitPartition(InputPartition):
    def __init__(self, split: Split) -> None:
        super().__init__(None)
        self.split = split


class CommittedReader(DataSourceReader):
    def __init__(self, bootstrap_servers: str, ids: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._ids = ids

    def partitions(self) -> list[InputPartition]:
        plan = plan_of(self._bootstrap_servers, self._ids)
        return [SplitPartition(split) for split in splits_of(plan, offsets_per_task=1_000_000)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        arrow: Any = importlib.import_module("pyarrow")
        assert isinstance(partition, SplitPartition)
        split = partition.split
        find = id_of(specification(self._ids).id)
        side, base = int(split.side == "sink"), split.number << 48
        with reader({"bootstrap.servers": self._bootstrap_servers}, audit_id="bench") as consumer:
            for batch in committed_records(consumer, split, stall_s=60, deleted=lambda _start, _end: None):
                yield arrow.RecordBatch.from_arrays(
                    [
                        arrow.array([find(message.value(), None, None) for message in batch], arrow.binary()),
                        arrow.array([side] * len(batch), arrow.int32()),
                        arrow.array([base | (message.offset() or 0) for message in batch], arrow.int64()),
                    ],
                    names=["id", "side", "place"],
                )


class CommittedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "committed"

    def schema(self) -> str:
        return "id binary, side int, place long"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the signature of DataSource
        return CommittedReader(self.options["servers"], int(self.options["ids"]))


def source(bootstrap_servers: str, ids: int) -> Found:
    session = a_session()
    session.dataSource.register(CommittedSource)
    began = time.monotonic()
    frame = session.read.format("committed").option("servers", bootstrap_servers).option("ids", str(ids)).load()
    return {**compared(frame), "s": time.monotonic() - began}


def connector(bootstrap_servers: str, ids: int) -> Found:
    session = a_session()
    began = time.monotonic()
    plan = plan_of(bootstrap_servers, ids)

    def offsets(topic: str, *, is_end: bool) -> dict[str, int]:
        ranges = [one for one in plan.ranges if one.topic == topic]
        return {str(one.partition): one.read_end if is_end else one.read_start for one in ranges}

    def read(topic: str, side: int) -> Any:
        frame = batch_of(
            session,
            bootstrap_servers,
            topic,
            json.dumps({topic: offsets(topic, is_end=False)}),
            json.dumps({topic: offsets(topic, is_end=True)}),
        )
        return frame.select(
            f.get_json_object(f.col("value").cast("string"), "$.id").cast("binary").alias("id"),
            f.lit(side).alias("side"),
            (f.col("partition").cast("long") * (1 << 48) + f.col("offset")).alias("place"),
        )

    found = compared(read(SOURCE, 0).unionAll(read(SINK, 1)))
    return {**found, "s": time.monotonic() - began}


def batch_of(session: SparkSession, bootstrap_servers: str, topic: str, starts: str, ends: str) -> Any:
    return (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("kafkaConsumer.pollTimeoutMs", "5000")
        .option("subscribe", topic)
        .option("startingOffsets", starts)
        .option("endingOffsets", ends)
        .load()
    )


def compared(frame: Any) -> Found:
    """By 128 bits of the id's hash, as the audit has 112."""
    is_sink = f.col("side") == 1
    counted = (
        frame.select(f.xxhash64("id").alias("high"), f.xxhash64(f.lit(7), f.col("id")).alias("low"), "side", "place")
        .groupBy("high", "low")
        .agg(
            f.sum((~is_sink).cast("long")).alias("asked"),
            f.sum(is_sink.cast("long")).alias("found"),
            f.min(f.when(~is_sink, f.col("place"))).alias("first_input"),
            f.max(f.when(is_sink, f.col("place"))).alias("last_output"),
        )
    )
    (row,) = counted.agg(
        f.sum((f.col("found") < f.col("asked")).cast("long")).alias("lost"),
        f.sum((f.col("found") > f.col("asked")).cast("long")).alias("doubled"),
    ).collect()
    return {"lost": row["lost"], "doubled": row["doubled"]}


def isolation(bootstrap_servers: str, _ids: int) -> dict[str, str]:
    """Ten committed, ten aborted, an open transaction, ten committed behind it: what the connector's batch reads."""
    topic = "isolated"
    create_topics(bootstrap_servers, topic)
    settings = {"bootstrap.servers": bootstrap_servers}
    ended, held = (Producer({**settings, "transactional.id": name}) for name in ("ended", "open"))
    for one in (ended, held):
        one.init_transactions(60)

    def write(producer: Producer, word: str) -> None:
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, word, partition=0)
        assert producer.flush(30) == 0

    write(ended, "committed")
    ended.commit_transaction(30)
    write(ended, "aborted")
    ended.abort_transaction(30)
    write(held, "open")
    write(ended, "behind")
    ended.commit_transaction(30)
    brokers = ClusterBrokers(settings, audit_id="bench")
    stable = brokers.last_stable([Partition(topic, 0)])[Partition(topic, 0)]
    high = brokers.high_watermarks([Partition(topic, 0)])[Partition(topic, 0)]
    session = a_session()
    starts = json.dumps({topic: {str(partition): 0 for partition in range(4)}})

    def seen(end: str | int) -> str:
        ends = end if isinstance(end, str) else json.dumps({topic: {"0": end, "1": 0, "2": 0, "3": 0}})
        words = f.col("value").cast("string").alias("word")
        try:
            counted = batch_of(session, bootstrap_servers, topic, starts, ends).groupBy(words).count().collect()
        except Exception as error:  # noqa: BLE001 - what it says is the figure
            lines = [line.strip() for line in str(error).splitlines() if "Exception" in line or "Error" in line]
            return f"fails: {(lines or [str(error)])[0][:200]}"
        return ", ".join(sorted(f"{row['count']} {row['word']}" for row in counted))

    told = {
        "last_stable_offset": str(stable),
        "high_watermark": str(high),
        "until_latest": seen("latest"),
        "until_last_stable_offset": seen(stable),
        "until_high_watermark": seen(high),
    }
    held.abort_transaction(30)
    return told


WAYS: dict[str, Callable[[str, int], Any]] = {
    "rows": rows,
    "source": source,
    "connector": connector,
    "isolation": isolation,
}


def a_session() -> SparkSession:
    builder: Any = SparkSession.builder
    session: SparkSession = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    # The first job starts the daemon of the Python workers; that is Spark's start, too.
    session.sparkContext.parallelize([1], 1).map(str).collect()
    return session


def in_a_process(way: str, bootstrap_servers: str, ids: int) -> Any:
    jars = [str(jar) for jar in ensure_jars(SPARK_KAFKA_JARS)] if way in ("connector", "isolation") else []
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        argv = [sys.executable, "-m", "bench.audit_readers", "--way", way, "--ids", str(ids)]
        subprocess.run(
            [*argv, "--servers", bootstrap_servers, "--told", str(told)],
            env=environment(Path(folder), *(["--jars", ",".join(jars)] if jars else [])),
            check=True,
        )
        return json.loads(told.read_text())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        # As others import it: what travels to Spark's workers must not belong to `__main__`.
        own: Any = importlib.import_module("bench.audit_readers")
        arguments.told.write_text(json.dumps(own.WAYS[arguments.way](arguments.servers, arguments.ids)))
        return
    on = machine()
    figures: dict[str, Any] = {"ids": arguments.ids}
    ways = ["rows", "connector"] if importlib.util.find_spec("pyarrow") is None else ["rows", "connector", "source"]
    with KafkaCluster.start() as cluster:
        fill(cluster.bootstrap_servers, arguments.ids)
        for way in ways:
            found: Found = in_a_process(way, cluster.bootstrap_servers, arguments.ids)
            assert (found["lost"], found["doubled"]) == (LOST, DOUBLED), (way, found)
            figures[f"{way}_s"] = round(found["s"], 1)
        figures["connector_reads"] = in_a_process("isolation", cluster.bootstrap_servers, arguments.ids)
    figures |= {f"{way}_to_rows": round(figures[f"{way}_s"] / figures["rows_s"], 2) for way in ways[1:]}
    keep("audit_readers", on, figures)


if __name__ == "__main__":
    main()

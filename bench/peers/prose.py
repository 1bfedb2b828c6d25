"""The fixed texts of docs/measured/benchmark.md; every figure beside them comes from a result."""

from __future__ import annotations

BEGINNING = """# Throughput of the loop and of other systems

For readers who want to know how fast the loop is beside Kafka Streams, Spark's Kafka sink and Quix Streams: method, results and settings.

`make bench` runs each system on the same records, on one broker, and checks the output. `make bench QUICK=1` runs the first three rows and
JSON in a few minutes. `bench/results/latest.json` has every round, and `python -m bench.peers.page` makes this page of it.

## Method

- *One broker*, with one replica, shares the cores with the system. A system that leaves it more of the machine is faster.
- *Rounds.* Each round runs every system once, in a changing order. Ratios are within a round; the tables show their median with its 95 %
  bootstrap interval. The virtual machine's speed changes by half within minutes, so rates of different sections do not compare.
- *Records a second* are the growth of the sink's last stable offset. The measurement begins seconds after the first output, with warm
  JVMs.
- *Check.* After each run the system is stopped (Fenceline in Spark is killed). Every input id up to the last one found must be in the sink
  once, or at least once, at `read_committed`. A violation ends the benchmark. Values are not compared.
- *Pairs* compare two variants of the loop: two live processes run in turns of a few seconds. `at_least_once` makes Python objects of
  records, both exactly-once guarantees do not.
- The *limit* is a Python process that consumes and calls `produce_batch` with the loop's settings (`bench/peers/programs/limit.py`). It is
  idempotent, without transactions, offsets, keys and timestamps. The loop and Kafka Streams keep key, headers and timestamp; Spark's sink
  keeps no timestamps.

## Goals
"""

TITLES = {"as they come: their own defaults, and ours": "Default settings"}
"""The headings of sections whose name in the result is no noun."""

WHY = {
    "rows of a DataFrame, two writers, vs Spark's own sink": (
        "Rows pass a shuffle to their writer, and each batch ends in two transactions. Spark's own sink writes in the tasks "
        "that read. Both use up the two cores, so more writers do not help here."
    ),
    "exactly_once_v2 in Spark vs Kafka Streams exactly_once_v2": (
        "Both share two cores with the broker. A task takes its records from librdkafka and returns them in C "
        "(docs/loop.md). In each commit it waits for deliveries and the end of the transaction."
    ),
    "exactly_once_v2 in Spark vs Spark's own Kafka sink": (
        "The sink has its best settings (large batches and fetches, `linger.ms=5`, a million records in a micro-batch) and "
        "one core. It writes from the JVM without transactions and waits for its micro-batches only."
    ),
    "exactly_once_v2 in Spark vs Quix Streams exactly-once": (
        "Quix Streams runs Python code for each record on one thread."
    ),
    "exactly_once_v2 in Spark vs the limit": (
        "The loop also writes timestamps, and waits in each commit for deliveries, offsets and the end of the transaction."
    ),
    "exactly once vs our own at least once": (
        "`exactly_once_v2` adds two round trips to the coordinators in each commit, and the offset log."
    ),
    "records of 1 KB vs Kafka Streams": (
        "Task and broker do not use up the two cores, so the task waits for answers. The cause of the wait is not measured."
    ),
    "two headers on each record vs none": ("librdkafka parses, copies and encodes the headers of each record."),
    "memory of one task at full speed, MB": (
        "The source is compressed to fit on a disk, and a fetch becomes many times larger in the client. For uncompressed "
        "sources and shorter runs, see *its largest process* in the tables. Constant memory is not shown: see the first "
        "and last tenth under *Memory*."
    ),
}

PROFILE = (
    "One task in its own process, identity, 100 bytes, 100 ms, exactly once, at full speed. The loop's one thread does "
    "everything in order and waits for each commit: no record of the next transaction may be enqueued before. The client's "
    "own threads fetch, decompress, check and send beside it."
)

DATAFRAMES = (
    "A Structured Streaming query copies key and value from topic to topic, with two cores for broker, driver and tasks. "
    "Spark's own sink is at least once. The others are Fenceline's with one and two writers, exactly once. All have the "
    "same settings of Kafka's clients. The rate is of micro-batches of {batch:,} rows, without the first three. The "
    "load of the trigger is 1,000 records a second."
)

MEMORY = (
    "The consumer holds at most `queued.max.messages.kbytes` (64 MB of values) and one more fetch of each partition, and "
    "stops fetching a partition at 50,000 records. The producer holds at most `queue.buffering.max.kbytes` (64 MB) and "
    "500,000 records. The loop holds a batch of 10,000 native records (Python objects: 2,000, before a commit with lag "
    "16,000) or about 4 MB. It stops reading while the producer's queue is full. The client adds some hundred bytes to "
    "each record."
)

MODEL = (
    "Not measured. For a million records a task takes {task:.2f} s of a processor, the broker {broker:.2f} s (medians of "
    "the turns above). A task alone does {rate:,.0f} records/s here. The model has enough cores for the tasks and no "
    "other limit: disks, network, locks of one broker, fewer partitions than tasks."
)

SETTINGS = """## Settings

| system | settings | program |
|---|---|---|
| Fenceline | the product's own (`workers/loop/client_config.py`) | an instance on the embedded standalone cluster, by `spark-submit`; *bare*: the same task in its own process |
| Kafka Streams | `num.stream.threads` as many as tasks, `max.poll.records=10000`, `max.partition.fetch.bytes=4 MB`, `fetch.max.bytes=50 MB`, `batch.size=512 KB`, `buffer.memory=128 MB`, `linger.ms=5`, `buffered.records.per.partition=20000`; a heap of 1 GB, parallel collector; JSON by Jackson's databind into a class, other fields skipped | `bench/peers/java/StreamsCopy.java` |
| Spark's Kafka sink | `local[tasks]`, driver memory 2 GB, `read_committed`, `max.poll.records=5000`, `batch.size=1 MB`, `buffer.memory=128 MB`, `linger.ms=5`; micro-batches of a million records (`maxOffsetsPerTrigger`), one after the other | `bench/peers/programs/spark_sink.py` |
| Quix Streams | bytes for identity, JSON else, one record at a time in each function; the loop's fetch and queue settings, `linger.ms=5` | `bench/peers/programs/quix_copy.py`, in its own environment (`requirements/quix.lock`) |

*Defaults* in a system's name: of the second column only tasks, heap, collector and micro-batches are set. The goals without this word are
against the settings above.

All have `acks=all`, one broker, four partitions, `read_committed` input if possible, and the commit interval of the section. A micro-batch of
Spark's sink takes more than a second, so it commits ten times less often. Without a bound (its default), the first one is the whole topic.
Fenceline's tasks report to no server here ([growth.md](growth.md) has its part). Kafka Streams and Quix Streams let the producer choose the
partition; the others keep the source's.
"""

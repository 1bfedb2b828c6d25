"""What a person says on docs/benchmark.md; every figure beside it comes from a result."""

from __future__ import annotations

BEGINNING = """# The loop against its peers

People believe that exactly-once is slow, and that Python is slower. `make bench` takes the same records through each
system in turn, on one broker in one run, and judges what came out; `make bench QUICK=1` does the first three rows in a
few minutes. `bench/results/latest.json` has every round, and this page is made of it (`python -m bench.peers.page`).

How it is measured, so that it can be disbelieved where it should be:

- *One broker for all*, with one replica, on the same cores as what is measured. Whoever leaves it more of the machine is
  faster for it.
- *In turns.* In each round every system runs once, in an order that changes; a ratio is of the same round, and what
  stands here is the median of the rounds' ratios with its 95 % bootstrap interval. The machine is a virtual one whose
  speed changes by half within minutes, so records a second of one meeting do not compare with those of another.
- *By the output.* Records a second are how fast the last stable offset of the sink grows, which is what its readers can
  read; the measurement begins seconds after the first output, when JVMs are warm.
- *Judged.* After each run the system is stopped (ours in Spark is killed, the others are told to end), and all that it
  has committed is read under `read_committed`: every id of the input up to the last one that came out, once, or at least
  once, as it promises. A run that breaks its promise ends the benchmark. Ids are looked at, not whole values.
- *Pairs* compare two ways of our loop that differ by a few per cent: tasks in processes of their own, both alive, one
  paused while the other runs, changing every few seconds.
- The *limit* is one Python process that consumes and calls `produce_batch` (`bench/peers/programs/limit.py`): idempotent,
  without transactions, offsets, keys or timestamps, with the loop's settings. Ours carries key, headers and timestamp of
  each record on, as Kafka Streams does; Spark's sink does not carry timestamps.
"""

WHY = {
    "exactly_once_v2 in Spark vs Kafka Streams exactly_once_v2": (
        "The goal was set against a Kafka Streams with smaller polls and batches. At its best (the settings below) it comes "
        "near to the limit, so that this ratio to it cannot be reached by a loop that hands records over as the limit "
        "does; with its own defaults it stands in *as they come*. Ours does its work in one thread, most of it in one "
        "call of the client for each record, which is the only call of confluent-kafka that keeps a timestamp, and that "
        "thread waits in each commit (see *where the time goes*). To go further the records would have to go from "
        "the consumer to the producer without becoming Python objects."
    ),
    "exactly_once_v2 in Spark vs Spark's own Kafka sink": (
        "The sink gets its best settings here (large batches and fetches, `linger.ms=5`, a million records in a "
        "micro-batch) and one core for its task. It writes from the JVM without transactions and waits for nothing but "
        "its micro-batches; the limit, which promises nothing, does not reach 2.8 times of it either."
    ),
    "exactly_once_v2 in Spark vs Quix Streams exactly-once": (
        "Both are bound by one Python thread; Quix Streams runs Python code for each record."
    ),
    "exactly_once_v2 in Spark vs the limit": (
        "What it has more than the limit: the wait for deliveries, offsets and the end of the transaction in each commit, "
        "in which its thread hands over nothing (see *where the time goes*), and the timestamps."
    ),
    "exactly once vs our own at least once": (
        "`at_least_once` waits for the deliveries too; what `exactly_once_v2` adds are two round trips to the coordinators "
        "in each commit, in which the loop's thread waits, and what is kept for the offset log."
    ),
    "two headers on each record vs none": (
        "Each header is parsed by the client when it hands the record out, made a tuple, a text and bytes of, and taken apart "
        "again to be written, all on the loop's thread. confluent-kafka hands headers on in no other way."
    ),
    "memory of one task at full speed, MB": (
        "The source of these minutes is compressed, or it would not fit on a disk: what one fetch brings of each partition "
        "becomes many times its size in the client. What a task holds from sources that are not compressed stands in the "
        "tables below, as *its largest process*, for shorter runs. That it is flat is not shown: see the first and the last "
        "tenth, and the plot, under *Memory*."
    ),
}

PROFILE = (
    "One task in a process of its own, identity, 100 bytes, 100 ms, exactly once, at full speed. The loop has one thread "
    "that does everything in order (that is what makes it right); librdkafka's threads fetch, decompress, check and send "
    "beside it. A commit is waited for: nothing of the next transaction may be enqueued before this one has ended."
)

MEMORY = (
    "What bounds it: the consumer holds at most `queued.max.messages.kbytes` (64 MB of values) and one fetch of each "
    "partition more, and no more than 50,000 records of a partition before it stops fetching; the producer at most "
    "`queue.buffering.max.kbytes` (64 MB) and 500,000 records; the loop one batch, of 2,000 records (16,000 before a commit "
    "when it is behind) or about 4 MB. When the "
    "producer's queue is full the loop hands over nothing and reads nothing until there is room. Small records cost "
    "more than their bytes: librdkafka keeps some hundred bytes beside each."
)

MODEL = (
    "Not measured: a model. One task takes {task:.2f} s of a processor for a million records, the broker {broker:.2f} s "
    "(medians of the turns above), and a task by itself does {rate:,.0f} records/s here. With tasks on as many cores as "
    "that needs, and no other limit (disks, network, one broker's locks, partitions as many as tasks):"
)

SETTINGS = """## Settings

| system | settings that matter | started as |
|---|---|---|
| Fenceline | the product's own (`workers/transactional/client_config.py`) | an instance on the embedded standalone cluster, by `spark-submit`; *bare*: the same task in a process of its own |
| Kafka Streams | `num.stream.threads` as many as tasks, `max.poll.records=10000`, `max.partition.fetch.bytes=4 MB`, `fetch.max.bytes=50 MB`, `batch.size=512 KB`, `buffer.memory=128 MB`, `linger.ms=5`, `buffered.records.per.partition=20000`; a heap of 1 GB, parallel collector | a program of ours of ten lines (`bench/peers/java`) |
| Spark's Kafka sink | `local[tasks]`, driver memory 2 GB, `read_committed`, `max.poll.records=5000`, `batch.size=1 MB`, `buffer.memory=128 MB`, `linger.ms=5`; micro-batches of a million records (`maxOffsetsPerTrigger`), one after the other | `bench/peers/programs/spark_sink.py` |
| Quix Streams | bytes for identity, JSON else; the loop's fetch and queue settings, `linger.ms=5` | `bench/peers/programs/quix_copy.py`, in an environment of its own (`requirements/quix.lock`) |

*Defaults* in a system's name: none of the settings of the second column but tasks, heap, collector and micro-batches, as
its makers ship it. The goals' rows are those against peers at their best.

All: `acks=all`, one broker, four partitions, `read_committed` input where the system can, the commit interval of the
meeting. Spark's sink has no commit interval: a micro-batch is one, and the million records of one take it more than a
second, so that it commits ten times less often than the others. Without a bound (its default) the first micro-batch is
the whole topic, and nothing is committed until its end. Our tasks have no server to report to here (`bench.growth` has
the server's side). Kafka Streams and Quix Streams let their producer choose the partition; the others keep that of the
source.
"""

"""The five guarantees of KIP-98, each tried with ordinary clients and judged by the records that consumers get.

A `read_committed` consumer without records proves nothing by itself. So it must get a first record. Beside it a
`read_uncommitted` consumer shows that more records exist, and the first one waits longer than the second one needed.
"""

from __future__ import annotations

from confluent_kafka import TopicPartition

from app.core.clusters.partition import Partition
from app.products.conformance.checking.bench import Bench
from app.products.conformance.comparing import judge, named
from app.products.conformance.durability import judge_settings
from app.products.conformance.report import ConformanceFinding, broken, kept, not_checked


def open_is_hidden(bench: Bench) -> ConformanceFinding:
    topic = bench.topic(partitions=2)
    reader, everything = bench.reader(topic), bench.reader_of_everything(topic)
    writer = bench.writer()
    writer.begin()
    writer.send(topic, "left 1", partition=0)
    writer.send(topic, "right 1", partition=1)
    writer.commit()
    reader.wait_for("left 1", "right 1")
    writer.begin()
    writer.send(topic, "left 2", partition=0)
    writer.send(topic, "right 2", partition=1)
    took_s = everything.wait_for("left 2", "right 2")
    if early := [one.value for one in reader.linger(took_s)[2:]]:
        return broken(f"of an open transaction, a consumer got {named(early)}")
    writer.commit()
    return judge(
        reader.read(4),
        {0: ["left 1", "left 2"], 1: ["right 1", "right 2"]},
        "two partitions written in one transaction: consumers got nothing before the commit, and all of it after",
    )


def aborted_is_never_shown(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    writer = bench.writer()
    writer.begin()
    writer.send(topic, "aborted")
    bench.reader_of_everything(topic).wait_for("aborted")
    writer.abort()
    writer.begin()
    writer.send(topic, "committed")
    writer.commit()
    return judge(
        bench.reader(topic).read(1),
        {0: ["committed"]},
        "an aborted record is in the log before a committed one, and consumers got only the committed one",
    )


def offsets_with_outputs(bench: Bench) -> ConformanceFinding:
    source, sink = bench.topic("-in"), bench.topic("-out")
    at = TopicPartition(source, 0, 1)
    writer = bench.writer()
    for is_commit in (False, True):
        writer.begin()
        writer.send(sink, "committed" if is_commit else "aborted")
        bench.send_offset(writer, at)
        before = bench.committed(at)
        if before >= 0:
            return broken(f"offset {before} was committed while its transaction was open")
        if not is_commit:
            writer.abort()
            if (after := bench.committed(at)) >= 0:
                return broken(f"offset {after} was committed by an aborted transaction")
    writer.commit()
    if (after := bench.committed(at)) != 1:
        return broken(f"the transaction was committed, and its offset 1 was not: the group has {after}")
    return judge(
        bench.reader(sink).read(1),
        {0: ["committed"]},
        "input offset and output came together: neither with an abort, both with a commit",
    )


def committed_stays(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    writer = bench.writer()
    written: list[str] = []
    for number in range(3):
        writer.begin()
        values = [f"{number}a", f"{number}b"]
        writer.send(topic, *values)
        writer.commit()
        written += values
    return judge(
        bench.reader(topic).read(len(written)),
        {0: written},
        "a consumer that connected after the acknowledged commit got its records",
    )


def outlives_a_broker(bench: Bench) -> ConformanceFinding:
    place = bench.place
    return judge_settings(
        replication_factor=place.replication_factor, topic=bench.topic_settings(bench.topic()), brokers=place.brokers
    )


def order_of_transactions(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    reader, everything = bench.reader(topic), bench.reader_of_everything(topic)
    first, second = bench.writer("first"), bench.writer("second")
    second.begin()
    second.send(topic, "second 0")
    second.commit()
    reader.wait_for("second 0")
    first.begin()
    first.send(topic, "first 1")
    second.begin()
    second.send(topic, "second 1")
    second.commit()
    took_s = everything.wait_for("first 1", "second 1")
    if early := [one.value for one in reader.linger(took_s)[1:]]:
        return broken(f"{named(early)} were returned before the end of an earlier open transaction")
    first.send(topic, "first 2")
    first.commit()
    second.begin()
    second.send(topic, "second 2")
    second.commit()
    return judge(
        reader.read(5),
        {0: ["second 0", "first 1", "second 1", "first 2", "second 2"]},
        "two producers with overlapping transactions: consumers got the order of the log, and a committed "
        "transaction waited for the open one before it",
    )


def both_kinds_in_one_partition(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    reader, everything = bench.reader(topic), bench.reader_of_everything(topic)
    plain, writer = bench.plain_writer(), bench.writer()
    plain.send(topic, "plain 1")
    reader.wait_for("plain 1")
    writer.begin()
    writer.send(topic, "transactional")
    plain.send(topic, "plain 2")
    took_s = everything.wait_for("transactional", "plain 2")
    if early := [one.value for one in reader.linger(took_s)[1:]]:
        return broken(f"{named(early)} was returned, though it is not before the start of an open transaction")
    writer.commit()
    plain.send(topic, "plain 3")
    return judge(
        reader.read(4),
        {0: ["plain 1", "transactional", "plain 2", "plain 3"]},
        "a plain record waited behind an open transaction; after the commit all came in the order of the log",
    )


def retry_is_written_once(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    at = Partition(topic, 0)
    writer = bench.writer()
    writer.begin()
    writer.send(topic, "first", "second")
    with bench.repeating() as client:
        code = client.produce_again(at, client.last_batch(at), [b"second"], transactional_id=writer.transactional_id)
    if code:
        return not_checked(f"the batch that was sent again was answered with Kafka's error {code}")
    writer.send(topic, "third")
    writer.commit()
    return judge(
        bench.reader(topic).read(3),
        {0: ["first", "second", "third"]},
        "a batch sent again at its sequence, as after a lost answer, was acknowledged and is in the log once",
    )


def redone_is_shown_once(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    writer = bench.writer()
    for is_last in (False, False, True):
        writer.begin()
        writer.send(topic, "one", "two")
        if is_last:
            writer.commit()
        else:
            writer.abort()
    finding = judge(bench.reader(topic).read(2), {0: ["one", "two"]}, "")
    if finding.said:
        return finding
    return kept("the records of a transaction that was aborted twice and repeated were returned once")

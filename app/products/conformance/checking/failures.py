"""The failure cases of KIP-98, its single writer, and its caveat on compacted topics."""

from __future__ import annotations

import itertools
import time
from contextlib import closing

from confluent_kafka import KafkaError, TopicPartition

from app.core.clusters.partition import Partition
from app.products.conformance.checking.bench import Bench
from app.products.conformance.checking.clients import Writer
from app.products.conformance.comparing import judge, named
from app.products.conformance.report import ConformanceFinding, broken, kept, not_checked, not_shown

_TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
_MAX_MESSAGE_BYTES = 2_000
_FENCED = KafkaError._FENCED  # noqa: SLF001 - a public name of librdkafka
# The errors of a group for a stale member: of a classic group, and of KIP-848's.
_NO_MEMBER = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
_COMPACTION_POLL_S = 0.5
_FILLER = "filler"


def refused_record_is_redone(bench: Bench) -> ConformanceFinding:
    topic = bench.topic(max_message_bytes=str(_MAX_MESSAGE_BYTES))
    writer = bench.writer()
    writer.begin()
    writer.send(topic, "one")
    too_large = bench.refused(lambda: writer.send(topic, "x" * 2 * _MAX_MESSAGE_BYTES))
    if too_large is None or too_large.code() != _TOO_LARGE:
        return not_checked(f"a record above the topic's max.message.bytes was answered: {_said(too_large)}")
    if bench.refused(writer.commit) is None:
        return broken("a transaction was committed without a record that the broker had rejected")
    writer.abort()
    # After such an abort librdkafka still purges, and drops the next records of the same producer.
    again = bench.writer()
    again.begin()
    again.send(topic, "one", "two")
    again.commit()
    return judge(
        bench.reader(topic).read(2),
        {0: ["one", "two"]},
        "after a rejected record the commit failed; after an abort and a repetition, each record was returned once",
    )


def commit_may_be_repeated(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    writer = bench.writer()
    writer.begin()
    writer.send(topic, "one")
    name = writer.transactional_id or ""
    with bench.repeating() as client:
        batch = client.last_batch(Partition(topic, 0))
        writer.commit()
        if why := client.end_again(name, batch, is_commit=True):
            return broken(f"a repeated commit was rejected after it had succeeded: {why}")
        if not client.end_again(name, batch, is_commit=False):
            return broken("a committed transaction could be aborted afterwards")
    return judge(
        bench.reader(topic).read(1),
        {0: ["one"]},
        "a commit repeated as after a lost answer was acknowledged and changed nothing; an abort was rejected",
    )


def dead_producer_is_aborted(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    reader, everything = bench.reader(topic), bench.reader_of_everything(topic)
    timeout_ms = bench.short_timeout_ms
    sleeper, plain = bench.writer(timeout_ms=timeout_ms), bench.plain_writer()
    sleeper.begin()
    sleeper.send(topic, "never ended")
    plain.send(topic, "waiting")
    everything.wait_for("never ended", "waiting")
    began = time.monotonic()
    shown = reader.read(1, within_s=bench.place.patience_s)
    took_s = time.monotonic() - began
    if not shown:
        return broken(f"a transaction with a timeout of {timeout_ms} ms still blocked consumers after {took_s:.0f} s")
    if (refusal := bench.refused(sleeper.commit)) is None:
        return broken("its producer could commit a transaction that had timed out")
    if refusal.code() != _FENCED:
        return not_checked(f"the late commit was rejected for another reason: {_said(refusal)}")
    return judge(
        reader.linger(),
        {0: ["waiting"]},
        f"a transaction with a timeout of {timeout_ms} ms that was left open was aborted within {took_s:.0f} s, "
        "and its producer was fenced",
    )


def coordinator_moves(_: Bench) -> ConformanceFinding:
    return not_shown("no coordinator was stopped: only the owner of the brokers can stop one")


def second_producer_fences_the_first(bench: Bench) -> ConformanceFinding:
    topic = bench.topic()
    first = bench.writer()
    first.begin()
    first.send(topic, "of the first")
    second = bench.writer()
    second.begin()
    second.send(topic, "of the second")
    second.commit()
    if (refusal := bench.refused(first.commit)) is None:
        return broken("the first producer of an id could commit after the second one's initialisation")
    if refusal.code() != _FENCED:
        return not_checked(f"the first producer's commit was rejected for another reason: {_said(refusal)}")
    return judge(
        bench.reader(topic).read(1),
        {0: ["of the second"]},
        "a second producer of the same id aborted the first one's transaction, and the first one was fenced",
    )


def stale_member_is_refused(bench: Bench) -> ConformanceFinding:
    source, sink = bench.topic("-in"), bench.topic("-out")
    at = TopicPartition(source, 0, 1)
    member = bench.member(source)
    metadata = bench.metadata_of(member)
    bench.leave(member)
    writer = bench.writer()
    writer.begin()
    writer.send(sink, "of a zombie")
    refusal = bench.refused(lambda: writer.send_offsets([at], metadata))
    if refusal is None:
        return broken("offsets with the generation of a stale member were accepted")
    if refusal.code() not in _NO_MEMBER:
        return not_checked(f"the offsets were rejected for another reason: {_said(refusal)}")
    writer.abort()
    if (after := bench.committed(at)) >= 0:
        return broken(f"the offsets were rejected, but the group has {after}")
    return kept(f"offsets with the generation of a stale member were rejected: {refusal.name()}")


def compaction_keeps_the_last_committed(bench: Bench) -> ConformanceFinding:
    """Write keys a and b in one committed transaction, then a again, and b in an aborted transaction."""
    topic = bench.topic(
        cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.001", min_compaction_lag_ms="0"
    )
    writer, plain = bench.writer(), bench.plain_writer()
    _commit(writer, topic, a="a of the first", b="b of the first")
    _commit(writer, topic, a="a of the second")
    writer.begin()
    writer.send(topic, "b of an aborted one", key="b")
    writer.abort()
    deadline = time.monotonic() + bench.place.patience_s
    for number in itertools.count():
        # New records roll the segment, as the newest one is not compacted, and end the reader's records.
        filler = f"{_FILLER} {number}"
        plain.send(topic, filler, key=_FILLER)
        with closing(bench.reader(topic)) as reader:
            reader.wait_for(filler)
            values = [one.value for one in reader.seen if not one.value.startswith(_FILLER)]
        if "b of an aborted one" in values or not {"b of the first", "a of the second"} <= set(values):
            return broken(f"of the keys a and b, read_committed consumers got {named(values) or 'nothing'}")
        if "a of the first" not in values:
            return kept(
                "the last committed value of each key survived compaction, and an aborted one replaced none; but of a "
                "committed transaction with two keys, one record is gone: consumers now get only half of it"
            )
        if time.monotonic() > deadline:
            break
        time.sleep(_COMPACTION_POLL_S)
    return not_shown(f"the topic was not compacted within {bench.place.patience_s:.0f} s")


def _commit(writer: Writer, topic: str, **values: str) -> None:
    writer.begin()
    for key, value in values.items():
        writer.send(topic, value, key=key)
    writer.commit()


def _said(error: KafkaError | None) -> str:
    return "it was done" if error is None else f"{error.name()}, {error.str()}"

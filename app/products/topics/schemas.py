"""REST shapes of topics and their records."""

from __future__ import annotations

from app.core.clusters import topic
from app.kit.web.api.shown import shows
from app.products.topics import browsing, usage
from app.products.topics.service import records, topics


@shows(topic.DescribedPartition)
class TopicPartitionState:
    leader = "null: without a leader."
    size_bytes = "Of the leader's log; null: not reported."


@shows(usage.ReadingGroup)
class ReadingGroup:
    """A group with offsets or members of the topic, by this server's reading of the journals."""

    members = "Those with partitions of the topic."
    committed = "Partitions with a committed offset."
    pending = "Partitions with an offset of an open transaction."


@shows(usage.WritingId)
class WritingId:
    """A transactional id whose open transaction has partitions of the topic."""


@shows(usage.TopicUsage)
class TopicUsage:
    readers = "Pipelines that read it."
    writers = "Pipelines that write to it."


@shows(topics.TopicLine)
class Topic:
    under_replicated = "Partitions with fewer in-sync replicas than replicas."
    size_bytes = "The sum over the leaders' logs; null: not known, see `size_note`."
    settings = "Those that matter for transactions; null: they may not be read."
    advice = "Why the topic endangers exactly-once, a sentence each."
    usage = "null without a server."


@shows(topics.TopicPage)
class TopicList:
    matching = "Topics on all pages."
    internal = "Internal topics that are hidden."


@shows(topics.PartitionLine)
class TopicPartitionLine:
    offsets = "null with a `problem`."


@shows(topic.ActiveProducer)
class ActiveProducer:
    """An idempotent producer that the leaders know: by default for a day after its last record."""

    partitions = "Partitions with records of it."
    open_since = "First offset of its open transaction in one of them; null: without one."


@shows(topics.TopicProducer)
class TopicProducer:
    transactional_id = "null: a producer without transactions, or not known."


@shows(topics.TopicDetail)
class TopicDetail:
    producers = "At most 50, the last one first."
    producer_count = "All of them."
    notes = "Why producers or ids are not known."


@shows(browsing.TopicRecord, optional=True)
class TopicRecord:
    """A record with its outcome; null stands for null."""

    is_append_time = "The timestamp is the broker's (LogAppendTime), else the producer's (CreateTime)."
    state = "`unknown`: its marker, if there is one, is behind what was read."
    decided_at = "The offset of its marker, if that was read."
    size_bytes = "Of key, value and headers."


@shows(browsing.ReadRange)
class ReadRange:
    """The offsets of one partition that are done."""

    next = "The first offset after them."


@shows(records.RecordPage)
class RecordPage:
    read = "Records that were read to find the matching ones."
    next_cursor = "`after` of the next request, also at the end, where newer records continue."
    notes = "Partitions and batches that could not be read, and other remarks."

"""The settings of a task's consumer and producer. Settings for speed are defaults, those for correctness are locked.

Later ones win: our defaults, the cluster's settings, the pipeline's overrides, the locked ones.
"""

from __future__ import annotations

from typing import NamedTuple

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition, ProcessingGuarantee
from app.core.runs.client_id import TaskName, client_id_of
from workers.loop.control import TaskSpecification

Config = dict[str, str | int | bool]

_CONSUMER_DEFAULTS: Config = {
    # The default of 1,000 ms starves the loop whenever the queue was full; 0 spins a core while nothing drains it.
    "fetch.queue.backoff.ms": 10,
    # How long a fetch at the end of a partition may wait, and with it every seek near the end.
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 65_536,
    # For each partition; the default is twice that. It limits small records better than their bytes do: librdkafka
    # keeps some hundred bytes beside each.
    "queued.min.messages": 50_000,
    # Off by default, unlike Java's: a batch that a disk has changed would be processed as if it had been written so.
    "check.crcs": True,
}
_LARGEST_ANSWER_BYTES = 300_000_000
"""Guards against garbage only: the default is below the largest batch that brokers take. As a size, the first bytes of
a TLS alert or of HTTP are more than this, and so are reported at once."""
_PRODUCER_DEFAULTS: Config = {
    # After send_offsets on a partition still in use the coordinator says "retry", and 100 ms is a whole interval.
    "retry.backoff.ms": 10,
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "batch.num.messages": 100_000,
    # Java's partitioner: records with one key meet those that other Kafka clients wrote.
    "partitioner": "murmur2_random",
}
_OF_EACH_DEFAULTS: Config = {
    # Outputs leave with a full batch or with the flush. A client's thread uses a whole core while a request of a
    # partition is unanswered and other records exceed their linger (docs/client-facts.md). With a producer for each
    # partition that takes all cores, the broker's too if it is on the same machine.
    "linger.ms": 500,
}
_LEAST_QUEUE_KBYTES = 65_536
LARGEST_REQUEST_BYTES = 104_857_600
"""The brokers' default limit of a request (`socket.request.max.bytes`)."""
_BESIDE_RECORDS_BYTES = 16_384
"""The bytes of a request around its one batch."""
_RECORD_BYTES = range(1_000, 1_000_000_001)
"""The largest `message.max.bytes` of librdkafka; with a larger value no producer is made."""
_HEARTBEATS_PER_SESSION = 4
_LONGEST_HEARTBEAT_MS = 1_000
"""A classic member learns of a rebalance by the answer to its heartbeat: after the loss of another member, its
partitions wait as long."""
STATISTICS_INTERVAL_MS = 500
"""librdkafka reports a producer's id and epoch only in statistics (rule 5 needs them), with the causes of slow
deliveries."""


class Batches(NamedTuple):
    """The batching of a producer's records.

    size_bytes: of the largest batch, where the broker has refused larger ones; None: as configured.
    compression: where the broker has refused a record that was not compressed; None: as configured.
    largest_request_bytes: a record beyond it reaches no broker.
    """

    size_bytes: int | None = None
    compression: str | None = None
    largest_request_bytes: int = LARGEST_REQUEST_BYTES


def consumer_config(specification: TaskSpecification) -> Config:
    """Reads committed records only, commits nothing by itself, joins the group that the definition names."""
    definition = specification.definition
    chosen: Config = {**specification.client_config, **definition.consumer_overrides}
    # librdkafka requires room for the bytes beside the records.
    fetched_bytes = int(chosen.get("fetch.max.bytes", 0)) + 512
    return {
        **_CONSUMER_DEFAULTS,
        "receive.message.max.bytes": max(_LARGEST_ANSWER_BYTES, fetched_bytes),
        "client.id": _client_id(specification),
        **chosen,
        "group.id": definition.group_id,
        # The client reports an error where it would have to guess a position; Starting decides.
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # The broker also withholds pending offsets of open transactions (require_stable).
        "isolation.level": "read_committed",
        "enable.partition.eof": False,
        **NEVER_CREATE_TOPICS,
        **_group_protocol(definition),
    }


def _group_protocol(definition: PipelineDefinition) -> Config:
    if definition.group_protocol is GroupProtocol.CONSUMER:
        return {"group.protocol": "consumer"}
    return {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": definition.session_timeout_ms,
        "heartbeat.interval.ms": max(
            1, min(_LONGEST_HEARTBEAT_MS, definition.session_timeout_ms // _HEARTBEATS_PER_SESSION)
        ),
    }


def transactional_producer_config(
    specification: TaskSpecification, *, transactional_id: str | None = None, batches: Batches | None = None
) -> Config:
    """The settings of a producer under a fixed transactional id. Raises ValueError when there is none.

    Args:
        transactional_id: an input partition's; None: the task's own.
    """
    name = transactional_id or specification.transactional_id
    if name is None:
        raise ValueError(f"task {specification.task} of {specification.pipeline} has no transactional id")
    return {
        **_producer_config(specification, batches or Batches()),
        "transactional.id": name,
        "transaction.timeout.ms": specification.definition.transaction_timeout_ms,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }


def idempotent_producer_config(specification: TaskSpecification, *, batches: Batches | None = None) -> Config:
    """For `at_least_once`: no duplicates and no reordering by the producer's own retries; failures are reported."""
    return {
        **_producer_config(specification, batches or Batches()),
        "delivery.report.only.error": True,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }


def is_compressing(specification: TaskSpecification) -> bool:
    """True if the pipeline or its cluster has chosen a compression for outputs."""
    named = {**specification.client_config, **specification.definition.producer_overrides}
    return any(named.get(name, "none") != "none" for name in ("compression.type", "compression.codec"))


def _producer_config(specification: TaskSpecification, batches: Batches) -> Config:
    """The size limits leave the decision to brokers, which know the topics' limits and count compressed bytes.

    A record above `message.max.bytes` would exceed a request's limit. The broker then closes the connection without an
    error, and the client sends it again. The queue has room for the largest record.
    """
    definition = specification.definition
    of_each = definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    chosen: Config = {
        **_PRODUCER_DEFAULTS,
        **(_OF_EACH_DEFAULTS if of_each else {}),
        "client.id": _client_id(specification),
        "message.max.bytes": _largest_record_bytes(batches.largest_request_bytes),
        "message.timeout.ms": definition.transaction_timeout_ms,
        **specification.client_config,
        **definition.producer_overrides,
        "enable.idempotence": True,
        "acks": "all",
        **NEVER_CREATE_TOPICS,
    }
    chosen.setdefault(
        "queue.buffering.max.kbytes", max(_LEAST_QUEUE_KBYTES, int(chosen["message.max.bytes"]) // 1024 + 1)
    )
    if batches.size_bytes is not None:
        chosen["batch.size"] = batches.size_bytes
    if batches.compression is not None:
        chosen["compression.type"] = batches.compression
    return chosen


def _largest_record_bytes(largest_request_bytes: int) -> int:
    """Return the limit within librdkafka's bounds: brokers may take requests up to 2 GB, or of a few bytes."""
    return max(_RECORD_BYTES[0], min(largest_request_bytes - _BESIDE_RECORDS_BYTES, _RECORD_BYTES[-1]))


def reader_config(specification: TaskSpecification) -> Config:
    """A plain consumer beside the group, for the task's own journal partition."""
    return {
        **specification.client_config,
        "client.id": _client_id(specification),
        "group.id": f"{specification.definition.group_id}-fenceline-journal",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
        "fetch.queue.backoff.ms": 10,
        **NEVER_CREATE_TOPICS,
    }


def admin_config(specification: TaskSpecification) -> Config:
    """A client for metadata requests only."""
    return {**specification.client_config, "client.id": _client_id(specification), **NEVER_CREATE_TOPICS}


def _client_id(specification: TaskSpecification) -> str:
    return client_id_of(
        specification.pipeline,
        TaskName(
            ordinal=specification.ordinal,
            task=specification.task,
            lease=specification.lease,
            attempt=specification.attempt,
        ),
    )

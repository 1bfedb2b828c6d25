"""The settings of a task's consumer and producer: what makes it fast is a default, what makes it correct is locked.

Later ones win: our defaults, the cluster's settings, the pipeline's overrides, the locked ones.
"""

from __future__ import annotations

from app.domain.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.domain.pipelines.pipeline import GroupProtocol, PipelineDefinition, ProcessingGuarantee
from app.domain.runs.client_id import TaskName, client_id_of
from workers.transactional.control import TaskSpecification

Config = dict[str, str | int | bool]

_CONSUMER_DEFAULTS: Config = {
    # The default of 1,000 ms starves the loop whenever the queue was full; 0 spins a core while nothing drains it.
    "fetch.queue.backoff.ms": 10,
    # How long a fetch at the end of a partition may wait, and with it every seek near the end.
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 65_536,
    # Of each partition; the default is twice that. Small records are held by this, not by their bytes: librdkafka keeps
    # some hundred bytes beside each.
    "queued.min.messages": 50_000,
    # Off by default, unlike Java's: a batch that a disk has changed would be processed as if it had been written so.
    "check.crcs": True,
}
_PRODUCER_DEFAULTS: Config = {
    # After send_offsets on a partition still in use the coordinator says "retry", and 100 ms is a whole interval.
    "retry.backoff.ms": 10,
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 65_536,
    "batch.num.messages": 100_000,
    # Java's partitioner: records with one key meet those that other Kafka clients wrote.
    "partitioner": "murmur2_random",
}
_OF_EACH_DEFAULTS: Config = {
    # Outputs leave with a full batch or with the flush. A thread of the client spins for as long as a request of a
    # partition is unanswered and others wait that are over their linger (docs/loop.md): one producer then takes a core,
    # a producer for each partition takes all of them, from the broker too where it is on the same machine.
    "linger.ms": 500,
}
_HEARTBEATS_PER_SESSION = 4
STATISTICS_INTERVAL_MS = 500
"""Statistics are the only place where librdkafka tells a producer's id and epoch (rule 5 needs them), and what holds
its outputs up."""


def consumer_config(specification: TaskSpecification) -> Config:
    """Reads committed records only, commits nothing by itself, joins the group that the definition names."""
    definition = specification.definition
    return {
        **_CONSUMER_DEFAULTS,
        "client.id": _client_id(specification),
        **specification.client_config,
        **definition.consumer_overrides,
        "group.id": definition.group_id,
        # The client says so where it would have to guess a position; Starting decides.
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Also makes the broker hold back offsets that a transaction has not decided yet (require_stable).
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
        "heartbeat.interval.ms": max(1, definition.session_timeout_ms // _HEARTBEATS_PER_SESSION),
    }


def transactional_producer_config(
    specification: TaskSpecification, *, transactional_id: str | None = None, batch_size: int | None = None
) -> Config:
    """Transactional under a fixed id. Raises ValueError when there is none.

    Args:
        transactional_id: an input partition's; None: the task's own.
        batch_size: bytes of the largest batch, where the broker has refused larger ones.
    """
    name = transactional_id or specification.transactional_id
    if name is None:
        raise ValueError(f"task {specification.task} of {specification.pipeline} has no transactional id")
    return {
        **_producer_config(specification, batch_size),
        "transactional.id": name,
        "transaction.timeout.ms": specification.definition.transaction_timeout_ms,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }


def idempotent_producer_config(specification: TaskSpecification, *, batch_size: int | None = None) -> Config:
    """For `at_least_once`: no duplicates and no reordering by the producer's own retries; failures are reported."""
    return {
        **_producer_config(specification, batch_size),
        "delivery.report.only.error": True,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }


def _producer_config(specification: TaskSpecification, batch_size: int | None) -> Config:
    definition = specification.definition
    of_each = definition.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    chosen: Config = {
        **_PRODUCER_DEFAULTS,
        **(_OF_EACH_DEFAULTS if of_each else {}),
        "client.id": _client_id(specification),
        "message.timeout.ms": definition.transaction_timeout_ms,
        **specification.client_config,
        **definition.producer_overrides,
        "enable.idempotence": True,
        "acks": "all",
        **NEVER_CREATE_TOPICS,
    }
    if batch_size is not None:
        chosen["batch.size"] = batch_size
    return chosen


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
    """A client that only asks."""
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

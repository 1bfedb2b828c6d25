"""The fencing cases in a task's events, each with the producer that the task had then."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.core.fencing.cases import case_of_word
from app.core.fencing.evidence import ClientWord, GroupRecord
from app.core.fencing.fencing_event import Case
from app.core.runs.lease_context import LeaseContext
from app.core.wire.heartbeat import TaskHeartbeat


def fencing_cases(
    heartbeat: TaskHeartbeat, context: LeaseContext, generations: Callable[[str, str], Iterable[GroupRecord]]
) -> list[Case]:
    """Return the fencing cases in its events, each with the producer that the task had then."""
    reached = tuple(generations(context.cluster, context.group)) if heartbeat.events else ()
    cases = [
        case_of_word(
            ClientWord(
                event_id=event.event_id,
                kind=event.kind,
                at_ms=event.at_ms,
                message=event.message,
                run_id=heartbeat.run_id,
                ordinal=heartbeat.ordinal,
                lease=heartbeat.lease,
                task=heartbeat.task,
                attempt=heartbeat.attempt,
                pipeline=context.pipeline,
                host=heartbeat.host,
                group=context.group,
                error=event.error,
                generation=heartbeat.generation if event.generation is None else event.generation,
                partitions=event.partitions,
            ),
            kafka_cluster_id=context.kafka_cluster_id,
            transactional_id=event.transactional_id or heartbeat.transactional_id,
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            generations=reached,
        )
        for event in heartbeat.events
    ]
    return [case for case in cases if case is not None]

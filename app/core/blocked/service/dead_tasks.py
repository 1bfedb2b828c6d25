"""End the open transaction of a dead task, so that the next owner of its partitions need not wait for the timeout."""

from __future__ import annotations

from typing import NamedTuple

from app.core.access.command import Command
from app.core.access.service import command_log
from app.core.blocked.brokers import FencedProducer, NotEnded, TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadProducer, left_by
from app.core.blocked.facts import Refused
from app.core.clusters.cluster import Cluster
from app.core.fencing.cases import case_of_command
from app.core.fencing.evidence import CommandVerb, CommandWord
from app.core.fencing.service.events import record_cases
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import IdKind
from app.kit.access import RECONCILER, Verb, require
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import ActOutcomeUnknownError, UnavailableError

_BY = RECONCILER
_TIMEOUT_S = 5.0
_NOT_ENDED = {NotEnded.MOVED_ON: DeadEnd.MOVED_ON, NotEnded.UNSUPPORTED: DeadEnd.UNSUPPORTED}


class EndedDeadTask(NamedTuple):
    """The result; `said` is the brokers' reason against it."""

    result: DeadEnd
    said: str = ""


async def end_what_is_left(
    unit_of_work: UnitOfWorkFactory, brokers: TransactionBrokers, cluster: Cluster, dead: DeadProducer, *, clock: Clock
) -> EndedDeadTask:
    """End the open transaction of a dead producer, if its id still has that producer.

    1. owner of the id            a worker's report proves nothing about ids that its pipeline does not own
    2. its coordinator            most tasks left nothing open, and a new owner's init needs no help
    3. the command log            committed before the change, as for users: a server may die in between
    4. the end                    its coordinator compares once more; an id that changed since 2 is left unchanged
    5. the fencing event          with the answer as evidence; without an answer, the journal and 3 suffice

    A repetition, by this server or another, does the remaining steps.
    """
    require(_BY, Verb.END_DEAD_TRANSACTION)
    connection = cluster.connection()
    if not await _is_owned(unit_of_work, cluster, dead):
        return EndedDeadTask(DeadEnd.NOT_OURS, f"the pipeline does not own the id {dead.transactional_id}")
    try:
        known = await brokers.describe_transaction(connection, dead.transactional_id, timeout_s=_TIMEOUT_S)
        if isinstance(known, Refused):
            return EndedDeadTask(DeadEnd.UNANSWERED if known.is_open else DeadEnd.REFUSED, known.sentence)
        result = left_by(dead, known)
        if result is not None:
            return EndedDeadTask(result)
        if not await brokers.can_end_transactions(connection, dead.transactional_id, timeout_s=_TIMEOUT_S):
            return EndedDeadTask(
                DeadEnd.UNSUPPORTED, "this requires brokers of 4.0 or later with transaction.version 2"
            )
    except UnavailableError as error:
        return EndedDeadTask(DeadEnd.UNANSWERED, error.message)
    command = await _written(unit_of_work, cluster, dead, clock=clock)
    try:
        answer = await brokers.end_transaction(
            connection,
            dead.transactional_id,
            producer_id=dead.producer_id,
            producer_epoch=dead.producer_epoch,
            timeout_s=_TIMEOUT_S,
        )
    except ActOutcomeUnknownError as error:
        return EndedDeadTask(DeadEnd.UNANSWERED, error.message)
    except UnavailableError as error:
        return EndedDeadTask(DeadEnd.REFUSED, error.message)
    if isinstance(answer, NotEnded):
        return EndedDeadTask(_NOT_ENDED[answer])
    await _told(unit_of_work, cluster, dead, command, answer, clock=clock)
    return EndedDeadTask(DeadEnd.ENDED)


async def _is_owned(unit_of_work: UnitOfWorkFactory, cluster: Cluster, dead: DeadProducer) -> bool:
    """Return True if the id belongs to this very task, by the rows that the start of its run wrote."""
    async with unit_of_work() as uow:
        owners = await uow.of(TransactionalIdStore).owners(
            kafka_cluster_id=cluster.kafka_cluster_id, ids=[dead.transactional_id]
        )
    return any(
        (one.pipeline, one.kind, one.ordinal, one.task) == (dead.pipeline, IdKind.TASK, dead.ordinal, dead.task)
        for one in owners
    )


async def _written(unit_of_work: UnitOfWorkFactory, cluster: Cluster, dead: DeadProducer, *, clock: Clock) -> Command:
    async with unit_of_work() as uow:
        command = await command_log.record(
            uow,
            by=_BY,
            verb=Verb.END_DEAD_TRANSACTION,
            target=f"cluster:{cluster.name}",
            why=dead.why,
            now=clock.now(),
            outcome=f"asked for an end of {dead.transactional_id}, left open by {dead.task_name} of {dead.pipeline}",
            details={
                "transactional_id": dead.transactional_id,
                "producer_id": dead.producer_id,
                "producer_epoch": dead.producer_epoch,
                "pipeline": dead.pipeline,
                "run": dead.run_id,
                "ordinal": dead.ordinal,
                "lease": dead.lease,
                "task": dead.task,
                "attempt": dead.attempt,
            },
        )
        await uow.commit()
    return command


async def _told(
    unit_of_work: UnitOfWorkFactory,
    cluster: Cluster,
    dead: DeadProducer,
    command: Command,
    answer: FencedProducer,
    *,
    clock: Clock,
) -> None:
    case = case_of_command(
        CommandWord(
            command_id=command.id,
            verb=CommandVerb.END_DEAD,
            at_ms=int(command.at.timestamp() * 1000),
            who=command.who,
            why=command.why,
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
        ),
        kafka_cluster_id=cluster.kafka_cluster_id,
        transactional_id=dead.transactional_id,
        producer_id=dead.producer_id,
        producer_epoch=dead.producer_epoch,
    )
    async with unit_of_work() as uow:
        await record_cases(uow, [case], now=clock.now())
        await uow.commit()

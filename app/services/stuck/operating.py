"""The same on a cluster that is registered here: by role, with owners by heartbeat, every act in the command log."""

from __future__ import annotations

from typing import Any

from app.domain.access import Principal, Verb, require
from app.domain.clusters.cluster import Cluster
from app.domain.command import Command
from app.domain.errors import InvalidError, PreconditionError
from app.domain.fencing_events.cases import case_of_command
from app.domain.fencing_events.evidence import CommandVerb, CommandWord
from app.domain.stuck.diagnosis import Explanation, Kind
from app.domain.stuck.ending import EndPlan, Plan
from app.ports.clock import Clock
from app.ports.transactions import TransactionBrokers
from app.ports.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.services.access import command_log
from app.services.fencing_events import record_cases
from app.services.stuck import ending, explaining
from app.services.stuck.ending import Ended, Fenced
from app.services.stuck.owners import ask_of


async def explain(
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    target: str,
    kind: Kind | None,
    clock: Clock,
) -> Explanation:
    """Why a group, or the readers of a topic or partition, do not get on. Raises NotFoundError."""
    entry = await _entry(unit_of_work, cluster)
    return await explaining.explain(brokers, entry.connection(), target, ask_of(unit_of_work, entry, clock), kind=kind)


async def preview_fence(
    unit_of_work: UnitOfWorkFactory, brokers: TransactionBrokers, *, cluster: str, transactional_id: str, clock: Clock
) -> Plan:
    """What `fence` would do now."""
    entry = await _entry(unit_of_work, cluster)
    return await ending.plan_fencing(brokers, entry.connection(), transactional_id, ask_of(unit_of_work, entry, clock))


async def fence(
    uow: UnitOfWork,
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    transactional_id: str,
    force: bool,
    by: Principal,
    why: str | None,
    clock: Clock,
) -> Fenced:
    """Abort what the id has open and refuse whoever uses it. Raises ConflictError with what speaks against it."""
    require(by, Verb.FENCE_TRANSACTION)
    _needs_reason(force=force, why=why)
    entry = await uow.clusters.get(cluster)
    command = await command_log.record(
        uow,
        by=by,
        verb=Verb.FENCE_TRANSACTION,
        target=f"cluster:{cluster}",
        why=why,
        now=clock.now(),
        outcome=f"fenced {transactional_id}{' by force' if force else ''}",
        details={"transactional_id": transactional_id, "force": force},
    )
    # Last, since a broker cannot be rolled back: the row is there when this returns, or nothing was done.
    fenced = await ending.fence(
        brokers, entry.connection(), transactional_id, ask_of(unit_of_work, entry, clock), force=force
    )
    if fenced.plan.known is not None:
        word = _word(command, CommandVerb.FENCE, producer_id=fenced.producer_id, producer_epoch=fenced.producer_epoch)
        case = case_of_command(
            word,
            kafka_cluster_id=entry.kafka_cluster_id,
            transactional_id=transactional_id,
            producer_id=fenced.plan.known.producer_id,
            producer_epoch=fenced.plan.known.producer_epoch,
        )
        await record_cases(uow, [case], now=clock.now())
    return fenced


async def preview_end(
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    topic: str,
    partition: int,
    start_offset: int | None,
    clock: Clock,
) -> EndPlan:
    """What `end` would do now; without `start_offset` to the transaction that holds readers up."""
    entry = await _entry(unit_of_work, cluster)
    ask = ask_of(unit_of_work, entry, clock)
    return await ending.plan_ending(brokers, entry.connection(), topic, partition, ask, start_offset=start_offset)


async def end(
    uow: UnitOfWork,
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    topic: str,
    partition: int,
    expected: tuple[int, int, int],
    force: bool,
    by: Principal,
    why: str | None,
    clock: Clock,
) -> Ended:
    """Write an abort marker for the transaction that was seen.

    expected: its producer id, epoch and start offset, from the preview that somebody agreed to; PreconditionError when
    another one is there by now. Raises ConflictError with what speaks against it.
    """
    require(by, Verb.END_TRANSACTION)
    _needs_reason(force=force, why=why)
    entry = await uow.clusters.get(cluster)
    ask = ask_of(unit_of_work, entry, clock)
    planned = await ending.plan_ending(brokers, entry.connection(), topic, partition, ask, start_offset=expected[2])
    if planned.target is not None and planned.target.identity != expected:
        raise PreconditionError(
            f"another transaction begins at offset {expected[2]} of {topic}-{partition} by now: look again first"
        )
    producer_id, producer_epoch, start_offset = expected
    command = await command_log.record(
        uow,
        by=by,
        verb=Verb.END_TRANSACTION,
        target=f"cluster:{cluster}",
        why=why,
        now=clock.now(),
        outcome=f"ended the transaction of producer {producer_id} in {topic}-{partition}{' by force' if force else ''}",
        details={
            "topic": topic,
            "partition": partition,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "start_offset": start_offset,
            "force": force,
        },
    )
    # Last, as above.
    ended = await ending.end(brokers, entry.connection(), topic, partition, ask, planned=planned, force=force)
    known = ended.plan.known
    name = f"{topic}-{partition}"
    was_open = (
        known is not None
        and (known.producer_id, known.producer_epoch) == (producer_id, producer_epoch)
        and known.is_open
        and (topic, partition) in known.partitions
    )
    case = case_of_command(
        _word(command, CommandVerb.END, partitions=(name,), was_open=was_open),
        kafka_cluster_id=entry.kafka_cluster_id,
        transactional_id="" if known is None else known.transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    await record_cases(uow, [case], now=clock.now())
    return ended


def _word(command: Command, verb: CommandVerb, **answer: Any) -> CommandWord:
    """The command as evidence of what it did."""
    return CommandWord(
        command_id=command.id,
        verb=verb,
        at_ms=int(command.at.timestamp() * 1000),
        who=command.who,
        why=command.why,
        **answer,
    )


async def _entry(unit_of_work: UnitOfWorkFactory, cluster: str) -> Cluster:
    """Asked for and let go: brokers may be long in answering, and connections to the database are few."""
    async with unit_of_work() as uow:
        return await uow.clusters.get(cluster)


def _needs_reason(*, force: bool, why: str | None) -> None:
    if force and not (why or "").strip():
        raise InvalidError("what speaks against it is overruled only with a reason", field="why")

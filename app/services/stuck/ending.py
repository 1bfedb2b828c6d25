"""Ending a transaction by hand: planned first, then read again and done, then looked at again."""

from __future__ import annotations

import asyncio
import time

import msgspec

from app.domain.errors import ConflictError
from app.domain.stuck.diagnosis import Diagnosis, diagnose_partition
from app.domain.stuck.ending import EndPlan, Plan, plan_end, plan_fence
from app.domain.stuck.facts import KnownTransaction, PartitionFacts, Refused
from app.ports.brokers import Connection, TopicPartition
from app.ports.transactions import TransactionBrokers
from app.services.stuck.explaining import Ask, ids_in

_SETTLES_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: producer id and epoch that the id has now. state: as its coordinator says after it."""

    plan: Plan
    producer_id: int
    producer_epoch: int
    state: str | None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and how the partition's readers are after it."""

    plan: EndPlan
    after: Diagnosis


async def plan_fencing(brokers: TransactionBrokers, connection: Connection, transactional_id: str, ask: Ask) -> Plan:
    """What fencing the id would do now. Changes nothing."""
    known = await brokers.describe_transaction(connection, transactional_id)
    return plan_fence(transactional_id, known, await ask([transactional_id]))


async def fence(
    brokers: TransactionBrokers, connection: Connection, transactional_id: str, ask: Ask, *, force: bool
) -> Fenced:
    """Read the id's state again and fence it. Raises ConflictError with what speaks against it."""
    plan = await plan_fencing(brokers, connection, transactional_id, ask)
    _raise_if_refused(plan, transactional_id, force=force)
    producer = await brokers.fence(connection, transactional_id)
    after = await brokers.describe_transaction(connection, transactional_id)
    return Fenced(
        plan=plan,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        state=after.state if isinstance(after, KnownTransaction) else None,
    )


async def plan_ending(
    brokers: TransactionBrokers,
    connection: Connection,
    topic: str,
    partition: int,
    ask: Ask,
    *,
    start_offset: int | None = None,
) -> EndPlan:
    """What ending an open transaction of a partition would do now. Changes nothing.

    start_offset: where it begins; None for the one that holds readers up.
    """
    (facts,) = await brokers.look_at_partitions(connection, [TopicPartition(topic, partition)])
    return plan_end(facts, start_offset, await ask(ids_in([facts])))


async def end(
    brokers: TransactionBrokers,
    connection: Connection,
    topic: str,
    partition: int,
    ask: Ask,
    *,
    planned: EndPlan,
    force: bool,
) -> Ended:
    """Read the partition again and write the marker, if the transaction is still the one that was planned for.

    Raises ConflictError with what speaks against it.
    """
    at = TopicPartition(topic, partition)
    name = f"{topic}-{partition}"
    _raise_if_refused(planned, name, force=force)
    assert planned.target is not None  # noqa: S101 - a plan without one is impossible, and was refused
    plan = await plan_ending(brokers, connection, topic, partition, ask, start_offset=planned.target.start_offset)
    _raise_if_refused(plan, name, force=force)
    if plan.target is None or plan.target.identity != planned.target.identity:
        raise ConflictError(f"another transaction is open in {name} now than the one that was looked at: look again")
    await brokers.write_abort_marker(connection, at, plan.target)
    facts = await _without(brokers, connection, at, plan.target.identity)
    return Ended(plan=plan, after=diagnose_partition(facts, await ask(ids_in([facts]))))


async def _without(
    brokers: TransactionBrokers, connection: Connection, at: TopicPartition, identity: tuple[int, int, int]
) -> PartitionFacts:
    """The partition once its readers get past the transaction: its replicas have to take the marker too."""
    deadline = time.monotonic() + _SETTLES_WITHIN_S
    while True:
        (facts,) = await brokers.look_at_partitions(connection, [at])
        is_behind = not isinstance(facts.ends, Refused) and facts.ends.last_stable <= identity[2]
        if not is_behind or time.monotonic() > deadline:
            return facts
        await asyncio.sleep(_LOOK_EVERY_S)


def _raise_if_refused(plan: Plan, name: str, *, force: bool) -> None:
    refusal = plan.refusal(force=force)
    if refusal is not None:
        raise ConflictError(f"{name} is left as it is: {refusal}")

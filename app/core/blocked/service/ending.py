"""Ending a transaction by hand: planned first, then read again and done, then looked at again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.diagnosis import Diagnosis, Verdict, diagnose_partition
from app.core.blocked.ending import EndPlan, Plan, plan_end, plan_fence
from app.core.blocked.facts import KnownTransaction, PartitionFacts, Refused
from app.core.blocked.service.explaining import Ask, ids_in
from app.core.clusters.brokers import Connection, TopicPartition
from app.kit.errors import ConflictError, UnavailableError

Note = Callable[[Plan], Awaitable[None]]

_SETTLES_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1


async def _noted_by_nobody(plan: Plan) -> None:
    """Without a server there is no command log."""


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
    brokers: TransactionBrokers,
    connection: Connection,
    transactional_id: str,
    ask: Ask,
    *,
    force: bool,
    note: Note = _noted_by_nobody,
) -> Fenced:
    """Read the id's state again and fence it.

    note: called with what is to be done, just before; when it fails, nothing is done.

    Raises ConflictError with what speaks against it, OutcomeUnknownError where nobody said that it is done.
    """
    plan = await plan_fencing(brokers, connection, transactional_id, ask)
    _raise_if_refused(plan, transactional_id, force=force)
    await note(plan)
    producer = await brokers.fence(connection, transactional_id)
    try:
        after = await brokers.describe_transaction(connection, transactional_id)
    except UnavailableError:
        # It is done, whoever can be asked about it now.
        after = None
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
    note: Note = _noted_by_nobody,
) -> Ended:
    """Read the partition again and write the marker, if the transaction is still the one that was planned for.

    note, and what it raises: as of `fence`.
    """
    at = TopicPartition(topic, partition)
    name = f"{topic}-{partition}"
    _raise_if_refused(planned, name, force=force)
    assert planned.target is not None  # noqa: S101 - a plan without one is impossible, and was refused
    plan = await plan_ending(brokers, connection, topic, partition, ask, start_offset=planned.target.start_offset)
    _raise_if_refused(plan, name, force=force)
    if plan.target is None or plan.target.identity != planned.target.identity:
        raise ConflictError(f"another transaction is open in {name} now than the one that was looked at: look again")
    await note(plan)
    await brokers.write_abort_marker(connection, at, plan.target)
    try:
        facts = await _without(brokers, connection, at, plan.target.identity)
        after = diagnose_partition(facts, await ask(ids_in([facts])))
    except UnavailableError as error:
        headline = f"The marker is written into {name}. How its readers are is not told: {error.message}"
        after = Diagnosis(subject=name, verdict=Verdict.CANNOT_TELL, headline=headline, links=(), advice="Look again.")
    return Ended(plan=plan, after=after)


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

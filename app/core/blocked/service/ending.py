"""End a transaction by hand: plan it, read it again, end it, and check the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.diagnosis import AdviceVerdict, Diagnosis, diagnose_partition
from app.core.blocked.ending import EndingPlan, EndPlan, plan_end, plan_fence
from app.core.blocked.facts import KnownTransaction, PartitionFacts, Refused
from app.core.blocked.service.explaining import Ask, ids_in
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.kit.errors import ConflictError, UnavailableError

Note = Callable[[EndingPlan], Awaitable[None]]

_SETTLES_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1


async def _noted_by_nobody(plan: EndingPlan) -> None:
    """Without a server there is no command log."""


class FenceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result: the new producer id and epoch of the id. state: its coordinator's answer afterwards."""

    plan: EndingPlan
    producer_id: int
    producer_epoch: int
    state: str | None


class EndedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The result, and the state of the partition's consumers afterwards."""

    plan: EndPlan
    after: Diagnosis


async def plan_fencing(
    brokers: TransactionBrokers, connection: Connection, transactional_id: str, ask: Ask
) -> EndingPlan:
    """Plan a fence of the id, by its state now. Changes nothing."""
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
) -> FenceResult:
    """Read the state of the id again, and fence the id.

    note: called with the plan just before the change; if it fails, nothing is changed.

    Raises ConflictError with the objections, OutcomeUnknownError without a confirmation.
    """
    plan = await plan_fencing(brokers, connection, transactional_id, ask)
    _raise_if_refused(plan, transactional_id, force=force)
    await note(plan)
    producer = await brokers.fence(connection, transactional_id)
    try:
        after = await brokers.describe_transaction(connection, transactional_id)
    except UnavailableError:
        # The id is fenced, also if the coordinator does not answer now.
        after = None
    return FenceResult(
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
    """Plan the end of an open transaction of a partition, by its state now. Changes nothing.

    start_offset: its first offset; None for the one that blocks consumers.
    """
    (facts,) = await brokers.look_at_partitions(connection, [Partition(topic, partition)])
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
) -> EndedTransaction:
    """Read the partition again and write the marker, if the transaction is still the planned one.

    note, and the errors: as of `fence`.
    """
    at = Partition(topic, partition)
    name = f"{topic}-{partition}"
    _raise_if_refused(planned, name, force=force)
    assert planned.target is not None  # noqa: S101 - a plan without one is impossible, and was refused
    plan = await plan_ending(brokers, connection, topic, partition, ask, start_offset=planned.target.start_offset)
    _raise_if_refused(plan, name, force=force)
    if plan.target is None or plan.target.identity != planned.target.identity:
        raise ConflictError(f"the transaction in {name} is not the one of the preview: check again")
    await note(plan)
    await brokers.write_abort_marker(connection, at, plan.target)
    try:
        facts = await _without(brokers, connection, at, plan.target.identity)
        after = diagnose_partition(facts, await ask(ids_in([facts])))
    except UnavailableError as error:
        headline = f"The marker is written into {name}. The state of its consumers is not known: {error.message}"
        after = Diagnosis(
            subject=name, verdict=AdviceVerdict.CANNOT_TELL, headline=headline, links=(), advice="Check again."
        )
    return EndedTransaction(plan=plan, after=after)


async def _without(
    brokers: TransactionBrokers, connection: Connection, at: Partition, identity: tuple[int, int, int]
) -> PartitionFacts:
    """Return the partition once its consumers pass the transaction: its replicas must have the marker, too."""
    deadline = time.monotonic() + _SETTLES_WITHIN_S
    while True:
        (facts,) = await brokers.look_at_partitions(connection, [at])
        is_behind = not isinstance(facts.ends, Refused) and facts.ends.last_stable <= identity[2]
        if not is_behind or time.monotonic() > deadline:
            return facts
        await asyncio.sleep(_LOOK_EVERY_S)


def _raise_if_refused(plan: EndingPlan, name: str, *, force: bool) -> None:
    refusal = plan.refusal(force=force)
    if refusal is not None:
        raise ConflictError(f"{name} is unchanged: {refusal}")

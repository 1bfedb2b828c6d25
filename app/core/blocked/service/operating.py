"""The same on a registered cluster: with roles, owners by heartbeat, and every change in the command log."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from app.core.access.command import Command
from app.core.access.service import command_log
from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.diagnosis import Asked, DiagnosisKind, Explanation
from app.core.blocked.ending import EndingPlan, EndPlan
from app.core.blocked.service import ending, explaining
from app.core.blocked.service.ending import EndedTransaction, FenceResult
from app.core.blocked.service.owners import ask_of
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.cases import case_of_command
from app.core.fencing.evidence import CommandVerb, CommandWord
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from app.kit.access import Principal, Verb, require
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import ActOutcomeUnknownError, InvalidError, PreconditionError


async def explain(
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    target: str,
    kind: DiagnosisKind | None,
    observations: Observations,
    lags: Lags,
    clock: Clock,
) -> Explanation:
    """Explain why a group, or the consumers of a topic or partition, are blocked. Raises NotFoundError.

    A group that is behind and whose commits advance is not called blocked.
    """
    entry = await _entry(unit_of_work, cluster)
    ask_owners = ask_of(unit_of_work, observations, entry, clock)
    live = observations.of(cluster).groups.get(target)

    async def ask(ids: Collection[str]) -> Asked:
        asked = await ask_owners(ids)
        if live is None:
            return asked
        found = await lags.of_group(entry, live, live={}, now_ms=asked.now_ms)
        return msgspec.structs.replace(asked, lag={one.at: one for one in found.rows})

    return await explaining.explain(brokers, entry.connection(), target, ask, kind=kind)


async def preview_fence(
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    transactional_id: str,
    observations: Observations,
    clock: Clock,
) -> EndingPlan:
    """Preview `fence` by the state now."""
    entry = await _entry(unit_of_work, cluster)
    return await ending.plan_fencing(
        brokers, entry.connection(), transactional_id, ask_of(unit_of_work, observations, entry, clock)
    )


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
    observations: Observations,
    clock: Clock,
) -> FenceResult:
    """Abort the open transaction of the id, and fence its current producer.

    Raises ConflictError with the objections, OutcomeUnknownError without a confirmation.
    """
    require(by, Verb.FENCE_TRANSACTION)
    _needs_reason(force=force, why=why)
    entry = await uow.of(ClusterStore).get(cluster)
    order = _Order(
        Verb.FENCE_TRANSACTION,
        entry,
        sentence=f"asked the brokers to fence {transactional_id}{' by force' if force else ''}",
        details={"transactional_id": transactional_id, "force": force},
        by=by,
        why=why,
    )
    ask = ask_of(unit_of_work, observations, entry, clock)

    async def note(plan: EndingPlan) -> None:
        await order.write(unit_of_work, plan, now=clock.now())

    try:
        fenced = await ending.fence(brokers, entry.connection(), transactional_id, ask, force=force, note=note)
    except ActOutcomeUnknownError:
        # A command without an answer proves less, and may be the only evidence of its user.
        async with unit_of_work() as own:
            await record_cases(own, _cases_of_fence(order, transactional_id), now=clock.now())
            await own.commit()
        raise
    answer = {"producer_id": fenced.producer_id, "producer_epoch": fenced.producer_epoch}
    await record_cases(uow, _cases_of_fence(order, transactional_id, **answer), now=clock.now())
    return fenced


def _cases_of_fence(order: _Order, transactional_id: str, **answer: int) -> list[Case]:
    known = order.plan.known
    if known is None:
        return []
    case = case_of_command(
        order.word(CommandVerb.FENCE, **answer),
        kafka_cluster_id=order.entry.kafka_cluster_id,
        transactional_id=transactional_id,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
    )
    return [case]


async def preview_end(
    unit_of_work: UnitOfWorkFactory,
    brokers: TransactionBrokers,
    *,
    cluster: str,
    topic: str,
    partition: int,
    start_offset: int | None,
    observations: Observations,
    clock: Clock,
) -> EndPlan:
    """Preview `end` by the state now; without `start_offset`, for the transaction that blocks consumers."""
    entry = await _entry(unit_of_work, cluster)
    ask = ask_of(unit_of_work, observations, entry, clock)
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
    observations: Observations,
    clock: Clock,
) -> EndedTransaction:
    """Write an abort marker for the transaction of the preview.

    expected: its producer id, epoch and start offset, from the preview that the user confirmed. PreconditionError if
    another one is there now. Raises ConflictError with the objections, OutcomeUnknownError as `fence`.
    """
    require(by, Verb.END_TRANSACTION)
    _needs_reason(force=force, why=why)
    entry = await uow.of(ClusterStore).get(cluster)
    ask = ask_of(unit_of_work, observations, entry, clock)
    planned = await ending.plan_ending(brokers, entry.connection(), topic, partition, ask, start_offset=expected[2])
    if planned.target is not None and planned.target.identity != expected:
        raise PreconditionError(
            f"another transaction begins at offset {expected[2]} of {topic}-{partition} now: check again first"
        )
    producer_id, producer_epoch, start_offset = expected
    order = _Order(
        Verb.END_TRANSACTION,
        entry,
        sentence=f"asked for an end of the transaction of producer {producer_id} in {topic}-{partition}"
        + (" by force" if force else ""),
        details={
            "topic": topic,
            "partition": partition,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "start_offset": start_offset,
            "force": force,
        },
        by=by,
        why=why,
    )

    async def note(plan: EndingPlan) -> None:
        await order.write(unit_of_work, plan, now=clock.now())

    try:
        ended = await ending.end(
            brokers, entry.connection(), topic, partition, ask, planned=planned, force=force, note=note
        )
    except ActOutcomeUnknownError:
        # As of a fence: a marker that is found later is attributed to this command.
        async with unit_of_work() as own:
            await record_cases(own, [_case_of_end(order, expected, topic, partition, ())], now=clock.now())
            await own.commit()
        raise
    case = _case_of_end(order, expected, topic, partition, (f"{topic}-{partition}",))
    await record_cases(uow, [case], now=clock.now())
    return ended


def _case_of_end(
    order: _Order, expected: tuple[int, int, int], topic: str, partition: int, answered: tuple[str, ...]
) -> Case:
    known = order.plan.known
    was_open = (
        known is not None
        and (known.producer_id, known.producer_epoch) == expected[:2]
        and known.is_open
        and (topic, partition) in known.partitions
    )
    return case_of_command(
        order.word(CommandVerb.END, partitions=answered, was_open=was_open),
        kafka_cluster_id=order.entry.kafka_cluster_id,
        transactional_id="" if known is None else known.transactional_id,
        producer_id=expected[0],
        producer_epoch=expected[1],
    )


class _Order:
    """A change on the brokers, which cannot be rolled back: its row is in the command log before it begins.

    Other services leave the commit to the edges. Here the edge's commit would be lost with any failure between the
    change and the end of the request. Then the log would have no entry for the fencing.
    """

    def __init__(
        self,
        verb: Verb,
        entry: Cluster,
        *,
        sentence: str,
        details: dict[str, Any],
        by: Principal,
        why: str | None,
    ) -> None:
        self.entry = entry
        self._verb = verb
        self._sentence = sentence
        self._details = details
        self._by = by
        self._why = why
        self._written: tuple[Command, EndingPlan] | None = None

    async def write(self, unit_of_work: UnitOfWorkFactory, plan: EndingPlan, *, now: datetime) -> None:
        async with unit_of_work() as own:
            command = await command_log.record(
                own,
                by=self._by,
                verb=self._verb,
                target=f"cluster:{self.entry.name}",
                why=self._why,
                now=now,
                outcome=self._sentence,
                details=self._details,
            )
            await own.commit()
        self._written = command, plan

    @property
    def plan(self) -> EndingPlan:
        """The state read just before the change."""
        return self._as_written[1]

    def word(self, verb: CommandVerb, **answer: Any) -> CommandWord:
        """Return the command as evidence of its effect."""
        command, _ = self._as_written
        return CommandWord(
            command_id=command.id,
            verb=verb,
            at_ms=int(command.at.timestamp() * 1000),
            who=command.who,
            why=command.why,
            **answer,
        )

    @property
    def _as_written(self) -> tuple[Command, EndingPlan]:
        if self._written is None:
            raise AssertionError("the command log entry comes before the change")
        return self._written


async def _entry(unit_of_work: UnitOfWorkFactory, cluster: str) -> Cluster:
    """Read the cluster and release the connection: brokers may answer slowly, and database connections are few."""
    async with unit_of_work() as uow:
        return await uow.of(ClusterStore).get(cluster)


def _needs_reason(*, force: bool, why: str | None) -> None:
    if force and not (why or "").strip():
        raise InvalidError("the objections are overridden only with a reason", field="why")

"""End what a dead task has left, so that the next owner of its partitions need not wait for timeouts."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.core.access.command import Command
from app.core.access.service import command_log
from app.core.blocked.brokers import FencedProducer, NotEnded, TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadMember, DeadProducer, DeadTask, left_by
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
from app.kit.errors import ActOutcomeUnknownError, BrokerUnreachableError, UnavailableError

_BY = RECONCILER
_TIMEOUT_S = 5.0
_NOT_ENDED = {NotEnded.MOVED_ON: DeadEnd.MOVED_ON, NotEnded.UNSUPPORTED: DeadEnd.UNSUPPORTED}


class EndedDeadTask(NamedTuple):
    """The results; None for what the task did not have. `said` has the brokers' reasons against them."""

    transaction: DeadEnd | None
    member: DeadMember | None = None
    said: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Return whether nothing is left to repeat."""
        return all(one is None or one.is_final for one in (self.transaction, self.member))


async def end_what_is_left(
    unit_of_work: UnitOfWorkFactory, brokers: TransactionBrokers, cluster: Cluster, dead: DeadTask, *, clock: Clock
) -> EndedDeadTask:
    """End the open transaction of a dead task, if its id still has that producer, and remove its member.

    1. owner of the id            a worker's report proves nothing about ids that its pipeline does not own
    2. its coordinator            most tasks left nothing open, and a new owner's init needs no help
    3. the command log            committed before the change, as for users: a server may die in between
    4. the end                    its coordinator compares once more; an id that changed since 2 is left unchanged
    5. the fencing event          with the answer as evidence; without an answer, the journal and 3 suffice
    6. the group                  many tasks have left it; it is the pipeline's own, so there is no owner to check
    7. the command log            as 3
    8. the removal                after 4: the partitions' next owners wait for pending offsets of an open transaction

    The second half does not depend on the result of the first one, except for an id of another owner: then nothing is
    done. A repetition, by this server or another, does the remaining steps.
    """
    require(_BY, Verb.END_DEAD_TRANSACTION)
    require(_BY, Verb.EVICT_DEAD_MEMBER)
    acts = _Acts(unit_of_work, brokers, cluster, dead, clock)
    ended, why_not_ended = (None, "") if dead.producer is None else await acts.end(dead.producer)
    if ended is DeadEnd.NOT_OURS or dead.member_id is None:
        return EndedDeadTask(ended, None, _said(why_not_ended))
    member, why_not_removed = await acts.remove(dead.member_id)
    return EndedDeadTask(ended, member, _said(why_not_ended, why_not_removed))


def _said(*reasons: str) -> tuple[str, ...]:
    return tuple(reason for reason in reasons if reason)


class _Acts(NamedTuple):
    """Both acts for one task; each returns its result, with the reason against it."""

    unit_of_work: UnitOfWorkFactory
    brokers: TransactionBrokers
    cluster: Cluster
    dead: DeadTask
    clock: Clock

    async def end(self, producer: DeadProducer) -> tuple[DeadEnd, str]:
        connection, name = self.cluster.connection(), producer.transactional_id
        if not await self._is_owned(name):
            return DeadEnd.NOT_OURS, f"the pipeline does not own the id {name}"
        try:
            known = await self.brokers.describe_transaction(connection, name, timeout_s=_TIMEOUT_S)
            if isinstance(known, Refused):
                return DeadEnd.UNANSWERED if known.is_open else DeadEnd.REFUSED, known.sentence
            result = left_by(producer, known)
            if result is not None:
                return result, ""
            if not await self.brokers.can_end_transactions(connection, name, timeout_s=_TIMEOUT_S):
                return DeadEnd.UNSUPPORTED, "this requires brokers of 4.0 or later with transaction.version 2"
        except UnavailableError as error:
            return DeadEnd.UNANSWERED, error.message
        command = await self._written(
            Verb.END_DEAD_TRANSACTION,
            f"asked for an end of {name}, left open by",
            {
                "transactional_id": name,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
            },
        )
        try:
            answer = await self.brokers.end_transaction(
                connection,
                name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                timeout_s=_TIMEOUT_S,
            )
        except ActOutcomeUnknownError as error:
            return DeadEnd.UNANSWERED, error.message
        except UnavailableError as error:
            return DeadEnd.REFUSED, error.message
        if isinstance(answer, NotEnded):
            return _NOT_ENDED[answer], ""
        await self._told(producer, command, answer)
        return DeadEnd.ENDED, ""

    async def remove(self, member_id: str) -> tuple[DeadMember, str]:
        connection, group = self.cluster.connection(), self.dead.group
        try:
            if not await self.brokers.is_member(connection, group, member_id, timeout_s=_TIMEOUT_S):
                return DeadMember.NOT_A_MEMBER, ""
            await self._written(
                Verb.EVICT_DEAD_MEMBER,
                f"asked for the removal of {member_id} from the group {group}, the member of",
                {"group": group, "member_id": member_id},
            )
            is_removed = await self.brokers.remove_member(
                connection, group, member_id, reason=f"Fenceline: {self.dead.why}", timeout_s=_TIMEOUT_S
            )
        except (ActOutcomeUnknownError, BrokerUnreachableError) as error:
            return DeadMember.UNANSWERED, error.message
        except UnavailableError as error:
            return DeadMember.REFUSED, error.message
        return DeadMember.REMOVED if is_removed else DeadMember.NOT_A_MEMBER, ""

    async def _is_owned(self, transactional_id: str) -> bool:
        """Return True if the id belongs to this very task, by the rows that the start of its run wrote."""
        dead = self.dead
        async with self.unit_of_work() as uow:
            owners = await uow.of(TransactionalIdStore).owners(
                kafka_cluster_id=self.cluster.kafka_cluster_id, ids=[transactional_id]
            )
        return any(
            (one.pipeline, one.kind, one.ordinal, one.task) == (dead.pipeline, IdKind.TASK, dead.ordinal, dead.task)
            for one in owners
        )

    async def _written(self, verb: Verb, act: str, details: dict[str, Any]) -> Command:
        dead = self.dead
        async with self.unit_of_work() as uow:
            command = await command_log.record(
                uow,
                by=_BY,
                verb=verb,
                target=f"cluster:{self.cluster.name}",
                why=dead.why,
                now=self.clock.now(),
                outcome=f"{act} {dead.task_name} of {dead.pipeline}",
                details={
                    **details,
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

    async def _told(self, producer: DeadProducer, command: Command, answer: FencedProducer) -> None:
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
            kafka_cluster_id=self.cluster.kafka_cluster_id,
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        async with self.unit_of_work() as uow:
            await record_cases(uow, [case], now=self.clock.now())
            await uow.commit()

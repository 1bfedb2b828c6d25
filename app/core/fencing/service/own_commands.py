"""Find Fenceline's commands that may have caused a loss, in the command log.

The service that fences or ends a transaction adds the command to its event, with the brokers' answer. If a server dies
before that, only the log has it.
"""

from __future__ import annotations

from datetime import datetime

from app.core.access.command import Command
from app.core.access.store.commands import CommandStore
from app.core.clusters.store import ClusterStore
from app.core.fencing.epoch_verdict import COMMAND_WINDOW_MS
from app.core.fencing.evidence import CommandVerb, CommandWord, MarkerRecord
from app.core.fencing.fencing_event import FencingCause, FencingEvent, FencingKind
from app.core.fencing.record import KEPT_FOR, kept_id
from app.kit.access import Verb
from app.kit.db.unit_of_work import UnitOfWork

_VERBS = {
    Verb.FENCE_TRANSACTION: CommandVerb.FENCE,
    Verb.END_TRANSACTION: CommandVerb.END,
    Verb.END_DEAD_TRANSACTION: CommandVerb.END_DEAD,
}
_OURS = frozenset({FencingCause.OPERATOR_FENCE, FencingCause.DEAD_TASK})


class OwnCommands:
    """For the events of one unit of work: the log is queried once for each Kafka cluster, if an event needs it."""

    def __init__(self, uow: UnitOfWork, *, now: datetime) -> None:
        self._uow = uow
        self._since = now - KEPT_FOR
        self._of_cluster: dict[str, tuple[Command, ...]] = {}

    async def words_for(self, event: FencingEvent) -> tuple[CommandWord, ...]:
        """Return the possible commands, without an answer; none if the evidence has one, or excludes commands."""
        if not _could_be_commanded(event):
            return ()
        found = await self._commands(event.key.kafka_cluster_id)
        return tuple(_word(one) for one in found if _is_of(one, event) and _is_near(one, event.verdict.at_ms))

    async def _commands(self, kafka_cluster_id: str) -> tuple[Command, ...]:
        found = self._of_cluster.get(kafka_cluster_id)
        if found is None:
            names = [
                one.name
                for one in await self._uow.of(ClusterStore).list_all()
                if one.kafka_cluster_id == kafka_cluster_id
            ]
            found = tuple(
                await self._uow.of(CommandStore).since(
                    self._since, targets=[f"cluster:{name}" for name in names], verbs=list(_VERBS)
                )
            )
            self._of_cluster[kafka_cluster_id] = found
        return found


def _could_be_commanded(event: FencingEvent) -> bool:
    if any(isinstance(one, CommandWord) for one in event.evidence):
        return False
    return event.key.kind is FencingKind.MARKER or not _OURS.isdisjoint(event.verdict.alternatives)


def _is_of(command: Command, event: FencingEvent) -> bool:
    key, details = event.key, command.details
    if command.verb is Verb.FENCE_TRANSACTION:
        return key.kind is FencingKind.EPOCH and kept_id(details["transactional_id"]) == key.transactional_id
    if (details["producer_id"], details["producer_epoch"]) != (key.producer_id, key.producer_epoch):
        return False
    if command.verb is Verb.END_DEAD_TRANSACTION:
        return key.kind is FencingKind.EPOCH
    markers = {(one.topic, one.partition) for one in event.evidence if isinstance(one, MarkerRecord)}
    return key.kind is FencingKind.MARKER and (details["topic"], details["partition"]) in markers


def _is_near(command: Command, at_ms: int) -> bool:
    return abs(_ms(command.at) - at_ms) <= COMMAND_WINDOW_MS


def _word(command: Command) -> CommandWord:
    return CommandWord(
        command_id=command.id, verb=_VERBS[command.verb], at_ms=_ms(command.at), who=command.who, why=command.why
    )


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

"""Explain blocked consumers: turn the brokers' answers about a group, a topic or a partition into a chain of
reasons.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable

from app.core.blocked import diagnosis
from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.diagnosis import Asked, DiagnosisKind, Explanation
from app.core.blocked.facts import PartitionFacts
from app.core.blocked.group_diagnosis import diagnose_group
from app.core.blocked.readers import BlockedReport, blocked_readers
from app.core.clusters.brokers import Connection
from app.core.journals.group_records import TOPIC as GROUPS
from app.kit.errors import InvalidError, NotFoundError

Ask = Callable[[Collection[str]], Awaitable[Asked]]
"""Return the context and the owners of these transactional ids; called after the brokers' answers."""

_PARTITION = re.compile(r"(.+):([0-9]{1,9})")


async def explain(
    brokers: TransactionBrokers, connection: Connection, target: str, ask: Ask, *, kind: DiagnosisKind | None = None
) -> Explanation:
    """Explain TOPIC:PARTITION, else a group, else a topic; only that of `kind`, if it is given.

    Raises NotFoundError if none of them exists.
    """
    partition = _PARTITION.fullmatch(target)
    if partition is not None and kind is not DiagnosisKind.GROUP:
        return await explain_topic(brokers, connection, partition[1], ask, only=[int(partition[2])])
    if kind is DiagnosisKind.TOPIC:
        return await explain_topic(brokers, connection, target, ask)
    try:
        return await explain_group(brokers, connection, target, ask)
    except NotFoundError:
        if kind is DiagnosisKind.GROUP:
            raise
    try:
        return await explain_topic(brokers, connection, target, ask)
    except NotFoundError as error:
        raise NotFoundError(f"no group and no topic {target} exists on this cluster") from error


async def explain_topic(
    brokers: TransactionBrokers, connection: Connection, topic: str, ask: Ask, *, only: Collection[int] = ()
) -> Explanation:
    """Explain each partition of a topic, or those of `only`.

    Raises NotFoundError without the topic, InvalidError without one of the partitions.
    """
    there = await brokers.partitions_of(connection, topic)
    wanted = [at for at in there if at.partition in only] if only else list(there)
    if len(wanted) < len(only):
        raise InvalidError(f"{topic} has partitions 0 to {len(there) - 1} only", field="partition")
    facts = await brokers.look_at_partitions(connection, wanted)
    return diagnosis.explain_topic(topic, facts, await ask(ids_in(facts)))


async def explain_group(brokers: TransactionBrokers, connection: Connection, group: str, ask: Ask) -> Explanation:
    """Explain a group and each partition in which it has a position. Raises NotFoundError without the group."""
    facts = await brokers.look_at_group(connection, group)
    looked_at = [position.partition for position in facts.positions]
    if facts.offsets_partition is not None:
        looked_at.append(facts.offsets_partition)
    return diagnose_group(facts, await ask(ids_in(looked_at)))


def ids_in(facts: Iterable[PartitionFacts]) -> frozenset[str]:
    """Return the transactional ids in these answers."""
    return frozenset(one.transactional_id for part in facts for one in part.coordinators.known.values())


async def find_blocked(
    brokers: TransactionBrokers, connection: Connection, ask: Ask, *, limit: int, now_ms: Callable[[], int]
) -> BlockedReport:
    """Ask about all visible partitions, once and without an observer: waiting groups are not known.

    A transaction that is open for a short time by its coordinator's clock is left out.
    """
    held = await brokers.held_back(connection)
    suspected = sorted(at for at in held.ends if at.topic != GROUPS)
    facts = await brokers.look_at_partitions(connection, suspected[:limit])
    asked = await ask(ids_in(facts))
    causes, unknown = blocked_readers("", facts, asked, {})
    return BlockedReport(
        cluster="",
        at_ms=now_ms(),
        causes=causes,
        problem="; ".join(filter(None, (*held.silent, unknown))),
        left_out=len(suspected[limit:]),
    )

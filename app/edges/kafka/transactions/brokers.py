"""The TransactionBrokers port on a real cluster: every question is bounded and raises known errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from app.core.blocked.brokers import DEFAULT_TIMEOUT_S, FencedProducer, HeldBackPartitions, NotEnded
from app.core.blocked.ending import marker_epoch
from app.core.blocked.facts import GroupFacts, KnownTransaction, OpenTransaction, PartitionFacts, Refused
from app.core.blocked.stretch import LogStretch
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.hanging.brokers import PARTITIONS_A_REQUEST
from app.core.hanging.search import StableEnd
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import ANYWHERE, BOOTSTRAP, ClusterConnector
from app.edges.kafka.raw_client import errors, failure, is_transient, reading_answers
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.looking import look_at_group, look_at_partitions, now_ms, read_stretches
from app.edges.kafka.transactions.questions import DESCRIBE_GROUP
from app.edges.kafka.transactions.searching import KafkaSearch
from app.kit.errors import ActOutcomeUnknownError, NotFoundError, UnavailableError

T = TypeVar("T")

_RETRY_S = 0.1


class KafkaTransactions(ClusterConnector):
    """Implements app/core/blocked/brokers.py, with a connection for each call."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secrets_dir: Path | None,
        allowed_addresses: Collection[str] = ANYWHERE,
    ) -> None:
        super().__init__(environment=environment, secrets_dir=secrets_dir, allowed_addresses=allowed_addresses)
        self._search = KafkaSearch(
            environment=environment, secrets_dir=secrets_dir, allowed_addresses=allowed_addresses
        )

    async def partitions_of(
        self, connection: Connection, topic: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[Partition, ...]:
        def ask(client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt) -> tuple[Partition, ...]:
            found = client.partitions_of(topic)
            if isinstance(found, Refused):
                if found.permission is None:
                    raise NotFoundError(f"there is no topic {topic} at {attempt.address}: {found.error}")
                raise attempt.refused(f"return the partitions of {topic}", found.sentence)
            return tuple(Partition(topic, number) for number in found)

        return await self._ask(connection, timeout_s, f"return the partitions of {topic}", ask)

    async def held_back(self, connection: Connection, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> HeldBackPartitions:
        return await asyncio.to_thread(_held_back, self._search, connection, timeout_s)

    async def look_at_partitions(
        self,
        connection: Connection,
        partitions: Collection[Partition],
        *,
        with_waiting: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[PartitionFacts]:
        return await self._ask(
            connection,
            timeout_s,
            "describe open transactions",
            lambda client, resolved, attempt: look_at_partitions(
                client, resolved, attempt, partitions, with_waiting=with_waiting
            ),
        )

    async def stretches(
        self,
        connection: Connection,
        spans: Mapping[Partition, tuple[int, int]],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> dict[Partition, LogStretch]:
        return await self._ask(
            connection,
            timeout_s,
            "return records",
            lambda client, _, __: read_stretches(client, spans),
        )

    async def look_at_group(
        self, connection: Connection, group: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupFacts:
        return await self._ask(
            connection,
            timeout_s,
            f"describe the group {group}",
            lambda client, resolved, attempt: look_at_group(client, resolved, attempt, group),
        )

    async def describe_transaction(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> KnownTransaction | Refused | None:
        return await self._ask(
            connection,
            timeout_s,
            f"describe {transactional_id}",
            lambda client, _, __: client.with_ages(client.describe_transactions([transactional_id]), now_ms=now_ms)[
                transactional_id
            ],
        )

    async def fences_refused(
        self, connection: Connection, transactional_ids: Collection[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, Refused]:
        return await self._ask(
            connection,
            timeout_s,
            f"check the permissions of {len(transactional_ids)} transactional ids",
            lambda client, _, __: client.fences_refused(transactional_ids),
        )

    async def fence(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> FencedProducer:
        what = f"fence {transactional_id}"

        def act(client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt) -> FencedProducer:
            answer = client.fence(transactional_id)
            if isinstance(answer, Refused):
                raise _not_done(attempt, what, answer)
            return answer

        return await self._ask(connection, timeout_s, what, act)

    async def can_end_transactions(
        self, connection: Connection, transactional_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> bool:
        return await self._ask(
            connection,
            timeout_s,
            f"check the transaction of {transactional_id}",
            lambda client, _, __: client.can_end(transactional_id),
        )

    async def end_transaction(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> FencedProducer | NotEnded:
        what = f"end the transaction of {transactional_id}"

        def act(
            client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt
        ) -> FencedProducer | NotEnded:
            answer = client.end(transactional_id, producer_id=producer_id, producer_epoch=producer_epoch)
            if isinstance(answer, Refused):
                raise _not_done(attempt, what, answer)
            return answer

        return await self._ask(connection, timeout_s, what, act)

    async def is_member(
        self, connection: Connection, group: str, member_id: str, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> bool:
        what = f"describe the group {group}"

        def ask(client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt) -> bool:
            try:
                members = client.describe(group).members
            except errors.AuthorizationError as error:
                raise attempt.refused(what, DESCRIBE_GROUP.refused(group, error).sentence) from error
            return any(one.member_id == member_id for one in members)

        return await self._ask(connection, timeout_s, what, ask)

    async def remove_member(
        self,
        connection: Connection,
        group: str,
        member_id: str,
        *,
        reason: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> bool:
        what = f"remove a member of the group {group}"

        def act(client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt) -> bool:
            answer = client.remove_member(group, member_id, reason=reason)
            if isinstance(answer, Refused):
                raise _not_done(attempt, what, answer)
            return answer

        return await self._ask(connection, timeout_s, what, act)

    async def write_abort_marker(
        self,
        connection: Connection,
        at: Partition,
        target: OpenTransaction,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        what = f"write a marker into {at}"

        def act(client: TransactionClient, _: Mapping[str, str], attempt: ConnectionAttempt) -> None:
            refused = client.write_abort_marker(
                at,
                producer_id=target.producer_id,
                producer_epoch=target.producer_epoch,
                coordinator_epoch=marker_epoch(target),
            )
            if refused is not None:
                raise _not_done(attempt, what, refused)

        await self._ask(connection, timeout_s, what, act)

    async def _ask(
        self,
        connection: Connection,
        timeout_s: float,
        what: str,
        question: Callable[[TransactionClient, Mapping[str, str], ConnectionAttempt], T],
    ) -> T:
        resolved = await asyncio.to_thread(self._resolve, connection)
        attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
        return await asyncio.to_thread(_answered, resolved, attempt, what, question)


def _held_back(search: KafkaSearch, connection: Connection, timeout_s: float) -> HeldBackPartitions:
    found: dict[Partition, StableEnd] = {}
    silent: dict[str, None] = {}
    with search.open_search(connection, timeout_s=timeout_s) as asking:
        there = asking.all_partitions()
        for first in range(0, len(there), PARTITIONS_A_REQUEST):
            answer = asking.stable_ends(there[first : first + PARTITIONS_A_REQUEST])
            found |= {at: end for at, end in answer.ends.items() if end.last_stable < end.high_watermark}
            silent |= dict.fromkeys(answer.silent)
    return HeldBackPartitions(found, len(there), tuple(silent))


def _not_done(attempt: ConnectionAttempt, what: str, refused: Refused) -> UnavailableError:
    if not refused.is_open:
        return attempt.refused(what, refused.sentence)
    return ActOutcomeUnknownError(
        f"the brokers at {attempt.address} did not confirm the request to {what} ({refused.error}). "
        "Check the state before a retry"
    )


def _answered(
    resolved: Mapping[str, str],
    attempt: ConnectionAttempt,
    what: str,
    question: Callable[[TransactionClient, Mapping[str, str], ConnectionAttempt], T],
) -> T:
    """Retry while a coordinator moves. Actions complete a begun change themselves, and raise only before it."""
    while True:
        try:
            with TransactionClient(resolved, attempt) as client, reading_answers():
                return question(client, resolved, attempt)
        except errors.KafkaError as error:
            if not is_transient(error) or attempt.left_s <= _RETRY_S:
                raise failure(attempt, what, error) from error
        time.sleep(_RETRY_S)

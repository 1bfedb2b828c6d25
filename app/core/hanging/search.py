"""Choose the partitions of a cluster to ask about, and their next times, and keep the results.

        ListOffsets of all ─▶ blocked, by `last_stable` since `since_ms` ─▶ (longer than `Accounts` allow) asked
                                    │                                              │
                                    ╰─▶ moved: starts again, gone: dropped         ├─▶ hanging: asked every 30 s
                                                                                   ╰─▶ not: at growing intervals
Explained blocks are checked too, with the rest of the rate: a hanging transaction may be behind a live one. Only
blocked partitions are kept, which bounds the memory. A found transaction is checked at once when its partition's last
stable offset moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.core.blocked.diagnosis import hanging_sentence, is_hanging
from app.core.blocked.ending import marker_epoch
from app.core.blocked.facts import LogEnds, OpenTransaction, PartitionFacts, Refused, strangers_in
from app.core.clusters.partition import Partition
from app.core.hanging.accounting import Accounts, OpenThere
from app.core.hanging.hanging_transaction import HangingEnding, HangingKey, HangingTransaction
from app.kit.back_off import BackOff

AGAIN = BackOff(10.0, 300.0)
FOUND_AGAIN_MS = 30_000


class StableEnd(NamedTuple):
    """The last stable offset and the high watermark."""

    last_stable: int
    high_watermark: int


class HeldBackPartition(msgspec.Struct):
    """A partition that is blocked at `last_stable`, from `since_ms` until `until_ms`, by the server's clock.

    high_watermark: at `until_ms`. known_open: the journal's open transactions there, with the time of their first
    observation. unclear: the reason for which the last check was inconclusive. is_accounted_for: a live transaction
    explains the block, and only the records behind it are checked.
    """

    last_stable: int
    since_ms: int
    until_ms: int
    high_watermark: int
    known_open: dict[OpenThere, int] = {}
    ask_at_ms: int = 0
    looks: int = 0
    unclear: str = ""
    is_accounted_for: bool = False

    def note_open(self, there: Collection[OpenThere] | None, *, now_ms: int) -> None:
        if there is not None:
            self.known_open = {one: self.known_open.get(one, now_ms) for one in there}


class UnclearPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that is blocked for too long, and the reason for which its diagnosis is not possible."""

    topic: str
    partition: int
    since_ms: int
    reason: str


class Looked(NamedTuple):
    """The changes by one check. over: no longer open, with ADOPTED if it is; the others' markers decide their
    ending.
    """

    found: tuple[HangingTransaction, ...] = ()
    over: tuple[tuple[HangingTransaction, HangingEnding | None], ...] = ()


class PartitionSearch:
    """The search of one cluster. It is pure: times are arguments, and it sends no requests.

    asks_per_s: the most partitions checked in a second.
    """

    def __init__(self, kafka_cluster_id: str, *, asks_per_s: float, known: Iterable[HangingTransaction] = ()) -> None:
        self._kafka_cluster_id = kafka_cluster_id
        self._asks_per_s = asks_per_s
        self._allowance = 0.0
        self._allowance_at_ms: int | None = None
        self._held: dict[Partition, HeldBackPartition] = {}
        self._found: dict[Partition, dict[tuple[int, int, int], HangingTransaction]] = {}
        self._ask_at_once: dict[Partition, None] = {}
        self._moved: dict[Partition, HeldBackPartition] = {}
        for one in known:
            self._found.setdefault(one.at, {})[one.identity] = one
            self._ask_at_once[one.at] = None

    @property
    def held(self) -> Mapping[Partition, HeldBackPartition]:
        return self._held

    @property
    def found(self) -> tuple[HangingTransaction, ...]:
        """The transactions that hang now, by partition."""
        ones = (one for of_partition in self._found.values() for one in of_partition.values())
        return tuple(sorted(ones, key=lambda one: one.key))

    @property
    def unclear(self) -> tuple[UnclearPartition, ...]:
        """The longest first."""
        ones = [
            UnclearPartition(topic=topic, partition=number, since_ms=held.since_ms, reason=held.unclear)
            for (topic, number), held in self._held.items()
            if held.unclear and not held.is_accounted_for
        ]
        return tuple(sorted(ones, key=lambda one: (one.since_ms, one.topic, one.partition)))

    def note_ends(self, ends: Mapping[Partition, StableEnd], *, now_ms: int) -> None:
        """Take the ListOffsets answers for these partitions."""
        for at, end in ends.items():
            held = self._held.get(at)
            if held is not None and held.last_stable == end.last_stable < end.high_watermark:
                held.until_ms, held.high_watermark = now_ms, end.high_watermark
                continue
            if held is not None and held.known_open:
                self._moved[at] = held
            if at in self._found and any(identity[2] < end.last_stable for identity in self._found[at]):
                self._ask_at_once[at] = None
            if end.last_stable < end.high_watermark:
                self._held[at] = HeldBackPartition(end.last_stable, now_ms, now_ms, end.high_watermark)
            else:
                self._held.pop(at, None)

    def note_partitions(self, there: Collection[Partition]) -> None:
        """Take the list of all partitions: others are dropped, except that found transactions there are checked once
        more.
        """
        for at in [at for at in self._held if at not in there]:
            del self._held[at]
        self._ask_at_once |= dict.fromkeys(at for at in self._found if at not in there)

    def take_moved(self) -> dict[Partition, HeldBackPartition]:
        """Return the partitions whose last stable offset moved after a block, with their last state; each is returned
        once.
        """
        moved, self._moved = self._moved, {}
        return moved

    def suspects(self, *, for_ms: int, now_ms: int) -> tuple[Partition, ...]:
        """Return the partitions that are blocked for that long and may be checked now, or had an explanation. Only
        these need accounts.
        """
        return tuple(
            at
            for at, held in self._held.items()
            if (held.ask_at_ms <= now_ms or held.is_accounted_for) and held.until_ms - held.since_ms >= for_ms
        )

    def due(self, accounts: Accounts, *, now_ms: int, torn: Iterable[Partition] = ()) -> list[Partition]:
        """Return the partitions to check now, never more than the rate allows. The order: found and moved ones, the
        longest unexplained ones, possibly torn ones, the longest explained ones.

        accounts: of the suspects, at least.
        """
        if self._allowance_at_ms is None:
            self._allowance = self._asks_per_s
        else:
            self._allowance += self._asks_per_s * max(0, now_ms - self._allowance_at_ms) / 1000
        self._allowance = min(self._allowance, max(1.0, self._asks_per_s))
        self._allowance_at_ms = now_ms
        limit = int(self._allowance)
        if limit == 0:
            return []
        late: list[tuple[int, Partition]] = []
        behind: list[tuple[int, Partition]] = []
        for at, held in self._held.items():
            if at in self._ask_at_once:
                continue
            held.note_open(accounts.open_in(at), now_ms=now_ms)
            stood_ms, is_time = held.until_ms - held.since_ms, held.ask_at_ms <= now_ms
            if stood_ms >= accounts.bound_ms(at, since_ms=held.since_ms):
                if is_time or held.is_accounted_for:
                    late.append((held.since_ms, at))
            elif is_time and accounts.behind_ms is not None and stood_ms >= accounts.behind_ms:
                behind.append((held.since_ms, at))
        overdue, hidden = [at for _, at in sorted(late)], [at for _, at in sorted(behind)]
        chosen = list(dict.fromkeys((*self._ask_at_once, *overdue, *torn, *hidden)))[:limit]
        self._note_why(overdue, hidden)
        self._allowance -= len(chosen)
        return chosen

    def _note_why(self, overdue: Collection[Partition], hidden: Collection[Partition]) -> None:
        for at in overdue:
            held = self._held[at]
            if held.is_accounted_for:
                # Its earlier checks came at growing intervals and do not count.
                held.is_accounted_for, held.looks, held.ask_at_ms = False, 0, 0
        for at in hidden:
            self._held[at].is_accounted_for = True

    def note_look(self, facts: PartitionFacts, *, now_ms: int) -> Looked:
        """Take the answers of a partition's leader and the coordinators. Missing answers change nothing."""
        at = Partition(facts.topic, facts.partition)
        held = self._held.get(at)
        reason = why_unclear(facts)
        if held is not None:
            held.looks += 1
            held.unclear = reason
            held.ask_at_ms = now_ms + int(AGAIN.wait_s(held.looks) * 1_000)
        self._ask_at_once.pop(at, None)
        if isinstance(facts.ends, Refused) or isinstance(facts.open, Refused):
            is_gone = isinstance(facts.ends, Refused) and facts.ends.is_no_such_partition
            gone = self._found.pop(at, {}) if is_gone else {}
            return Looked(over=tuple((one, HangingEnding.GONE) for one in gone.values()))
        known = self._found.get(at, {})
        now = {
            row.identity: self._hanging(facts, facts.ends, row, known.get(row.identity), now_ms)
            for row in facts.open
            if is_hanging(facts, row)
        }
        over: list[tuple[HangingTransaction, HangingEnding | None]] = []
        for identity, one in known.items():
            if identity in now:
                continue
            row = next((row for row in facts.open if row.identity == identity), None)
            if row is None or identity not in facts.still_open:
                over.append((one, None))
            elif row.producer_id in facts.coordinators.known:
                over.append((one, HangingEnding.ADOPTED))
            else:
                now[identity] = one
        if now and held is not None:
            held.ask_at_ms = now_ms + FOUND_AGAIN_MS
        found = tuple(one for identity, one in now.items() if identity not in known)
        self._keep(at, now)
        return Looked(found=found, over=tuple(over))

    def _keep(self, at: Partition, now: dict[tuple[int, int, int], HangingTransaction]) -> None:
        if now:
            self._found[at] = now
        else:
            self._found.pop(at, None)

    def _hanging(
        self,
        facts: PartitionFacts,
        ends: LogEnds,
        row: OpenTransaction,
        before: HangingTransaction | None,
        now_ms: int,
    ) -> HangingTransaction:
        known = facts.coordinators.known.get(row.producer_id)
        return HangingTransaction(
            key=HangingKey(
                kafka_cluster_id=self._kafka_cluster_id,
                topic=facts.topic,
                partition=facts.partition,
                producer_id=row.producer_id,
                producer_epoch=row.producer_epoch,
                start_offset=row.start_offset,
            ),
            coordinator_epoch=marker_epoch(row),
            last_written_ms=row.last_ms,
            transactional_id=None if known is None else known.transactional_id,
            is_corroborated=known is not None or facts.coordinators.is_corroborated,
            why=hanging_sentence(facts, row),
            found_ms=now_ms if before is None else before.found_ms,
            seen_ms=now_ms,
            high_watermark=ends.high_watermark,
        )


def why_unclear(facts: PartitionFacts) -> str:
    """Return the reason for which these answers are inconclusive; empty if they are conclusive."""
    for answer in (facts.ends, facts.open):
        if isinstance(answer, Refused):
            return answer.sentence
    is_untold = bool(strangers_in(facts) and facts.coordinators.unanswered)
    return facts.coordinators.unanswered[0].sentence if is_untold else ""

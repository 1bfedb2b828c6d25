"""Lasting conditions: transactions that are open for too long, observers without data. Raised once, resolved once.

`seen` returns the conditions of the observer's snapshots, `changes` the alerts since the last turn. A condition that
cannot be observed now is not resolved: a cluster whose journal is not read keeps the alerts of its transactions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.core.alerts.told import FRESH_FOR, double_processing_alerts
from app.core.blocked.readers import BlockedReport
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clusters.cluster import Cluster
from app.core.double_processing.listing import open_on
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TOPIC as TRANSACTIONS
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot
from app.kit.storable import moment_of_ms
from app.kit.words import duration, duration_s

ABORTED_WITHIN_MS = 15_000
"""A coordinator checks for transactions that timed out every 10 s, by its default."""
MAX_OPEN_TOLD = 20
"""For one cluster at a time: without its coordinator thousands are open for too long, for one reason."""
_NOT_SEEING = {
    ReadingPhase.CONNECTING: "no broker has been reached yet",
    ReadingPhase.REFUSED: "it may not be read",
    ReadingPhase.LOST: "no broker answers",
}

WATCHED = frozenset(
    {
        AlertKind.TRANSACTION_OPEN,
        AlertKind.DOUBLE_PROCESSING,
        AlertKind.OBSERVER_BEHIND,
        AlertKind.OBSERVER_BLIND,
        AlertKind.CRASH_LOOPING,
        AlertKind.NOT_PROGRESSING,
        AlertKind.LAG,
        AlertKind.LAG_GROWING,
    }
)
"""The conditions that AlertWatch raises and resolves."""

Key = tuple[AlertKind, str]


class AlertBounds(msgspec.Struct, frozen=True, kw_only=True):
    """transaction_open: the age of a transaction that raises an alert, with any timeout. observer: the same without
    data.

    lag_s, lag_growing_s: `PATTERN=SECONDS` of groups (lag_conditions.py).
    """

    transaction_open: timedelta = timedelta(seconds=120)
    observer: timedelta = timedelta(seconds=60)
    lag_s: tuple[str, ...] = ()
    lag_growing_s: tuple[str, ...] = ()


class SeenConditions(msgspec.Struct, frozen=True, kw_only=True):
    """conditions: those that hold. transactions_of: the Kafka cluster ids of which all transactions are known now.

    groups_of: the same of all groups.
    undecided: subjects whose end is not proven. Observers between the two bounds are too current for an alert, and not
    current enough to resolve one. The others are groups whose lag is not known now.
    """

    conditions: tuple[Alert, ...]
    transactions_of: frozenset[str]
    groups_of: frozenset[str]
    undecided: frozenset[str]


def key_of(alert: Alert) -> Key:
    return alert.kind, alert.subject


class FirstSeen:
    """When open transactions were first seen, by this server's clock: a lower bound of their age with any broker
    clock.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def ages_ms(self, subjects: Iterable[str], *, now_ms: int) -> dict[str, int]:
        """Return ages by subject; subjects that are not named have ended and are dropped."""
        self._since_ms = {subject: self._since_ms.get(subject, now_ms) for subject in subjects}
        return {subject: max(0, now_ms - since_ms) for subject, since_ms in self._since_ms.items()}


def seen(
    clusters: Iterable[Cluster],
    snapshots: Mapping[str, Snapshot],
    bounds: AlertBounds,
    *,
    now: datetime,
    first_seen: FirstSeen | None = None,
    raised: Collection[Alert] = (),
    blocked: Iterable[BlockedReport] = (),
) -> SeenConditions:
    """Return the conditions in the snapshots, by the names of their clusters.

    first_seen: of the turns before this one. raised: the alerts that were raised and not resolved; a transaction that
        is still open has only become older.
    blocked: the blocked readers now. An alert about their transaction begins with the sentence of the overview.
    """
    open_ones: dict[str, _Open] = {}
    conditions: list[Alert] = []
    known: set[str] = set()
    known_groups: set[str] = set()
    undecided: set[str] = set()
    for cluster in clusters:
        snapshot = snapshots.get(cluster.name)
        if snapshot is None:
            continue
        found_of_cluster: list[Alert] = []
        for journal in (snapshot.transaction_journal, snapshot.group_journal):
            found = _of_observer(cluster, journal, bounds, now)
            found_of_cluster += found
            if not found and not _is_well(journal, bounds, now):
                undecided.add(_subject(cluster, journal))
        conditions += _one_of_a_cluster(found_of_cluster, snapshot, raised)
        if _is_current(snapshot.transaction_journal, bounds, now):
            known.add(cluster.kafka_cluster_id)
            open_ones |= _open_transactions(cluster, snapshot)
        if _is_current(snapshot.group_journal, bounds, now):
            known_groups.add(cluster.kafka_cluster_id)
            conditions += double_processing_alerts(cluster, open_on(snapshot, since=now - FRESH_FOR).items)
    told = {alert.subject for alert in raised if alert.kind is AlertKind.TRANSACTION_OPEN}
    blocking = {
        (one.cluster, one.producer_id, one.producer_epoch): one.sentence for report in blocked for one in report.causes
    }
    conditions += _open_for_too_long(
        open_ones, bounds, first_seen or FirstSeen(), told, blocking, now_ms=int(now.timestamp() * 1000)
    )
    return SeenConditions(
        conditions=tuple(conditions),
        transactions_of=frozenset(known),
        groups_of=frozenset(known_groups),
        undecided=frozenset(undecided),
    )


def changes(
    raised: Collection[Alert], now_seen: SeenConditions, *, registered: Collection[str], now: datetime
) -> tuple[list[Alert], list[Alert]]:
    """Return the alerts to raise and those to resolve.

    raised: those that were raised and not resolved. registered: the ids of the registered Kafka clusters.
    """
    is_so = {key_of(alert) for alert in now_seen.conditions}
    told = {key_of(alert) for alert in raised}
    over = [
        resolved(alert, now=now)
        for alert in raised
        if key_of(alert) not in is_so and _can_be_resolved(alert, now_seen, registered)
    ]
    still = Counter(
        alert.kafka_cluster_id
        for alert in raised
        if alert.kind is AlertKind.TRANSACTION_OPEN and key_of(alert) in is_so
    )
    return _bounded([alert for alert in now_seen.conditions if key_of(alert) not in told], still), over


def _bounded(new: Iterable[Alert], told_by_cluster: Counter[str | None]) -> list[Alert]:
    """Return each cluster's oldest transactions, MAX_OPEN_TOLD with those already raised; and the number of the
    others.
    """
    others: list[Alert] = []
    by_cluster: defaultdict[str | None, list[Alert]] = defaultdict(list)
    for alert in new:
        (by_cluster[alert.kafka_cluster_id] if alert.kind is AlertKind.TRANSACTION_OPEN else others).append(alert)
    for cluster, waiting in by_cluster.items():
        waiting.sort(key=lambda alert: alert.at)
        room = max(0, MAX_OPEN_TOLD - told_by_cluster[cluster])
        more = len(waiting) - room
        word = f" {more} more are open for too long there, without alerts of their own." if more > 0 else ""
        others += [msgspec.structs.replace(alert, sentence=alert.sentence + word) for alert in waiting[:room]]
    return others


def resolved(alert: Alert, *, now: datetime) -> Alert:
    """Return the alert that ends a raised one."""
    lasted_s = max(0, (now - alert.at).total_seconds())
    return msgspec.structs.replace(
        alert,
        state=AlertState.RESOLVED,
        at=now,
        sentence=f"Over after {duration_s(lasted_s)}. It was: {alert.sentence}",
    )


def _can_be_resolved(alert: Alert, now_seen: SeenConditions, registered: Collection[str]) -> bool:
    match alert.kind:
        case AlertKind.TRANSACTION_OPEN:
            return alert.kafka_cluster_id in now_seen.transactions_of or alert.kafka_cluster_id not in registered
        case AlertKind.DOUBLE_PROCESSING:
            return alert.kafka_cluster_id in now_seen.groups_of or alert.kafka_cluster_id not in registered
        case AlertKind.OBSERVER_BEHIND | AlertKind.OBSERVER_BLIND | AlertKind.LAG | AlertKind.LAG_GROWING:
            return alert.subject not in now_seen.undecided
        case AlertKind.CRASH_LOOPING | AlertKind.NOT_PROGRESSING:
            return True
        case _:
            # The search for hanging transactions resolves those.
            return False


def _is_well(journal: JournalStatus, bounds: AlertBounds, now: datetime) -> bool:
    """Return whether it is clearly current: an alert at a bound is resolved at half of it, so that it does not flap."""
    if journal.phase in _NOT_SEEING:
        return False
    if journal.phase in (ReadingPhase.OFF, ReadingPhase.ABSENT):
        return True
    return journal.as_of_ms >= 0 and now - moment_of_ms(journal.as_of_ms) < bounds.observer / 2


def _is_current(journal: JournalStatus, bounds: AlertBounds, now: datetime) -> bool:
    is_asked = journal.phase in (ReadingPhase.LIVE, ReadingPhase.CATCHING_UP, ReadingPhase.REFUSED)
    return is_asked and journal.as_of_ms >= 0 and now - moment_of_ms(journal.as_of_ms) < bounds.observer


class _Open(NamedTuple):
    """An open transaction, and its age by its coordinator's clock as far as that is measured."""

    cluster: Cluster
    live: LiveTransaction
    clocks: BrokerClocks


def _open_transactions(cluster: Cluster, snapshot: Snapshot) -> dict[str, _Open]:
    """Return them by subject, without the epoch: the end of a transaction raises it."""
    return {
        subject_of("transaction", cluster.kafka_cluster_id, live.state.producer_id, live.state.start_ms): _Open(
            cluster, live, snapshot.clocks
        )
        for live in snapshot.open_transactions.values()
        if live.state.start_ms > 0
    }


def _open_for_too_long(
    open_ones: Mapping[str, _Open],
    bounds: AlertBounds,
    first_seen: FirstSeen,
    told: Collection[str],
    blocking: Mapping[tuple[str, int, int], str],
    *,
    now_ms: int,
) -> list[Alert]:
    longest_ms = int(bounds.transaction_open.total_seconds() * 1000)
    known_for_ms = first_seen.ages_ms(open_ones, now_ms=now_ms)
    found: list[Alert] = []
    for subject, one in open_ones.items():
        state = one.live.state
        age = one.clocks.age_at(TRANSACTIONS, one.live.partition, state.start_ms, now_ms=now_ms)
        least_ms = max(known_for_ms[subject], age.least_ms if age is not None else 0)
        if subject in told or least_ms > min(longest_ms, state.timeout_ms + ABORTED_WITHIN_MS):
            blocked = blocking.get((one.cluster.name, state.producer_id, state.producer_epoch), "")
            found.append(_open_for_long(subject, one, least_ms, blocked, is_exact=age is not None, now_ms=now_ms))
    return found


def _open_for_long(subject: str, one: _Open, least_ms: int, blocked: str, *, is_exact: bool, now_ms: int) -> Alert:
    cluster, live, state = one.cluster, one.live, one.live.state
    is_overdue = least_ms > state.timeout_ms + ABORTED_WITHIN_MS
    bound = "over, and its coordinator has not ended it" if is_overdue else "not over yet"
    age = duration(least_ms) if is_exact else f"at least {duration(least_ms)}"
    return Alert(
        kind=AlertKind.TRANSACTION_OPEN,
        state=AlertState.RAISED,
        subject=subject,
        at=moment_of_ms(now_ms - least_ms),
        sentence=f"{blocked + '. ' if blocked else ''}{live.transactional_id} on {cluster.name} has had a transaction "
        f"open for {age} ({state.status.word}); its timeout of {duration(state.timeout_ms)} is {bound}."
        f"{'' if blocked else ' read_committed consumers of its partitions are blocked.'}",
        page="/stuck?" + urlencode({"cluster": cluster.name}),
        cluster=cluster.name,
        kafka_cluster_id=cluster.kafka_cluster_id,
        transactional_id=live.transactional_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.timeout_ms,
        partitions=state.partition_names,
    )


def _of_observer(cluster: Cluster, journal: JournalStatus, bounds: AlertBounds, now: datetime) -> list[Alert]:
    if journal.phase_since_ms < 0:
        # This server's observer has not read yet: it has only its saved state, which proves no failure.
        return []
    phase_since = moment_of_ms(journal.phase_since_ms)
    if journal.phase in _NOT_SEEING:
        if now - phase_since < bounds.observer:
            return []
        why = journal.problem or _NOT_SEEING[journal.phase]
        sentence = f"The observer cannot read {journal.topic} of {cluster.name}: {why}."
        return [_about_observer(AlertKind.OBSERVER_BLIND, cluster, journal, sentence, at=phase_since)]
    if journal.phase in (ReadingPhase.OFF, ReadingPhase.ABSENT):
        return []
    as_of = moment_of_ms(journal.as_of_ms) if journal.as_of_ms >= 0 else phase_since
    if now - as_of < bounds.observer:
        return []
    behind = f"{journal.lag_records} records are not read yet" if journal.lag_records else "leaders do not answer"
    age_s = (now - as_of).total_seconds()
    sentence = (
        f"The observer is behind in {journal.topic} of {cluster.name}: its state is {duration_s(age_s)} old, "
        f"{journal.problem or behind}."
    )
    return [_about_observer(AlertKind.OBSERVER_BEHIND, cluster, journal, sentence, at=as_of)]


def _one_of_a_cluster(found: list[Alert], snapshot: Snapshot, raised: Collection[Alert]) -> list[Alert]:
    """Return one alert of a cluster without answers, which both journals are without: one cause, one alarm.

    An alert of the second journal that was raised already, since the first one answered then, stays.
    """
    is_lost = [one.phase is ReadingPhase.LOST for one in (snapshot.transaction_journal, snapshot.group_journal)]
    if len(found) < 2 or not all(is_lost):
        return found
    told = {key_of(alert) for alert in raised}
    return found[:1] + [alert for alert in found[1:] if key_of(alert) in told]


def _about_observer(kind: AlertKind, cluster: Cluster, journal: JournalStatus, sentence: str, *, at: datetime) -> Alert:
    return Alert(
        kind=kind,
        state=AlertState.RAISED,
        subject=_subject(cluster, journal),
        at=at,
        sentence=sentence,
        page=f"/clusters/{quote(cluster.name, safe='')}",
        cluster=cluster.name,
        kafka_cluster_id=cluster.kafka_cluster_id,
        topic=journal.topic,
    )


def _subject(cluster: Cluster, journal: JournalStatus) -> str:
    return subject_of("observer", cluster.kafka_cluster_id, journal.topic)

"""The open problems of all clusters and pipelines: one list, one line for each cause, the gravest first.

A line has the sentence of the alert about it, if it raises one (docs/webhooks.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from app.core.alerts.alert import Alert, AlertKind
from app.core.blocked.advice import AdviceVerdict
from app.core.blocked.readers import BlockedReaders, BlockedReport
from app.core.double_processing.listing import OpenOverlaps
from app.core.double_processing.overlap import Overlap, by_group_and_grade, sentence_of
from app.core.hanging.report import HangingLine
from app.core.journals.double_processing import OverlapGrade
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.runs.needs import Need, NeedSeverity
from app.kit.words import count, moment

_OF_RUNS = {AlertKind.CRASH_LOOPING: "crash-looping", AlertKind.NOT_PROGRESSING: "not progressing"}
_MUST_ACT = (AdviceVerdict.END, AdviceVerdict.FENCE, AdviceVerdict.CANNOT_TELL)
_NAMED = 4
_NEVER = datetime.max.replace(tzinfo=UTC)


class ProblemKind(StrEnum):
    BLOCKED_READERS = "blocked readers"
    CLUSTER = "cluster"
    HANGING_TRANSACTION = "hanging transaction"
    DOUBLE_PROCESSING = "double processing"
    OPEN_TRANSACTION = "open transaction"
    OBSERVER = "observer"
    LAG = "lag"
    PIPELINE = "pipeline"


OF_CLUSTERS = {
    AlertKind.TRANSACTION_OPEN: ProblemKind.OPEN_TRANSACTION,
    AlertKind.OBSERVER_BEHIND: ProblemKind.OBSERVER,
    AlertKind.OBSERVER_BLIND: ProblemKind.OBSERVER,
    AlertKind.LAG: ProblemKind.LAG,
    AlertKind.LAG_GROWING: ProblemKind.LAG,
}
"""The raised alerts that are listed by themselves; the others have a line of their own kind."""


class OpenProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, on a cluster or in a pipeline.

    since: when it began, or was observed first; None: not recorded. next_step: how to fix it; None: it ends by itself,
    or the page explains it. page: the path on this server with details. blocked: of blocked readers.
    """

    kind: ProblemKind
    severity: NeedSeverity
    sentence: str
    page: str
    cluster: str | None = None
    pipeline: str | None = None
    since: datetime | None = None
    next_step: str | None = None
    blocked: BlockedReaders | None = None


class Unreached(NamedTuple):
    """A cluster of which no broker answers this server now. pipelines: those that it has. since: None: not known."""

    cluster: str
    problem: str
    since: datetime | None
    pipelines: tuple[str, ...] = ()


def unreached_of(snapshots: Iterable[Snapshot], pipelines: Iterable[tuple[str, str]]) -> tuple[Unreached, ...]:
    """Return the clusters that were reached and are not now. pipelines: each with the name of its cluster."""
    lost = [one for one in snapshots if one.transaction_journal.phase is ReadingPhase.LOST]
    of_cluster: defaultdict[str, list[str]] = defaultdict(list)
    for name, cluster in pipelines if lost else ():
        of_cluster[cluster].append(name)
    return tuple(
        Unreached(
            one.cluster,
            one.transaction_journal.problem or "no broker answers",
            moment(one.transaction_journal.phase_since_ms),
            tuple(of_cluster[one.cluster]),
        )
        for one in lost
    )


def problems_of(
    needs: Iterable[Need],
    *,
    blocked: Iterable[BlockedReport],
    hanging: Iterable[HangingLine],
    raised: Sequence[Alert],
    overlaps: Iterable[OpenOverlaps] = (),
    unreached: Iterable[Unreached] = (),
) -> tuple[OpenProblem, ...]:
    """Return the problems, the gravest first, and of equal ones the longest first.

    raised: the alerts that were raised and not resolved, of OF_CLUSTERS and of runs. A transaction that blocks readers
    is one line, also if it hangs or has an alert. So is a cluster without answers, from its first second on: with both
    of its observers, and with the tasks that report errors of it.
    """
    dead = {one.cluster: one for one in unreached}
    cluster_of = {name: one.cluster for one in dead.values() for name in one.pipelines}
    needs = list(needs)
    following = [need for need in needs if need.may_follow and need.pipeline in cluster_of]
    needs = [need for need in needs if need not in following]
    raised = [alert for alert in raised if alert.kind is not AlertKind.OBSERVER_BLIND or alert.cluster not in dead]
    causes = [one for report in blocked for one in report.causes]
    told = {(one.cluster, one.producer_id, one.producer_epoch) for one in causes}
    found = [_of_blocked(one) for one in causes]
    found += [
        _of_unreached(one, sorted({need.pipeline for need in following if cluster_of[need.pipeline] == one.cluster}))
        for one in dead.values()
    ]
    found += [
        _of_hanging(line)
        for line in hanging
        if (line.cluster, line.transaction.key.producer_id, line.transaction.key.producer_epoch) not in told
    ]
    found += [
        _of_alert(alert)
        for alert in raised
        if alert.kind in OF_CLUSTERS and (alert.cluster, alert.producer_id, alert.producer_epoch) not in told
    ]
    found += [_of_overlaps(one.cluster, some) for one in overlaps for some in by_group_and_grade(one.items)]
    since = {(alert.run, word): alert.at for alert in raised if (word := _OF_RUNS.get(alert.kind, "")) and alert.run}
    found += [_of_need(need, since=since.get((need.run_id or "", need.sentence.partition(":")[0]))) for need in needs]
    order = list(NeedSeverity)
    return tuple(sorted(found, key=lambda one: (order.index(one.severity), one.since or _NEVER)))


def _of_blocked(one: BlockedReaders) -> OpenProblem:
    first = one.partitions[0]
    return OpenProblem(
        kind=ProblemKind.BLOCKED_READERS,
        severity=NeedSeverity.WRONG if one.verdict in _MUST_ACT else NeedSeverity.DEGRADED,
        sentence=one.sentence,
        page="/stuck?" + urlencode({"cluster": one.cluster, "target": f"{first.topic}:{first.partition}"}),
        cluster=one.cluster,
        since=one.since,
        next_step=one.advice,
        blocked=one,
    )


def _of_unreached(one: Unreached, pipelines: Sequence[str]) -> OpenProblem:
    stopped = f" {count(len(pipelines), 'pipeline')} cannot go on: {_named(pipelines)}." if pipelines else ""
    return OpenProblem(
        kind=ProblemKind.CLUSTER,
        severity=NeedSeverity.STOPPED,
        sentence=f"No broker of {one.cluster} answers this server: {one.problem.rstrip('.')}.{stopped}",
        page=f"/clusters/{quote(one.cluster, safe='')}",
        cluster=one.cluster,
        since=one.since,
        next_step=f"check the brokers of {one.cluster} and the network to them",
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _of_hanging(line: HangingLine) -> OpenProblem:
    key = line.transaction.key
    return OpenProblem(
        kind=ProblemKind.HANGING_TRANSACTION,
        severity=NeedSeverity.WRONG,
        sentence=line.transaction.sentence,
        page="/stuck?" + urlencode({"cluster": line.cluster, "target": f"{key.topic}:{key.partition}"}),
        cluster=line.cluster,
        since=line.found_at,
    )


def _of_alert(alert: Alert) -> OpenProblem:
    return OpenProblem(
        kind=OF_CLUSTERS[alert.kind],
        severity=NeedSeverity.STOPPED if alert.kind is AlertKind.OBSERVER_BLIND else NeedSeverity.DEGRADED,
        sentence=alert.sentence,
        page=alert.page,
        cluster=alert.cluster,
        since=alert.at,
    )


def _of_overlaps(cluster: str, some: Sequence[Overlap]) -> OpenProblem:
    newest = some[0]
    return OpenProblem(
        kind=ProblemKind.DOUBLE_PROCESSING,
        severity=NeedSeverity.WRONG if newest.grade is OverlapGrade.PROVED else NeedSeverity.DEGRADED,
        sentence=sentence_of(some),
        page="/groups/group?" + urlencode({"cluster": cluster, "name": newest.group}),
        cluster=cluster,
        since=min((one.at for one in some if one.at is not None), default=None),
        next_step=newest.advice[0].rstrip(".") if newest.advice else None,
    )


def _of_need(need: Need, *, since: datetime | None) -> OpenProblem:
    page = f"/pipelines/{quote(need.pipeline, safe='')}"
    if need.explained:
        page += f"/{need.explained}"
    elif need.run_id:
        page = f"/runs/{need.run_id}"
    return OpenProblem(
        kind=ProblemKind.PIPELINE,
        severity=need.severity,
        sentence=need.sentence,
        page=page,
        pipeline=need.pipeline,
        since=since,
        next_step=need.next_step,
    )

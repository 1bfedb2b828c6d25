"""The transitions and the verdict of a drill."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from app.core.audit_figures import AuditFigures
from app.core.batch_figures import BatchFigures
from app.core.wire.drill import ActStep
from app.products.drills.drill import (
    LIVES_ON_AFTER,
    TARGET_TRANSITIONS,
    THAWED_WITHIN,
    Drill,
    DrillKind,
    DrillState,
    DrillVerdict,
    Target,
    TargetState,
)
from app.products.drills.planning import RETURNS_WITHIN_S
from app.products.drills.timeline import MAX_ENTRIES, DrillLook, Entry, EntryKind, flows, follow

_DONE = frozenset({TargetState.FROZEN, TargetState.THAWED, TargetState.KILLED})
WELL_FOR = timedelta(seconds=3)
"""Time for which all conditions of recovery must hold."""
FLOWS_NOW = timedelta(seconds=2)
COMMITS_TO_MISS = 2.5
"""Commit intervals without a commit after which a partition is overdue, if that is longer than FLOWS_NOW."""
_NEVER_BEGUN = "the drill ended before it began"
GIVES_UP_AFTER = timedelta(seconds=90)
"""Time after the last known bound, after which a pipeline that has not recovered has not survived."""


def hear(drill: Drill, target: Target, step: ActStep, *, now: datetime, message: str = "") -> Drill:
    """Return the drill after a report of a target or its watchdog. A late or repeated report has no effect.

    The caller has checked `may_begin` before a CLAIMED.
    """
    if step is ActStep.CLAIMED:
        if target.state is not TargetState.ORDERED:
            return drill
        is_kill = drill.kind is DrillKind.KILL_INSTANCE
        to = TargetState.KILLED if is_kill else TargetState.CLAIMED
        drill = drill.with_target(target.moved(to, now=now))
        if drill.state is DrillState.ORDERED:
            drill = drill.moved(DrillState.UNDERWAY, begun_at=now)
        if is_kill:
            drill = said(drill, EntryKind.ACT, f"{_name(target)} kills itself now (SIGKILL)", now=now)
        return drill
    to = TargetState(step)
    if to not in TARGET_TRANSITIONS[target.state]:
        return drill
    drill = drill.with_target(target.moved(to, now=now, message=message))
    words = {
        TargetState.FROZEN: f"{_name(target)} is frozen (SIGSTOP)",
        TargetState.THAWED: f"{_name(target)} is thawed (SIGCONT)",
        TargetState.REFUSED: f"{_name(target)} is not drilled: {message}",
    }
    return said(drill, EntryKind.ACT, words[to], now=now)


def see(drill: Drill, look: DrillLook) -> Drill:
    """Return the drill with the new events of a view."""
    watched, entries = follow(drill.watched, look, commits_every_s=drill.plan.commits_every_s)
    return _with_entries(replace(drill, watched=watched), entries)


def advance(drill: Drill, *, now: datetime, run_is_live: bool) -> Drill:
    """Return the drill in its current state, up to AUDITING, which `conclude` leaves."""
    if drill.state is DrillState.ORDERED:
        drill = _from_ordered(drill, now=now)
    drill = _without_survivors(drill, now=now)
    is_over = drill.state is DrillState.UNDERWAY and _act_is_over(drill, now=now)
    if (is_over or drill.state is DrillState.RECOVERING) and not any(one.state in _DONE for one in drill.targets):
        return _ended(drill, DrillVerdict.NOT_BEGUN, _why_not_begun(drill), now=now)
    if is_over:
        drill = said(drill.moved(DrillState.RECOVERING, act_over_at=now), EntryKind.DRILL, _over(drill), now=now)
    if drill.state is DrillState.RECOVERING:
        drill = _from_recovering(drill, now=now, run_is_live=run_is_live)
    return drill


def conclude_by_batches(drill: Drill, batches: BatchFigures, *, no_audit: str, now: datetime) -> Drill:
    """End an AUDITING of a query that is not audited by the records of its batches."""
    if batches.wrong:
        return _ended(drill, DrillVerdict.NOT_SURVIVED, batches.wrong, now=now)
    if batches.unknown:
        return conclude(drill, None, no_audit=f"{no_audit}, and {batches.unknown}", now=now)
    counted = (
        f"batches {batches.first:,} to {batches.last:,} are committed once each by their records and "
        f"markers, with {batches.input_rows:,} input rows; ids were not compared: {no_audit}"
    )
    return _ended(replace(drill, no_audit=no_audit), DrillVerdict.SURVIVED, counted, now=now)


def conclude(drill: Drill, audit: AuditFigures | None, *, no_audit: str, now: datetime) -> Drill:
    """End an AUDITING by the audit's figures, or by the reason why there are none."""
    if audit is not None:
        # Without expected outputs an audit proves nothing.
        no_audit = audit.incomplete or ("" if audit.expected else "no output was expected in its time")
    drill = replace(drill, audit=audit, no_audit=no_audit)
    if drill.recovered_at is None:
        return _ended(drill, DrillVerdict.NOT_SURVIVED, "the pipeline did not recover", now=now)
    if audit is not None and (audit.lost or audit.duplicated or audit.unexpected or audit.dangling):
        dangling = f"dangling references: {audit.dangling:,}, " if audit.dangling else ""
        counted = (
            f"ids lost: {audit.lost:,}, duplicated: {audit.duplicated:,}, without an input: {audit.unexpected:,}, "
            f"{dangling}of {audit.expected:,} expected records"
        )
        return _ended(drill, DrillVerdict.NOT_SURVIVED, counted, now=now)
    if audit is None or drill.no_audit:
        return _ended(drill, DrillVerdict.NOT_AUDITED, f"not audited: {drill.no_audit}", now=now)
    counted = f"lost 0, duplicated 0 of {audit.expected:,} expected records"
    return _ended(drill, DrillVerdict.SURVIVED, counted, now=now)


def stop(drill: Drill, *, by: str, now: datetime) -> Drill:
    """Stop a drill: no further action begins, frozen processes are thawed, and it is not audited."""
    if drill.stop_requested_at is not None:
        return drill
    drill = replace(drill, stop_requested_at=now, stop_requested_by=by)
    drill = said(drill, EntryKind.DRILL, f"{by} stops the drill", now=now)
    if drill.state is DrillState.UNDERWAY:
        return drill
    return _ended(drill, DrillVerdict.STOPPED, f"stopped by {by}", now=now)


def said(drill: Drill, kind: EntryKind, sentence: str, *, now: datetime) -> Drill:
    return _with_entries(drill, [Entry(at=now, kind=kind, sentence=sentence)])


def _from_ordered(drill: Drill, *, now: datetime) -> Drill:
    if drill.targets and all(one.state is TargetState.REFUSED for one in drill.targets):
        return _ended(drill, DrillVerdict.NOT_BEGUN, _why_not_begun(drill), now=now)
    if now > drill.begin_by:
        within_s = (drill.begin_by - drill.ordered_at).total_seconds()
        return _ended(drill, DrillVerdict.NOT_BEGUN, f"no target claimed it within {within_s:g} s", now=now)
    return drill


def _why_not_begun(drill: Drill) -> str:
    reasons = sorted({one.message for one in drill.targets if one.message})
    return f"no process was drilled: {'; '.join(reasons) or 'it was granted, but no target reported the action'}"


def _act_is_over(drill: Drill, *, now: datetime) -> bool:
    """Return true if no process is frozen, and none can begin any more."""
    waits = [one for one in drill.targets if one.state is TargetState.ORDERED]
    if waits and drill.may_begin(now):
        return False
    for one in drill.targets:
        if one.state in (TargetState.CLAIMED, TargetState.FROZEN):
            thawed_by = one.since + timedelta(seconds=drill.plan.for_s) + THAWED_WITHIN
            if now <= thawed_by:
                return False
    return True


def _without_survivors(drill: Drill, *, now: datetime) -> Drill:
    """Refuse the targets that were granted to kill themselves, but still send heartbeats."""
    for one in drill.targets:
        seen = drill.watched.tasks.get(f"{drill.ordinal}/{one.task}")
        if one.state is not TargetState.KILLED or seen is None or _is_back(drill, one):
            continue
        if seen.is_running and now - one.since > LIVES_ON_AFTER:
            drill = hear(drill, one, ActStep.REFUSED, now=now, message="the kill was granted, but the process is alive")
    return drill


def _is_back(drill: Drill, target: Target) -> bool:
    """Return true after a report of a later attempt of the killed task; reports of the dead attempt do not count."""
    seen = drill.watched.tasks.get(f"{drill.ordinal}/{target.task}")
    return seen is not None and (seen.lease, seen.attempt) > (drill.lease or 0, target.attempt or 0)


def _from_recovering(drill: Drill, *, now: datetime, run_is_live: bool) -> Drill:
    if drill.stop_requested_at is not None:
        return _ended(drill, DrillVerdict.STOPPED, f"stopped by {drill.stop_requested_by}", now=now)
    if not run_is_live:
        return _ended(drill, DrillVerdict.STOPPED, "the run ended before the pipeline had recovered", now=now)
    assert drill.act_over_at is not None  # noqa: S101 - set by the transition into this state
    if _is_well(drill, now=now):
        drill = drill if drill.well_since is not None else replace(drill, well_since=now)
        assert drill.well_since is not None  # noqa: S101 - set in the line above
        if now - drill.well_since >= WELL_FOR:
            drill = drill.moved(DrillState.AUDITING, recovered_at=drill.well_since)
            assert drill.recovered_at is not None  # noqa: S101
            after_s = (drill.recovered_at - (drill.begun_at or drill.ordered_at)).total_seconds()
            sentence = f"the pipeline has recovered {max(0.0, after_s):.1f} s after the start of the drill"
            return said(drill, EntryKind.DRILL, sentence, now=now)
        return drill
    bounds_s = [drill.plan.stands_still_s or 0.0, RETURNS_WITHIN_S]
    if now - drill.act_over_at > timedelta(seconds=max(bounds_s)) + GIVES_UP_AFTER:
        waited_s = (now - drill.act_over_at).total_seconds()
        drill = drill.moved(DrillState.AUDITING)
        drill = said(drill, EntryKind.DRILL, f"the pipeline has not recovered after {waited_s:.0f} s", now=now)
        # An audit would wait for the pipeline to pass the window, and other drills would wait for the audit.
        return conclude(drill, None, no_audit="the pipeline has not processed all input of its time", now=now)
    return replace(drill, well_since=None)


def _is_well(drill: Drill, *, now: datetime) -> bool:
    watched = drill.watched
    running = [task for task in watched.tasks.values() if task.is_running]
    looked_now = watched.at is not None and now - watched.at <= FLOWS_NOW
    killed = [one for one in drill.targets if one.state is TargetState.KILLED]
    within = max(FLOWS_NOW, timedelta(seconds=drill.plan.commits_every_s * COMMITS_TO_MISS))
    return (
        looked_now
        and len(running) >= drill.plan.tasks
        and all(_is_back(drill, one) for one in killed)
        and flows(watched, now=now, within=within)
    )


def _ended(drill: Drill, verdict: DrillVerdict, sentence: str, *, now: datetime) -> Drill:
    was_done = drill.begun_at is not None and verdict is not DrillVerdict.NOT_BEGUN
    full = "; ".join([sentence, *_figures(drill)]) if was_done else sentence
    for one in drill.targets:
        if one.state is TargetState.ORDERED:
            drill = drill.with_target(one.moved(TargetState.REFUSED, now=now, message=_NEVER_BEGUN))
    drill = drill.moved(DrillState.ENDED, ended_at=now, verdict=verdict, sentence=full)
    return said(drill, EntryKind.DRILL, f"ended: {sentence}", now=now)


def _figures(drill: Drill) -> Iterable[str]:
    watched, longest = drill.watched, drill.watched.longest
    if watched.at is None:
        yield "not observed"
    elif longest is None:
        yield "recovery time unknown: no partition had commits before"
    elif watched.unseen_s and drill.kind is DrillKind.FREEZE_SERVER:
        yield f"{watched.committed_unseen:,} records were committed in {watched.unseen_s:.1f} s without observation"
    else:
        bound_s = drill.plan.stands_still_s
        expected = "" if bound_s is None else f", expected at most {bound_s:g} s"
        if watched.unseen_s:
            expected += f"; {watched.unseen_s:.1f} s of it not observed"
        how_long = "at least" if watched.unseen_s else "at most"
        yield f"recovery time {how_long} {longest[1]:.1f} s ({longest[0]}{expected})"


def _over(drill: Drill) -> str:
    if drill.kind is DrillKind.KILL_INSTANCE:
        return "the kill is complete"
    silent = [one for one in drill.targets if one.state in (TargetState.CLAIMED, TargetState.FROZEN)]
    return "the time of the freeze is over" + (
        f"; no report from {', '.join(_name(one) for one in silent)}" if silent else ""
    )


def _with_entries(drill: Drill, entries: list[Entry]) -> Drill:
    """Add entries in the order of their times, since a fencing event is detected after it happened.

    A drill at the limit keeps the oldest entries, and adds only those about its actions and its end.
    """
    kept = list(drill.entries)
    for entry in entries:
        if len(kept) < MAX_ENTRIES or entry.kind in (EntryKind.DRILL, EntryKind.ACT):
            kept.append(entry)
        if len(kept) == MAX_ENTRIES:
            sentence = f"more than {MAX_ENTRIES} events: from here on only actions are listed"
            kept.append(Entry(at=entry.at, kind=EntryKind.DRILL, sentence=sentence))
    return replace(drill, entries=tuple(sorted(kept, key=lambda entry: entry.at))) if entries else drill


def _name(target: Target) -> str:
    pids = " and ".join(map(str, target.pids))
    return f"{target.name} (process{'es' if target.jvm_pid else ''} {pids} on {target.host})"

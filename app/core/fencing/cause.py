"""The cause of a fencing event: the only place that decides it, by one judge for each kind.

`judge_epoch` (epoch_verdict.py, with comeback.py), `judge_membership` and `judge_marker` are called from here only.
"""

from __future__ import annotations

from app.core.fencing.epoch_verdict import judge_epoch
from app.core.fencing.evidence import merged
from app.core.fencing.fencing_event import Case, FencingEvent, FencingKind
from app.core.fencing.marker_verdict import judge_marker
from app.core.fencing.membership_verdict import judge_membership

_JUDGES = {
    FencingKind.EPOCH: judge_epoch,
    FencingKind.MEMBERSHIP: judge_membership,
    FencingKind.MARKER: judge_marker,
}


def judge_case(case: Case) -> FencingEvent | None:
    """Return the event that a case proves: fencing, or a pattern that only looks like it. None without sufficient
    evidence.

    The result depends on the evidence alone, not on its order or on repetitions.
    """
    evidence = merged(case.evidence)
    verdict = _JUDGES[case.key.kind](case.key, evidence)
    return None if verdict is None else FencingEvent(key=case.key, verdict=verdict, evidence=evidence)

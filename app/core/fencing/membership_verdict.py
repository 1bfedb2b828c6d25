"""Judge why a group refused a member's offsets, or continued without it: its generation or member epoch was stale.

The group coordinator writes each generation or epoch that is reached, and no refusals. So the refusal is the client's
report, and the group's record confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.core.fencing.evidence import ClientWord, Evidence, GroupRecord
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKey, FencingVerdict
from app.core.runs.task import EventKind

STALE_EPOCH = frozenset({"FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"})
STALE = STALE_EPOCH | {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
"""A broker's errors for a stale member. REBALANCE_IN_PROGRESS is not among them: the member may rejoin."""


def is_about_membership(word: ClientWord) -> bool:
    return word.kind is EventKind.LOST or (word.kind is EventKind.ABORTED and word.error in STALE)


def judge_membership(key: FencingKey, evidence: Sequence[Evidence]) -> FencingVerdict | None:
    """Judge the cause for evidence of kind MEMBERSHIP; None without a client report."""
    words = [one for one in evidence if isinstance(one, ClientWord) and is_about_membership(one)]
    if not words:
        return None
    refused = [word for word in words if word.error is not None]
    # The newest report is the relevant one; of two reports for one loss, the refusal has more information.
    word = (refused or words)[-1]
    later = _reached_after(word, evidence)
    by_epoch = word.error in STALE_EPOCH or (later is not None and later.is_epoch)
    return FencingVerdict(
        cause=FencingCause.STALE_MEMBER_EPOCH if by_epoch else FencingCause.STALE_GENERATION,
        confidence=Confidence.LIKELY if later is None else Confidence.CERTAIN,
        at_ms=word.at_ms,
        sentence=_sentence(key, word, later, times=len(refused)),
    )


def _reached_after(word: ClientWord, evidence: Sequence[Evidence]) -> GroupRecord | None:
    """Return the first generation that the group reached after the member's own."""
    if word.generation is None or word.generation < 0:
        return None
    later = [
        one
        for one in evidence
        if isinstance(one, GroupRecord) and one.number > word.generation and one.group == word.group
    ]
    return min(later, key=lambda record: record.number, default=None)


def _sentence(key: FencingKey, word: ClientWord, later: GroupRecord | None, *, times: int) -> str:
    noun = "epoch" if later is not None and later.is_epoch else "generation"
    group = f" of group {word.group}" if word.group else ""
    if word.error is None:
        parts = f" and lost {', '.join(word.partitions)}" if word.partitions else ""
        said = f"The group{group.removeprefix(' of group')} continued without {word.who}{parts}."
    else:
        said = f"The offsets of {word.who} were refused with {word.error}: its membership{group} is stale."
    if later is not None:
        said += f" It was at {noun} {word.generation}, the group reached {later.number}."
    again = f" This happened {times} times." if times > 1 else ""
    return f"{said} Its transaction was aborted; {key.transactional_id} itself was not fenced.{again}"

"""Why a group refused a member's offsets, or went on without it: its generation or member epoch was over.

The group's coordinator writes a generation or epoch when it is reached, and never that it refused somebody. So the
refusal is the client's word, and the group's record beside it says that it was right to feel so.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.core.fencing.evidence import ClientWord, Evidence, GroupRecord
from app.core.fencing.fencing_event import Cause, Confidence, FencingKey, Verdict
from app.core.runs.task import EventKind

STALE_EPOCH = frozenset({"FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"})
STALE = STALE_EPOCH | {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
"""What a broker answers to a member whose time is over. REBALANCE_IN_PROGRESS is not among them: it may come again."""


def is_about_membership(word: ClientWord) -> bool:
    return word.kind is EventKind.LOST or (word.kind is EventKind.ABORTED and word.error in STALE)


def judge_membership(key: FencingKey, evidence: Sequence[Evidence]) -> Verdict | None:
    """The cause that this evidence of kind MEMBERSHIP shows; None without a client's word."""
    words = [one for one in evidence if isinstance(one, ClientWord) and is_about_membership(one)]
    if not words:
        return None
    refused = [word for word in words if word.error is not None]
    # The newest word is the one that people ask about; of two words for one loss the refusal says more.
    word = (refused or words)[-1]
    later = _reached_after(word, evidence)
    by_epoch = word.error in STALE_EPOCH or (later is not None and later.is_epoch)
    return Verdict(
        cause=Cause.STALE_MEMBER_EPOCH if by_epoch else Cause.STALE_GENERATION,
        confidence=Confidence.LIKELY if later is None else Confidence.CERTAIN,
        at_ms=word.at_ms,
        sentence=_sentence(key, word, later, times=len(refused)),
    )


def _reached_after(word: ClientWord, evidence: Sequence[Evidence]) -> GroupRecord | None:
    """The first generation that the group reached after the one that the member believed in."""
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
        said = f"The group{group.removeprefix(' of group')} went on without {word.who}{parts}."
    else:
        said = f"The offsets of {word.who} were refused with {word.error}: it is no longer the member{group} it was."
    if later is not None:
        said += f" It was at {noun} {word.generation}, the group reached {later.number}."
    again = f" This happened {times} times." if times > 1 else ""
    return f"{said} Its transaction was aborted; {key.transactional_id} itself was not fenced.{again}"

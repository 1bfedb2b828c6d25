"""A fencing event as a drawing: a lane for each side, with its lifetime and its events."""

from __future__ import annotations

from app.core.fencing.story import Moment, Story, StorySide
from app.kit.web.pages.timeline import Bar, Mark, Timeline, TimelineLane, Tone, places

_MARGIN_PERCENT = 4.0
_NAMES = {
    StorySide.OLD: "old producer",
    StorySide.NEW: "new producer",
    StorySide.GROUP: "group",
    StorySide.OPERATOR: "command",
    StorySide.DRIVER: "driver",
}


def drawing_of(story: Story) -> Timeline:
    """Return the lanes of the sides that acted, each as long as it lived."""
    reached = places([*(moment.at_ms for moment in story.moments), story.taken_at_ms], margin=_MARGIN_PERCENT)
    cut = reached[story.taken_at_ms]
    lanes: list[TimelineLane] = []
    for side in StorySide:
        moments = [moment for moment in story.moments if moment.side is side]
        if not moments and side is not StorySide.OLD:
            continue
        marks = [Mark(left=reached[moment.at_ms], title=f"{_NAMES[side]} {moment.what}") for moment in moments]
        bars: list[Bar] = []
        if side is StorySide.OLD:
            bars = _old(marks, moments, cut)
        elif side is StorySide.NEW:
            bars = [Bar(left=marks[0].left, width=100 - marks[0].left, title="has the id", tone=Tone.NEW)]
        lanes.append(TimelineLane(name=_NAMES[side], detail=_detail(story, side), bars=tuple(bars), marks=tuple(marks)))
    words = f"Producer {story.old.producer_id} epoch {story.old.producer_epoch} was ended"
    if story.new is not None:
        words += f"; producer {story.new.producer_id} epoch {story.new.producer_epoch} had its id next"
    return Timeline(lanes=tuple(lanes), cut=cut, words=f"{words}. The table below has the same events.")


def _old(marks: list[Mark], moments: list[Moment], cut: float) -> list[Bar]:
    # From the start of the lane: the first kept record is seldom the producer's first one.
    bars = [Bar(left=0, width=cut, title="had the id", tone=Tone.OLD)]
    said = [mark.left for mark, moment in zip(marks, moments, strict=True) if moment.is_own_word]
    late_until = max(said, default=0.0)
    if late_until > cut:
        bars.append(Bar(left=cut, width=round(late_until - cut, 1), title="continued without it", tone=Tone.LATE))
    return bars


def _detail(story: Story, side: StorySide) -> str:
    who = {StorySide.OLD: story.old, StorySide.NEW: story.new}.get(side)
    return "" if who is None else f"producer {who.producer_id} · epoch {who.producer_epoch}"

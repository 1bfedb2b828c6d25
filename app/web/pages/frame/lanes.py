"""A fencing event as a drawing: a lane for each side, with when it lived and what it did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from app.domain.fencing_events.story import Incarnation, Side, Story

WIDTH = 1_000
_MARGIN = 40
_NAMES = {Side.OLD: "the old producer", Side.NEW: "the new producer", Side.GROUP: "the group", Side.OPERATOR: "by hand"}


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """began, ended: from where to where it lived. late_until: how far it went on after it was ended, None: it did not.

    marks: where something is told of it. Positions go from 0 to WIDTH.
    """

    side: Side
    name: str
    producer: Incarnation | None
    began: int
    ended: int
    late_until: int | None
    marks: tuple[int, ...]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """taken: where the old producer lost what it lost. words: what is to be seen, for those who do not."""

    lanes: tuple[Lane, ...]
    taken: int
    words: str


def drawing_of(story: Story) -> Drawing:
    """The lanes of those who did something. Time runs to the right, long gaps shortened, so that both ends are seen."""
    places = _places([*(moment.at_ms for moment in story.moments), story.taken_at_ms])
    taken = places[story.taken_at_ms]
    lanes: list[Lane] = []
    for side in Side:
        marks = tuple(dict.fromkeys(places[moment.at_ms] for moment in story.moments if moment.side is side))
        if marks or side is Side.OLD:
            lanes.append(_lane(side, story, marks, places))
    words = f"Producer {story.old.producer_id} epoch {story.old.producer_epoch} was ended"
    if story.new is not None:
        words += f"; producer {story.new.producer_id} epoch {story.new.producer_epoch} has its id after it"
    return Drawing(lanes=tuple(lanes), taken=taken, words=f"{words}. The table below says the same.")


def _lane(side: Side, story: Story, marks: tuple[int, ...], places: Mapping[int, int]) -> Lane:
    taken = places[story.taken_at_ms]
    began = min(marks, default=0)
    ended = max(marks, default=taken)
    late_until: int | None = None
    producer: Incarnation | None = None
    if side is Side.OLD:
        producer = story.old
        # Its first record that is kept is seldom its first one.
        said = [places[moment.at_ms] for moment in story.moments if moment.is_own_word]
        began, ended, late_until = 0, taken, max((at for at in said if at > taken), default=None)
    elif side is Side.NEW:
        producer, ended = story.new, WIDTH
    return Lane(
        side=side, name=_NAMES[side], producer=producer, began=began, ended=ended, late_until=late_until, marks=marks
    )


def _places(times_ms: Sequence[int]) -> dict[int, int]:
    """Where on the line each time is: in order, and the further apart the longer it was, by its logarithm."""
    ordered = sorted(set(times_ms))
    reached = [0.0]
    for before, after in pairwise(ordered):
        reached.append(reached[-1] + math.log2(2 + after - before))
    length = reached[-1] or 1.0
    room = WIDTH - 2 * _MARGIN
    if len(ordered) == 1:
        return {ordered[0]: WIDTH // 2}
    return {at: _MARGIN + round(room * one / length) for at, one in zip(ordered, reached, strict=True)}

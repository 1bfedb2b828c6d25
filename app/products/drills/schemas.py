"""REST schemas of drills."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.drills import drill, timeline
from app.products.drills.drill import DEFAULT_S, LONGEST_S, SHORTEST_S, DrillKind


class DrillGiven(Body):
    """ordinal: of the instance; null for the server. for_s: duration of a freeze."""

    kind: Annotated[DrillKind, Field(strict=False)]
    ordinal: Annotated[int | None, Field(ge=0, lt=2**31)] = None
    for_s: Annotated[float, Field(ge=SHORTEST_S, le=LONGEST_S)] = DEFAULT_S
    why: Why = None


@shows(drill.Expectation)
class Expectation:
    """within_s: seconds after the start of the action; null without a known bound."""


@shows(drill.DrillPlan)
class DrillPlan:
    """The plan with its expectations, made at the order. stands_still_s: longest expected recovery time."""


@shows(drill.Target)
class Target:
    """One target process: an attempt of a task, or with `task` null a server."""


@shows(timeline.Entry)
class Entry:
    """fencing_id: id of the fencing event that it is about."""


@shows(timeline.PartitionWatched, without=("at_end_at", "is_told"))
class PartitionWatched:
    """longest_s: longest observed time between two commits. flowed: true if it is measured."""


# The fields for comparison with the next view are internal.
@shows(timeline.Watched, without=("epochs", "fencings", "tasks"))
class Watched:
    """at: time of the last observation; null before the first one, so that nothing is known.

    rebalances: null while the group's generation is not known. committed: null before the first observation.
    unseen_s: time without observation; committed_unseen: records committed in that time.
    """


@shows(drill.AuditFigures)
class AuditFigures:
    """Counts in ids; `read` and `expected` in records.

    unexpected: outputs without an input. dangling: references to files that are missing or differ.
    """


@shows(drill.Drill, without=("well_since",))
class Drill:
    """One drill. `verdict` and `sentence` come with its end."""

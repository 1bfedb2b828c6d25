"""Drills at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.drills import drill, timeline
from app.products.drills.drill import DEFAULT_S, LONGEST_S, SHORTEST_S, DrillKind


class DrillGiven(Body):
    """ordinal: of the instance; null where the server is meant. for_s: how long a freeze lasts."""

    kind: Annotated[DrillKind, Field(strict=False)]
    ordinal: Annotated[int | None, Field(ge=0, lt=2**31)] = None
    for_s: Annotated[float, Field(ge=SHORTEST_S, le=LONGEST_S)] = DEFAULT_S
    why: Why = None


@shows(drill.Expectation)
class Expectation:
    """within_s: seconds after the beginning; null: nothing that we know bounds it."""


@shows(drill.Plan)
class Plan:
    """What is done and expected, made when it was ordered. stands_still_s: of any partition's records, at most."""


@shows(drill.Target)
class Target:
    """One process that is meant: an attempt of a task, or with `task` null a server."""


@shows(timeline.Entry)
class Entry:
    """fencing_id: of the fencing event that it tells of."""


@shows(timeline.PartitionWatched, without=("at_end_at", "is_told"))
class PartitionWatched:
    """longest_s: between two commits of its offset that were seen. flowed: whether it is measured."""


# What the next look is compared with stays inside.
@shows(timeline.Watched, without=("epochs", "fencings", "tasks"))
class Watched:
    """at: of the last look; null: nobody has looked yet, so that nothing here is known.

    rebalances: null while nobody has told the group's generation. committed: null while nobody has looked.
    unseen_s: for how long nobody looked; committed_unseen: records that were committed meanwhile.
    """


@shows(drill.AuditFigures)
class AuditFigures:
    """Counted in ids; `read` and `expected` in records. unexpected: outputs without an input. dangling: references to
    files that are missing or other ones.
    """


@shows(drill.Drill, without=("well_since",))
class Drill:
    """One drill. `verdict` and `sentence` come with its end."""

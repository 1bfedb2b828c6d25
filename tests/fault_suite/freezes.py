"""The timeouts that frozen workers have outlasted: the group's session, the transaction's, both or neither."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from tests.fault_suite.freeze_points import AnyPoint, FilePoint, Point

ANYWHERE = "anywhere"
"""The place of who was stopped wherever he was just then."""


class Outlasted(StrEnum):
    """Past the session a worker wakes up without its membership, past the transaction's timeout as a fenced producer:
    zombies."""

    NEITHER = "neither"
    SESSION = "session"
    TRANSACTION = "transaction"
    BOTH = "both"


class Timeouts(NamedTuple):
    """session_s: of a member. transaction_s: of a producer. look_s: between the coordinator's checks for transactions
    past that, so that only after both it has certainly been ended."""

    session_s: float
    transaction_s: float
    look_s: float

    def outlasted(self, stood_s: float) -> Outlasted:
        is_past_session = stood_s >= self.session_s
        if stood_s >= self.transaction_s + self.look_s:
            return Outlasted.BOTH if is_past_session else Outlasted.TRANSACTION
        return Outlasted.SESSION if is_past_session else Outlasted.NEITHER


class Freezes:
    """Counts them by the point at which they were."""

    def __init__(self) -> None:
        self._counted: dict[str, Counter[Outlasted]] = {}

    def stood(self, point: AnyPoint | None, stood_s: float, timeouts: Timeouts) -> str:
        """Count one that is over; the sentence for the log of faults."""
        outlasted = timeouts.outlasted(stood_s)
        self._counted.setdefault(place_of(point), Counter())[outlasted] += 1
        return (
            f"frozen for {stood_s:.1f} s: outlasted {outlasted} of session ({timeouts.session_s:g} s) and "
            f"transaction ({timeouts.transaction_s:g} s, and {timeouts.look_s:g} s until it is seen)"
        )

    @property
    def counted(self) -> dict[str, dict[Outlasted, int]]:
        """By place, in the order of the points."""
        return added([{place: dict(of_one) for place, of_one in self._counted.items()}])


def place_of(point: AnyPoint | None) -> str:
    return ANYWHERE if point is None else point.value


def added(runs: list[dict[str, dict[Outlasted, int]]]) -> dict[str, dict[Outlasted, int]]:
    """Those of several runs."""
    found: dict[str, Counter[Outlasted]] = {}
    for run in runs:
        for place, counted in run.items():
            found.setdefault(place, Counter()).update(counted)
    return {
        place: {outlasted: found[place][outlasted] for outlasted in Outlasted if found[place][outlasted]}
        for place in map(place_of, (*Point, *FilePoint, None))
        if place in found
    }

"""The conditions of a gate, each with its requirement, its finding and its status."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from app.products.migrations.judged import ClauseStanding, Judged
from app.products.migrations.look import MigrationLook
from app.products.migrations.migration import Migration, MigrationStep, MigrationStepKind

NAMED = 5
"""More items than this are counted in a sentence, not named."""


class ClauseFinding(msgspec.Struct, frozen=True):
    standing: ClauseStanding
    seen: str


def open_(seen: str) -> ClauseFinding:
    return ClauseFinding(ClauseStanding.OPEN, seen)


def closed(seen: str) -> ClauseFinding:
    return ClauseFinding(ClauseStanding.CLOSED, seen)


def unknown(seen: str) -> ClauseFinding:
    return ClauseFinding(ClauseStanding.UNKNOWN, seen)


def closed_unless(missing: Sequence[str], otherwise: str) -> ClauseFinding:
    """Closed with the missing items, of which the first few are named; open if none is missing."""
    return closed(few(missing)) if missing else open_(otherwise)


def few(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - NAMED} more" if len(sentences) > NAMED else ""
    return "; ".join(sentences[:NAMED]) + more


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """remedy: the step that opens it, if there is one; it begins when every earlier condition is open.

    is_waivable: a user may waive it with a reason (only where records cannot be duplicated without it).
    """

    name: str
    asks: str
    judge: Callable[[Migration, MigrationLook], ClauseFinding]
    remedy: MigrationStepKind | None = None
    is_waivable: bool = False

    def judged(self, migration: Migration, look: MigrationLook) -> Judged:
        found = self.judge(migration, look)
        reason = migration.waived.get(self.name)
        if self.is_waivable and reason is not None and found.standing is not ClauseStanding.OPEN:
            found = open_(f"{found.seen}; waived: {reason}")
        return Judged(name=self.name, asks=self.asks, standing=found.standing, seen=found.seen)


class StepClause(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of one step that is underway."""

    name: str
    asks: str
    judge: Callable[[Migration, MigrationLook, MigrationStep], ClauseFinding]

    def judged(self, migration: Migration, look: MigrationLook, step: MigrationStep) -> Judged:
        found = self.judge(migration, look, step)
        return Judged(name=self.name, asks=self.asks, standing=found.standing, seen=found.seen)


def missing_of(clauses: Sequence[Judged]) -> str:
    """Return the conditions that keep a gate closed as a sentence; empty if there are none."""
    return "; ".join(f"{one.name.replace('_', ' ')}: {one.seen}" for one in clauses if not one.is_open)

"""What a gate is made of: clauses, each with what it asks for, what it has seen, and whether that is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from app.products.migrations.judged import Judged, Standing
from app.products.migrations.look import Look
from app.products.migrations.migration import Migration, Step, StepKind

NAMED = 5
"""So many of many are named in a sentence."""


class Finding(msgspec.Struct, frozen=True):
    standing: Standing
    seen: str


def open_(seen: str) -> Finding:
    return Finding(Standing.OPEN, seen)


def closed(seen: str) -> Finding:
    return Finding(Standing.CLOSED, seen)


def unknown(seen: str) -> Finding:
    return Finding(Standing.UNKNOWN, seen)


def closed_unless(missing: Sequence[str], otherwise: str) -> Finding:
    """Closed with what is missing, the first few of them named; open when nothing is."""
    return closed(few(missing)) if missing else open_(otherwise)


def few(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - NAMED} more" if len(sentences) > NAMED else ""
    return "; ".join(sentences[:NAMED]) + more


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """remedy: the step that opens it, where there is one; it is begun when every clause before it is open.

    is_waivable: somebody may answer for it with a reason (only where nothing can be processed twice without it).
    """

    name: str
    asks: str
    judge: Callable[[Migration, Look], Finding]
    remedy: StepKind | None = None
    is_waivable: bool = False

    def judged(self, migration: Migration, look: Look) -> Judged:
        found = self.judge(migration, look)
        reason = migration.waived.get(self.name)
        if self.is_waivable and reason is not None and found.standing is not Standing.OPEN:
            found = open_(f"{found.seen}; waived: {reason}")
        return Judged(name=self.name, asks=self.asks, standing=found.standing, seen=found.seen)


class StepClause(msgspec.Struct, frozen=True, kw_only=True):
    """The same of one step that is underway."""

    name: str
    asks: str
    judge: Callable[[Migration, Look, Step], Finding]

    def judged(self, migration: Migration, look: Look, step: Step) -> Judged:
        found = self.judge(migration, look, step)
        return Judged(name=self.name, asks=self.asks, standing=found.standing, seen=found.seen)


def missing_of(clauses: Sequence[Judged]) -> str:
    """What keeps a gate shut, as a sentence; empty when nothing does."""
    return "; ".join(f"{one.name.replace('_', ' ')}: {one.seen}" for one in clauses if not one.is_open)

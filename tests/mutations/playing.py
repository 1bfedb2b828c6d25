"""Playing a mutation: as it is, without the protection, without its guards, and without both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from tests.mutations.mutations import Mutation
from tests.mutations.scenes import Judged, Place
from tests.mutations.switches import Switch


class Found(msgspec.Struct, frozen=True):
    """By the verifier, how many ids each."""

    expected: int
    lost: int
    duplicated: int

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated)


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """guards_alone, protection_alone: None where there are no guards."""

    as_it_is: Found
    guards_alone: Found | None
    protection_alone: Found | None
    neither: Found


def play(
    mutation: Mutation,
    *,
    bootstrap_servers: str,
    folder: Path,
    protocol: GroupProtocol,
    say: Callable[[str], object] = lambda _: None,
) -> Played:
    """Play the scene until its result is clear."""
    guards = tuple(guard.switch for guard in mutation.guards)

    def found(what: str, *off: Switch) -> Found:
        place = Place(bootstrap_servers, folder / what.replace(" ", "-"), protocol, off)
        audit = mutation.scene(place)
        say(f"{mutation.protection}, {protocol}, {what}: {audit}")
        return found_by(audit)

    return Played(
        as_it_is=found("as it is"),
        guards_alone=found("guards alone", mutation.protection) if guards else None,
        protection_alone=found("protection alone", *guards) if guards else None,
        neither=found("neither", mutation.protection, *guards),
    )


def found_by(audit: Judged) -> Found:
    """Raises AssertionError for an id that was never fed: the scene itself is wrong."""
    assert not audit.unexpected, str(audit)
    return Found(expected=audit.expected, lost=len(audit.lost), duplicated=len(audit.duplicated))


def contradiction(mutation: Mutation, played: Played) -> str | None:
    """The difference to the table; None: there is none."""
    for name in ("as_it_is", "guards_alone", "protection_alone"):
        found: Found | None = getattr(played, name)
        if found is not None and not found.is_exact:
            return f"{name.replace('_', ' ')}: {found}"
    if not getattr(played.neither, mutation.sees):
        return f"nothing was {mutation.sees} without {', '.join(mutation.switches)}: {played.neither}"
    return None

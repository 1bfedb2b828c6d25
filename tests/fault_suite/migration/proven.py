"""Check that every gate of a migration has its evidence, from the server's answers over REST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def gates_of(evidence: Sequence[Json]) -> list[Json]:
    """In the order in which they opened."""
    return [one for one in evidence if one["step"] is None]


def unproven(evidence: Sequence[Json], *, gates: int) -> list[str]:
    """A sentence for each error; none: so many gates have opened, and all are proven.

    Every condition of a gate is open. For every id there is a journal's record, and a live task that reports it, or our
    own fence.
    """
    opened = gates_of(evidence)
    found = [] if len(opened) == gates else [f"{len(opened)} gates have opened, not {gates}"]
    if opened and opened[-1]["sentence"] != "done":
        found.append(f"the last gate says {opened[-1]['sentence']}")
    for gate in opened:
        name = f"{gate['stage']}, {gate['sentence']}"
        if not gate["clauses"]:
            found.append(f"{name}: no condition")
        if not gate["proofs"]:
            found.append(f"{name}: no id")
        found += [f"{name}: {one['name']} is {one['standing']}" for one in gate["clauses"] if one["standing"] != "open"]
        found += [f"{name}: {sentence}" for proof in gate["proofs"] if (sentence := _missing(proof)) is not None]
    return found


def _missing(proof: Json) -> str | None:
    name = f"{proof['transactional_id']} at epoch {proof['producer_epoch']}"
    if proof["offset"] < 0 or proof["journal_at"] is None:
        return f"{name} has no record of the journal"
    if proof["pid"] is None and proof["fenced_in"] is None:
        return f"{name} is of no live task, and not fenced by us"
    return None

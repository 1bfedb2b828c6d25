"""The tables of `fenceline mappings`: owners of partitions over time, and the registry of ids."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.core.ids.registry import Orphan
from app.core.mappings.mapping import PartitionMapping, PartitionOwner, PartitionOwnership
from app.kit import words
from app.kit.cli.client import as_record
from app.kit.cli.output import ago, table
from app.kit.words import number

_WORDS = {
    Orphan.NO_PIPELINE: "no pipeline owns it",
    Orphan.NO_TASK: "no task of its pipeline uses it",
    Orphan.NO_MAPPING: "no partition is read under it",
}


def mappings(items: list[Any]) -> RenderableType:
    """Return the table of every mapped partition with its owner."""
    found = (as_record(item, PartitionMapping) for item in items)
    return table(
        ("PIPELINE", "PARTITION", "TRANSACTIONAL ID", "ASSIGNED", "OWNER", "PRODUCER:EPOCH", "GENERATION#", "SINCE"),
        (
            (
                one.pipeline,
                f"{one.topic}-{one.partition}",
                one.transactional_id,
                _assigned(one),
                None if one.owner is None else _who(one.owner),
                _producer(one.producer_id, one.epoch),
                number(one.generation),
                ago(one.since),
            )
            for one in found
        ),
        empty="No partition is mapped yet; the first run maps them.",
    )


def registry(found: Any) -> RenderableType:
    """Return the table of the registry's ids, with their totals and problems."""
    tally = found["tally"]
    head = Text(
        f"{number(tally['ids'])} ids on the brokers: {number(tally['ours'])} managed, "
        f"{number(tally['foreign'])} foreign, {number(tally['archived'])} archived, "
        f"{number(tally['orphaned'])} orphaned; "
        f"{number(tally['unseen'])} owned, not on the brokers",
        style="bold",
    )
    parts: list[RenderableType] = [head]
    if tally["contested"]:
        parts.append(Text(f"{number(tally['contested'])} used by another client than its owner", style="bold red"))
    parts += [
        table(
            ("TRANSACTIONAL ID", "OWNER", "STATE", "CHANGED", "EXPIRES", "NOTE"),
            (
                (
                    one["transactional_id"],
                    _whose(one),
                    one["state"],
                    ago(_at(one["changed_at"])),
                    _until(_at(one["expires_at"])),
                    _said_of(one),
                )
                for one in found["items"]
            ),
            empty="No id matches.",
        )
    ]
    if found["matching"] > len(found["items"]):
        parts.append(Text(f"{number(found['matching'])} in all: --limit, or a part of the id", style="dim"))
    if found["expiration_problem"]:
        parts.append(Text(f"expiry not known: {found['expiration_problem']}", style="yellow"))
    parts += [
        Text(
            f"{one['topic']}-{one['partition']} of {one['group']} is mapped and {one['pipeline']} does not read it",
            style="yellow",
        )
        for one in found["stale"]
    ]
    return Group(*parts)


def import_plan(plan: Any, pipeline: str, *, is_done: bool) -> RenderableType:
    """Return the table of an import: the plan or the result of each line."""
    lines = plan["lines"]
    parts: list[RenderableType] = [
        table(
            ("LINE#", "PARTITION", "TRANSACTIONAL ID", "RESULT"),
            (
                (
                    str(one["number"]),
                    None if one["topic"] is None else f"{one['topic']}-{one['partition']}",
                    one["transactional_id"] or None,
                    _remark(one),
                )
                for one in lines
            ),
            empty="no line",
        ),
        *(Text(f"warning: {warning}", style="yellow") for warning in plan["warnings"]),
    ]
    new = sum(1 for one in lines if not one["is_known"])
    if plan["problems"]:
        said = f"nothing is imported: {len(plan['problems'])} problem{'' if len(plan['problems']) == 1 else 's'}"
    elif is_done:
        said = f"imported {new} of {len(lines)} for {pipeline}; the others were imported before"
    else:
        said = f"would import {new} of {len(lines)} for {pipeline}; add --execute to import"
    return Group(*parts, Text(said, style="bold"))


def _remark(line: Any) -> str:
    said = [*line["problems"], *(f"warning: {warning}" for warning in line["warnings"])]
    return "; ".join(said) or ("imported before" if line["is_known"] else "new")


def stretches(items: list[Any], *, empty: str) -> RenderableType:
    """Return the table of ownership intervals."""
    found = [as_record(item, PartitionOwnership) for item in items]
    now = datetime.now(UTC)
    return table(
        ("PARTITION", "SINCE", "UNTIL", "PIPELINE", "OWNER", "TRANSACTIONAL ID", "PRODUCER:EPOCH", "GENERATION#"),
        (
            (
                f"{one.topic}-{one.partition}",
                written(one.since),
                _end_of(one, now=now),
                one.pipeline,
                _who(one.owner),
                one.transactional_id,
                _producer(one.producer_id, one.epoch),
                number(one.generation),
            )
            for one in found
        ),
        empty=empty,
    )


def _end_of(one: PartitionOwnership, *, now: datetime) -> str:
    until = "now" if one.until is None else written(one.until)
    unheard = one.unheard_since(now)
    return until if unheard is None else f"{until}, last heartbeat {written(unheard)}"


def _who(owner: PartitionOwner) -> str:
    return f"{owner.ordinal}.{owner.task} lease {owner.lease} attempt {owner.attempt} on {owner.host}"


def _whose(one: Any) -> str:
    owner = one["owner"]
    status = "managed" if one["standing"] == "ours" else str(one["standing"])
    return status if owner is None else f"{status}: {owner['pipeline']} ({owner['kind']})"


def _assigned(one: PartitionMapping) -> str | None:
    if one.assigned_id is None:
        return None
    archived = f", archived {ago(one.archived.since)}" if one.archived else ""
    return f"{one.assigned_id} ({one.origin}{archived})"


def _said_of(one: Any) -> str:
    if one["contested"]:
        return str(one["contested"])
    archived = one["owner"] and one["owner"]["archived"]
    if archived:
        by = f" by migration {archived['migration']}" if archived["migration"] else ""
        return f"retired {ago(_at(archived['since']))}{by}"
    return _WORDS[Orphan(one["orphan"])] if one["orphan"] else ""


def _producer(producer_id: int | None, epoch: int | None) -> str | None:
    return None if producer_id is None else f"{producer_id}:{epoch}"


def _at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _until(at: datetime | None) -> str | None:
    if at is None:
        return None
    now = datetime.now(UTC)
    return "due" if at <= now else words.ago(at, now)


def written(at: datetime) -> str:
    """Return a time for display, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

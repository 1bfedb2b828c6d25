"""`transactions` and `groups` from the server's observer, with owners and without reading a journal again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import Client, as_record
from app.kit.cli.output import ago, state, table
from app.kit.words import count, duration, duration_s, number
from app.products.direct.lag import state_text


class ServedOwner(msgspec.Struct, frozen=True, kw_only=True):
    pipeline: str
    kind: str
    ordinal: int | None
    task: int | None


class ServedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The printed fields of REST's answer about an id."""

    transactional_id: str
    owner: ServedOwner | None
    state: str
    is_open: bool
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    open_ms: int | None
    changed_at: datetime | None
    commits: int
    aborts: int

    @property
    def used_by(self) -> str:
        one = self.owner
        if one is None:
            return "foreign"
        return f"{one.pipeline} {one.kind if one.ordinal is None else f'{one.ordinal}.{one.task}'}"


class ServedLag(msgspec.Struct, frozen=True, kw_only=True):
    """The printed fields of a group's lag, and of its partitions'."""

    state: str
    lag_records: int | None
    lag_s: float | None
    lag_is_at_least: bool
    blocked_records: int | None

    @property
    def seconds(self) -> str | None:
        if self.lag_s is None:
            return None
        return f"{'≥ ' if self.lag_is_at_least and self.lag_s else ''}{duration_s(self.lag_s)}"

    @property
    def word(self) -> Text:
        return state_text(self.state)


class ServedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The printed fields of REST's answer about a group."""

    group: str
    kind: str
    state: str
    generation: int
    members: int
    stored_offsets: int
    pending_offsets: int
    rebalanced_at: datetime | None
    lag: ServedLag | None


class ServedReading(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    phase: str
    problem: str
    age_ms: int | None

    @property
    def sentence(self) -> str:
        age = "" if self.age_ms is None else f", {duration(self.age_ms)} old"
        return f"the server's reading of {self.topic} ({self.phase.replace('_', ' ')}{age})" + (
            f"; {self.problem}" if self.problem else ""
        )


class ServedCluster:
    """A registered cluster, by the server. Every refusal is a CommandError."""

    def __init__(self, client: Client, cluster: str) -> None:
        self._client = client
        self._path = f"/clusters/{quote(cluster, safe='')}"

    def list(self, what: str, *, limit: int, **query: str | int | None) -> dict[str, Any]:
        """Return at most `limit` items of a list, with their total and the answer's freshness."""
        found = self._client.get(f"{self._path}/{what}", limit=min(limit, 100), **query)
        items, after = found["items"], found["next_cursor"]
        while after is not None and len(items) < limit:
            page = self._client.get(f"{self._path}/{what}", limit=min(limit - len(items), 100), after=after, **query)
            items, after = items + page["items"], page["next_cursor"]
        return {"matching": found["matching"], "reading": found["reading"], "items": items}

    def one(self, what: str, name: str) -> dict[str, Any]:
        return self._client.get(f"{self._path}/{what}/{quote(name, safe='')}")


def transactions_table(found: dict[str, Any]) -> RenderableType:
    ids = [as_record(item, ServedTransaction) for item in found["items"]]
    shown = table(
        ("TRANSACTIONAL ID", "OWNER", "PRODUCER#", "EPOCH#", "STATE", "OPEN FOR#", "TIMEOUT#", "CHANGED"),
        (
            (
                one.transactional_id,
                one.used_by,
                str(one.producer_id),
                str(one.producer_epoch),
                _state(one),
                None if one.open_ms is None else duration(one.open_ms),
                duration(one.timeout_ms),
                ago(one.changed_at),
            )
            for one in ids
        ),
        empty="No matching transactional id.",
    )
    return Group(shown, _said(len(ids), found, "id"))


def transaction_detail(found: dict[str, Any]) -> RenderableType:
    one = as_record(found, ServedTransaction)
    open_for = "" if one.open_ms is None else f" · open for {duration(one.open_ms)}"
    head = Text.assemble(
        (one.transactional_id, "bold"), "  ", _state(one), f"  producer {one.producer_id} epoch {one.producer_epoch}"
    )
    steps = table(
        ("TIME", "EVENT", "PRODUCER#", "EPOCH#"),
        (
            (
                ago(None if step["at"] is None else datetime.fromisoformat(step["at"])),
                step["kind"].replace("_", " "),
                str(step["producer_id"]),
                str(step["producer_epoch"]),
            )
            for step in found["steps"]
        ),
        empty="No epoch changes are known.",
    )
    did = f"{count(one.commits, 'commit')} and {count(one.aborts, 'abort')} since the observer's start{open_for}"
    return Group(head, Text(f"owner: {one.used_by} · {did}"), steps, _source(found))


def groups_table(found: dict[str, Any]) -> RenderableType:
    groups = [as_record(item, ServedGroup) for item in found["items"]]
    shown = table(
        ("GROUP", "READING", "LAG#", "BEHIND#", "KIND", "STATE", "GENERATION#", "MEMBERS#", "PENDING#", "REBALANCED"),
        (
            (
                one.group,
                None if one.lag is None else one.lag.word,
                None if one.lag is None else number(one.lag.lag_records),
                None if one.lag is None else one.lag.seconds,
                one.kind,
                state(one.state),
                number(one.generation) if one.generation >= 0 else None,
                number(one.members),
                Text(str(one.pending_offsets), style="yellow" if one.pending_offsets else "dim"),
                ago(one.rebalanced_at),
            )
            for one in groups
        ),
        empty="No matching group.",
    )
    return Group(shown, _said(len(groups), found, "group"))


def group_detail(found: dict[str, Any]) -> RenderableType:
    one = as_record(found, ServedGroup)
    generation = f"generation {one.generation}" if one.generation >= 0 else "generation not known"
    head = Text.assemble((one.group, "bold"), "  ", state(one.state), f"  {one.kind} · {generation}")
    offsets = table(
        ("TOPIC", "PARTITION#", "OFFSET#", "STATE", "PRODUCER", "TIME"),
        (
            (
                at["topic"],
                str(at["partition"]),
                number(at["offset"]),
                Text("pending", style="yellow") if at["is_pending"] else Text("committed", style="dim"),
                at["transactional_id"] or (None if at["producer_id"] is None else f"producer {at['producer_id']}"),
                ago(None if at["at"] is None else datetime.fromisoformat(at["at"])),
            )
            for at in found["offsets"]
        ),
        empty=found.get("not_decoded") or "No committed offsets.",
    )
    members = members_table(found["member_list"])
    lag = "" if one.lag is None else f" · lag {number(one.lag.lag_records)}, {one.lag.seconds or 'time not known'}"
    said = Text.assemble(count(one.members, "member"), lag, " · " if one.lag else "", one.lag.word if one.lag else "")
    return Group(head, said, _lag_table(found["lag_partitions"]), members, offsets, _source(found))


def _lag_table(rows: Sequence[dict[str, Any]]) -> RenderableType:
    return table(
        ("TOPIC", "PARTITION#", "READING", "LAG#", "BEHIND#", "COMMITTED#", "LSO#", "END#", "ADVANCED"),
        (
            (
                at["topic"],
                str(at["partition"]),
                (lag := as_record(at, ServedLag)).word,
                number(lag.lag_records),
                lag.seconds,
                number(at["committed"]),
                number(at["last_stable_offset"]),
                number(at["end"]),
                ago(None if at["advanced_at"] is None else datetime.fromisoformat(at["advanced_at"])),
            )
            for at in rows
        ),
        empty="No lag: the group has no committed offsets.",
    )


def members_table(members: Sequence[dict[str, Any]]) -> RenderableType:
    return table(
        ("MEMBER", "CLIENT", "HOST", "ASSIGNED"),
        (
            (
                one["member_id"],
                one["client_id"] or None,
                one["host"] or None,
                ", ".join(f"{at['topic']}-{number}" for at in one["owned"] for number in at["partitions"]) or None,
            )
            for one in members
        ),
        empty="No members.",
    )


def _state(one: ServedTransaction) -> Text:
    return Text(one.state, style="yellow" if one.is_open else "dim")


def _said(shown: int, found: dict[str, Any], noun: str) -> Text:
    reading = as_record(found["reading"], ServedReading)
    return Text(f"{shown} of {count(found['matching'], noun)}, from {reading.sentence}", style="dim")


def _source(found: dict[str, Any]) -> Text:
    return Text(f"from {as_record(found['reading'], ServedReading).sentence}", style="dim")

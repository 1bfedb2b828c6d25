"""Hanging transactions and pending offsets of a cluster, complete or as a part of the list of ids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.hanging.hanging_transaction import HangingTransaction
from app.core.hanging.report import SearchReport
from app.kit.cli.output import ago, table
from app.kit.words import count, moment, number

_ALL_WELL = "No hanging transactions: a coordinator will end each transaction that blocks consumers."


class FoundTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A hanging transaction, from REST or from this command."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transactional_id: str | None
    is_corroborated: bool
    sentence: str
    found_at: datetime | None
    last_written_at: datetime | None
    commands: tuple[str, ...]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A pending offset that new owners of a partition wait for."""

    group: str
    topic: str
    partition: int
    offset: int
    since: datetime | None
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    state: str | None
    times_out_at: datetime | None
    is_hanging: bool
    journal_partition: int


class UnclearRow(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    since: datetime | None
    reason: str


class SearchRow(msgspec.Struct, frozen=True, kw_only=True):
    problem: str
    swept_at: datetime | None
    age_ms: int | None
    sweep_took_ms: int
    partitions: int
    held_back: int
    asked: int
    silent: tuple[str, ...]
    unclear: tuple[UnclearRow, ...]
    unclear_count: int


class HangingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search, by the server or by this command."""

    items: tuple[FoundTransaction, ...]
    pending_offsets: tuple[Waiting, ...]
    pending_problem: str
    search: SearchRow


def answer_of(report: SearchReport, bootstrap_servers: str) -> HangingAnswer:
    """Search once. Pending offsets require a server that follows the groups' journal."""
    return HangingAnswer(
        items=tuple(_found(one, bootstrap_servers) for one in report.hanging),
        pending_offsets=(),
        pending_problem="pending offsets need a server (--cluster), or the name of their group",
        search=SearchRow(
            problem=report.problem,
            swept_at=moment(report.swept_ms),
            age_ms=0,
            sweep_took_ms=report.sweep_took_ms,
            partitions=report.partitions,
            held_back=report.held_back,
            asked=report.asked,
            silent=report.silent,
            unclear=tuple(
                UnclearRow(topic=one.topic, partition=one.partition, since=moment(one.since_ms), reason=one.reason)
                for one in report.unclear
            ),
            unclear_count=report.unclear_count,
        ),
    )


def rendered(found: HangingAnswer) -> RenderableType:
    """Show hanging transactions with their commands, pending offsets, and what is not known."""
    search = found.search
    parts: list[RenderableType] = list(_hanging(found.items))
    if not found.items:
        parts.append(
            Text(_ALL_WELL, style="green") if _is_told(search) else Text("Hanging transactions are not known.")
        )
    if found.pending_offsets:
        parts.append(_offsets(found.pending_offsets))
    parts += [Text(f"{one.topic}-{one.partition}: {one.reason}", style="magenta") for one in search.unclear]
    if search.unclear_count > len(search.unclear):
        parts.append(Text(f"… and {search.unclear_count - len(search.unclear)} more", style="magenta"))
    parts += [Text(one, style="magenta") for one in (search.problem, *search.silent) if one]
    looked = f"{count(search.partitions, 'partition')} checked {ago(search.swept_at)}"
    asked = f"{looked}, {search.held_back:,} blocked, {search.asked:,} examined"
    remark = f"; {found.pending_problem}" if found.pending_problem else ""
    parts.append(Text(f"{asked}{remark}", style="dim"))
    return Group(*parts)


def beside_ids(found: HangingAnswer) -> list[RenderableType]:
    """Show hanging transactions above the list of ids, as they are in no state of their id."""
    parts: list[RenderableType] = []
    if found.items:
        what = count(len(found.items), "hanging transaction")
        parts.append(
            Text(f"{what}: read_committed consumers stay blocked until an operator ends each", style="bold red")
        )
        parts.append(
            table(
                ("PARTITION", "FIRST OFFSET#", "PRODUCER#", "EPOCH#", "TRANSACTIONAL ID", "FOUND"),
                (
                    (
                        f"{one.topic}-{one.partition}",
                        number(one.start_offset),
                        str(one.producer_id),
                        str(one.producer_epoch),
                        one.transactional_id,
                        ago(one.found_at),
                    )
                    for one in found.items
                ),
                empty="",
            )
        )
        parts += [Text(one.commands[0], style="cyan", no_wrap=True, overflow="ignore") for one in found.items]
    elif _is_told(found.search):
        parts.append(Text(_ALL_WELL, style="green"))
    if not _is_told(found.search):
        what = "more" if found.items else "anything"
        parts.append(Text(f"Not known whether {what} hangs: `fenceline stuck` has the reason.", style="magenta"))
    return parts


def _is_told(search: SearchRow) -> bool:
    return search.swept_at is not None and not (search.problem or search.silent or search.unclear)


def _hanging(items: Iterable[FoundTransaction]) -> Iterable[RenderableType]:
    for one in items:
        yield Text(one.sentence, style="bold")
        whose = one.transactional_id or "an id unknown to every coordinator"
        yield Text(
            f"  of {whose}, coordinator epoch {one.coordinator_epoch}, last written {ago(one.last_written_at)}, "
            f"found {ago(one.found_at)}"
        )
        # Never wrapped, for copying.
        yield from (Text(f"  {line}", style="cyan", no_wrap=True, overflow="ignore") for line in one.commands)


def _offsets(waiting: Iterable[Waiting]) -> RenderableType:
    return table(
        ("GROUP", "PARTITION", "OFFSET#", "PENDING SINCE", "PRODUCER#", "BY", "ENDS"),
        (
            (
                one.group,
                f"{one.topic}-{one.partition}",
                number(one.offset),
                ago(one.since),
                str(one.producer_id),
                Text("hangs", style="red") if one.is_hanging else (one.transactional_id or "–"),
                _end_of(one),
            )
            for one in waiting
        ),
        empty="",
    )


def _end_of(one: Waiting) -> str:
    if one.is_hanging:
        return f"never: end it in __consumer_offsets-{one.journal_partition}"
    return "–" if one.times_out_at is None else f"at {one.times_out_at:%H:%M:%S} UTC"


def _found(one: HangingTransaction, bootstrap_servers: str) -> FoundTransaction:
    key = one.key
    return FoundTransaction(
        topic=key.topic,
        partition=key.partition,
        start_offset=key.start_offset,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        coordinator_epoch=one.coordinator_epoch,
        transactional_id=one.transactional_id,
        is_corroborated=one.is_corroborated,
        sentence=one.sentence,
        found_at=moment(one.found_ms),
        last_written_at=moment(one.last_written_ms),
        commands=one.commands(bootstrap_servers),
    )

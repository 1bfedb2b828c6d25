"""`fenceline groups`: every group of a cluster with its committed and pending offsets, from `__consumer_offsets`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.cli.client import CommandError
from app.cli.direct import BootstrapServer, ClientConfig, answered
from app.cli.output import AsJson, Watch, number, present, state, table
from app.cli.transactions.cluster import DirectCluster, Within, now_ms
from app.domain.journals import group_records
from app.domain.journals.live_groups import Committed, GroupKind, LiveGroup, LiveGroups
from app.domain.stuck.wording import count, span
from app.kafka.transactions.journals import catch_up_groups


def groups(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="One group in detail.")] = None,
    *,
    match: Annotated[str, typer.Option(help="Only groups with this in their name.")] = "",
    only_pending: Annotated[
        bool, typer.Option("--pending", help="Only those with offsets that an open transaction has written.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 200,
    timeout: Within = 60.0,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Groups: generation or epoch, state, members, committed offsets and those that are pending."""
    resolved = DirectCluster(bootstrap_server, config).resolved()
    live = LiveGroups()

    def is_wanted(name: str) -> bool:
        return name == group if group is not None else match in name

    def read() -> dict[str, LiveGroup]:
        answered(lambda: catch_up_groups(live, resolved, timeout_s=timeout, is_wanted=is_wanted))
        if group is not None and group not in live.groups:
            raise CommandError(f"there is no group {group} on this cluster ({group_records.TOPIC})")
        return live.groups

    def chosen() -> tuple[list[LiveGroup], int]:
        found = [one for _, one in sorted(read().items()) if one.pending or not only_pending]
        return found[:limit], len(found)

    def data() -> Any:
        if group is not None:
            return {"read_at_ms": now_ms(), **_document(read()[group], is_whole=True)}
        found, matching = chosen()
        return {"read_at_ms": now_ms(), "matching": matching, "items": [_document(one) for one in found]}

    def render() -> RenderableType:
        if group is not None:
            return _detail(read()[group], now_ms())
        found, matching = chosen()
        unread = live.reading.unreadable
        remark = "".join(f"; {count(times, 'record')} not read: {reason}" for reason, times in unread.items())
        said = f"{len(found)} of {count(matching, 'group')}, from {group_records.TOPIC}{remark}"
        return Group(_table(found, now_ms()), Text(said, style="dim"))

    present(data, render, as_json=as_json, watch_it=watch_it)


def _table(found: list[LiveGroup], at_ms: int) -> RenderableType:
    return table(
        ("GROUP", "KIND", "STATE", "GENERATION#", "MEMBERS#", "COMMITTED#", "PENDING#", "LAST REBALANCE"),
        (
            (
                one.group,
                one.kind,
                state(one.state),
                number(one.generation) if one.generation >= 0 else None,
                number(member_count(one)),
                number(len(one.offsets)),
                Text(str(len(one.pending)), style="yellow" if one.pending else "dim"),
                f"{span(at_ms - one.rebalances[-1].at_ms)} ago" if one.rebalances else None,
            )
            for one in found
        ),
        empty="No group: none ever committed here, or all have expired.",
    )


def _detail(one: LiveGroup, at_ms: int) -> RenderableType:
    head = Text.assemble(
        (one.group, "bold"),
        "  ",
        state(one.state),
        f"  {one.kind} · generation {one.generation} · {count(member_count(one), 'member')}",
    )
    offsets = table(
        ("TOPIC", "PARTITION#", "COMMITTED#", "BY", "WHEN", "PENDING#", "PENDING BY"),
        (
            (
                topic,
                str(partition),
                number(committed.commit.offset) if committed else None,
                _producer(committed) if committed else None,
                f"{span(at_ms - committed.commit.commit_ms)} ago" if committed else None,
                number(pending[0].commit.offset) if pending else None,
                ", ".join(_producer(each) or "" for each in pending) or None,
            )
            for topic, partition, committed, pending in _positions(one)
        ),
        empty="It has committed nothing.",
    )
    rebalances = table(
        ("REBALANCE", "GENERATION#", "MEMBERS#"),
        ((f"{span(at_ms - each.at_ms)} ago", str(each.number), str(each.members)) for each in one.rebalances),
        empty="No rebalance is known.",
    )
    return Group(head, offsets, rebalances)


def _positions(one: LiveGroup) -> list[tuple[str, int, Committed | None, list[Committed]]]:
    names = sorted({*one.offsets, *((topic, partition) for topic, partition, _ in one.pending)})
    return [
        (
            topic,
            partition,
            one.offsets.get((topic, partition)),
            [each for at, each in sorted(one.pending.items()) if at[:2] == (topic, partition)],
        )
        for topic, partition in names
    ]


def _producer(committed: Committed) -> str | None:
    return f"{committed.producer_id}:{committed.producer_epoch}" if committed.producer_id >= 0 else None


def member_count(one: LiveGroup) -> int:
    if one.kind is GroupKind.CONSUMER:
        return len(one.members)
    return len(one.classic.members) if one.classic is not None else 0


def _document(one: LiveGroup, *, is_whole: bool = False) -> dict[str, Any]:
    document: dict[str, Any] = {
        "group": one.group,
        "kind": str(one.kind),
        "state": str(one.state),
        "generation": one.generation if one.generation >= 0 else None,
        "members": member_count(one),
        "committed": len(one.offsets),
        "pending": len(one.pending),
    }
    if is_whole:
        document["positions"] = [
            {
                "topic": topic,
                "partition": partition,
                "committed": None if committed is None else _offset(committed),
                "pending": [_offset(each) for each in pending],
            }
            for topic, partition, committed, pending in _positions(one)
        ]
        document["rebalances"] = [
            {"generation": each.number, "members": each.members, "at_ms": each.at_ms} for each in one.rebalances
        ]
    return document


def _offset(committed: Committed) -> dict[str, Any]:
    return {
        "offset": committed.commit.offset,
        "commit_ms": committed.commit.commit_ms,
        "producer_id": committed.producer_id if committed.producer_id >= 0 else None,
        "producer_epoch": committed.producer_epoch if committed.producer_id >= 0 else None,
    }

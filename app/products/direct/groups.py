"""`fenceline groups`: every group of a cluster with its offsets, from its journal, its coordinators, or the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.clusters.partition import Partition
from app.core.journals import group_records
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.lag.report import PartitionLag
from app.core.observing.group_list import GroupSort, in_order, members_of
from app.edges.kafka.cli.cluster import DirectClocks, DirectCluster, Within, now_ms
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, answered
from app.edges.kafka.transactions.journals import ask_group_coordinators, catch_up_groups
from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError
from app.kit.cli.output import AsJson, Watch, present, state, table
from app.kit.errors import BrokerUnreachableError, UnavailableError
from app.kit.words import count, duration, number
from app.products.direct.lag import DirectLag, lag_columns, partition_columns
from app.products.direct.operations import RegisteredCluster, check_named
from app.products.direct.served import ServedCluster, group_detail, groups_table, members_table


class GroupLook:
    """The groups of a cluster as they are now; each call reads only new records of the journal.

    source: of the newest call. remark: what it lacks.
    """

    def __init__(self, cluster: DirectCluster, *, timeout_s: float, is_wanted: Callable[[str], bool]) -> None:
        self._resolved = cluster.resolved()
        self._timeout_s = timeout_s
        self._is_wanted = is_wanted
        self._live = LiveGroups()
        self._clocks = DirectClocks(self._resolved, timeout_s=timeout_s)
        self.source = group_records.TOPIC
        self.remark = ""

    def groups(self) -> dict[str, LiveGroup]:
        try:
            catch_up_groups(self._live, self._resolved, timeout_s=self._timeout_s, is_wanted=self._is_wanted)
        except BrokerUnreachableError:
            raise
        except UnavailableError as error:
            return self._by_coordinators(error)
        unread = self._live.reading.unreadable
        clocks = self._clocks.measured()
        unreadable = (f"{count(times, 'record')} not read: {reason}" for reason, times in unread.items())
        self.remark = "; ".join(filter(None, [*unreadable, self._clocks.remark]))
        return {name: clocks.group_ours(one) for name, one in self._live.groups.items()}

    def _by_coordinators(self, why: UnavailableError) -> dict[str, LiveGroup]:
        told = ask_group_coordinators(self._resolved, timeout_s=self._timeout_s, is_wanted=self._is_wanted)
        if not told.groups and told.missing:
            raise why
        self.source = "ListGroups, the groups' descriptions, OffsetFetch"
        unknown = "rebalances, generations of classic groups and owners of pending offsets are not known"
        self.remark = "; ".join([f"{why.message}; {unknown}", *told.missing])
        return told.groups


def groups(
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="One group in detail.")] = None,
    *,
    match: Annotated[str, typer.Option(help="Only groups whose names contain this text.")] = "",
    only_pending: Annotated[
        bool, typer.Option("--pending", help="Only groups with pending offsets of an open transaction.")
    ] = False,
    sort: Annotated[GroupSort, typer.Option(help="Order: by name, or the greatest lag or the worst state first.")] = (
        GroupSort.NAME
    ),
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of groups.")] = 200,
    timeout: Within = 60.0,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Groups: lag in records and time, generation or epoch, state, members, committed and pending offsets."""
    check_named(bootstrap_server, config, cluster)
    if cluster is not None:
        of_server = ServedCluster(connect(), cluster)
        if group is not None:
            one = partial(of_server.one, "groups", group)
            present(one, group_detail, as_json=as_json, watch_it=watch_it)
            return
        pending = "true" if only_pending else None
        listed = partial(of_server.list, "groups", limit=limit, search=match or None, has_pending=pending, sort=sort)
        present(listed, groups_table, as_json=as_json, watch_it=watch_it)
        return

    def is_wanted(name: str) -> bool:
        return name == group if group is not None else match in name

    named = DirectCluster(bootstrap_server, config)
    look = GroupLook(named, timeout_s=timeout, is_wanted=is_wanted)
    lag = DirectLag(named)

    def read() -> list[LiveGroup]:
        found = answered(look.groups)
        if group is None:
            chosen = {name: one for name, one in found.items() if one.pending or not only_pending}
            lag.sample(list(chosen.values()))
            lags = {name: known for name, one in chosen.items() if (known := lag.of(one)) is not None}
            return in_order(chosen, lags, sort)
        if group not in found:
            raise CommandError(f"the group {group} was not found on this cluster ({look.source})")
        lag.sample([found[group]])
        return [found[group]]

    def remarks() -> str:
        return "; ".join(filter(None, (look.remark, lag.remark)))

    def document(found: list[LiveGroup]) -> Any:
        head = {"source": look.source, "remark": remarks(), "read_at_ms": now_ms()}
        if group is not None:
            return {**head, **_document(found[0], lag, is_whole=True)}
        return {**head, "matching": len(found), "items": [_document(one, lag) for one in found[:limit]]}

    def render(found: list[LiveGroup]) -> RenderableType:
        source = f"from {look.source}{f'; {remarks()}' if remarks() else ''}"
        if group is not None:
            return Group(_detail(found[0], lag, now_ms()), Text(source, style="dim"))
        said = f"{len(found[:limit])} of {count(len(found), 'group')}, {source}"
        return Group(_table(found[:limit], lag, now_ms()), Text(said, style="dim"))

    present(read, render, as_json=as_json, watch_it=watch_it, document=document)


def _table(found: list[LiveGroup], lag: DirectLag, at_ms: int) -> RenderableType:
    return table(
        ("GROUP", "READING", "LAG#", "BEHIND#", "KIND", "STATE", "GENERATION#", "MEMBERS#", "PENDING#", "REBALANCED"),
        (
            (
                one.group,
                *lag_columns(lag, one),
                one.kind,
                state(one.state),
                number(one.generation) if one.generation >= 0 else None,
                number(one.member_count),
                Text(str(len(one.pending)), style="yellow" if one.pending else "dim"),
                f"{duration(at_ms - one.rebalances[-1].at_ms)} ago" if one.rebalances else None,
            )
            for one in found
        ),
        empty="No groups: none has committed here, or all have expired.",
    )


def _detail(one: LiveGroup, lag: DirectLag, at_ms: int) -> RenderableType:
    generation = f"generation {one.generation}" if one.generation >= 0 else "generation not known"
    head = Text.assemble(
        (one.group, "bold"),
        "  ",
        state(one.state),
        f"  {one.kind} · {generation} · {count(one.member_count, 'member')}",
    )
    rows = {row.at: row for row in lag.rows(one)}
    offsets = table(
        (
            *("TOPIC", "PARTITION#", "READING", "LAG#", "BEHIND#", "LSO#", "END#"),
            *("COMMITTED#", "PRODUCER", "TIME", "PENDING#", "PENDING PRODUCER"),
        ),
        (
            (
                topic,
                str(partition),
                *partition_columns(lag, rows, Partition(topic, partition)),
                number(committed.commit.offset) if committed else None,
                _producer(committed) if committed else None,
                f"{duration(at_ms - committed.commit.commit_ms)} ago" if committed and one.is_from_journal else None,
                _pending_offset(pending[0]) if pending else None,
                ", ".join(_producer(each) or "not known" for each in pending) or None,
            )
            for topic, partition, committed, pending in _positions(one)
        ),
        empty=one.not_decoded or "No committed offsets.",
    )
    rebalances = table(
        ("REBALANCED", "GENERATION#", "MEMBERS#"),
        ((f"{duration(at_ms - each.at_ms)} ago", str(each.number), str(each.members)) for each in one.rebalances),
        empty="No rebalance is known.",
    )
    return Group(head, members_table(_members(one)), offsets, rebalances)


def _members(one: LiveGroup) -> list[dict[str, Any]]:
    return [
        {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.host,
            "owned": [{"topic": topic.topic, "partitions": list(topic.partitions)} for topic in member.owned],
        }
        for member in members_of(one)
    ]


def _positions(one: LiveGroup) -> list[tuple[str, int, CommittedOffset | None, list[CommittedOffset]]]:
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


def _pending_offset(pending: CommittedOffset) -> str:
    return number(pending.commit.offset) if pending.commit.offset >= 0 else "not known"


def _producer(committed: CommittedOffset) -> str | None:
    return f"{committed.producer_id}:{committed.producer_epoch}" if committed.producer_id >= 0 else None


def _document(one: LiveGroup, lag: DirectLag, *, is_whole: bool = False) -> dict[str, Any]:
    total = lag.of(one)
    document: dict[str, Any] = {
        "group": one.group,
        "kind": str(one.kind),
        "state": str(one.state),
        "generation": one.generation if one.generation >= 0 else None,
        "members": one.member_count,
        "committed": len(one.offsets),
        "pending": len(one.pending),
        "lag": None if total is None else lag.document(total),
    }
    if is_whole:
        document["member_list"] = _members(one)
        document["not_decoded"] = one.not_decoded
        rows = {row.at: row for row in lag.rows(one)}
        document["positions"] = [
            {
                **_ends(rows.get(Partition(topic, partition)), lag),
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


def _ends(row: PartitionLag | None, lag: DirectLag) -> dict[str, Any]:
    if row is None:
        return {"end": None, "last_stable_offset": None, "lag": None}
    return {"end": row.end, "last_stable_offset": row.last_stable, "lag": lag.document(row)}


def _offset(committed: CommittedOffset) -> dict[str, Any]:
    return {
        "offset": committed.commit.offset if committed.commit.offset >= 0 else None,
        "commit_ms": committed.commit.commit_ms if committed.commit.commit_ms >= 0 else None,
        "producer_id": committed.producer_id if committed.producer_id >= 0 else None,
        "producer_epoch": committed.producer_epoch if committed.producer_id >= 0 else None,
    }

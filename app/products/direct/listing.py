"""`fenceline transactions`: every transactional id of a cluster, from its journal, its coordinators, or the server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.blocked.facts import KnownTransaction
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.journals import transaction_state
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.transaction_list import IdOwnership, TransactionQuery, TransactionSort, counted, select
from app.edges.kafka.cli.cluster import DirectClocks, DirectCluster, Within, as_document, now_ms
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, answered
from app.edges.kafka.transactions.journals import ask_coordinators, catch_up_transactions
from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import AsJson, Watch, ago, present, table
from app.kit.errors import BrokerUnreachableError, UnavailableError
from app.kit.page import MAX_LIMIT
from app.kit.words import count, duration, moment, number
from app.products.direct.hanging import beside_ids
from app.products.direct.operations import DirectOperations, RegisteredCluster, ServerOperations, check_named
from app.products.direct.served import ServedCluster, transaction_detail, transactions_table

_BY_WORD = {status.word: status for status in TransactionStatus}


class TransactionLook:
    """The ids of a cluster as they are now; each call reads only new records of the journal.

    source: of the newest call. remark: what it lacks.
    """

    def __init__(self, cluster: DirectCluster, *, timeout_s: float) -> None:
        self._resolved = cluster.resolved()
        self._timeout_s = timeout_s
        self._live = LiveTransactions()
        self._clocks = DirectClocks(self._resolved, timeout_s=timeout_s)
        self.source = transaction_state.TOPIC
        self.remark = ""

    def ids(self) -> dict[str, LiveTransaction]:
        try:
            catch_up_transactions(self._live, self._resolved, timeout_s=self._timeout_s)
        except BrokerUnreachableError:
            raise
        except UnavailableError as error:
            return self._by_coordinators(error)
        unread = self._live.reading.unreadable
        clocks = self._clocks.measured()
        unreadable = (f"{count(times, 'record')} not read: {reason}" for reason, times in unread.items())
        self.remark = "; ".join(filter(None, [*unreadable, self._clocks.remark]))
        return {name: clocks.ours(one) for name, one in self._live.ids.items()}

    def _by_coordinators(self, why: UnavailableError) -> dict[str, LiveTransaction]:
        known, refused = ask_coordinators(self._resolved, timeout_s=self._timeout_s)
        if not known and refused:
            raise why
        self.source = "ListTransactions, DescribeTransactions"
        clocks = self._clocks.measured()
        unknown = f"{why.message}; ended transactions, their times and earlier epochs are not known"
        self.remark = "; ".join(filter(None, [unknown, *(one.sentence for one in refused), self._clocks.remark]))
        return {name: _as_live(one, clocks) for name, one in known.items()}


def transactions(
    transactional_id: Annotated[str | None, typer.Argument(metavar="ID", help="One id in detail.")] = None,
    *,
    match: Annotated[str, typer.Option(help="Only ids that contain this text.")] = "",
    only_open: Annotated[bool, typer.Option("--open", help="Only ids with an open transaction.")] = False,
    open_for: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Open for at least this time.")] = 0.0,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="A state of Kafka, such as Ongoing.")] = None,
    owner: Annotated[IdOwnership | None, typer.Option(help="With --cluster: only ids of this owner.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="With --cluster: only this pipeline's ids.")] = None,
    hanging: Annotated[
        bool,
        typer.Option(
            "--hanging",
            help="Search for hanging transactions, too; with --cluster the server has them already.",
        ),
    ] = False,
    sort: Annotated[TransactionSort, typer.Option(help="The order.")] = TransactionSort.OLDEST,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of ids.")] = 200,
    timeout: Within = 60.0,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Transactional ids: state, producer and epoch, and open transactions, which come first, the oldest on top."""
    check_named(bootstrap_server, config, cluster)
    if state is not None and state not in _BY_WORD:
        raise CommandError(f"--state {state}: expected one of {', '.join(_BY_WORD)}", code=ExitCode.USAGE)
    if hanging and transactional_id is not None:
        raise CommandError("--hanging is about the whole cluster: omit the ID", code=ExitCode.USAGE)
    if cluster is not None:
        of_server = ServedCluster(connect(), cluster)
        if transactional_id is not None:
            one = partial(of_server.one, "transactional-ids", transactional_id)
            present(one, transaction_detail, as_json=as_json, watch_it=watch_it)
            return
        listed = partial(
            of_server.list,
            "transactions",
            limit=limit,
            search=match or None,
            is_open="true" if only_open else None,
            min_open_s=str(open_for) if open_for else None,
            state=state,
            owner=owner,
            pipeline=pipeline,
            sort=sort,
        )
        hanging_there = ServerOperations(cluster).hanging
        present(
            lambda: (listed(), hanging_there()),
            lambda found: Group(*beside_ids(found[1]), transactions_table(found[0])),
            as_json=as_json,
            watch_it=watch_it,
            document=lambda found: {**found[0], "hanging": as_document(found[1])},
        )
        return
    if owner is not None or pipeline is not None:
        raise CommandError("the owners of ids need the server: name it with --cluster", code=ExitCode.USAGE)
    search = DirectOperations(bootstrap_server, config).hanging if hanging else None
    look = TransactionLook(DirectCluster(bootstrap_server, config), timeout_s=timeout)

    def ids() -> dict[str, LiveTransaction]:
        found = answered(look.ids)
        if transactional_id is not None and transactional_id not in found:
            raise CommandError(f"the transactional id {transactional_id} was not found on this cluster ({look.source})")
        return found

    def chosen() -> tuple[list[LiveTransaction], int]:
        query = TransactionQuery(
            search=match,
            states=frozenset() if state is None else frozenset({state}),
            is_open=True if only_open else None,
            min_open_ms=int(open_for * 1000),
            sort=sort,
        )
        known, found, after = ids(), list[LiveTransaction](), None
        while True:
            at_most = min(limit - len(found), MAX_LIMIT)
            page = select(counted(known), query, ours=(), now_ms=now_ms(), after=after, limit=at_most)
            found += page.items
            after = page.next_cursor
            if after is None or len(found) >= limit:
                return found, page.matching

    def head() -> dict[str, Any]:
        return {"source": look.source, "remark": look.remark, "read_at_ms": now_ms()}

    def source() -> str:
        return f"from {look.source}{f'; {look.remark}' if look.remark else ''}"

    if transactional_id is not None:
        present(
            lambda: ids()[transactional_id],
            lambda found: Group(_detail(found, now_ms()), Text(source(), style="dim")),
            as_json=as_json,
            watch_it=watch_it,
            document=lambda found: {**head(), **_document(found, is_whole=True)},
        )
        return

    def document(found: tuple[list[LiveTransaction], int]) -> Any:
        items = {"matching": found[1], "items": [_document(one) for one in found[0]]}
        return {**head(), **items, "hanging": None if search is None else as_document(search())}

    def render(found: tuple[list[LiveTransaction], int]) -> RenderableType:
        said = f"{len(found[0])} of {count(found[1], 'id')}, {source()}"
        unsearched = "; --hanging finds hanging transactions" if search is None else ""
        above = [] if search is None else beside_ids(search())
        return Group(*above, _table(found[0], now_ms()), Text(f"{said}{unsearched}", style="dim"))

    present(chosen, render, as_json=as_json, watch_it=watch_it, document=document)


def _table(found: Sequence[LiveTransaction], at_ms: int) -> RenderableType:
    return table(
        ("TRANSACTIONAL ID", "PRODUCER#", "EPOCH#", "STATE", "OPEN FOR#", "TIMEOUT#", "PARTITIONS#", "CHANGED"),
        (
            (
                one.transactional_id,
                str(one.state.producer_id),
                str(one.state.producer_epoch),
                Text(one.state.status.word, style="yellow" if one.is_open else "dim"),
                duration(at_ms - one.state.start_ms) if one.is_open else None,
                duration(one.state.timeout_ms),
                number(len(one.state.partition_names)),
                ago(moment(one.state.last_update_ms), now=moment(at_ms)),
            )
            for one in found
        ),
        empty="No transactional ids: none was used here, or all have expired.",
    )


def _detail(one: LiveTransaction, at_ms: int) -> RenderableType:
    state = one.state
    head = Text.assemble(
        (one.transactional_id, "bold"),
        f"  {state.status.word}  producer {state.producer_id} epoch {state.producer_epoch} · "
        f"{one.client_protocol} · timeout {duration(state.timeout_ms)} · "
        f"changed {ago(moment(state.last_update_ms), now=moment(at_ms))}",
    )
    lines: list[RenderableType] = [head]
    if one.is_open:
        lines.append(Text(f"open for {duration(at_ms - state.start_ms)} in {', '.join(state.partition_names)}"))
    lines.append(
        Text(f"{count(one.commits, 'commit')} and {count(one.aborts, 'abort')} since the start of the journal")
    )
    lines.append(
        table(
            ("TIME", "EVENT", "PRODUCER#", "EPOCH#"),
            (
                (
                    ago(moment(step.at_ms), now=moment(at_ms)),
                    step.kind.replace("_", " "),
                    str(step.producer_id),
                    str(step.producer_epoch),
                )
                for step in one.steps
            ),
            empty="No epoch changes are known.",
        )
    )
    if one.steps_dropped:
        lines.append(Text(f"{count(one.steps_dropped, 'older change')} not kept", style="dim"))
    return Group(*lines)


def _document(one: LiveTransaction, *, is_whole: bool = False) -> dict[str, Any]:
    state = one.state
    document: dict[str, Any] = {
        "transactional_id": one.transactional_id,
        "state": state.status.word,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.timeout_ms,
        "start_ms": state.start_ms if one.is_open else None,
        "last_update_ms": state.last_update_ms if state.last_update_ms >= 0 else None,
        "client_protocol": str(one.client_protocol),
        "partitions": state.partition_names,
        "commits": one.commits,
        "aborts": one.aborts,
    }
    if is_whole:
        document["steps"] = [
            {
                "kind": str(step.kind),
                "producer_id": step.producer_id,
                "producer_epoch": step.producer_epoch,
                "at_ms": step.at_ms,
            }
            for step in one.steps
        ]
    return document


def _as_live(known: KnownTransaction, clocks: BrokerClocks) -> LiveTransaction:
    """An id without a history, from admin calls, with its start by the local clock."""
    clock = clocks.offsets.get(known.coordinator_id)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(known.partitions):
        by_topic.setdefault(topic, []).append(partition)
    state = TransactionState(
        known.producer_id,
        known.producer_epoch,
        known.timeout_ms,
        _BY_WORD.get(known.state, TransactionStatus.DEAD),
        tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items()),
        start_ms=known.start_ms if clock is None or known.start_ms < 0 else clock.ours(known.start_ms),
    )
    return LiveTransaction(known.transactional_id, state, -1, -1)

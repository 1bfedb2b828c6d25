"""`fenceline fencing`: the causes of fencing events, from the server or from a cluster's own journal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Protocol

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.fencing.cases import joined
from app.core.fencing.cause import judge_case
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingEvent, FencingKind
from app.core.fencing.record import FencingPlace, place_of
from app.core.fencing.runbook import runbook
from app.core.fencing.steps import cases_of
from app.core.fencing.story import Moment, story_of
from app.core.journals import transaction_state
from app.core.journals.live_transactions import LiveTransactions
from app.edges.kafka.cli.cluster import DirectCluster, Within, as_document
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, answered
from app.edges.kafka.transactions.journals import catch_up_transactions
from app.kit.cli.client import Client, as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import names_of
from app.kit.cli.output import AsJson, Watch, ago, present, table
from app.kit.words import count

_STYLES = {Confidence.CERTAIN: "", Confidence.LIKELY: "yellow", Confidence.OPEN: "magenta"}


class ToldEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event from either source. moments, runbook: only in the details of one id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: FencingKind
    cause: FencingCause
    is_fencing: bool
    confidence: Confidence
    at: datetime
    sentence: str
    alternatives: tuple[FencingCause, ...]
    place: FencingPlace
    id: str | None = None
    cluster: str | None = None
    moments: tuple[Moment, ...] = ()
    runbook: tuple[str, ...] = ()


class EventSelection(msgspec.Struct, frozen=True, kw_only=True):
    transactional_id: str | None
    cause: FencingCause | None
    hours: float | None
    with_what_is_none: bool
    limit: int

    def since(self) -> datetime | None:
        return None if self.hours is None else datetime.now(UTC) - timedelta(hours=self.hours)


class EventSource(Protocol):
    """source: a short name of the source. remark: what it lacks; empty when complete."""

    source: str
    remark: str

    def events(self, wanted: EventSelection) -> list[ToldEvent]:
        """Return the events, newest first."""
        ...


class OfServer:
    """The server's events, with owners, client reports and commands."""

    source = "the server"
    remark = ""

    def __init__(self, client: Client, *, cluster: str | None, pipeline: str | None, group: str | None) -> None:
        self._client = client
        self._cluster = cluster
        self._pipeline = pipeline
        self._group = group

    def events(self, wanted: EventSelection) -> list[ToldEvent]:
        since = wanted.since()
        found = self._client.items(
            "/fencing",
            limit=wanted.limit,
            cluster=self._cluster,
            pipeline=self._pipeline,
            group=self._group,
            transactional_id=wanted.transactional_id,
            cause=wanted.cause,
            since=None if since is None else since.isoformat(),
            with_what_is_none="true" if wanted.with_what_is_none else None,
        )
        if wanted.transactional_id is not None:
            found = (self._client.get(f"/fencing/{item['id']}") for item in list(found))
        return [as_record(item, ToldEvent) for item in found]


class OfJournal:
    """Events from a cluster's journals, read by this command; each call reads only new records."""

    source = transaction_state.TOPIC

    def __init__(self, cluster: DirectCluster, *, timeout_s: float) -> None:
        self._resolved = cluster.resolved()
        self._timeout_s = timeout_s
        self._live = LiveTransactions()
        self.remark = ""

    def events(self, wanted: EventSelection) -> list[ToldEvent]:
        answered(lambda: catch_up_transactions(self._live, self._resolved, timeout_s=self._timeout_s))
        unread = self._live.reading.unreadable
        self.remark = "; ".join(
            [
                "client reports and commands are known to a Fenceline server only",
                *(f"{count(times, 'record')} not read: {reason}" for reason, times in unread.items()),
            ]
        )
        since = wanted.since()
        events = (
            event
            for name, live in self._live.ids.items()
            if wanted.transactional_id in (None, name)
            for case in joined(cases_of(live, kafka_cluster_id=""))
            if (event := judge_case(case)) is not None
        )
        found = [
            event
            for event in events
            if wanted.cause in (None, event.verdict.cause)
            and (event.verdict.cause.is_fencing or wanted.with_what_is_none or wanted.cause is not None)
            and (since is None or event.at >= since)
        ]
        found.sort(key=lambda event: (-event.verdict.at_ms, msgspec.structs.astuple(event.key)))
        is_whole = wanted.transactional_id is not None
        return [_told(event, is_whole=is_whole) for event in found[: wanted.limit]]


def _told(event: FencingEvent, *, is_whole: bool) -> ToldEvent:
    key, verdict = event.key, event.verdict
    return ToldEvent(
        transactional_id=key.transactional_id,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        kind=key.kind,
        cause=verdict.cause,
        is_fencing=verdict.cause.is_fencing,
        confidence=verdict.confidence,
        at=event.at,
        sentence=verdict.sentence,
        alternatives=verdict.alternatives,
        place=place_of(event, FencingPlace()),
        moments=story_of(event).moments if is_whole else (),
        runbook=runbook(verdict.cause) if is_whole else (),
    )


def fencing(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The events of one transactional id, with their evidence.")
    ] = None,
    *,
    cause: Annotated[FencingCause | None, typer.Option(help="Only this cause, even if it is not fencing.")] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only of this pipeline.", autocompletion=names_of("pipelines"))
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Only of this group's members; with --cluster also of ids that commit its offsets."),
    ] = None,
    hours: Annotated[float | None, typer.Option(min=0, help="Only the last hours.")] = None,
    with_what_is_none: Annotated[bool, typer.Option("--all", help="Also events that are not fencing.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events.")] = 50,
    timeout: Within = 60.0,
    cluster: Annotated[
        str | None,
        typer.Option(help="Only of this registered cluster.", autocompletion=names_of("clusters")),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Fencing events with their causes, confidence and evidence, newest first."""
    source: EventSource
    if bootstrap_server is None:
        if config:
            raise CommandError("--config goes with --bootstrap-server", code=ExitCode.USAGE)
        source = OfServer(connect(), cluster=cluster, pipeline=pipeline, group=group)
    else:
        if any(one is not None for one in (cluster, pipeline, group)):
            raise CommandError(
                "--cluster, --pipeline and --group need the server: omit --bootstrap-server", code=ExitCode.USAGE
            )
        source = OfJournal(DirectCluster(bootstrap_server, config), timeout_s=timeout)
    wanted = EventSelection(
        transactional_id=transactional_id, cause=cause, hours=hours, with_what_is_none=with_what_is_none, limit=limit
    )

    def document(found: Sequence[ToldEvent]) -> Any:
        return {"source": source.source, "remark": source.remark, "items": as_document(found)}

    def render(found: Sequence[ToldEvent]) -> RenderableType:
        remark = f"; {source.remark}" if source.remark else ""
        said = Text(f"{count(len(found), 'event')}, from {source.source}{remark}", style="dim")
        shown = _table(found) if transactional_id is None or not found else _details(found)
        return Group(shown, said)

    present(lambda: source.events(wanted), render, as_json=as_json, watch_it=watch_it, document=document)


def _table(found: Sequence[ToldEvent]) -> RenderableType:
    return table(
        ("TIME", "CAUSE", "CONFIDENCE", "TRANSACTIONAL ID", "PRODUCER#", "EPOCH#", "PIPELINE", "EVENT"),
        (
            (
                ago(one.at),
                _cause(one),
                Text(one.confidence, style=_STYLES[one.confidence]),
                one.transactional_id or None,
                str(one.producer_id),
                str(one.producer_epoch),
                one.place.pipeline,
                one.sentence,
            )
            for one in found
        ),
        empty="No fencing events.",
    )


def _details(found: Sequence[ToldEvent]) -> RenderableType:
    return Group(*itertools.chain.from_iterable(_detail(one) for one in found))


def _detail(one: ToldEvent) -> list[RenderableType]:
    others = f"; alternatives: {', '.join(_words(other) for other in one.alternatives)}" if one.alternatives else ""
    head = Text.assemble(
        _cause(one), f"  {one.at:%Y-%m-%d %H:%M:%S} UTC  ", (f"{one.confidence}{others}", _STYLES[one.confidence])
    )
    lines: list[RenderableType] = [head, Text(f"  {one.sentence}", style="bold")]
    at_ms = one.at.timestamp() * 1000
    lines += [
        Text.assemble(
            f"  {(moment.at_ms - at_ms) / 1000:+.3f} s  {moment.side}  {moment.what}  ", (moment.source, "dim")
        )
        for moment in one.moments
    ]
    lines += [Text(f"  {number}. {step.replace('`', '')}") for number, step in enumerate(one.runbook, 1)]
    return lines


def _cause(one: ToldEvent) -> Text:
    return Text(_words(one.cause), style="red" if one.is_fencing else "dim")


def _words(cause: FencingCause) -> str:
    return cause.replace("_", " ")

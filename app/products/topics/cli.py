"""`fenceline topics`: the topics of a cluster, and their records with the outcome of each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.clusters.brokers import AskIds, Connection
from app.core.journals.log_content import Content
from app.core.journals.log_entries import EntryState
from app.core.journals.log_look import Landmark, parse_start, start_text
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, ask, connection_of
from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import names_of
from app.kit.cli.output import AsJson, ago, json_text, present, table
from app.kit.errors import InvalidError
from app.kit.page import MAX_LIMIT
from app.kit.words import count, moment, number, size
from app.products.topics.browsing import TopicRecord
from app.products.topics.record_filter import filter_of
from app.products.topics.service import records as records_service
from app.products.topics.service import topics as topics_service
from app.products.topics.service.records import DOWNLOAD_RECORDS, RecordPage, RecordQuery
from app.products.topics.service.topics import TopicDetail, TopicLine, TopicPage
from app.products.topics.topic_list import TopicQuery, TopicSort

if TYPE_CHECKING:
    from app.edges.kafka.admin import KafkaBrokers

app = typer.Typer(help="Topics: settings, sizes, readers and writers; their records.", no_args_is_help=True)

RegisteredCluster = Annotated[
    str | None,
    typer.Option(help="Ask the server, about a registered cluster.", autocompletion=names_of("clusters")),
]
_STYLES = {
    EntryState.PLAIN: "",
    EntryState.OPEN: "yellow",
    EntryState.COMMITTED: "green",
    EntryState.ABORTED: "red",
    EntryState.UNKNOWN: "magenta",
}
_TIMEOUT_S = 10.0
# Reading the transaction journal of a large cluster takes a while.
_IDS_TIMEOUT_S = 60.0


@app.command("list")
def list_topics(
    *,
    search: Annotated[str, typer.Option(help="A part of the name; case is ignored.")] = "",
    internal: Annotated[bool, typer.Option("--internal", help="Include topics of the brokers themselves.")] = False,
    sort: TopicSort = TopicSort.NAME,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="The number of topics.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="`next_cursor` of the previous page.")] = None,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
) -> None:
    """Topics with settings, sizes and advice; with --cluster also readers and writers."""
    connection = _connection(bootstrap_server, config, cluster)
    if cluster is not None:
        flags = {"internal": "true"} if internal else {}
        found = connect().get(_path(cluster), search=search or None, sort=sort, limit=limit, after=after, **flags)
        page = as_record(found, TopicPage)
    else:

        async def question(brokers: KafkaBrokers) -> TopicPage:
            return await topics_service.list_topics(
                brokers,
                connection,
                TopicQuery(search=search, with_internal=internal, sort=sort),
                listed=await brokers.list_topics(connection, timeout_s=_TIMEOUT_S),
                usages=None,
                after=after,
                limit=limit,
                timeout_s=_TIMEOUT_S,
            )

        page = ask(question)
    present(lambda: page, _topics_table, as_json=as_json, document=msgspec.to_builtins)


@app.command()
def show(
    topic: str,
    *,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
) -> None:
    """One topic: settings with advice, partitions; with --cluster also readers and writers."""
    connection = _connection(bootstrap_server, config, cluster)
    if cluster is not None:
        found = as_record(connect().get(_path(cluster, topic)), TopicDetail)
    else:
        found = ask(
            lambda brokers: topics_service.get_topic(
                brokers,
                connection,
                topic,
                usages=None,
                ask_ids=_ask_ids(brokers, connection),
                timeout_s=_TIMEOUT_S,
            )
        )
    present(lambda: found, _topic, as_json=as_json, document=msgspec.to_builtins)


@app.command()
def records(
    topic: str,
    partition: Annotated[int | None, typer.Argument(min=0, help="Without it, all partitions, merged by time.")] = None,
    *,
    start: Annotated[
        str,
        typer.Option("--from", metavar="OFFSET|TIME", help="An offset, start, lso, end, a time with its zone, or 15m."),
    ] = Landmark.END.value,
    key: Annotated[str, typer.Option(help="A part of the key, or `id = 42` for a field of JSON.")] = "",
    value: Annotated[str, typer.Option(help="A part of the value, or `customer.id = 42`.")] = "",
    header: Annotated[str, typer.Option(help="A part of a header's name or value, or `name = value`.")] = "",
    state: Annotated[str, typer.Option(help="plain, open, committed, aborted or unknown.")] = "",
    limit: Annotated[
        int, typer.Option(min=1, max=DOWNLOAD_RECORDS, help="The most records; more than 500 with --lines only.")
    ] = 50,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="`next_cursor` of the previous answer.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Print JSON lines, contents whole, at most 32 MB.")] = False,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
) -> None:
    """Records with their outcomes: open, committed, aborted. With --cluster, a row of the command log has each view."""
    if lines and as_json:
        raise CommandError("--json is one document, --lines has one for each record", code=ExitCode.USAGE)
    if limit > MAX_LIMIT and not lines:
        raise CommandError(f"--limit is at most {MAX_LIMIT} without --lines", code=ExitCode.USAGE)
    connection = _connection(bootstrap_server, config, cluster)
    try:
        query = RecordQuery(
            topic=topic,
            partition=partition,
            start=parse_start(start, now=datetime.now(UTC)),
            wanted=filter_of(key=key, value=value, header=header, state=state),
            limit=limit,
            after=after,
        )
    except InvalidError as error:
        raise CommandError(f"--{error.field}: {error.message}", code=ExitCode.USAGE) from error
    if lines:
        for line in _lines(cluster, connection, query):
            sys.stdout.write(line)
        return
    if cluster is not None:
        found = as_record(connect().get(_path(cluster, topic, "records"), **_parameters(query)), RecordPage)
    else:
        found = ask(
            lambda brokers: records_service.browse(
                brokers, connection, query, ask_ids=_ask_ids(brokers, connection), timeout_s=_TIMEOUT_S
            )
        )
    present(lambda: found, _records, as_json=as_json, document=msgspec.to_builtins)


def _lines(cluster: str | None, connection: Connection, query: RecordQuery) -> Iterator[str]:
    if cluster is not None:
        path = _path(cluster, query.topic, "records", "download")
        for line in connect().lines(path, **_parameters(query)):
            yield json_text(msgspec.json.decode(line)) + "\n"
        return

    async def question(brokers: KafkaBrokers) -> list[str]:
        asked = _ask_ids(brokers, connection)
        parts = records_service.download(brokers, connection, query, ask_ids=asked, timeout_s=_TIMEOUT_S)
        return [json_text(msgspec.to_builtins(one)) + "\n" async for part in parts for one in part]

    yield from ask(question)


def _connection(bootstrap_server: str | None, config: list[str] | None, cluster: str | None) -> Connection:
    if (bootstrap_server is None) == (cluster is None):
        raise CommandError(
            "name the cluster: --bootstrap-server HOST:PORT asks its brokers, --cluster NAME asks the server",
            code=ExitCode.USAGE,
        )
    if cluster is not None and config:
        raise CommandError("--config goes with --bootstrap-server", code=ExitCode.USAGE)
    return {} if bootstrap_server is None else connection_of(bootstrap_server, config)


def _path(cluster: str, *parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in ("clusters", cluster, "topics", *parts))


def _parameters(query: RecordQuery) -> dict[str, str | int | None]:
    return {
        "partition": query.partition,
        "from": start_text(query.start),
        "key": query.wanted.key or None,
        "value": query.wanted.value or None,
        "header": query.wanted.header or None,
        "state": query.wanted.state,
        "limit": query.limit,
        "after": query.after,
    }


def _ask_ids(brokers: KafkaBrokers, connection: Connection) -> AskIds:
    return lambda wanted: brokers.read_transactional_ids(connection, wanted, timeout_s=_IDS_TIMEOUT_S)


def _topics_table(page: TopicPage) -> RenderableType:
    columns = ("TOPIC", "PARTITIONS#", "REPLICAS#", "SIZE#", "CLEANUP", "MIN ISR#", "READERS#", "WRITERS#", "REVIEW#")
    shown = table(columns, (_row(one) for one in page.items), empty="No matching topic.")
    hidden = f"; {count(page.internal, 'internal topic')} hidden (--internal)" if page.internal else ""
    more = f"; more: --after {page.next_cursor}" if page.next_cursor else ""
    return Group(
        shown, Text(f"{len(page.items)} of {count(page.matching, 'topic')}{hidden}{more}", style="dim", no_wrap=True)
    )


def _row(one: TopicLine) -> tuple[RenderableType | str | None, ...]:
    settings = one.settings or {}
    usage = one.usage
    return (
        one.name,
        number(one.partition_count),
        number(one.replication_factor),
        "unknown" if one.size_bytes is None else size(one.size_bytes),
        settings.get("cleanup.policy"),
        settings.get("min.insync.replicas"),
        None if usage is None else number(len(usage.groups) + len(usage.readers)),
        None if usage is None else number(len(usage.ids) + len(usage.writers)),
        Text(str(len(one.advice)), style="yellow") if one.advice else None,
    )


def _topic(found: TopicDetail) -> RenderableType:
    line = found.topic
    head = Text.assemble((line.name, "bold"), f"  {count(line.partition_count, 'partition')}")
    parts: list[RenderableType] = [head, *(Text(_plain(one), style="yellow") for one in line.advice)]
    if line.usage is not None:
        rows: list[tuple[str, str, str]] = [("reads", "pipeline", name) for name in line.usage.readers]
        rows += [("reads", "group", one.group) for one in line.usage.groups]
        rows += [("writes", "pipeline", name) for name in line.usage.writers]
        rows += [("writes", "open transaction", one.transactional_id) for one in line.usage.ids]
        parts.append(table(("USE", "KIND", "NAME"), rows, empty="No readers and writers found."))
    settings = sorted((line.settings or {}).items())
    parts.append(table(("SETTING", "VALUE"), settings, empty="The settings may not be read."))
    parts.append(
        table(
            ("PARTITION#", "LEADER#", "IN SYNC", "FIRST#", "LSO#", "HIGH WATERMARK#", "SIZE#"),
            (
                (
                    str(one.state.number),
                    None if one.state.leader is None else str(one.state.leader),
                    f"{len(one.state.in_sync)} of {len(one.state.replicas)}",
                    *(
                        (one.problem, None, None)
                        if one.offsets is None
                        else map(str, (one.offsets.earliest, one.offsets.last_stable, one.offsets.high_watermark))
                    ),
                    "unknown" if one.state.size_bytes is None else size(one.state.size_bytes),
                )
                for one in found.partitions
            ),
            empty="No partitions.",
        )
    )
    parts.append(
        table(
            ("PRODUCER#", "EPOCH#", "PARTITIONS#", "LAST WRITE", "TRANSACTIONAL ID"),
            (
                (
                    str(one.producer.producer_id),
                    str(one.producer.producer_epoch),
                    str(one.producer.partitions),
                    ago(moment(one.producer.last_ms)),
                    one.transactional_id,
                )
                for one in found.producers
            ),
            empty="No idempotent producer has written lately.",
        )
    )
    parts += [Text(_plain(note), style="yellow") for note in found.notes]
    if line.size_note:
        parts.append(Text(f"sizes: {line.size_note}", style="dim"))
    return Group(*parts)


def _plain(sentence: str) -> str:
    return sentence.replace("`", "")


def _records(found: RecordPage) -> RenderableType:
    shown = table(
        ("PARTITION#", "OFFSET#", "TIME", "STATE", "KEY", "VALUE", "HEADERS", "TRANSACTIONAL ID"),
        (_record(one) for one in found.records),
        empty="No matching records." if found.read else "No records from there on.",
    )
    notes = [Text(_plain(note), style="yellow") for note in found.notes]
    more = f"; {'newer' if found.is_at_end else 'more'}: --after {found.next_cursor}"
    return Group(shown, *notes, Text(f"{found.summary}{more}", style="dim", no_wrap=True, overflow="ignore"))


def _record(one: TopicRecord) -> tuple[RenderableType | str | None, ...]:
    at = moment(one.timestamp_ms)
    return (
        str(one.partition),
        str(one.offset),
        None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        Text(one.state, style=_STYLES.get(one.state, "")),
        _shown(one.key),
        _shown(one.value),
        "  ".join(f"{header.name}: {_shown(header.value)}" for header in one.headers) or None,
        one.transactional_id,
    )


def _shown(content: Content | None) -> str:
    if content is None:
        return "null"
    kind = "base64:" if content.is_base64 else ""
    return f"{kind}{content.text}{f'… ({content.size_bytes} bytes)' if content.is_cut else ''}"

"""`fenceline log`: a partition's raw batches, as `kafka-dump-log.sh` shows them on a broker's disk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from app.core.journals.log_content import Content
from app.core.journals.log_entries import EntryState, LogEntry
from app.core.journals.log_look import Landmark, parse_start, start_text
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, ask, connection_of
from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import names_of
from app.kit.cli.output import AsJson, console, print_json, say, table
from app.kit.errors import InvalidError
from app.kit.page import MAX_LIMIT
from app.kit.words import number
from app.products.partition_log.service import PartitionLog, look_into_log

_TIMEOUT_S = 10.0
# Reading the transaction journal of a large cluster takes a while.
_IDS_TIMEOUT_S = 60.0
_STYLES = {
    EntryState.PLAIN: "",
    EntryState.OPEN: "yellow",
    EntryState.COMMITTED: "green",
    EntryState.ABORTED: "red",
    EntryState.UNKNOWN: "magenta",
    EntryState.MARKER: "dim",
    EntryState.UNREADABLE: "bold red",
}


def log(
    topic: str,
    partition: Annotated[int, typer.Argument(min=0)],
    *,
    start: Annotated[
        str,
        typer.Option("--from", metavar="OFFSET|TIME", help="An offset, start, lso, end, or a time, or 15m."),
    ] = Landmark.END.value,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="The number of batches.")] = 50,
    keys: Annotated[bool, typer.Option("--keys", help="Show the keys of the records.")] = False,
    values: Annotated[
        bool, typer.Option("--values", help="Show the values of the records, and their headers.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Ask the server, about a registered cluster.", autocompletion=names_of("clusters")),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Raw batches of a partition: producers, epochs, markers; what is open, committed and aborted."""
    try:
        begin = parse_start(start, now=datetime.now(UTC))
    except InvalidError as error:
        raise CommandError(f"--from: {error.message}", code=ExitCode.USAGE) from error
    if (bootstrap_server is None) == (cluster is None):
        raise CommandError(
            "name the cluster: --bootstrap-server HOST:PORT asks its brokers, --cluster NAME asks the server",
            code=ExitCode.USAGE,
        )
    if cluster is not None:
        if config:
            raise CommandError("--config goes with --bootstrap-server", code=ExitCode.USAGE)
        path = "/".join(quote(part, safe="") for part in ("clusters", cluster, "topics", topic))
        flags = {name: "true" for name, is_wanted in (("keys", keys), ("values", values)) if is_wanted}
        query = {"from": start_text(begin), "limit": limit, **flags}
        found = as_record(connect().get(f"/{path}/partitions/{partition}/log", **query), PartitionLog)
    else:
        connection = connection_of(bootstrap_server or "", config)
        found = ask(
            lambda brokers: look_into_log(
                brokers,
                connection,
                ask_ids=lambda wanted: brokers.read_transactional_ids(connection, wanted, timeout_s=_IDS_TIMEOUT_S),
                topic=topic,
                partition=partition,
                start=begin,
                limit=limit,
                keys=keys,
                values=values,
                timeout_s=_TIMEOUT_S,
            )
        )
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    say(_summary(found))
    console.print(
        table(
            ("OFFSET#", "STATE", "PRODUCER#", "EPOCH#", "SEQUENCE#", "RECORDS#", "TRANSACTIONAL ID", "DETAILS"),
            (row for entry in found.entries for row in _rows(entry)),
            empty="No batches from there on." if found.bounds.high_watermark else "The partition is empty.",
        )
    )
    if found.ids_note is not None:
        say(found.ids_note)
    if not found.is_at_end:
        say(f"more: --from {found.next_offset}")


def _summary(found: PartitionLog) -> str:
    bounds = found.bounds
    name = f"{found.topic}-{found.partition}"
    if bounds.first_offset == bounds.high_watermark:
        return f"{name} is empty; its next record gets offset {bounds.high_watermark}"
    has = f"{name} has offsets {bounds.first_offset} to {bounds.high_watermark - 1}"
    held_back = bounds.high_watermark - bounds.last_stable_offset
    if held_back == 0:
        return f"{has}; no open transaction"
    wait = f"read_committed consumers are blocked at {bounds.last_stable_offset}"
    offsets = "1 offset" if held_back == 1 else f"{number(held_back)} offsets"
    return f"{has}; {wait}, {offsets} before the end"


def _rows(entry: LogEntry) -> Iterator[tuple[RenderableType | str | None, ...]]:
    is_one = entry.base_offset == entry.last_offset
    yield (
        str(entry.base_offset) if is_one else f"{entry.base_offset}–{entry.last_offset}",
        Text(entry.marker or entry.state, style=_STYLES[entry.state]),
        _text(entry.producer_id),
        _text(entry.producer_epoch),
        _text(entry.base_sequence),
        _text(entry.record_count),
        entry.transactional_id,
        _what(entry),
    )
    for record in entry.records:
        parts = [f"{name}={_shown(part)}" for name, part in (("key", record.key), ("value", record.value)) if part]
        parts += [f"{header.name}: {_shown(header.value)}" for header in record.headers]
        yield (str(record.offset), Text("|", style="dim"), "", "", "", "", "", "  ".join(parts) or "null")


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _what(entry: LogEntry) -> str:
    parts: list[str] = []
    if entry.marker is not None:
        parts.append(f"coordinator epoch {entry.coordinator_epoch}")
        if entry.decides is not None and entry.decides.first_offset is not None:
            since = "" if entry.decides.is_whole else " and earlier ones"
            records = "1 record" if entry.decides.record_count == 1 else f"{entry.decides.record_count} records"
            parts.append(f"decides {records} from {entry.decides.first_offset}{since}")
    elif entry.decided_at is not None:
        parts.append(f"by the marker at {entry.decided_at}")
    if entry.compression not in (None, "none"):
        parts.append(str(entry.compression))
    if entry.note is not None:
        parts.append(entry.note)
    return "; ".join(parts)


def _shown(content: Content | None) -> str:
    """Return one printable line: a record's content must not control the terminal."""
    if content is None:
        return "null"
    text = content.text if content.text.isprintable() else ascii(content.text)[1:-1]
    kind = "base64:" if content.is_base64 else ""
    return f"{kind}{text}{f'… ({content.size_bytes} bytes)' if content.is_cut else ''}"

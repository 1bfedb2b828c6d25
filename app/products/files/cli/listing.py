"""`fenceline files list`: the files that committed references name."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from app.edges.kafka.cli.direct import answered
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, ago, present, table
from app.kit.storable import moment_of_ms
from app.kit.words import number, size
from app.products.files.cli.options import (
    BootstrapServer,
    ClientConfig,
    FoundReferences,
    From,
    Partition,
    ProgressLine,
    SinkTopicName,
    To,
    partition_text,
    pipeline_of,
    selection_of,
    window_of,
)
from app.products.files.cli.pipeline_topics import opened
from app.products.files.reader.references import Located


def list_(
    pipeline: PipelineName,
    from_: From = None,
    to: To = None,
    partition: Partition = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of files, newest first. By default 50 in a table, all in JSON."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    topic: SinkTopicName = None,
    as_json: AsJson = False,
) -> None:
    """List the files that committed references of a pipeline name, newest first. The store is not read."""
    window, selection = window_of(from_, to), selection_of(partition)
    known = pipeline_of(pipeline, bootstrap_server, config, topic)
    finding = FoundReferences(pipeline, window, selection)
    size_bytes = records = 0
    found: list[Located] = []
    with ProgressLine() as progress, opened(known) as topics:

        def look() -> None:
            nonlocal found

            def counted() -> Iterator[Located]:
                nonlocal size_bytes, records
                for located in finding.references(topics, progress):
                    size_bytes += located.reference.size_bytes
                    records += located.reference.records
                    yield located

            # References arrive by partition, not by time.
            most = limit if limit is not None or as_json else 50
            found = sorted(counted(), key=_age, reverse=True) if most is None else heapq.nlargest(most, counted(), _age)

        answered(look)
        finding.check()
    shown = f"{len(found):,} of " if len(found) < finding.found else ""
    said = f"{shown}{finding.found:,} files, {number(records)} records, {size(size_bytes)}"
    present(
        lambda: found,
        lambda files: Group(
            table(
                ("REFERENCED", "PARTITION", "RECORDS#", "SIZE#", "CHECKPOINT#", "FILE"),
                (_row(located) for located in files),
                empty="No files: no reference was committed in this time range, or with these values.",
            ),
            Text(said + "".join(f"\n{remark}" for remark in finding.remarks()), style="dim"),
        ),
        as_json=as_json,
        document=lambda files: {
            "pipeline": pipeline,
            "files": finding.found,
            "size_bytes": size_bytes,
            "records": records,
            "remarks": finding.remarks(),
            "items": [_document(located) for located in files],
        },
    )


def _age(located: Located) -> tuple[int, int, int]:
    return located.timestamp_ms or 0, located.partition, located.offset


def _row(located: Located) -> tuple[str, ...]:
    reference = located.reference
    return (
        ago(None if located.timestamp_ms is None else moment_of_ms(located.timestamp_ms)),
        partition_text(reference.partition),
        number(reference.records),
        size(reference.size_bytes),
        str(reference.checkpoint),
        reference.path,
    )


def _document(located: Located) -> Any:
    return {
        **msgspec.to_builtins(located.reference),
        "referenced_at_ms": located.timestamp_ms,
        "place": {"topic": located.topic, "partition": located.partition, "offset": located.offset},
    }

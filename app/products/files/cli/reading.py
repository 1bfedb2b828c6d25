"""`fenceline files read`: the records of the files that committed references name."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from app.edges.kafka.cli.direct import answered
from app.kit.cli.errors import CommandError
from app.kit.cli.names import PipelineName
from app.kit.cli.output import json_text
from app.products.files.cli.options import (
    BootstrapServer,
    ClientConfig,
    FoundReferences,
    From,
    Partition,
    ProgressLine,
    SinkTopicName,
    To,
    pipeline_of,
    selection_of,
    window_of,
)
from app.products.files.cli.pipeline_topics import opened
from app.products.files.reader.reading import Stores, all_records
from app.products.files.reader.references import Located


def read(
    pipeline: PipelineName,
    from_: From = None,
    to: To = None,
    partition: Partition = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write into this file, which is created only after all is read and verified."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON array; by default one JSON object on each line.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    topic: SinkTopicName = None,
) -> None:
    """Read the records of the files that committed references of a pipeline name, each once.

    Every file is verified by size and SHA-256 before its first record.
    A missing or different file ends the command with exit code 1,
    and the names of the file and its reference.
    """
    window, selection = window_of(from_, to), selection_of(partition)
    known = pipeline_of(pipeline, bootstrap_server, config, topic)
    finding = FoundReferences(pipeline, window, selection)
    stores = Stores(roots=known.roots)
    count = 0
    with ProgressLine() as progress, opened(known) as topics, _writing(output) as written:

        def heard(located: Located) -> None:
            progress.tell(f"{finding.found:,} files, {count:,} records; {located.reference.path}")

        def copy() -> None:
            nonlocal count
            written.write(b"[" if as_json else b"")
            for _, record in all_records(finding.references(topics, progress), stores, heard=heard):
                before = b"" if not as_json else b",\n" if count else b"\n"
                written.write(before + json_text(record, default=_plain).encode() + (b"" if as_json else b"\n"))
                count += 1
            written.write(b"\n]\n" if as_json else b"")

        try:
            answered(copy)
        except BrokenPipeError:
            # The reader has closed the pipe, as `head` does.
            raise typer.Exit(0) from None
        finding.check()
    for sentence in (f"{finding.found:,} files, {count:,} records", *finding.remarks()):
        progress.say(sentence)


@contextmanager
def _writing(output: Path | None) -> Generator[BinaryIO]:
    """Open standard output, or a file that gets its name at the end."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = output.with_name(f".{output.name}.part")
    try:
        with partial.open("wb") as written:
            yield written
        partial.replace(output)
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Encode bytes as Avro's JSON encoding does."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"{type(value).__name__} is not a JSON value")

"""`fenceline files collect`: find orphans, and delete them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group

from app.edges.kafka.cli.direct import answered
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, Yes, confirm_or_exit, console, present
from app.kit.words import size
from app.products.files.cli.findings import shown
from app.products.files.cli.options import ProgressLine
from app.products.files.cli.pipeline_topics import PipelineTopics, of_server, opened
from app.products.files.orphans import Margin, Stored, margin_of
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.findings import DeletionOutcome, FileTally, Findings
from app.products.files.reader.store import open_store
from app.products.files.reader.topic import Topic


def collect(
    pipeline: PipelineName,
    delete: Annotated[
        bool, typer.Option("--delete/--dry-run", help="Delete the orphans; by default they are only shown.")
    ] = False,
    first_incarnation: Annotated[
        bool,
        typer.Option(
            "--first-incarnation",
            help="State that no sink topic of this pipeline was ever recreated, so that files older than its first "
            "reference have none. Without this option such files are not deleted.",
        ),
    ] = False,
    patience: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Time to wait for the end of open transactions.")
    ] = 60.0,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Find files of aborted checkpoints, which no committed reference names nor ever will.

    An orphan is older than rotation, uploads and transactions can
    last, and the sink topics still have every reference that could
    name it. While a transaction is open in a sink topic nothing is
    judged, with exit code 6. Exit code 1 if a committed reference
    names a file that is missing.
    """
    known = of_server(pipeline)
    results: list[tuple[Findings, DeletionOutcome | None]] = []
    with opened(known) as topics:
        margin = answered(lambda: _margin(known, topics))
        for root in known.roots or ():
            collector = _collector(
                known, root, topics, margin, is_first_incarnation=first_incarnation, patience_s=patience
            )
            findings, outcome = _look(collector, root), None
            if delete and (findings.orphans or findings.open_uploads):
                if not as_json:
                    console.print(shown(findings, None))
                of_all = size(sum(stored.size_bytes for stored in findings.orphans))
                confirm_or_exit(
                    f"Delete {len(findings.orphans):,} files ({of_all}) below {root}/{pipeline}, and abort "
                    f"{len(findings.open_uploads):,} uploads?",
                    is_confirmed=yes,
                )
                outcome = _delete(collector, findings)
            results.append((findings, outcome))
    present(
        lambda: results,
        lambda found: Group(*(shown(findings, outcome) for findings, outcome in found)),
        as_json=as_json,
        document=lambda found: [_document(findings, outcome) for findings, outcome in found],
    )
    if any(findings.missing for findings, _ in results):
        raise typer.Exit(ExitCode.FAILED)
    if any(findings.blocked for findings, _ in results):
        raise typer.Exit(ExitCode.CANNOT_TELL)


def _look(collector: OrphanCollector, root: str) -> Findings:
    with ProgressLine() as progress:
        return answered(lambda: collector.look(lambda sentence: progress.tell(f"{root}: {sentence}")))


def _delete(collector: OrphanCollector, findings: Findings) -> DeletionOutcome:
    """Delete the orphans. Raises CommandError with the deletions before it, which are in no command log."""
    deleted = FileTally()
    with ProgressLine() as progress:

        def told(stored: Stored) -> None:
            deleted.add(stored)
            progress.tell(f"deleted {stored.path}")

        try:
            return answered(lambda: collector.delete(findings, told=told))
        except CommandError as error:
            before = f"{deleted.files:,} files ({size(deleted.size_bytes)}) below {findings.root} were deleted"
            raise CommandError(error.message, code=error.code, lines=(f"before this error, {before}",)) from error


def _margin(known: PipelineTopics, topics: Sequence[Topic]) -> Margin:
    longest_ms = max(topic.transaction_max_timeout_ms() for topic in topics)
    return margin_of(known.definitions, transaction_max_timeout_ms=longest_ms)


def _collector(
    known: PipelineTopics,
    root: str,
    topics: Sequence[Topic],
    margin: Margin,
    *,
    is_first_incarnation: bool,
    patience_s: float,
) -> OrphanCollector:
    if known.created_at is None:
        raise CommandError("the command requires a server, which knows the roots of the pipeline")
    return OrphanCollector(
        answered(lambda: open_store(root)),
        topics,
        pipeline=known.pipeline,
        margin=margin,
        created_ms=int(known.created_at.timestamp() * 1000),
        is_first_incarnation=is_first_incarnation,
        patience_s=patience_s,
    )


def _document(findings: Findings, outcome: DeletionOutcome | None) -> Any:
    return msgspec.to_builtins({"findings": findings, "outcome": outcome}, str_keys=True)

"""The collector's findings and deletions as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.output import ago, table
from app.kit.storable import moment_of_ms
from app.kit.words import number, size
from app.products.files.orphans import OrphanStanding
from app.products.files.reader.findings import Blocked, DeletionOutcome, Findings

_SHOWN = 50
_WORDS = {
    OrphanStanding.REFERENCED: "referenced",
    OrphanStanding.TOO_YOUNG: "too young to judge",
    OrphanStanding.ORPHAN: "orphans",
    OrphanStanding.UNKNOWN: "unknown",
    OrphanStanding.NOT_OURS: "with other names, never deleted",
}


def shown(findings: Findings, outcome: DeletionOutcome | None) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{findings.root}/{findings.pipeline}", style="bold")]
    parts += [Text(_blocked_sentence(one), style="yellow") for one in findings.blocked]
    parts += [
        Text(f"missing: {missing.path}, referenced at {missing.place}", style="bold red")
        for missing in findings.missing
    ]
    if findings.blocked:
        return Group(*parts)
    parts += _orphans(findings) if outcome is None else _done(outcome)
    if outcome is not None:
        parts.append(Text("at the scan", style="dim"))
    parts += [Text(sentence, style="dim") for sentence in _sentences(findings)]
    return Group(*parts)


def _blocked_sentence(blocked: Blocked) -> str:
    where = f"{blocked.topic}-{blocked.partition}"
    since = "" if blocked.since_ms is None else f", since {ago(moment_of_ms(blocked.since_ms))}"
    writer = "" if blocked.transactional_id is None else f" of {blocked.transactional_id}"
    return (
        f"no file can be judged: a transaction{writer} is open in {where} from offset {blocked.offset} on{since}; "
        f"see `fenceline stuck {blocked.topic}:{blocked.partition}`"
    )


def _orphans(findings: Findings) -> list[RenderableType]:
    parts: list[RenderableType] = [
        table(
            ("ORPHAN", "UPLOADED", "SIZE#"),
            (
                (stored.path, ago(moment_of_ms(stored.modified_ms)), size(stored.size_bytes))
                for stored in findings.orphans[:_SHOWN]
            ),
            empty="No orphans: every file that is old enough has a reference, or cannot be judged.",
        )
    ]
    if len(findings.orphans) > _SHOWN:
        parts.append(Text(f"and {len(findings.orphans) - _SHOWN:,} more; --json has all", style="dim"))
    return parts


def _done(outcome: DeletionOutcome) -> list[RenderableType]:
    deleted = f"deleted {outcome.deleted.files:,} files, {size(outcome.deleted.size_bytes)}"
    return [
        Text(f"{deleted}; aborted {outcome.aborted_uploads:,} uploads"),
        *(Text(f"kept {stored.path}: {why}", style="yellow") for stored, why in outcome.kept),
    ]


def _sentences(findings: Findings) -> list[str]:
    said = [
        ", ".join(
            f"{number(findings.tallies[standing].files)} {word} ({size(findings.tallies[standing].size_bytes)})"
            for standing, word in _WORDS.items()
        ),
        f"a file is judged after {findings.margin.sentence}",
    ]
    if findings.tallies[OrphanStanding.UNKNOWN].files:
        since = findings.since.at_ms
        when = "all files" if since is None else f"files uploaded before {moment_of_ms(since):%Y-%m-%d %H:%M:%S} UTC"
        said.append(f"unknown: {when}: {findings.since.why}")
    if findings.open_uploads:
        said.append(f"{len(findings.open_uploads):,} multipart uploads are open")
    clock = "this host's clock"
    if findings.skew_ms is not None:
        clock = f"the store's clock, {findings.skew_ms / 1000:+.1f} s to this host's"
    said.append(f"ages are by {clock}; {findings.references:,} references, {findings.others:,} other records")
    if findings.unchecked:
        said.append(f"{findings.unchecked:,} further referenced files outside the listing were not checked")
    return said

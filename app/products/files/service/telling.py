"""Convert the collector's findings into stored figures and examples."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from app.kit.storable import moment_of_ms
from app.kit.words import moment
from app.products.files.orphan_findings import (
    SHOWN,
    Amount,
    DanglingReference,
    OrphanFile,
    OrphanFindings,
    RootFindings,
    UndecidedTransaction,
)
from app.products.files.orphans import OrphanStanding
from app.products.files.reader.findings import Blocked, Findings


def findings_of(found: Sequence[Findings]) -> OrphanFindings:
    """Return the findings of all roots. While a transaction is open, no root is judged."""
    blocked = dict.fromkeys(_open(one) for findings in found for one in findings.blocked)
    if blocked:
        return OrphanFindings(blocked=tuple(blocked)[:SHOWN])
    orphans = ((stored.modified_ms, one.root, stored) for one in found for stored in one.orphans)
    oldest = heapq.nsmallest(SHOWN, orphans, key=lambda each: (each[0], each[1], each[2].path))
    return OrphanFindings(
        roots=tuple(_root(one) for one in found),
        oldest=tuple(
            OrphanFile(root=root, path=stored.path, size_bytes=stored.size_bytes, uploaded_at=moment_of_ms(at_ms))
            for at_ms, root, stored in oldest
        ),
        dangling=tuple(
            DanglingReference(root=one.root, path=missing.path, place=missing.place)
            for one in found
            for missing in one.missing
        )[:SHOWN],
    )


def _root(findings: Findings) -> RootFindings:
    def amount(standing: OrphanStanding) -> Amount:
        tally = findings.tallies[standing]
        return Amount(files=tally.files, size_bytes=tally.size_bytes)

    return RootFindings(
        root=findings.root,
        listed_at=moment_of_ms(findings.listed_at_ms),
        skew_ms=findings.skew_ms,
        margin_ms=findings.margin.total_ms,
        margin=findings.margin.sentence,
        known_since=moment(findings.since.at_ms),
        known_since_why=findings.since.why,
        referenced=amount(OrphanStanding.REFERENCED),
        too_young=amount(OrphanStanding.TOO_YOUNG),
        orphans=amount(OrphanStanding.ORPHAN),
        unknown=amount(OrphanStanding.UNKNOWN),
        not_ours=amount(OrphanStanding.NOT_OURS),
        open_uploads=len(findings.open_uploads),
        missing=len(findings.missing),
        unchecked=findings.unchecked,
        references=findings.references,
        others=findings.others,
    )


def _open(blocked: Blocked) -> UndecidedTransaction:
    return UndecidedTransaction(
        topic=blocked.topic,
        partition=blocked.partition,
        offset=blocked.offset,
        since=moment(blocked.since_ms),
        transactional_id=blocked.transactional_id,
    )

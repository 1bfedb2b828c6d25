"""The deletion of confirmed orphans, and the remaining ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from app.products.files.orphan_findings import SHOWN, Amount, Collected, ConfirmedOrphans, KeptFile
from app.products.files.orphans import OrphanStanding, Stored
from app.products.files.reader.collecting import GONE
from app.products.files.reader.findings import DeletionOutcome, FileTally, Findings

_EPOCH = datetime.fromtimestamp(0, UTC)
_MS = timedelta(milliseconds=1)


class _Kept(NamedTuple):
    root: str
    stored: Stored
    why: str


class Deletion:
    """The files that were deleted and kept so far."""

    def __init__(self) -> None:
        self.wanted = 0
        self._tally = FileTally()
        self._gone: dict[str, set[str]] = {}
        self._kept: list[_Kept] = []
        self._aborted: int | None = None
        self._is_aborted: set[str] = set()

    @property
    def amount(self) -> Amount:
        return Amount(files=self._tally.files, size_bytes=self._tally.size_bytes)

    def add(self, root: str, stored: Stored) -> None:
        self._tally.add(stored)
        self._gone.setdefault(root, set()).add(stored.path)

    def end(self, root: str, outcome: DeletionOutcome) -> None:
        """Add the outcome of one root, whose deletions are added already."""
        self._kept += [_Kept(root, stored, why) for stored, why in outcome.kept]
        self._gone.setdefault(root, set()).update(stored.path for stored, why in outcome.kept if why == GONE)
        self._aborted = (self._aborted or 0) + outcome.aborted_uploads
        self._is_aborted.add(root)

    def is_gone(self, root: str, path: str) -> bool:
        return path in self._gone.get(root, ())

    def has_aborted(self, root: str) -> bool:
        """Return true if the multipart uploads below the root were aborted."""
        return root in self._is_aborted

    def told(self) -> Collected:
        return Collected(
            deleted=self.amount,
            aborted_uploads=self._aborted,
            kept_files=len(self._kept),
            kept=tuple(KeptFile(root=one.root, path=one.stored.path, why=one.why) for one in self._kept[:SHOWN]),
        )


def chosen(findings: Findings, seen: ConfirmedOrphans) -> Findings:
    """Return the findings with only the orphans and open uploads that were old enough at the confirmed scan."""
    until_ms = next(((one.judged_until - _EPOCH) // _MS for one in seen.roots if one.root == findings.root), -1)
    return msgspec.structs.replace(
        findings,
        orphans=tuple(stored for stored in findings.orphans if stored.modified_ms <= until_ms),
        open_uploads=tuple(upload for upload in findings.open_uploads if upload.begun_ms <= until_ms),
    )


def why_too_many(wanted: Sequence[Findings], seen: ConfirmedOrphans) -> str | None:
    """Return why nothing is deleted; None if it is no more than confirmed. Fewer are allowed."""
    files = sum(len(one.orphans) for one in wanted)
    uploads = sum(len(one.open_uploads) for one in wanted)
    if files <= seen.orphans.files and uploads <= seen.open_uploads:
        return None
    return (
        f"nothing was deleted: {files:,} files and {uploads:,} open uploads were found, but {seen.orphans.files:,} and "
        f"{seen.open_uploads:,} were confirmed. Scan again"
    )


def left_after(findings: Findings, deletion: Deletion) -> Findings:
    """Return the findings without the deleted files."""
    left = tuple(stored for stored in findings.orphans if not deletion.is_gone(findings.root, stored.path))
    tally = FileTally()
    for stored in left:
        tally.add(stored)
    return msgspec.structs.replace(
        findings,
        orphans=left,
        tallies={**findings.tallies, OrphanStanding.ORPHAN: tally},
        open_uploads=findings.open_uploads if not deletion.has_aborted(findings.root) else (),
    )

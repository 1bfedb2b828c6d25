"""Figures and examples of one orphan scan; app/products/files/orphans.py defines an orphan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

SHOWN = 25
"""Most orphans, dangling references, open transactions and kept files in a list; others are counted."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(files=self.files + other.files, size_bytes=self.size_bytes + other.size_bytes)


NO_FILES = Amount()


class OrphanFile(msgspec.Struct, frozen=True, kw_only=True):
    """uploaded_at: by the store's clock."""

    root: str
    path: str
    size_bytes: int
    uploaded_at: datetime


class DanglingReference(msgspec.Struct, frozen=True, kw_only=True):
    """A committed reference, old enough, whose file is not in the store; `place` as topic-partition@offset."""

    root: str
    path: str
    place: str


class UndecidedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that was open before the end of a sink topic, so that nothing was judged.

    since: time of its first record; transactional_id: from the reference in that record.
    """

    topic: str
    partition: int
    offset: int
    since: datetime | None
    transactional_id: str | None

    @property
    def sentence(self) -> str:
        whose = "" if self.transactional_id is None else f" of {self.transactional_id}"
        since = "" if self.since is None else f", since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"A transaction{whose} is open in {self.topic}-{self.partition} from offset {self.offset} on{since}"


class RootFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings below one root.

    listed_at: time at which ages count, by the store's clock. skew_ms: its lead over this host's clock; None: the store
        does not report it, and this host's clock counts.
    margin_ms: age from which a file is judged; `margin` lists its parts.
    known_since: older files are unknown, for the reason `known_since_why`; None: all are.
    not_ours: files with other names, which are never deleted.
    missing: references, old enough, whose file is missing; `unchecked`: further ones that were not checked.
    others: records of the sink topics that are no references.
    """

    root: str
    listed_at: datetime
    skew_ms: int | None
    margin_ms: int
    margin: str
    known_since: datetime | None
    known_since_why: str
    referenced: Amount
    too_young: Amount
    orphans: Amount
    unknown: Amount
    not_ours: Amount
    open_uploads: int
    missing: int
    unchecked: int
    references: int
    others: int

    @property
    def judged_until(self) -> datetime:
        """The newest upload that was old enough."""
        return self.listed_at - timedelta(milliseconds=self.margin_ms)


class OrphanFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings below every root of the pipeline, so far; without roots if `blocked` is not empty.

    oldest: of the orphans. dangling, blocked: at most SHOWN of them.
    """

    roots: tuple[RootFindings, ...] = ()
    oldest: tuple[OrphanFile, ...] = ()
    dangling: tuple[DanglingReference, ...] = ()
    blocked: tuple[UndecidedTransaction, ...] = ()

    @property
    def orphans(self) -> Amount:
        return self._sum(lambda one: one.orphans)

    @property
    def too_young(self) -> Amount:
        return self._sum(lambda one: one.too_young)

    @property
    def unknown(self) -> Amount:
        return self._sum(lambda one: one.unknown)

    @property
    def referenced(self) -> Amount:
        return self._sum(lambda one: one.referenced)

    @property
    def not_ours(self) -> Amount:
        return self._sum(lambda one: one.not_ours)

    @property
    def open_uploads(self) -> int:
        return sum(one.open_uploads for one in self.roots)

    @property
    def missing(self) -> int:
        return sum(one.missing for one in self.roots)

    @property
    def unchecked(self) -> int:
        return sum(one.unchecked for one in self.roots)

    @property
    def is_anything_to_collect(self) -> bool:
        return bool(self.orphans.files or self.open_uploads)

    def _sum(self, of_root: Callable[[RootFindings], Amount]) -> Amount:
        return sum((of_root(one) for one in self.roots), start=NO_FILES)


class KeptFile(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    path: str
    why: str


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The known result of a deletion.

    aborted_uploads: None if the collection ended before they were reported.
    kept: orphans that were none any more before their deletion; `kept_files` is their number.
    """

    deleted: Amount = NO_FILES
    aborted_uploads: int | None = None
    kept_files: int = 0
    kept: tuple[KeptFile, ...] = ()


class ConfirmedRoot(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of deletions below one root: files that were uploaded later are kept."""

    root: str
    judged_until: datetime


class ConfirmedOrphans(msgspec.Struct, frozen=True, kw_only=True):
    """The findings that a user confirmed; no more is deleted."""

    look_id: str
    orphans: Amount
    open_uploads: int
    roots: tuple[ConfirmedRoot, ...]


def confirmed(look_id: str, findings: OrphanFindings) -> ConfirmedOrphans:
    return ConfirmedOrphans(
        look_id=look_id,
        orphans=findings.orphans,
        open_uploads=findings.open_uploads,
        roots=tuple(ConfirmedRoot(root=one.root, judged_until=one.judged_until) for one in findings.roots),
    )

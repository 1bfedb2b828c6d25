"""Figures and examples of one look for orphans; app/products/files/orphans.py defines an orphan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

SHOWN = 25
"""So many orphans, dangling references, open transactions and kept files are named; the rest is counted."""


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


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that was not decided, before the end of a sink topic: nothing was judged while it was there.

    since: when its first record was written; transactional_id: whose it is, by the reference that this record is.
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
    """Below one root.

    listed_at: the moment that ages are counted at, by the store's clock. skew_ms: how far that is ahead of ours; None:
    the store does not tell, and ours stands in for it.
    margin_ms: a file is judged so long after its upload; `margin` what that is made of.
    known_since: files from before are unknown, for the reason `known_since_why`; None: all are.
    not_ours: files of other names, left alone.
    missing: references, old enough, whose file is not there; `unchecked`: so many more were not looked for.
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
        """Files that were uploaded later were too young."""
        return self.listed_at - timedelta(milliseconds=self.margin_ms)


class OrphanFindings(msgspec.Struct, frozen=True, kw_only=True):
    """Below every root that the pipeline ever wrote to; without a root while `blocked` is not empty.

    oldest: of the orphans. dangling, blocked: as many as are shown.
    """

    roots: tuple[RootFindings, ...] = ()
    oldest: tuple[OrphanFile, ...] = ()
    dangling: tuple[DanglingReference, ...] = ()
    blocked: tuple[OpenTransaction, ...] = ()

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
    """What deleting came to, as far as it is known.

    aborted_uploads: None where the collection ended before it told.
    kept: orphans of the look right before that were none any more; `kept_files` counts them all.
    """

    deleted: Amount = NO_FILES
    aborted_uploads: int | None = None
    kept_files: int = 0
    kept: tuple[KeptFile, ...] = ()


class ConfirmedRoot(msgspec.Struct, frozen=True, kw_only=True):
    """Below this root only files go that were uploaded until then: what was too young when somebody looked stays."""

    root: str
    judged_until: datetime


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody saw when they had it collected; no more than that is deleted."""

    look_id: str
    orphans: Amount
    open_uploads: int
    roots: tuple[ConfirmedRoot, ...]


def confirmed(look_id: str, findings: OrphanFindings) -> Confirmed:
    return Confirmed(
        look_id=look_id,
        orphans=findings.orphans,
        open_uploads=findings.open_uploads,
        roots=tuple(ConfirmedRoot(root=one.root, judged_until=one.judged_until) for one in findings.roots),
    )

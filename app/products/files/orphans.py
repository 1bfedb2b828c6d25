"""The rules for orphans: files that no committed reference names, nor ever will.

A file is uploaded first and referenced later, in a transaction of milliseconds. A file without a reference has one of
three causes. Its transaction may follow; there is none and never will be; or its reference was deleted from the topic.
Only the second is an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.timing_checks import DEFAULT_MAX_POLL_INTERVAL_MS

BROKER_SESSION_MS = 45_000
"""The brokers' default session timeout of a KIP-848 group."""
CLOCKS_MS = 300_000
"""Largest difference between the clocks of tasks, brokers and the store."""

_NAME = r"[0-9a-f]{32}\.avro"
_PARTIAL = rf"\.{_NAME}\.[0-9a-f]{{8}}\.part"
# A value may be the empty text.
_FOLDERS = r"(?:[^/]+=[^/]*/)*"


class OrphanStanding(StrEnum):
    """The status of a file.

    REFERENCED: a committed reference names it. TOO_YOUNG: its transaction may follow.
    ORPHAN: no committed reference names it, nor ever will.
    UNKNOWN: it is older than the references in the topics, so its own may be deleted.
    NOT_OURS: its name is not one of this pipeline's sink.
    """

    REFERENCED = "referenced"
    TOO_YOUNG = "too_young"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"
    NOT_OURS = "not_ours"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the listing of a store.

    modified_ms: time of the upload by the store's clock; S3 reports the start of a multipart upload.
    """

    path: str
    size_bytes: int
    modified_ms: int


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """The longest time between the upload of a file and its committed reference.

    rotation_ms, upload_ms: to fill and upload the other files of its checkpoint.
    standstill_ms: longest pause of a task before its transaction begins, without loss of its membership
        (max.poll.interval.ms, or a longer session timeout).
    transaction_ms: transaction.max.timeout.ms of the brokers, after which the coordinator aborts.
    clocks_ms: largest difference between the clocks of these times.
    """

    rotation_ms: int
    upload_ms: int
    standstill_ms: int
    transaction_ms: int
    clocks_ms: int = CLOCKS_MS

    @property
    def total_ms(self) -> int:
        return self.rotation_ms + self.upload_ms + self.standstill_ms + self.transaction_ms + self.clocks_ms

    @property
    def sentence(self) -> str:
        return (
            f"{self.total_ms / 1000:g} s: rotation {self.rotation_ms / 1000:g}, uploads {self.upload_ms / 1000:g}, "
            f"pause of a member {self.standstill_ms / 1000:g}, "
            f"transaction.max.timeout.ms {self.transaction_ms / 1000:g}, clocks {self.clocks_ms / 1000:g}"
        )


def margin_of(definitions: Iterable[PipelineDefinition], *, transaction_max_timeout_ms: int) -> Margin:
    """Return the longest margin of all definitions, since tasks may run under an earlier one.

    Raises ValueError if none writes files.
    """
    writing = [(definition, definition.files) for definition in definitions if definition.files is not None]
    return Margin(
        rotation_ms=max(files.rotate_ms for _, files in writing),
        upload_ms=max(files.upload_timeout_ms for _, files in writing),
        standstill_ms=max(_standstill_ms(definition) for definition, _ in writing),
        transaction_ms=transaction_max_timeout_ms,
    )


def _standstill_ms(definition: PipelineDefinition) -> int:
    overrides = definition.consumer_overrides
    max_poll_ms = int(overrides.get("max.poll.interval.ms", DEFAULT_MAX_POLL_INTERVAL_MS))
    return max(max_poll_ms, definition.session_timeout_ms, BROKER_SESSION_MS)


class LogBegin(msgspec.Struct, frozen=True, kw_only=True):
    """The begin of a partition of a sink topic.

    start_offset: above 0 if records were deleted, by retention or a user.
    first_reference_ms: time of the first remaining reference; None: there is none.
    """

    topic: str
    partition: int
    start_offset: int
    first_reference_ms: int | None


class KnownSince(msgspec.Struct, frozen=True, kw_only=True):
    """`at_ms`: references to files uploaded later cannot be missing; None: any may be. `why`: the reason as a text."""

    at_ms: int | None
    why: str


def known_since(
    begins: Iterable[LogBegin], *, created_ms: int, margin: Margin, is_first_incarnation: bool = False
) -> KnownSince:
    """Return the time since which the topics have all references.

    Args:
        created_ms: of the pipeline, by the server's clock; older files belong to another pipeline of this name.
        is_first_incarnation: the user states that no sink topic was ever recreated, so that files older than the first
            reference have none. Kafka does not report it.
    """
    latest = KnownSince(at_ms=created_ms + margin.clocks_ms, why="the pipeline was created then")

    def later(at_ms: int, why: str) -> None:
        nonlocal latest
        if latest.at_ms is not None and at_ms > latest.at_ms:
            latest = KnownSince(at_ms=at_ms, why=why)

    by_topic: dict[str, list[LogBegin]] = {}
    for begin in begins:
        by_topic.setdefault(begin.topic, []).append(begin)
    for topic, partitions in by_topic.items():
        for begin in partitions:
            if begin.start_offset == 0:
                continue
            where = f"{topic}-{begin.partition} begins at offset {begin.start_offset}"
            if begin.first_reference_ms is None:
                return KnownSince(at_ms=None, why=f"{where}, and has no reference any more")
            # Deleted references were written earlier, but their timestamps may be later by the margin.
            later(begin.first_reference_ms + margin.total_ms, f"{where}: earlier references are deleted")
        if is_first_incarnation:
            continue
        firsts = [begin.first_reference_ms for begin in partitions if begin.first_reference_ms is not None]
        if not firsts:
            return KnownSince(at_ms=None, why=f"{topic} has no reference: it may have been recreated")
        later(
            min(firsts) + margin.clocks_ms, f"the first reference in {topic} is from then: it may have been recreated"
        )
    return latest


def partial_name(name: str, token: str) -> str:
    """Return the name of a file while it is written; `token` has eight hexadecimal digits."""
    return f".{name}.{token}.part"


def form_of(pipeline: str) -> re.Pattern[str]:
    """Return the pattern of a pipeline's paths; the group `partial` matches in incomplete files."""
    return re.compile(rf"{re.escape(pipeline)}/{_FOLDERS}(?:{_NAME}|(?P<partial>{_PARTIAL}))")


def judge(stored: Stored, *, form: re.Pattern[str], now_ms: int, margin: Margin, since: KnownSince) -> OrphanStanding:
    """Judge a file without a committed reference. now_ms: by the store's clock, before the listing."""
    matched = form.fullmatch(stored.path)
    if matched is None:
        return OrphanStanding.NOT_OURS
    if stored.modified_ms > now_ms - margin.total_ms:
        return OrphanStanding.TOO_YOUNG
    # An incomplete file has no reference.
    if matched["partial"] is None and (since.at_ms is None or stored.modified_ms < since.at_ms):
        return OrphanStanding.UNKNOWN
    return OrphanStanding.ORPHAN

"""Which files of a store nobody refers to, and never will: what may be deleted, what must not, what cannot be told.

A file is uploaded first and referenced after it, in a transaction that lasts milliseconds. Whoever finds it without a
reference has found one of three: its transaction is still to come, there is none and never will be, or its
reference is no longer in the topic. Only the second is an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.timing_checks import DEFAULT_MAX_POLL_INTERVAL_MS

BROKER_SESSION_MS = 45_000
"""The session timeout of a group of KIP-848, as brokers have it by default."""
CLOCKS_MS = 300_000
"""How far apart the clocks of tasks, brokers and the store may be, together."""

_NAME = r"[0-9a-f]{32}\.avro"
_PARTIAL = rf"\.{_NAME}\.[0-9a-f]{{8}}\.part"
# A value may be the empty text.
_FOLDERS = r"(?:[^/]+=[^/]*/)*"


class Standing(StrEnum):
    """REFERENCED: by a committed transaction. TOO_YOUNG: its transaction may be still to come. ORPHAN: nobody refers
    to it, nor ever will. UNKNOWN: it is older than what the topics still hold, so its reference may be gone. NOT_OURS:
    no name that a sink of this pipeline gives.
    """

    REFERENCED = "referenced"
    TOO_YOUNG = "too_young"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"
    NOT_OURS = "not_ours"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the store lists it.

    modified_ms: when it was uploaded, by the store's clock. S3 says of an upload in parts when it began.
    """

    path: str
    size_bytes: int
    modified_ms: int


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """How long after its upload a file may still come to be referenced, at the very most.

    rotation_ms, upload_ms: the other files of its checkpoint are filled and uploaded.
    standstill_ms: the task stands still before its transaction begins, and is still a member of its group afterwards
        (max.poll.interval.ms, or the session timeout where that is longer).
    transaction_ms: transaction.max.timeout.ms of the brokers; after that the coordinator aborts.
    clocks_ms: between the clocks that these times are taken from.
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
            f"a member that stands still {self.standstill_ms / 1000:g}, "
            f"transaction.max.timeout.ms {self.transaction_ms / 1000:g}, clocks {self.clocks_ms / 1000:g}"
        )


def margin_of(definitions: Iterable[PipelineDefinition], *, transaction_max_timeout_ms: int) -> Margin:
    """The longest of all of them: a task may still run under an earlier one. Raises ValueError if none writes files."""
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
    """Where a partition of a sink topic begins today.

    start_offset: above 0 when records were deleted: by retention, or on purpose.
    first_reference_ms: when the first reference was written that is still there; None: there is none.
    """

    topic: str
    partition: int
    start_offset: int
    first_reference_ms: int | None


class KnownSince(msgspec.Struct, frozen=True, kw_only=True):
    """`at_ms`: no reference to a file that was uploaded after it can be missing; None: any may be. `why` in words."""

    at_ms: int | None
    why: str


def known_since(
    begins: Iterable[LogBegin], *, created_ms: int, margin: Margin, is_first_incarnation: bool = False
) -> KnownSince:
    """From when on the references in the topics are all that there ever were.

    Args:
        created_ms: of the pipeline, by the server's clock; files from before are of another one that had its name.
        is_first_incarnation: nobody has ever deleted a sink topic and made it anew: what lies before its first
            reference was never referenced. Kafka does not tell, so somebody must.
    """
    latest = KnownSince(at_ms=created_ms + margin.clocks_ms, why="the pipeline is no older")

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
                return KnownSince(at_ms=None, why=f"{where}, and no reference is left in it")
            # Those before it were written earlier, though not all of their timestamps are.
            later(begin.first_reference_ms + margin.total_ms, f"{where}: what was written before that is gone")
        if is_first_incarnation:
            continue
        firsts = [begin.first_reference_ms for begin in partitions if begin.first_reference_ms is not None]
        if not firsts:
            return KnownSince(at_ms=None, why=f"there is no reference in {topic}: it may have been made anew")
        later(min(firsts) + margin.clocks_ms, f"the first reference in {topic} is no older: it may have been made anew")
    return latest


def partial_name(name: str, token: str) -> str:
    """What a file is called while it is written beside its place; `token` has eight hexadecimal digits."""
    return f".{name}.{token}.part"


def form_of(pipeline: str) -> re.Pattern[str]:
    """What the paths of a pipeline's files look like; group `partial` matches in those that were never complete."""
    return re.compile(rf"{re.escape(pipeline)}/{_FOLDERS}(?:{_NAME}|(?P<partial>{_PARTIAL}))")


def judge(stored: Stored, *, form: re.Pattern[str], now_ms: int, margin: Margin, since: KnownSince) -> Standing:
    """What a file is that no committed reference names. `now_ms` by the store's clock, before the files were listed."""
    matched = form.fullmatch(stored.path)
    if matched is None:
        return Standing.NOT_OURS
    if stored.modified_ms > now_ms - margin.total_ms:
        return Standing.TOO_YOUNG
    # What never got its name was never referenced by it.
    if matched["partial"] is None and (since.at_ms is None or stored.modified_ms < since.at_ms):
        return Standing.UNKNOWN
    return Standing.ORPHAN

"""Read the records of a topic, for page, REST and command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import AskIds, Brokers, Connection
from app.core.clusters.partition import Partition
from app.core.journals.log_content import MAX_CONTENT_BYTES
from app.core.journals.log_entries import EntryState
from app.core.journals.log_look import Landmark, LogLook, LogStart, ReadBound, first_offset_of
from app.kit.errors import FencelineError, InvalidError, UnavailableError
from app.kit.page import MAX_LIMIT, checked_limit
from app.kit.words import count, size
from app.products.topics.browsing import ReadRange, Scan, TopicRecord, cursor_of, merged, scan, starts_of
from app.products.topics.record_filter import RecordFilter

MOST_PARTITIONS = 100
MOST_READ = 50_000
"""Records that one answer reads to find matching ones."""
_READ_BYTES = 16 << 20
_FETCH_S = 3.0
_SCAN_S = 3.0
_TIMEOUT_S = 10.0
_TRIES = 4
_OFFSETS_A_RECORD = 4
"""A transaction of one record takes two offsets, and compaction leaves gaps."""
DOWNLOAD_RECORDS = 10_000
DOWNLOAD_BYTES = 32 << 20
_WHOLE_BYTES = 16 << 20


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """partition: None stands for all, at most MOST_PARTITIONS. after: of an earlier answer, instead of both."""

    topic: str
    partition: int | None = None
    start: LogStart = Landmark.END
    wanted: RecordFilter = RecordFilter()
    limit: int = 50
    after: str | None = None

    @property
    def starts(self) -> LogStart | Mapping[int, LogStart]:
        if self.after is not None:
            return starts_of(self.after)
        return self.start if self.partition is None else {self.partition: self.start}

    @property
    def is_newest(self) -> bool:
        """The last matching records, instead of the first ones from the start on."""
        return self.after is None and self.start is Landmark.END


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """records: by time, each partition's in the order of its offsets.

    read: the number of records that were read to find them. is_at_end: of all partitions. next_cursor: `after` of the
    next answer, also at the end, where newer records continue. notes: sentences about what could not be read.
    """

    topic: str
    records: tuple[TopicRecord, ...]
    ranges: tuple[ReadRange, ...]
    read: int
    is_at_end: bool
    next_cursor: str
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Return the work in words: `50,000 records read, 3 match`."""
        return f"{count(self.read, 'record')} read, {len(self.records):,} match"


async def browse(
    brokers: Brokers,
    connection: Connection,
    query: RecordQuery,
    *,
    ask_ids: AskIds,
    timeout_s: float = _TIMEOUT_S,
    content_bytes: int = MAX_CONTENT_BYTES,
) -> RecordPage:
    """Return at most `limit` matching records of the topic, of at most MOST_READ that are read.

    ask_ids: finds the transactional ids of producer ids. content_bytes: longer keys and values are cut.

    Raises NotFoundError, InvalidError, and the errors of app/core/clusters/brokers.py.
    """
    checked_limit(query.limit)
    return await _page(brokers, connection, query, ask_ids, timeout_s=timeout_s, content_bytes=content_bytes)


class CutDownload(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a download that has not all matching records. next_cursor: where a further one continues."""

    is_incomplete: bool = True
    reason: str
    next_cursor: str | None


async def download(
    brokers: Brokers, connection: Connection, query: RecordQuery, *, ask_ids: AskIds, timeout_s: float = _TIMEOUT_S
) -> AsyncIterator[Sequence[TopicRecord | CutDownload]]:
    """Yield the matching records with whole contents, page by page, until the end or a bound.

    Bounds: the query's limit, at most DOWNLOAD_RECORDS, and DOWNLOAD_BYTES of contents. A refusal of the first page is
    raised, and one of a later page is the reason in the last line.
    """
    most = left = min(query.limit, DOWNLOAD_RECORDS)
    size_bytes, is_first = 0, True
    while True:
        asked = msgspec.structs.replace(query, limit=left if query.is_newest else min(left, MAX_LIMIT))
        try:
            page = await _page(brokers, connection, asked, ask_ids, timeout_s=timeout_s, content_bytes=_WHOLE_BYTES)
        except FencelineError as error:
            if is_first:
                raise
            yield [CutDownload(reason=error.message, next_cursor=query.after)]
            return
        left, is_first = left - len(page.records), False
        size_bytes += sum(one.size_bytes for one in page.records)
        yield page.records
        if query.is_newest or page.is_at_end:
            if page.notes:
                yield [CutDownload(reason=" ".join(page.notes), next_cursor=page.next_cursor)]
            return
        reason = ""
        if left <= 0:
            reason = f"{count(most, 'record')} are the bound of this download"
        elif size_bytes >= DOWNLOAD_BYTES:
            reason = f"{size(DOWNLOAD_BYTES)} are the bound of a download"
        elif page.next_cursor == asked.after:
            reason = " ".join(page.notes) or "the brokers return no further records now"
        if reason:
            yield [CutDownload(reason=reason, next_cursor=page.next_cursor)]
            return
        query = msgspec.structs.replace(query, after=page.next_cursor)


async def _page(
    brokers: Brokers,
    connection: Connection,
    query: RecordQuery,
    ask_ids: AskIds,
    *,
    timeout_s: float,
    content_bytes: int,
) -> RecordPage:
    answers = await _read(brokers, connection, query, timeout_s=timeout_s)
    looks = {at: one for at, one in answers.items() if isinstance(one, LogLook)}
    refused = [one for one in answers.values() if isinstance(one, Refused)]
    if refused and not looks:
        raise UnavailableError(f"no partition of {query.topic} could be read: {refused[0].sentence}")
    _refuse_offset(query, looks)
    scans = await asyncio.to_thread(_scanned, query, looks, content_bytes)
    records, ranges = merged(scans, limit=query.limit, is_newest=query.is_newest)
    records, ids_note = await _named(records, ask_ids)
    skipped = (f"{at}: {one.skipped}" for at, one in scans.items() if one.skipped)
    notes = [*(one.sentence for one in refused), *skipped, *([ids_note] if ids_note else [])]
    is_at_end = all(one.is_at_end for one in ranges)
    if query.is_newest and not is_at_end:
        notes.append("The end was not reached within the bounds: continue for the newest records.")
    # A partition without an answer keeps its place.
    starts = query.starts
    given = starts if isinstance(starts, Mapping) else dict.fromkeys((at.partition for at in answers), starts)
    return RecordPage(
        topic=query.topic,
        records=records,
        ranges=ranges,
        read=sum(one.read for one in scans.values()),
        is_at_end=is_at_end and not refused,
        next_cursor=cursor_of({**given, **{one.partition: one.next for one in ranges}}),
        notes=tuple(notes),
    )


async def _read(
    brokers: Brokers, connection: Connection, query: RecordQuery, *, timeout_s: float
) -> dict[Partition, LogLook | Refused]:
    """Read from the query's start; the newest records from fewer offsets before the end, if too many are there."""
    is_filtered = not query.wanted.is_empty
    bound = ReadBound(
        partitions=MOST_PARTITIONS,
        # Without a filter the limit is enough; batches that begin before the start have further records.
        records=MOST_READ if is_filtered or query.is_newest else max(_OFFSETS_A_RECORD * query.limit, 1_000),
        size_bytes=_READ_BYTES,
        for_s=_FETCH_S,
        before_end=MOST_READ if is_filtered else _OFFSETS_A_RECORD * query.limit,
    )
    answers: dict[Partition, LogLook | Refused] = {}
    for _ in range(_TRIES):
        answers = await brokers.read_partition_logs(connection, query.topic, query.starts, bound, timeout_s=timeout_s)
        looks = [one for one in answers.values() if isinstance(one, LogLook)]
        unread = [one for one in looks if not one.is_at_end]
        if not query.is_newest or not unread:
            break
        widest = max(one.bounds.high_watermark - one.start for one in looks)
        share = min((one.next_offset - one.start) / (one.bounds.high_watermark - one.start) for one in unread)
        bound = msgspec.structs.replace(bound, before_end=max(1, int(widest * share / 2)))
    return answers


def _refuse_offset(query: RecordQuery, looks: Mapping[Partition, LogLook]) -> None:
    """Raise InvalidError for an offset outside of the log of one partition; those of a cursor may be deleted by now."""
    if query.after is None and query.partition is not None and isinstance(query.start, int):
        for at, look in looks.items():
            first_offset_of(query.start, look.bounds, limit=query.limit, name=str(at))
    if query.after is None and query.partition is None and isinstance(query.start, int) and len(looks) > 1:
        raise InvalidError("an offset belongs to one partition: choose the partition, or a time", field="from")


def _scanned(query: RecordQuery, looks: Mapping[Partition, LogLook], content_bytes: int) -> dict[Partition, Scan]:
    until = time.monotonic() + _SCAN_S
    return {
        at: scan(
            at,
            look,
            query.wanted,
            limit=query.limit,
            is_newest=query.is_newest,
            content_bytes=content_bytes,
            is_late=lambda: time.monotonic() > until,
        )
        for at, look in looks.items()
    }


async def _named(records: tuple[TopicRecord, ...], ask_ids: AskIds) -> tuple[tuple[TopicRecord, ...], str | None]:
    producer_ids = {one.producer_id for one in records if one.state is not EntryState.PLAIN} - {None}
    if not producer_ids:
        return records, None
    try:
        ids, note = await ask_ids({one for one in producer_ids if one is not None})
    except UnavailableError as error:
        return records, f"transactional ids are not known: {error.message}"
    named = (
        record
        if record.state is EntryState.PLAIN or record.producer_id is None
        else msgspec.structs.replace(record, transactional_id=ids.get(record.producer_id))
        for record in records
    )
    return tuple(named), note


def json_lines(part: Sequence[TopicRecord | CutDownload]) -> bytes:
    """Encode each as one line. Bytes that are not UTF-8 are base64, with `is_base64`."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in part)

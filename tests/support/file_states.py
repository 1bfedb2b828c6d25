"""Files as they may stand: the address of the page that shows each state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from app.core.pipelines.pipeline import ByDate, ByField, FileSink
from app.core.wire import file_references
from app.products.files.orphan_findings import Amount, Collected, KeptFile, OrphanFindings
from app.products.files.orphan_look import OrphanResult
from app.products.files.reading import LogPlace, Portion, TopicMessage, moved
from app.products.files.service.receiving import keep, receive
from app.products.files.store.readings import FileReadingStore
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane
from tests.support.longest_names import LONG_TOPIC, long_pipeline
from tests.support.orphans import (
    ROOT,
    asked,
    begun,
    collecting,
    ended,
    findings,
    looked,
    open_transaction,
    told,
)
from tests.support.written_files import SINK, reference

LONGEST = long_pipeline("files-")
_AWAY = "no Kafka broker answers at 127.0.0.1:9: connection refused (tried for 5.0 s)"
_PHASES_MS = ((30_000, 900, 12), (30_000, 2_400, 31), (11_200, 640, 9), (30_000, 58_000, 14), (30_000, 1_100, 3))
_WIDER: dict[str, Any] = {
    "type": "record",
    "name": "flight",
    "fields": [
        {"name": "id", "type": ["null", "string"]},
        {"name": "delay", "type": ["null", "double"]},
        {"name": "user", "type": {"type": "record", "name": "user", "fields": [{"name": "id", "type": "string"}]}},
    ],
}


async def add_files(plane: ControlPlane) -> Mapping[str, str]:
    """Pipelines of which nothing, something, or something wrong is known."""
    await plane.pipeline("files-none", files=SINK)
    await plane.pipeline("files-well", files=SINK, sink_topic="well")
    await _fill(plane, "files-well", "well")
    await plane.pipeline("files-behind", files=SINK, sink_topic="behind")
    await _fill(plane, "files-behind", "behind", checkpoints=2, end_offset=9_000)
    await plane.pipeline("files-away", files=SINK, sink_topic="away")
    await _fill(plane, "files-away", "away", checkpoints=1)
    async with plane.uow() as uow:
        await uow.of(FileReadingStore).note_problem(["files-away"], _AWAY, now=plane.now)
        await uow.commit()
    await plane.pipeline("files-noted", files=SINK, sink_topic="noted")
    await _fill(plane, "files-noted", "noted", checkpoints=1, start=40)
    await _take(
        plane, "files-noted", "noted", [TopicMessage(900, 0, b"hello"), _message(902, "files-noted", 0, "anna")]
    )
    long_sink = FileSink(
        root="s3://lake/" + "x" * 200, partition_by=(ByField(name="u" * 60, field="u"), ByDate(name="d"))
    )
    await plane.pipeline(LONGEST, files=long_sink, sink_topic=LONG_TOPIC)
    await _fill(plane, LONGEST, LONG_TOPIC, column="u" * 60, user="no-place-to-break-" * 20)
    await plane.pipeline("files-former", files=SINK, sink_topic="former")
    await _fill(plane, "files-former", "former", checkpoints=1)
    await plane.revise("files-former", files=None)
    orphans = await add_orphans(plane)
    pages = {
        "no files yet": "files-none",
        "files": "files-well",
        "files, behind": "files-behind",
        "files, brokers away": "files-away",
        "files, with notes": "files-noted",
        "files, long names": LONGEST,
        "files of before": "files-former",
        **orphans,
    }
    return {
        **{what: f"/pipelines/{name}/files" for what, name in pages.items()},
        "files of one value": "/pipelines/files-well/files?partition=user%3Danna",
        "files of a value that none has": "/pipelines/files-well/files?partition=user%3Dnobody",
        "page of a pipeline with files": "/pipelines/files-well",
    }


async def add_orphans(plane: ControlPlane) -> Mapping[str, str]:
    """The same pages with what is known of orphans, by what that is."""
    states = (
        ("looking", "files-looking"),
        ("found", "files-orphaned"),
        ("none", "files-tidy"),
        ("blocked", "files-blocked"),
        ("failed", "files-unlooked"),
        ("dangling", "files-dangling"),
        ("collected", "files-collected"),
    )
    for _, name in states:
        await plane.pipeline(name, files=SINK, sink_topic=name)
        await _fill(plane, name, name, checkpoints=1)
    for name, result in (
        ("files-tidy", OrphanResult(findings=findings(plane.now))),
        ("files-blocked", OrphanResult(findings=OrphanFindings(blocked=(open_transaction(plane.now),)))),
        ("files-unlooked", OrphanResult(reason=_AWAY)),
        ("files-dangling", OrphanResult(findings=findings(plane.now, orphans=1, missing=3, name="files-dangling"))),
        ("files-orphaned", OrphanResult(findings=_many(plane, "files-orphaned"))),
        ("files-collected", OrphanResult(findings=_many(plane, "files-collected"))),
        ("files-looking", OrphanResult(findings=_many(plane, "files-looking"))),
    ):
        look = await looked(plane, result, name)
        if name == "files-looking":
            at_work = await begun(plane, await asked(plane, name))
            assert at_work is not None
            await told(plane, at_work[0], "812 files; waiting for open transactions in files-looking")
        if name == "files-collected":
            at_work = await begun(plane, await collecting(plane, look.id, name))
            assert at_work is not None
            kept = KeptFile(root=ROOT, path=f"{name}/user=anna/{7:032x}.avro", why="it has changed since it was listed")
            outcome = Collected(
                deleted=Amount(files=39, size_bytes=8_123_456), aborted_uploads=2, kept_files=1, kept=(kept,)
            )
            left = findings(plane.now, orphans=1, name=name)
            await ended(plane, at_work[0], OrphanResult(findings=left, collected=outcome))
    return {f"orphans, {what}": name for what, name in states}


def _many(plane: ControlPlane, name: str) -> OrphanFindings:
    return findings(
        plane.now,
        orphans=40,
        name=name,
        open_uploads=2,
        unknown=Amount(files=17, size_bytes=44_000_000),
        not_ours=Amount(files=1, size_bytes=5),
        skew_ms=1_200,
    )


async def _fill(
    plane: ControlPlane,
    pipeline: str,
    topic: str,
    *,
    checkpoints: int = 5,
    end_offset: int | None = None,
    start: int = 0,
    column: str = "user",
    user: str = "",
) -> None:
    offset = start
    for number, (fill_ms, upload_ms, produce_ms) in enumerate(_PHASES_MS[:checkpoints], start=1):
        opened = plane.now - timedelta(hours=3 - number // 2, minutes=number)
        opened_ms = int(opened.timestamp() * 1000)
        messages: list[TopicMessage] = []
        for index, name in enumerate(("anna", "otto", "vera", "zoë")):
            messages.append(
                _message(
                    offset,
                    pipeline,
                    number * 100 + index,
                    user + name,
                    column=column,
                    checkpoint=number,
                    size_bytes=(index + 1) ** 3 * 40_000 * number,
                    records=(index + 1) * 311,
                    opened_at_ms=opened_ms,
                    closed_at_ms=opened_ms + fill_ms,
                    uploaded_at_ms=opened_ms + fill_ms + upload_ms,
                    produce_ms=produce_ms,
                    **({"schema": _WIDER, "fingerprint": "e" * 64} if number > 3 else {}),
                )
            )
            offset += 1
        offset += 1
        is_last = number == min(checkpoints, len(_PHASES_MS))
        await _take(plane, pipeline, topic, messages, end_offset=end_offset if is_last else None)


def _message(
    offset: int, pipeline: str, number: int, user: str, *, column: str = "user", produce_ms: int = 12, **fields: Any
) -> TopicMessage:
    written = reference(
        number,
        pipeline=pipeline,
        path=f"{pipeline}/{column}={user}/date=2026-01-01/{number:032x}.avro",
        partition={column: user, "date": "2026-01-01"},
        transactional_id=f"fl.t.{pipeline}.0.0",
        **fields,
    )
    produced_ms = written.uploaded_at_ms + produce_ms
    # One in four has its commit in another answer.
    committed_ms = None if number // 100 == 3 else produced_ms + 8
    return TopicMessage(offset, produced_ms, file_references.encode(written), committed_ms)


async def _take(
    plane: ControlPlane, pipeline: str, topic: str, messages: Sequence[TopicMessage], *, end_offset: int | None = None
) -> None:
    next_offset = messages[-1].offset + 2
    async with plane.uow() as uow:
        known = (await uow.of(FileReadingStore).readings([pipeline])).get(pipeline, ())
        before = known[0] if known else None
        start = messages[0].offset if before is None else before.next_offset
        portion = Portion(
            partition=0,
            start_offset=start,
            next_offset=next_offset,
            end_offset=end_offset or next_offset,
            messages=tuple(messages),
        )
        place = LogPlace(KAFKA_CLUSTER_ID, topic, "id-1")
        after = moved(before, portion, place=place, now=plane.now)
        received = receive(pipeline, topic, [portion], now=plane.now)
        await keep(uow, pipeline=pipeline, steps=[(before, after)], received=received, now=plane.now)
        await uow.commit()

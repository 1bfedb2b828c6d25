"""The page of a pipeline's files, made up and looked at as HTML: what is not known is not shown as fine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from app.core.pipelines.pages.tabs import pipeline_tabs, register_pipeline_links
from app.core.pipelines.pipeline import FileSink, PipelineDefinition
from app.kit.access import Role, Verb, allows
from app.kit.page import Page
from app.kit.web.pages import screen
from app.kit.words import size
from app.products.files import pages as files_page
from app.products.files.charts import file_records_chart_of, file_sizes_chart_of
from app.products.files.checkpoint import CheckpointPhase, FileCheckpoint, checkpoints_of
from app.products.files.product import FILES
from app.products.files.reading import FileWatchState, TopicReading, behind_of, is_whole, notes_of, standing_sentence
from app.products.files.schema_history import FileSchema, history_of
from app.products.files.service import showing
from app.products.files.service.showing import FilesPage, FileStanding, FileTotals
from app.products.files.totals import HourTotal, PartitionTotal, Total, by_hour, by_partition, total_of
from app.products.files.written_file import FileRecord, WrittenFile
from tests.support import page_samples as samples
from tests.support.unit_of import UnitOf
from tests.support.written_files import SINK, later, written

NOW = written().seen_at + timedelta(seconds=5)
READING = TopicReading(
    kafka_cluster_id="c",
    topic="out",
    partition=0,
    topic_id="id-1",
    next_offset=9,
    end_offset=9,
    begun_at=NOW - timedelta(hours=1),
    begun_offset=0,
    moved_at=NOW,
)
WATCH = FileWatchState(
    since=NOW - timedelta(hours=1), looked_at=NOW, total=Total(files=3, records=30, size_bytes=3_000)
)


def standing(watch: FileWatchState | None = WATCH, readings: Sequence[TopicReading] = (READING,)) -> FileStanding:
    return FileStanding(
        watch=watch,
        readings=tuple(readings),
        behind=behind_of(readings),
        is_whole=is_whole(watch, readings, now=NOW),
        sentence=standing_sentence(watch, readings, now=NOW),
        notes=tuple(notes_of(readings, watch)),
    )


def page_of(
    written_files: Sequence[WrittenFile] = (),
    *,
    how: FileStanding | None = None,
    schemas: Sequence[FileSchema] = (),
    cursor: str | None = None,
    sink: FileSink | None = SINK,
) -> FilesPage:
    pipeline = samples.pipeline(None)
    told = how or standing()
    return FilesPage(
        pipeline=replace(pipeline, definition=replace(pipeline.definition, files=sink)),
        files=Page(
            items=tuple(FileRecord(id=number, file=file) for number, file in enumerate(written_files)),
            next_cursor=cursor,
        ),
        totals=FileTotals(
            standing=told,
            total=total_of(written_files),
            partitions=tuple(by_partition(written_files).values()),
            partitions_kept=40 if written_files else 0,
            hours=tuple(by_hour(written_files)),
            hours_since=NOW - timedelta(days=7),
        ),
        checkpoints=tuple(checkpoints_of(written_files).values()),
        schemas=tuple(history_of(schemas)),
    )


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Any:
    async def render(found: FilesPage, words: Sequence[str] = (), after: str | None = None) -> str:
        async def look(*_: Any, **__: Any) -> FilesPage:
            return found

        monkeypatch.setattr(showing, "files_page", look)
        uow, principal = UnitOf(), SimpleNamespace(role=Role.VIEWER)
        shown = await files_page.looking_at("flights", words, after)(uow, cast(Any, principal), NOW)

        def may(verb: Verb) -> bool:
            return allows(Role.VIEWER, verb)

        return screen.render("files/_list", {**shown.context, "now": NOW, "may": may})

    return render


async def test_files_stand_with_where_they_and_their_references_lie(rendered: Any) -> None:
    html = await rendered(page_of([written(7)]))
    assert "user=anna, date=2026-01-01" in html
    assert "file:///lake/flights/user=anna/date=2026-01-01/00000000000000000000000000000007.avro" in html
    assert "/clusters/demo/log/out/0?from=7" in html
    assert "30 s" in html
    assert "900 ms" in html
    assert "12 ms" in html
    assert '<span class="pill good">live</span>' in html


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (standing(None, ()), "No server has read"),
        (standing(replace(WATCH, looked_at=None), ()), "no answer yet"),
        (standing(replace(WATCH, problem="no broker answers", problem_at=NOW)), "no broker answers"),
        (standing(replace(WATCH, looked_at=NOW - timedelta(minutes=5))), "No server reads"),
        (standing(WATCH, [replace(READING, end_offset=20)]), "11 offsets"),
        (standing(WATCH, [replace(READING, end_offset=None)]), "not known"),
    ],
)
async def test_what_is_not_read_is_not_shown_as_read(rendered: Any, how: FileStanding, words: str) -> None:
    html = await rendered(page_of([written()], how=how))
    assert words in html
    assert '<span class="pill good">' not in html
    assert "Every reference that is committed is read" not in html


async def test_what_is_missing_before_is_said(rendered: Any) -> None:
    html = await rendered(page_of(how=standing(WATCH, [replace(READING, begun_offset=5, unread_offsets=8)])))
    assert "from offset 5 on" in html
    assert "8 offsets of out-0 were deleted" in html


async def test_empty_page_says_what_will_come_and_when(rendered: Any) -> None:
    html = await rendered(page_of())
    for headline in ("No files yet", "No checkpoints with files yet", "No schemas yet"):
        assert headline in html
    assert "at most 30 s after the first record" in html
    assert "No files with these values" in await rendered(page_of(), ["user=otto"])
    assert "No older files" in await rendered(page_of(), (), "cursor")
    assert "writes records, not files" in await rendered(page_of(sink=None))


async def test_ids_on_the_page_are_its_own(rendered: Any) -> None:
    schemas = [schema("b" * 64, b="int"), schema("a" * 64, a="int")]
    html = await rendered(page_of([written(1), written(2, checkpoint=2)], schemas=schemas))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids)) > 10


async def test_text_of_records_is_escaped(rendered: Any) -> None:
    odd = {"user": '<script>alert("x")</script>', "date": "a=b&c"}
    html = await rendered(page_of([written(partition=odd)]), ["user=<b>"])
    assert "<script>" not in html
    assert "<b>" not in html


async def test_older_files_and_partitions_keep_what_was_chosen(rendered: Any) -> None:
    html = await rendered(page_of([written()], cursor="next"), ["user=anna", "date=2026-01-01"])
    assert "partition=user%3Danna&amp;partition=date%3D2026-01-01&amp;after=next" in html


def schema(fingerprint: str, **fields: str) -> FileSchema:
    listed = [{"name": name, "type": of} for name, of in fields.items()]
    made = {"type": "record", "name": "r", "fields": listed}
    at = written().referenced_at
    return FileSchema(fingerprint=fingerprint, schema=made, files=1, first_at=at, last_at=at)


async def test_schemas_say_what_changed(rendered: Any) -> None:
    newest, oldest = schema("b" * 64, a="long", c="int"), schema("a" * 64, a="int", b="string")
    html = await rendered(page_of(schemas=[newest, oldest]))
    for words in ("int → long", "removed, was string", "new: int", "the first one kept"):
        assert words in html
    same = await rendered(page_of(schemas=[schema("b" * 64, a="int"), schema("a" * 64, a="int")]))
    assert "no changed field" in same


async def test_schema_that_is_long_does_not_travel_with_every_frame(rendered: Any) -> None:
    long = schema("a" * 64, **{f"field_{number}": "string" for number in range(2_000)})
    html = await rendered(page_of(schemas=[long, schema("b" * 64, a="int")]))
    assert "too long for this page" in html
    assert "and 1,961 more" in html
    assert len(html) < 60_000


def test_pipeline_has_the_tab_files_if_it_writes_any() -> None:
    register_pipeline_links(FILES.pipeline_links)
    pipeline = samples.pipeline_view(samples.run()).line.pipeline

    def addresses(definition: PipelineDefinition) -> list[str]:
        return [tab.address for tab in pipeline_tabs(pipeline.name, definition, "").tabs]

    assert "/pipelines/delayed-flights/files" not in addresses(pipeline.definition)
    assert "/pipelines/delayed-flights/files" in addresses(replace(pipeline.definition, files=SINK))


def line_of(*checkpoints: FileCheckpoint) -> list[files_page.CheckpointLine]:
    return files_page.lines_of(checkpoints)


def test_phases_are_drawn_on_one_scale_and_never_past_its_end() -> None:
    (usual,) = checkpoints_of([written()]).values()
    long = replace(usual, closed_at=usual.closed_at + timedelta(hours=1), checkpoint=2)
    for line in line_of(usual, long):
        assert line.bars[0].phase is CheckpointPhase.FILL
        assert all(bar.width > 0 and bar.left + bar.width <= 100.2 for bar in line.bars)
        ends = [bar.left + bar.width for bar in line.bars]
        assert [bar.left for bar in line.bars][1:] == pytest.approx(ends[:-1], abs=0.2)
    widest = max(sum(bar.width for bar in line.bars) for line in line_of(usual, long))
    assert widest == pytest.approx(100, abs=0.5)


def test_phase_that_was_not_measured_is_not_drawn() -> None:
    (one,) = checkpoints_of([written(committed_at=None)]).values()
    (line,) = line_of(one)
    assert CheckpointPhase.COMMIT not in {bar.phase for bar in line.bars}
    assert line.lengths[CheckpointPhase.COMMIT] is None


def test_bars_are_of_the_largest() -> None:
    at = written().referenced_at
    totals = [
        PartitionTotal(partition={"user": user}, total=Total(size_bytes=n, records=r), first_at=at, last_at=at)
        for user, n, r in (("a", 200, 1), ("b", 50, 4), ("c", 0, 0))
    ]
    bars = files_page.bars_of("flights", totals, ["user"])
    assert [(bar.size_width, bar.records_width) for bar in bars] == [(100, 25), (25, 100), (0, 0)]
    assert files_page.bars_of("flights", [], []) == []


def test_hours_between_others_without_a_file_are_drawn_as_nothing() -> None:
    first = written()
    hours: list[HourTotal] = by_hour([first, later(first, timedelta(hours=3))])
    chart = file_records_chart_of(hours)
    assert chart is not None
    assert chart.unit == "records"
    assert "[10,0,0,10]" in chart.series
    assert file_sizes_chart_of(hours[:1]) is None


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (None, "–"),
        (0, "0 B"),
        (812, "812 B"),
        (999.4, "999 B"),
        (999.9, "1.0 kB"),
        (1_234, "1.2 kB"),
        (34_000_000, "34 MB"),
        (999_600_000, "1.0 GB"),
        (2.5e15, "2,500 TB"),
    ],
)
def test_size_is_written_in_the_unit_that_reads_best(size_bytes: float | None, words: str) -> None:
    assert size(size_bytes) == words

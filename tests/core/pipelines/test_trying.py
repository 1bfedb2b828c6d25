"""Trials over REST, on the form, and with dead brokers: nothing is written, and each read is in the command log."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.clusters.cluster import Cluster
from app.core.journals.log_content import content
from app.core.pipelines import pipeline_file
from app.core.pipelines.pages.form import definition_of
from app.core.pipelines.pages.trial_form import SAMPLE
from app.core.pipelines.pipeline import DataframeQuery, Filter, PipelineDefinition, StepOperator, Steps, Stream
from app.core.pipelines.ports import ALL_BYTES, SampleQuery, SampleRead, TopicReader
from app.core.pipelines.service import trying
from app.core.pipelines.store import PipelineStore
from app.core.transforms.trying import QueryAnswer, SampleRecord, TriedOutput
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit.access import Principal, Role, Verb, require
from app.kit.errors import InvalidError, UnavailableError
from tests.support.fencing import register
from tests.support.topics import unique_name
from tests.support.wiring import USERS_URL, browser_of, client_of, settings_for_test, token_of, wired

HOSTILE = "<img src=x onerror=alert(1)>"
EMPTY = "empty"
VALUES: tuple[dict[str, Any], ...] = ({"arr_delay": 20, "note": HOSTILE}, {"arr_delay": 1}, {"arr_delay": "late"})
DEFINITION = PipelineDefinition(
    cluster="demo",
    source_topics=("flights",),
    sink_topic="late",
    transform=Steps(steps=(Filter(field="arr_delay", operator=StepOperator.GE, value=15),)),
)


class Reader:
    """A cluster with many topics, whose records are VALUES; a topic of EMPTY has none."""

    def __init__(self) -> None:
        self.asked: list[SampleQuery] = []
        self.failure: Exception | None = None

    async def names(self, cluster: Cluster) -> tuple[str, ...]:
        if self.failure is not None:
            raise self.failure
        return ("flights", "weather", *(f"topic-{number:05}" for number in range(10_000)))

    async def read(self, by: Principal, cluster: Cluster, query: SampleQuery) -> SampleRead:
        require(by, Verb.READ_RECORDS)
        self.asked.append(query)
        if self.failure is not None:
            raise self.failure
        records = [
            SampleRecord(
                topic=query.topic, partition=0, offset=offset, timestamp_ms=1_000, value=json.dumps(value).encode()
            )
            for offset, value in enumerate(VALUES)
            if query.topic != EMPTY
        ]
        return SampleRead(records=tuple(records[: query.limit]))


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
async def wiring(database: Database, tmp_path: Path, reader: Reader) -> AsyncGenerator[Wiring]:
    async with wired(database.url, settings_for_test(tmp_path)) as made:
        await register(made.unit_of_work, "demo", "kafka-demo")
        yield replace(made, parts={**made.parts, TopicReader: reader})


def body(definition: PipelineDefinition = DEFINITION, **more: Any) -> dict[str, Any]:
    return {"definition": msgspec.to_builtins(definition), **more}


async def tried(wiring: Wiring, given: dict[str, Any], role: Role = Role.AUTHOR) -> tuple[int, Any]:
    async with client_of(create_users_app(wiring), token=await token_of(wiring, role, name=unique_name("t"))) as client:
        answer = await client.post("/api/v1/pipelines/tried/try", json=given)
    return answer.status_code, answer.json()


FORM = {
    "name": "late",
    "cluster": "demo",
    "source_topics": "flights",
    "sink_topic": "late",
    "transform.kind": "steps",
    "transform.steps.0.op": "filter",
    "transform.steps.0.field": "arr_delay",
    "transform.steps.0.operator": "ge",
    "transform.steps.0.value": "15",
}


async def posted(wiring: Wiring, form: Mapping[str, str] = FORM, *, htmx: bool = False, **fields: str) -> str:
    """The page for an author who posts the form with changes."""
    headers = {"accept": "text/html", "origin": USERS_URL, **({"hx-request": "true"} if htmx else {})}
    token = await token_of(wiring, Role.AUTHOR, name=unique_name("t"))
    async with client_of(create_users_app(wiring)) as browser:
        await browser.post("/login", data={"token": token}, headers=headers)
        answer = await browser.post("/new-pipeline", data={**form, **fields}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_trial_over_rest_has_each_record_before_and_after_and_the_totals(wiring: Wiring, reader: Reader) -> None:
    status, found = await tried(wiring, {**body(records=3, partition=0), "from": "7"})
    assert status == 200, found
    assert (found["counts"], found["outputs"]) == ({"written": 1, "routed": 0, "dropped": 1, "bad": 1}, 1)
    assert [one["outcome"] for one in found["records"]] == ["written", "dropped", "bad"]
    assert json.loads(found["records"][0]["outputs"][0]["value"]["text"]) == VALUES[0]
    assert "step 1: `arr_delay`" in found["records"][2]["error"]
    assert reader.asked == [SampleQuery(topic="flights", limit=3, partition=0, start=7)]


async def test_trial_is_refused_with_its_reason(wiring: Wiring, reader: Reader) -> None:
    broken = replace_transform(Steps(steps=(Filter(field="", operator=StepOperator.EQ, value=1),)))
    for given, status, part in (
        (body(topic="weather"), 422, "is no source topic"),
        (body(records=101), 422, "records"),
        (body(broken), 422, "transform.steps.0.field"),
        (body(msgspec.structs.replace(DEFINITION, cluster="none")), 404, "none"),
    ):
        got, found = await tried(wiring, given)
        assert (got, part in json.dumps(found)) == (status, True), found
    assert (await tried(wiring, body(), Role.VIEWER))[0] == 403
    assert reader.asked == []


def replace_transform(transform: Steps) -> PipelineDefinition:
    return msgspec.structs.replace(DEFINITION, transform=transform)


async def test_form_shows_a_trial_with_escaped_records_and_creates_nothing(wiring: Wiring) -> None:
    page = await posted(wiring, do="try")
    assert "<strong>3 tried</strong>: 1 written (1 output, 0 routed), 1 dropped, 1 bad" in page
    assert HOSTILE not in page
    assert html.escape("alert(1)") in page
    async with wiring.unit_of_work() as uow:
        assert await uow.of(PipelineStore).find("late") is None


async def test_htmx_gets_the_panel_alone(wiring: Wiring) -> None:
    panel = await posted(wiring, htmx=True, do="samples")
    assert "<form" not in panel
    assert '<option value="arr_delay">' in panel
    assert "Samples of flights" in panel


async def test_misspelt_field_is_hinted_after_samples_were_read(wiring: Wiring) -> None:
    sampled = json.dumps(["arr_delay", "note"])
    given = {**FORM, "do": "check", "transform.steps.0.field": "arr_dealy"}
    async with browser_of(wiring, Role.AUTHOR) as browser:
        hinted = (await browser.post("/new-pipeline", data={**given, "sampled": sampled})).text
        forged = (await browser.post("/new-pipeline", data={**given, "sampled": "[[[1"})).text
    assert "did you mean <code>arr_delay</code>?" in hinted
    assert "did you mean" not in forged


async def test_topics_are_suggested_by_what_is_typed_and_bounded(wiring: Wiring) -> None:
    page = await posted(wiring, do="live", source_topics="weather, fli", sink_topic="topic-")
    sources, sinks = (options(page, field) for field in ("source_topics", "sink_topic"))
    assert sources == ["weather, flights"]
    assert (len(sinks), sinks[0]) == (50, "topic-00000")


def options(page: str, field: str) -> list[str]:
    listed = re.search(rf'<datalist id="topics-{field}">(.*?)</datalist>', page, re.DOTALL)
    assert listed is not None
    return re.findall(r'<option value="([^"]*)">', listed[1])


async def test_dead_broker_is_a_sentence_in_the_panel_and_the_form_works(wiring: Wiring, reader: Reader) -> None:
    reader.failure = UnavailableError("no broker answers at kafka:9092")
    page = await posted(wiring, do="samples")
    assert "no broker answers at kafka:9092" in page
    assert 'value="flights"' in page


async def test_enter_checks_and_does_not_create(wiring: Wiring) -> None:
    """A browser presses the first submit button of the form, in the order of the page."""
    async with browser_of(wiring, Role.AUTHOR) as browser:
        page = (await browser.get("/new-pipeline")).text
    first = re.search(r'<button[^>]*name="do"[^>]*>', page[page.index('id="form"') :])
    assert first is not None
    assert 'value="check"' in first[0]
    assert "formnovalidate" in first[0]


async def test_form_file_and_rest_give_the_same_definition_without_a_group(wiring: Wiring) -> None:
    given = msgspec.to_builtins(DEFINITION)
    del given["group_id"]
    of_file = pipeline_file.read(json.dumps({"name": "late", **given})).definition
    async with client_of(
        create_users_app(wiring), token=await token_of(wiring, Role.AUTHOR, name=unique_name("t"))
    ) as client:
        checked = await client.post("/api/v1/pipelines/late/validate", json={"definition": given})
    assert checked.status_code == 200, checked.text
    assert [one for one in checked.json()["problems"] if one["field"] == "group_id" and not one["is_warning"]] == []
    assert of_file == definition_of(FORM)
    assert of_file.group_id == "late"


async def test_empty_form_is_drawn_again_with_the_chosen_kind(wiring: Wiring) -> None:
    """The first choice on a new form comes before its name, so that it has no group yet."""
    empty = dict.fromkeys(FORM, "") | {"cluster": "demo", "transform.kind": "steps"}
    async with browser_of(wiring, Role.AUTHOR) as browser:
        answer = await browser.post("/new-pipeline", data=empty, headers={"hx-request": "true"})
    assert answer.status_code == 200
    assert 'id="add-step"' in answer.text


async def test_topic_is_chosen_among_several_for_samples_and_trials(wiring: Wiring, reader: Reader) -> None:
    both = {**FORM, "source_topics": "flights, weather"}
    page = await posted(wiring, both, do="check")
    assert re.findall(r"<option[^>]*>(.*?)</option>", choice_of(page)) == ["flights", "weather"]
    assert "<select" not in choice_of(await posted(wiring, do="check"))
    for do in ("try", SAMPLE):
        page = await posted(wiring, {**both, "try.topic": "weather"}, do=do)
        assert '<option value="weather" selected>' in choice_of(page)
        # A topic that is no source any more is not read.
        await posted(wiring, {**both, "try.topic": "secrets"}, do=do)
    assert [query.topic for query in reader.asked] == ["weather", "flights", "weather", "flights"]


async def test_choice_follows_the_source_topics_that_are_typed(wiring: Wiring) -> None:
    live = choice_of(await posted(wiring, htmx=True, do="live", source_topics="flights, weather"))
    assert 'hx-swap-oob="true"' in live
    assert '<option value="weather">' in live
    page = await posted(wiring, do="check", source_topics="flights, weather")
    assert "hx-swap-oob" not in page
    assert page.count('id="try-topics"') == 1


def choice_of(page: str) -> str:
    found = re.search(r'<div id="try-topics".*?</div>', page, re.DOTALL)
    assert found is not None
    return found[0]


QUERY_OF_TWO = DataframeQuery(
    streams=(
        Stream(name="f", topic="flights", schema="arr_delay INT"),
        Stream(name="w", topic="weather", schema="note STRING"),
    ),
    checkpoint="file:///c",
    sql="SELECT arr_delay, w.note FROM f CROSS JOIN w",
)
TWO = msgspec.structs.replace(
    DEFINITION, transform=QUERY_OF_TWO, source_topics=("flights", "weather"), transaction_timeout_ms=60_000
)
QUERY_FORM = {
    **FORM,
    "source_topics": "flights, weather",
    "transform.kind": "dataframe",
    "transform.code": "sql",
    "transform.sql": QUERY_OF_TWO.sql or "",
    **{
        f"transform.streams.{index}.{part}": getattr(stream, part)
        for index, stream in enumerate(QUERY_OF_TWO.streams)
        for part in ("name", "topic", "schema")
    },
}


class Spark:
    """In the place of the child process: it answers with ANSWER or an error, and keeps the records."""

    def __init__(self) -> None:
        self.answer = QueryAnswer(
            rows=(
                TriedOutput(topic="late", key=content(b"UA"), value=content(HOSTILE.encode())),
                TriedOutput(topic="far", partition=7, timestamp_ms=1_357_002_600_000, value=None),
                TriedOutput(topic="far", timestamp_ms=2**62, value=None),
            ),
            count=1_203,
        )
        self.refusal: Exception | None = None
        self.records: list[SampleRecord] = []

    async def try_query(self, definition: PipelineDefinition, records: Sequence[SampleRecord], **_: Any) -> QueryAnswer:
        self.records += records
        if self.refusal is not None:
            raise self.refusal
        return self.answer


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    played = Spark()
    monkeypatch.setattr(trying, "try_query", played.try_query)
    return played


async def test_query_over_rest_has_the_records_of_each_topic_and_its_rows(
    wiring: Wiring, reader: Reader, spark: Spark
) -> None:
    status, found = await tried(wiring, {**body(TWO, records=2, partition=0), "from": "7"})
    assert status == 200, found
    half = ALL_BYTES // 2
    assert reader.asked == [
        SampleQuery(topic=topic, limit=2, partition=0, start=7, most_bytes=half) for topic in ("flights", "weather")
    ]
    places = [(topic, offset) for topic in ("flights", "weather") for offset in (0, 1)]
    assert [(one.topic, one.offset) for one in spark.records] == places
    assert [(one["before"]["topic"], one["before"]["offset"]) for one in found["records"]] == places
    assert {one["outcome"] for one in found["records"]} == {None}
    assert (found["topics"], found["counts"], found["outputs"]) == (["flights", "weather"], None, 1_203)
    rows = [(row["topic"], row["partition"], row["timestamp_ms"]) for row in found["rows"]]
    assert rows == [("late", None, None), ("far", 7, 1_357_002_600_000), ("far", None, 2**62)]
    assert any("Windows and joins" in note for note in found["notes"])


async def test_query_is_refused_with_its_reason(wiring: Wiring, reader: Reader, spark: Spark) -> None:
    spark.refusal = InvalidError("Try starts no process", field="transform.sql")
    unknown = msgspec.structs.replace(QUERY_OF_TWO, sql=None, function="f", file_name="q.py", sha256="0" * 64)
    unnamed = msgspec.structs.replace(QUERY_OF_TWO, sql="")
    files = replace(wiring, settings=wiring.settings.model_copy(update={"python_transforms": True}))
    for given, status, part in (
        (body(TWO), 422, "Try starts no process"),
        (body(TWO, topic="flights"), 422, "all of its source topics"),
        (body(msgspec.structs.replace(TWO, transform=unknown)), 422, "no file with the SHA-256"),
        (body(msgspec.structs.replace(TWO, transform=unnamed)), 422, "transform.sql"),
    ):
        got, found = await tried(files, given)
        assert (got, part in json.dumps(found)) == (status, True), found
    assert (await tried(wiring, body(TWO), Role.VIEWER))[0] == 403
    assert len(reader.asked) == 2


async def test_query_without_any_record_starts_no_spark(wiring: Wiring, spark: Spark) -> None:
    stream = msgspec.structs.replace(QUERY_OF_TWO.streams[0], topic=EMPTY)
    alone = msgspec.structs.replace(
        TWO, transform=msgspec.structs.replace(QUERY_OF_TWO, streams=(stream,)), source_topics=(EMPTY,)
    )
    spark.refusal = AssertionError("it was asked")
    status, found = await tried(wiring, body(alone))
    assert (status, found["outputs"], found["records"]) == (200, 0, [])
    assert found["notes"] == ["empty has no committed record there."]


async def test_form_shows_the_records_by_stream_and_the_rows_of_a_query(wiring: Wiring, spark: Spark) -> None:
    for htmx in (False, True):
        page = await posted(wiring, QUERY_FORM, htmx=htmx, do="try")
        assert "Trial on flights, weather" in page
        assert "Stream f: 3 records of flights" in page
        assert "Stream w: 3 records of weather" in page
        assert "<strong>6 tried</strong>: 1,203 rows" in page
        assert "with the timestamp 2013-01-01 01:10:00 UTC" in page
        assert "far-7" in page
        assert "and 1,200 more rows" in page
        assert HOSTILE not in page
        assert html.escape("alert(1)") in page


async def test_form_shows_the_error_over_the_records_beside_them(wiring: Wiring, spark: Spark) -> None:
    spark.answer = QueryAnswer(error="the value of flights-0@2 does not fit the schema of <f>")
    page = await posted(wiring, QUERY_FORM, do="try")
    assert "does not fit the schema of &lt;f&gt;" in page
    assert "Stream f: 3 records of flights" in page
    assert "tried</strong>" not in page


async def test_samples_of_a_query_are_of_the_chosen_topic_and_its_trial_of_all(
    wiring: Wiring, reader: Reader, spark: Spark
) -> None:
    await posted(wiring, {**QUERY_FORM, "try.topic": "weather"}, do=SAMPLE)
    await posted(wiring, {**QUERY_FORM, "try.topic": "weather"}, do="try")
    assert [query.topic for query in reader.asked] == ["weather", "flights", "weather"]


async def test_without_the_product_that_reads_topics_the_refusal_says_so(wiring: Wiring) -> None:
    bare = replace(wiring, parts={})
    status, found = await tried(bare, body())
    assert (status, "no product that reads records" in found["detail"]) == (503, True), found
    assert "no product that reads records" in await posted(bare, do=SAMPLE)

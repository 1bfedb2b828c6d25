"""The pages for invented read models: nothing undefined, nothing unescaped, the right words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from app.core.blocked.advice import AdviceVerdict
from app.core.blocked.readers import BlockedPartition, BlockedReaders, BlockedReport, WaitingGroup
from app.core.journals.transaction_state import TOPIC
from app.core.observing.snapshot import ReadingPhase
from app.core.overview.pages import context_of
from app.core.overview.service import PipelinePage
from app.core.pipelines.pages.pipelines import charts_of, unreached
from app.core.pipelines.pipeline import AvroCodec, ByDate, ByField, FileSink, ProcessingGuarantee
from app.core.pipelines.pipeline_ids import id_forms
from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.needs import Need, NeedSeverity
from app.core.runs.pages import runs
from app.core.runs.pages.log_tail import LogTail
from app.core.runs.run import DesiredRunState, Run, RunState
from app.kit import access
from app.kit.access import Role, Verb
from app.kit.web.pages import screen
from app.products.audits.needs import broken_audit_need
from app.products.offset_log.needs import contradiction_need
from tests.support import page_samples as samples
from tests.support.observing import NOW_MS, cluster
from tests.support.page_samples import NEED, NOW, run

May = Callable[[Verb], bool]


def may_as(role: Role) -> May:
    return lambda verb: access.allows(role, verb)


def rendered(template: str, context: Mapping[str, Any], *, role: Role = Role.ADMINISTRATOR) -> str:
    return screen.render(template, {"may": may_as(role), "now": NOW, **context})


def pipeline_page(
    current: Run | None,
    *,
    role: Role = Role.ADMINISTRATOR,
    needs: tuple[Need, ...] = (),
    unreached: str | None = None,
    view: PipelinePage | None = None,
) -> str:
    view = view or samples.pipeline_view(current, needs=needs)
    context = {
        "view": view,
        "pipeline": view.line.pipeline,
        "run": current,
        "is_live": current is not None and current.ended_at is None,
        **charts_of(view),
        "steps": ["keep if arrival_delay_min ≥ 15"],
        "columns": "carrier and date",
        "lag": None,
        "beside": {
            (one.topic, one.partition): {
                "state": "Ongoing",
                "opened_at": samples.ago(0.06),
                "held_back": (None, 0, 1_204, 7)[one.partition],
            }
            for one in view.mappings
        },
        "unreached": unreached,
    }
    return rendered("pipelines/_detail", context, role=role)


def definition_page(pipeline: Pipeline) -> str:
    context = {
        "name": pipeline.name,
        "pipeline": pipeline,
        "columns": "carrier and date",
        "id_forms": id_forms(pipeline.definition, pipeline.name),
        "definition_json": "{}",
        "revisions": (samples.revision(2), samples.revision(1)),
        "commands": (samples.command(),),
    }
    return rendered("pipelines/_definition", context)


def run_page(current: Run, *, role: Role = Role.ADMINISTRATOR, log: LogTail | None = None) -> str:
    view = samples.run_view(current)
    context = {
        "view": view,
        "run": current,
        "is_live": current.ended_at is None,
        **runs.charts_of(view, log=None),
        "log": log,
    }
    return rendered("runs/_detail", context, role=role)


@pytest.mark.parametrize("state", list(RunState))
def test_every_state_of_a_run_can_be_shown(state: RunState) -> None:
    current = run(state=state)
    for html in (pipeline_page(current), run_page(current)):
        assert re.search(rf'class="pill \w+"[^>]*>{state.value}<', html)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_bad_records_are_rows_by_cause_with_a_sample_for_those_who_may_read_records(role: Role) -> None:
    sample = "/clusters/demo/topics/flights/records?partition=0&amp;from=99120&amp;limit=1"
    for html in (pipeline_page(run(), role=role), run_page(run(), role=role)):
        assert html.count('<tr id="bad-') == 1
        assert words_of(html).count("delays.py, line 12: ValueError flights-0 1,234 17 99,120") == 1
        assert (sample in html) is (role is Role.OPERATOR)


def test_tiles_count_dead_letters_and_skipped_of_the_run_and_of_the_last_hour() -> None:
    view = samples.pipeline_view(run())
    counted = msgspec.structs.replace(view.totals, records_skipped=1_234, records_dead_lettered=7)
    said = words_of(pipeline_page(run(), view=msgspec.structs.replace(view, totals=counted)))
    assert "Skipped 1,234 34 in the last hour" in said
    assert "Dead letters 7 0 in the last hour" in said


def test_task_that_commits_nothing_has_a_badge_and_its_error() -> None:
    still = samples.task(0, not_progressing_ms=31_000, last_error="broker 1 throttles this client")
    view = msgspec.structs.replace(samples.run_view(run()), tasks=(still, samples.task(1)))
    context = {"view": view, "run": run(), "is_live": True, **runs.charts_of(view, log=None), "log": None}
    html = rendered("runs/_detail", context)
    assert len(re.findall(r'class="pill bad"[^>]*>not progressing<', html)) == 1
    assert "broker 1 throttles this client" in html


def test_a_run_that_goes_on_can_be_stopped_and_one_that_ended_can_be_started_again() -> None:
    live, ended = pipeline_page(run()), pipeline_page(run(state=RunState.STOPPED))
    assert "Drain…" in live
    assert "Start…" not in live
    assert "Start…" in ended
    assert "Drain…" not in ended


def test_unreachable_cluster_is_shown_beside_the_reports_of_its_tasks() -> None:
    live = cluster()
    live.enter(TOPIC, ReadingPhase.LIVE, now_ms=NOW_MS)
    assert unreached(live.snapshot(now_ms=NOW_MS)) is None
    expired = "the broker's certificate is not accepted: certificate has expired"
    live.enter(TOPIC, ReadingPhase.LOST, problem=expired, now_ms=NOW_MS)
    why = unreached(live.snapshot(now_ms=NOW_MS))
    assert why == expired
    assert "certificate has expired" in pipeline_page(run(), unreached=why)
    assert "certificate has expired" not in pipeline_page(run(state=RunState.STOPPED), unreached=why)
    assert "does not reach" not in pipeline_page(run())


@pytest.mark.parametrize(
    ("guarantee", "forms"),
    [
        (ProcessingGuarantee.EXACTLY_ONCE_V2, ["pay%2Eeu.t.delayed-flights.&lt;instance&gt;.&lt;task&gt;"]),
        (
            ProcessingGuarantee.EXACTLY_ONCE,
            ["pay%2Eeu.p.a%20group.in%2E1.&lt;partition&gt;", "pay%2Eeu.p.a%20group.in-2.&lt;partition&gt;"],
        ),
        (ProcessingGuarantee.AT_LEAST_ONCE, []),
    ],
)
def test_definition_shows_the_ids_in_the_form_of_its_guarantee(
    guarantee: ProcessingGuarantee, forms: list[str]
) -> None:
    view = samples.pipeline_view(None)
    definition = replace(
        view.line.pipeline.definition,
        processing_guarantee=guarantee,
        group_id="a group",
        source_topics=("in.1", "in-2"),
        transactional_id_prefix="pay.eu",
    )
    html = definition_page(replace(view.line.pipeline, definition=definition))
    shown = html[html.index("<dt>Transactional ids</dt>") :].split("</dd>")[0]
    assert re.findall(r'<span class="mono">(.*?)</span>', shown) == forms
    assert ("none with at_least_once" in shown) is (not forms)


def test_after_a_drain_was_asked_for_only_the_kill_is_left() -> None:
    html = pipeline_page(run(state=RunState.DRAINING, desired=DesiredRunState.DRAIN))
    assert "Kill…" in html
    for gone in ("Pause…", "Resume…", "Drain…", "Restart…"):
        assert gone not in html


def test_a_paused_run_can_be_resumed() -> None:
    html = pipeline_page(run(state=RunState.PAUSED, desired=DesiredRunState.PAUSE))
    assert "Resume…" in html
    assert "Pause…" not in html


@pytest.mark.parametrize("role", list(Role))
def test_refused_actions_are_not_offered(role: Role) -> None:
    html = pipeline_page(run(), role=role)
    assert ("Drain…" in html) is role.includes(Role.OPERATOR)
    assert (">Edit<" in html) is role.includes(Role.AUTHOR)
    assert ("?log=0.1" in run_page(run(), role=role)) is role.includes(Role.OPERATOR)


def writing(files: FileSink | None) -> PipelinePage:
    view = samples.pipeline_view(run())
    definition = replace(view.line.pipeline.definition, files=files)
    pipeline = replace(view.line.pipeline, definition=definition)
    return replace(view, line=replace(view.line, pipeline=pipeline))


def words_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_pipeline_of_files_says_in_words_where_they_go_and_when_they_are_committed() -> None:
    files = FileSink(
        root="s3://flights/files",
        partition_by=(ByField(name="carrier", field="carrier"), ByDate(name="date")),
        event_time="at",
        rotate_ms=45_000,
        verifies=True,
        id_field="flight_id",
    )
    said = words_of(pipeline_page(run(), view=writing(files)))
    assert "→ Avro files by carrier and date → references in delayed-flights" in said
    said = words_of(definition_page(writing(files).line.pipeline))
    assert "s3://flights/files/delayed-flights/… (Avro, zstandard; by carrier and date, event time in at)" in said
    assert "every 45 s, with a file of 128 MB, and when partitions are revoked; uploads take 60 s at most" in said
    assert "inferred; a field with two types has both" in said
    assert "files are read again after each commit and compared by flight_id" in said
    assert "Commit interval" not in said
    given = replace(files, schema={"type": "record"}, codec=AvroCodec.NULL, verifies=False)
    said = words_of(definition_page(writing(given).line.pipeline))
    assert "given; a record that does not fit it is a bad record" in said
    assert "(Avro, not compressed;" in said
    assert "files are not read again" in said


def test_a_pipeline_of_records_says_nothing_of_files() -> None:
    pages = words_of(definition_page(writing(None).line.pipeline)), words_of(pipeline_page(run(), view=writing(None)))
    assert "Commit interval 100 ms" in pages[0]
    assert all("files" not in said.lower() for said in pages)


def test_a_pipeline_that_never_ran_says_what_will_be_seen() -> None:
    html = pipeline_page(None)
    assert "never started" in html
    assert "Not started yet" in html
    assert "rate-chart" not in html


def test_an_empty_server_says_what_to_do_first() -> None:
    view = samples.overview_view(is_empty=True)
    html = rendered("overview/_detail", context_of(view, lags={}))
    assert "Register a cluster" in html


@pytest.mark.parametrize(
    ("need", "page"),
    [(contradiction_need("flights", 2), "offsets"), (broken_audit_need("flights", 1), "audits")],
)
def test_need_leads_to_the_page_that_explains_it(need: Need, page: str) -> None:
    view = samples.overview_view(needs=(need,))
    text = rendered("overview/_detail", context_of(view, lags={}))
    assert f'<a href="/pipelines/flights/{page}">Details</a>' in text
    assert f'<a href="/pipelines/flights/{page}">Details</a>' in pipeline_page(run(), needs=(need,))


def test_list_of_pipelines_marks_a_contradiction() -> None:
    marked = samples.line(run(), needs=(contradiction_need("flights", 2),))
    pill = '<a class="pill bad" href="/pipelines/delayed-flights/offsets">contradicted</a>'
    assert pill in rendered("pipelines/_table", {"lines": [marked], "lags": {}})
    assert "contradicted</a>" not in rendered(
        "pipelines/_table", {"lines": [samples.line(run(), needs=(NEED,))], "lags": {}}
    )


def needs_you(*, unseen: list[str], needs: tuple[Need, ...] = (), hangs: bool = False) -> str:
    view = samples.overview_view(needs=needs)
    view = view if hangs else replace(view, hanging=())
    html = rendered("overview/_detail", context_of(view, unseen=unseen, lags={}))
    found = re.search(r"<dt>Open problems</dt>(.*?)</dl>", html, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


@pytest.mark.parametrize(
    ("severity", "tone"), [(NeedSeverity.WRONG, "bad"), (NeedSeverity.STOPPED, "bad"), (NeedSeverity.DEGRADED, "warn")]
)
def test_the_first_figure_is_as_grave_as_the_gravest_need(severity: NeedSeverity, tone: str) -> None:
    need = Need(pipeline="flights", run_id=None, severity=severity, sentence="it is so")
    view = msgspec.structs.replace(samples.overview_view(needs=(need,)), hanging=())
    html = rendered("overview/_detail", context_of(view, lags={}))
    assert f'<dl class="stat {tone} main"><dt>Open problems</dt>' in html


def test_overview_says_that_all_is_well_only_where_it_is_known() -> None:
    assert needs_you(unseen=[]) == "none 1 pipeline, 1 cluster"
    assert needs_you(unseen=["east", "west"]) == "none not verified: east, west cannot be observed now"
    assert needs_you(unseen=[], hangs=True) == "1 1 needs action"
    assert needs_you(unseen=["east"], needs=(NEED,), hangs=True) == "2 1 needs action"


def test_overview_says_when_the_brokers_were_asked() -> None:
    view = replace(samples.overview_view(), hanging=())
    report = replace(blocked_report(), causes=(), at_ms=int(samples.NOW.timestamp() * 1000) - 4_000)
    words = " ".join(re.sub(r"<[^>]+>", " ", rendered("overview/_detail", context_of(view, [report], lags={}))).split())
    assert "none 1 pipeline, 1 cluster, checked 4 s ago" in words


def blocked_report(*, topic: str = "orders", producer_id: int = 4015, problem: str = "") -> BlockedReport:
    parts = tuple(
        BlockedPartition(topic=topic, partition=n, last_stable=10, high_watermark=379, records=369) for n in (0, 1)
    )
    cause = BlockedReaders(
        cluster="local",
        producer_id=producer_id,
        producer_epoch=2,
        transactional_id="orders-7",
        owner="a client of group billing: shop on /10.0.0.7",
        is_ours=False,
        since_ms=NOW_MS - 840_000,
        until_ms=NOW_MS + 60_000,
        verdict=AdviceVerdict.FENCE,
        advice="Fence it.",
        partitions=parts,
        groups=(WaitingGroup(group="invoices", before=0),),
    )
    return BlockedReport(cluster="local", at_ms=NOW_MS, causes=(cause,), problem=problem)


def test_overview_answers_who_is_blocked_by_whom_since_when_and_what_to_do() -> None:
    view = replace(samples.overview_view(), hanging=())
    html = rendered("overview/_detail", context_of(view, [blocked_report(problem="no broker answers")], lags={}))
    assert '<dl class="stat bad main"><dt>Open problems</dt><dd>1</dd>' in html
    row = html[html.index('id="problem-local-4015-2"') :]
    row = row[: row.index("</tr>")]
    words = " ".join(re.sub(r"<[^>]+>", " ", row).split())
    assert "blocked readers orders-0 and 1 other partition: 738 records blocked by orders-7" in words
    assert "orders-7 : a client of group billing: shop on /10.0.0.7. invoices waits. It times out" in words
    assert "/stuck/fence?cluster=local&amp;id=orders-7&amp;target=orders%3A0" in row
    assert "no broker answers" in html


def test_overview_names_what_was_not_checked() -> None:
    report = replace(blocked_report(problem="DESCRIBE is missing"), causes=(), left_out=3)
    view = replace(samples.overview_view(), hanging=())
    html = rendered("overview/_detail", context_of(view, [report], lags={}))
    assert "not verified: local cannot be observed now" in html
    assert "3 more partitions of open transactions of local were not checked" in html


def test_overview_counts_fencings_by_cause_and_leads_to_each() -> None:
    html = rendered("overview/_detail", context_of(samples.overview_view(), lags={}))
    assert 'Fencing events, last 24 hours</dt><dd data-glow="fencings">3</dd>' in html
    assert "2 takeover · 1 timeout" in html
    assert 'href="/fencing/0195f3a2-b7c8-4d1e-9a6b-3c5d7e8f9012"' in html


def test_issues_are_shown_with_their_next_step() -> None:
    html = pipeline_page(run(), needs=(NEED,))
    assert "1 of 2 tasks waits for a core" in html
    assert "Next step: add Spark workers or cores" in html


def test_errors_and_logs_are_escaped_text() -> None:
    log = LogTail(label="instance 0", path="/x", text="<img src=x onerror=alert(1)>")
    html = run_page(run(), log=log)
    assert "<script>" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_every_time_has_the_moment_in_its_title() -> None:
    html = pipeline_page(run())
    times = re.findall(r"<time [^>]*>", html)
    assert times
    assert all(" UTC" in time and "datetime=" in time for time in times)


def test_a_partition_leads_to_its_log() -> None:
    assert 'href="/clusters/demo/log/flights/0"' in pipeline_page(run())


def test_a_partition_has_what_brokers_say_of_its_transaction_and_who_waits() -> None:
    html = pipeline_page(run())
    assert 'href="/transactions/id?cluster=demo&amp;id=fl.t.delayed-flights.0.0"' in html
    assert "Ongoing" in html
    waiting = re.findall(r'data-label="Blocked"[^>]*>(.*?)</td>', html)
    assert waiting[:2] == ["–", "0"]
    assert 'href="/stuck?cluster=demo&amp;target=flights%3A2"' in waiting[2]
    assert ">1,204</a>" in waiting[2]


def test_an_id_is_copied_whole() -> None:
    html = run_page(run())
    assert f'data-copy="{samples.RUN_ID}"' in html


def test_a_zombie_is_shown_as_evidence() -> None:
    assert "Zombies" in run_page(run())


def test_addresses_escape_every_name() -> None:
    assert screen.url_of("pipelines", "a/b?c", "edit") == "/pipelines/a%2Fb%3Fc/edit"
    assert screen.url_of("commands", target="pipeline:x y", after=None) == "/commands?target=pipeline%3Ax+y"


def test_a_pipeline_leads_to_what_holds_its_group_up() -> None:
    assert 'href="/stuck?cluster=demo&amp;target=delayed-flights&amp;kind=group"' in pipeline_page(run())

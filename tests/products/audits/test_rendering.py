"""The HTML of audits: no undefined values, the right texts, ids only on request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from app.kit import access
from app.kit.access import Role, Verb
from app.kit.moments import span_text
from app.kit.web.pages import screen
from app.kit.web.pages.paging import ListLinks
from app.products.audits.audit import Audit, AuditProgress, AuditState
from app.products.audits.chart import audits_chart_of
from app.products.audits.comparison import baseline_words
from app.products.audits.plan import next_due_at
from app.products.audits.result import AuditSide, Gap, GapReason
from app.products.audits.telling import audit_sentence, figure
from app.products.audits.words import event_time_words, id_place_words, window_words
from tests.support.audit_samples import HOUR, NOON, audit, broken_result, dangling_result, plan, result

WORDS: Mapping[str, Any] = {
    "sentence_of": audit_sentence,
    "figure": figure,
    "window_words": window_words,
    "id_place_words": id_place_words,
    "baseline_words": baseline_words,
    "span_text": span_text,
    "event_time_words": event_time_words,
}


NO_COMPARISON: Mapping[str, Any] = {"comparison_plan": None, "comparison_due_at": None, "newest_comparison": None}


def rendered(template: str, *, role: Role = Role.OPERATOR, **context: Any) -> str:
    def may(verb: Verb) -> bool:
        return access.allows(role, verb)

    return screen.render(template, {"may": may, "now": NOON + HOUR, **WORDS, **context})


def one(shown: Audit, *, with_ids: bool = False, role: Role = Role.OPERATOR) -> str:
    return rendered("audits/_detail", audit=shown, with_ids=with_ids, role=role)


def in_state(state: AuditState) -> Audit:
    ended = NOON if state in (AuditState.DONE, AuditState.FAILED, AuditState.STOPPED, AuditState.SKIPPED) else None
    return audit(state, result=result() if state is AuditState.DONE else None, ended_at=ended, reason="a reason")


@pytest.mark.parametrize("state", AuditState)
def test_every_state_can_be_shown(state: AuditState) -> None:
    shown = in_state(state)
    word = shown.verdict or state
    html = one(shown)
    assert re.search(rf'class="pill \w+"[^>]*>{word.replace("_", " ")}<', html)
    assert ("/stop" in html) == (state in (AuditState.PENDING, AuditState.SUBMITTING, AuditState.RUNNING))
    listed = rendered(
        "audits/_list",
        name="flights",
        audits=[shown],
        living=None if shown.has_ended else shown,
        chart=None,
        pages=ListLinks(None, None),
        plan=plan(),
        next_due_at=next_due_at(plan()),
        **NO_COMPARISON,
    )
    assert f"/audits/{shown.id}" in listed


def test_example_links_to_its_place_in_the_log() -> None:
    html = one(audit(AuditState.DONE, result=broken_result(), ended_at=NOON))
    assert 'href="/clusters/test/log/in/1?from=41"' in html
    assert 'href="/clusters/test/log/out/2?from=30"' in html
    assert "2 outputs lost (of 1 id) and 1 output duplicated" in html


def test_one_id_is_singular() -> None:
    html = one(audit(AuditState.DONE, result=broken_result(), ended_at=NOON))
    assert '<dt>Lost</dt><dd>2</dd><dd class="more">1 id</dd>' in html


def test_ids_are_shown_only_on_request_and_escaped() -> None:
    found = broken_result()
    odd = msgspec.structs.replace(found.examples[0], id="<b>order-7</b>")
    shown = audit(AuditState.DONE, result=msgspec.structs.replace(found, examples=(odd,)), ended_at=NOON)
    assert "order-7" not in one(shown)
    assert "&lt;b&gt;order-7&lt;/b&gt;" in one(shown, with_ids=True)
    assert "ids=true" in one(shown)
    assert "ids=true" not in one(shown, role=Role.VIEWER)


def test_gap_is_shown_first_and_never_as_clean() -> None:
    gap = Gap(side=AuditSide.SOURCE, topic="in", partition=0, reason=GapReason.DELETED, sentence="in-0 begins at 9.")
    html = one(audit(AuditState.DONE, result=result(gaps=(gap,)), ended_at=NOON))
    assert "Not shown: in-0 begins at 9." in html
    assert 'class="pill good"' not in html
    assert "<dt>Lost</dt><dd>–</dd>" in html, "zero found is unknown with a gap"


def test_findings_are_shown_by_partition() -> None:
    html = one(audit(AuditState.DONE, result=broken_result(), ended_at=NOON))
    table = html[html.index('id="by-partition"') :]
    assert re.search(r'in-1</th><td data-label="Side">source</td>.*?lost.*?>2<', table, re.DOTALL)


def test_dangling_references_have_their_own_table() -> None:
    html = one(audit(AuditState.DONE, result=dangling_result(), ended_at=NOON))
    assert "<dt>Files</dt><dd>2</dd>" in html
    table = html[html.index('id="dangling"') : html.index("Examples</h2>")]
    assert "flights/carrier=UA/00ff.avro" in table
    assert "is not there" in table
    examples = html[html.index('id="examples"') : html.index('id="by-partition"')]
    assert "<th>References</th>" in examples
    assert "dangling" not in examples
    plain = one(audit(AuditState.DONE, result=broken_result(), ended_at=NOON))
    assert "<dt>Files</dt>" not in plain
    assert 'id="dangling"' not in plain


def test_progress_is_a_bar_and_a_text() -> None:
    progress = AuditProgress(stage="reading", tasks_done=3, tasks=8, offsets=12_345, heard_at=NOON)
    html = one(audit(AuditState.RUNNING, progress=progress))
    assert '<progress max="8" value="3"' in html
    assert "12,345 offsets" in html


def test_empty_history_names_the_next_step() -> None:
    html = rendered(
        "audits/_list",
        name="flights",
        audits=[],
        living=None,
        chart=None,
        pages=ListLinks(None, None),
        plan=None,
        next_due_at=None,
        **NO_COMPARISON,
    )
    assert "No audits yet" in html
    assert "Start one below." in html


def test_chart_has_a_point_for_each_window_and_gaps_without_a_result() -> None:
    def of(hours: int, state: AuditState, **fields: Any) -> Audit:
        window = msgspec.structs.replace(audit().window, end_ms=int((NOON + hours * HOUR).timestamp() * 1000))
        return audit(state, window=window, ended_at=NOON, **fields)

    first = of(0, AuditState.DONE, result=result())
    assert audits_chart_of([first]) is None, "one point is no history"
    newest = [of(2, AuditState.DONE, result=broken_result()), of(1, AuditState.SKIPPED), first]
    drawn = audits_chart_of(newest)
    assert drawn is not None
    chart = msgspec.json.decode(drawn.series)
    assert chart["data"][1:] == [[8, None, 9], [0, None, 3]]

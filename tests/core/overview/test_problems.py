"""Open problems: one line for each cause, the gravest and longest first, with the sentence of its alert."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from app.core.alerts.alert import Alert, AlertKind, AlertState
from app.core.blocked.advice import AdviceVerdict
from app.core.blocked.readers import BlockedPartition, BlockedReaders, BlockedReport
from app.core.hanging.report import HangingLine
from app.core.overview.cli import rendered
from app.core.overview.problems import OpenProblem, ProblemKind, Unreached, problems_of
from app.core.runs.needs import Need, NeedSeverity
from app.kit.cli.output import console
from tests.support.hanging_samples import hanging_transaction
from tests.support.page_samples import NOW

NOW_MS = int(NOW.timestamp() * 1000)
CAUSE = BlockedReaders(
    cluster="demo",
    producer_id=4015,
    producer_epoch=2,
    transactional_id="orders-7",
    owner="",
    is_ours=False,
    since_ms=NOW_MS - 840_000,
    until_ms=None,
    verdict=AdviceVerdict.FENCE,
    advice="Fence orders-7",
    partitions=(BlockedPartition(topic="orders", partition=0, last_stable=10, high_watermark=379, records=369),),
)
HANGING = HangingLine(cluster="demo", transaction=hanging_transaction(producer_id=4015))


def alert(kind: AlertKind, *, at: datetime = NOW, run: str | None = None, producer_id: int | None = None) -> Alert:
    return Alert(
        kind=kind,
        state=AlertState.RAISED,
        subject="s",
        at=at,
        sentence=f"It is {kind}.",
        page="/there",
        cluster="demo",
        run=run,
        producer_id=producer_id,
        producer_epoch=None if producer_id is None else 2,
    )


def need(severity: NeedSeverity, sentence: str, *, explained: str | None = None) -> Need:
    return Need(pipeline="flights", run_id="r1", severity=severity, sentence=sentence, explained=explained)


def problems(
    *needs: Need,
    causes: tuple[BlockedReaders, ...] = (),
    hanging: tuple[HangingLine, ...] = (),
    raised: tuple[Alert, ...] = (),
) -> list[OpenProblem]:
    reports = [BlockedReport(cluster="demo", at_ms=NOW_MS, causes=causes)]
    return list(problems_of(needs, blocked=reports, hanging=hanging, raised=raised))


def test_a_transaction_that_blocks_readers_is_one_line_with_the_sentence_of_its_alert() -> None:
    open_one = alert(AlertKind.TRANSACTION_OPEN, producer_id=4015)
    (one,) = problems(causes=(CAUSE,), hanging=(HANGING,), raised=(open_one,))
    assert (one.kind, one.sentence) == (ProblemKind.BLOCKED_READERS, CAUSE.sentence)
    assert one.page == "/stuck?cluster=demo&target=orders%3A0"
    other = replace(CAUSE, producer_id=9)
    found = problems(causes=(other,), hanging=(HANGING,), raised=(open_one,))
    assert sorted(one.kind for one in found) == [
        ProblemKind.BLOCKED_READERS,
        ProblemKind.HANGING_TRANSACTION,
        ProblemKind.OPEN_TRANSACTION,
    ]


def test_each_partition_of_a_hanging_transaction_is_ended_by_itself() -> None:
    second = replace(HANGING, transaction=hanging_transaction(producer_id=4015, partition=1))
    assert [one.page.rpartition("%3A")[2] for one in problems(hanging=(HANGING, second))] == ["0", "1"]


def test_gravest_and_longest_come_first() -> None:
    owned = replace(CAUSE, producer_id=9, verdict=AdviceVerdict.OWNER)
    younger = replace(CAUSE, producer_id=10, since_ms=NOW_MS)
    found = problems(
        need(NeedSeverity.NOTICE, "a revision waits"),
        need(NeedSeverity.STOPPED, "the run failed"),
        causes=(owned, younger, CAUSE),
        raised=(alert(AlertKind.OBSERVER_BLIND), alert(AlertKind.OBSERVER_BEHIND)),
    )
    assert [(one.severity, one.kind) for one in found] == [
        (NeedSeverity.WRONG, ProblemKind.BLOCKED_READERS),
        (NeedSeverity.WRONG, ProblemKind.BLOCKED_READERS),
        (NeedSeverity.STOPPED, ProblemKind.OBSERVER),
        (NeedSeverity.STOPPED, ProblemKind.PIPELINE),
        (NeedSeverity.DEGRADED, ProblemKind.BLOCKED_READERS),
        (NeedSeverity.DEGRADED, ProblemKind.OBSERVER),
        (NeedSeverity.NOTICE, ProblemKind.PIPELINE),
    ]
    assert [one.since for one in found[:2]] == [CAUSE.since, younger.since]


def test_a_run_has_one_line_since_its_alert() -> None:
    since = NOW - timedelta(minutes=3)
    looping = need(NeedSeverity.STOPPED, "crash-looping: instance 0 failed 5 times")
    slow = need(NeedSeverity.STOPPED, "not progressing: task 0.0")
    raised = (alert(AlertKind.CRASH_LOOPING, run="r1", at=since), alert(AlertKind.NOT_PROGRESSING, run="r2"))
    found = problems(looping, slow, raised=raised)
    assert [(one.sentence.partition(":")[0], one.since) for one in found] == [
        ("crash-looping", since),
        ("not progressing", None),
    ]
    assert problems(raised=raised) == []


def test_a_problem_of_a_pipeline_leads_to_the_page_that_explains_it() -> None:
    (ours,) = problems(need(NeedSeverity.WRONG, "it contradicts", explained="offsets"))
    assert (ours.page, ours.pipeline) == ("/pipelines/flights/offsets", "flights")
    (run,) = problems(need(NeedSeverity.DEGRADED, "slow"))
    assert run.page == "/runs/r1"


def said(items: list[dict[str, object]], unverified: list[str]) -> str:
    answer = {"items": items, "pipelines": 2, "clusters": 1, "unverified": unverified, "checked_at": None}
    with console.capture() as captured:
        console.print(rendered(answer))
    return captured.get()


def test_command_says_what_was_checked_and_what_was_not() -> None:
    assert "No open problems · 2 pipelines, 1 cluster" in said([], [])
    assert "Not verified: east cannot be observed now." in said([], ["east"])
    item = {"pipeline": "flights", "cluster": None, "severity": "wrong", "since": None, "next_step": "wait"}
    text = said([{**item, "sentence": "it [bold]stands[/bold]"}], ["east"])
    assert "flights  it [bold]stands[/bold] Next step: wait." in text
    assert "Not verified: east" in text


def test_cluster_without_answers_is_one_line_with_its_pipelines_from_the_first_second_on() -> None:
    """Tasks report errors within seconds, each of them; observers have an alert after a minute, each of them."""
    dead = Unreached("demo", "no broker answers", NOW, ("flights", "orders"))
    follows = [
        replace(need(NeedSeverity.DEGRADED, f"task 0.{task} is backing off: _ALL_BROKERS_DOWN"), may_follow=True)
        for task in range(4)
    ]
    failed = need(NeedSeverity.STOPPED, "the run failed: no license")
    of_other = replace(follows[0], pipeline="elsewhere")
    found = problems_of(
        [*follows, failed, of_other],
        blocked=(),
        hanging=(),
        raised=(alert(AlertKind.OBSERVER_BLIND), alert(AlertKind.OBSERVER_BLIND)),
        unreached=[dead],
    )
    assert sorted((one.kind, one.pipeline or "") for one in found) == [
        (ProblemKind.CLUSTER, ""),
        (ProblemKind.PIPELINE, "elsewhere"),
        (ProblemKind.PIPELINE, "flights"),
    ]
    (cluster,) = [one for one in found if one.kind is ProblemKind.CLUSTER]
    assert cluster.sentence.endswith("answers this server: no broker answers. 1 pipeline cannot go on: flights.")
    assert problems_of(follows, blocked=(), hanging=(), raised=())[0].kind is ProblemKind.PIPELINE

"""Journal records and client reports of one end are one event."""

from __future__ import annotations

from app.core.fencing.cases import case_of_word, joined
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import ClientWord, Evidence
from app.core.fencing.fencing_event import Case, FencingCause, FencingKey, FencingKind
from app.core.fencing.steps import cases_of
from app.core.runs.task import EventKind
from tests.core.fencing.coordinator import CLUSTER, ID, Coordinator
from tests.core.fencing.scenes import both_versions, events, felt, recorded_ids, word


@both_versions
def test_journal_and_client_report_are_one_event(version: str) -> None:
    """Fenced, superseded, and the journal's records: one event with all of them."""
    live = recorded_ids(version)["taken-0"]
    said = [felt(live, word(kind), epoch=0) for kind in (EventKind.FENCED, EventKind.SUPERSEDED, EventKind.FENCED)]
    found = [event for event in events(live, *said).values() if event.key.producer_epoch == 0]
    assert len(found) == 1
    kinds = [one.kind for one in found[0].evidence if isinstance(one, ClientWord)]
    assert kinds == [EventKind.FENCED, EventKind.SUPERSEDED]
    assert found[0].verdict.sentence.endswith(
        "The broker refused instance 0 task 1 attempt 2 on w1, and it ended as superseded."
    )


def test_reaction_of_a_task_alone_is_no_event() -> None:
    live = Coordinator().live
    assert events(live, felt(live, word(EventKind.SUPERSEDED), epoch=0)) == {}


def test_reports_of_another_producer_are_not_joined() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=100)
    live = coordinator.live
    cases = [*cases_of(live, kafka_cluster_id=CLUSTER), felt(live, word(), epoch=0, producer_id=8)]
    found = {case.key.producer_id: judge_case(case) for case in joined(cases)}
    assert {producer: event and event.verdict.cause for producer, event in found.items()} == {
        7: FencingCause.TAKEOVER,
        8: FencingCause.UNEXPLAINED,
    }


def test_report_without_a_producer_has_no_case() -> None:
    assert (
        case_of_word(word(), kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=None, producer_epoch=0) is None
    )


def test_empty_case_proves_nothing() -> None:
    for kind in FencingKind:
        key = FencingKey(kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=7, producer_epoch=0, kind=kind)
        nothing: tuple[Evidence, ...] = ()
        assert judge_case(Case(key, nothing)) is None

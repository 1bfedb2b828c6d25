"""The init of a query's id: by a newer driver, by a newer attempt of the same one, or by another client.

The journals are those of the coordinator's encoders; the leases are as the database has them.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.fencing.cause import judge_case
from app.core.fencing.comeback import with_members
from app.core.fencing.evidence import Evidence, LeaseWord, merged
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingVerdict
from app.core.fencing.service.events import record_cases
from app.core.fencing.steps import cases_of
from app.core.fencing.story import StorySide, story_of
from app.core.journals.live_groups import LiveGroup, MemberChange
from app.core.runs.task import OutcomeKind
from tests.core.fencing.coordinator import CLUSTER, Coordinator
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane
from tests.support.queries import QUERY

BEGUN_MS = 1_060_050
INIT_AFTER_MS = 8_000
FIRST = LeaseWord(pipeline="flights", run_id="r1", ordinal=0, lease=1, at_ms=BEGUN_MS - 50_000, host="h1")
SECOND = LeaseWord(pipeline="flights", run_id="r1", ordinal=0, lease=2, at_ms=BEGUN_MS + 4_000, host="h2")
TAKEOVER, RETURNED = FencingCause.TAKEOVER, FencingCause.APPLICATION_RETURNED
NEWER_DRIVER, NEWER_ATTEMPT = FencingCause.NEWER_DRIVER, FencingCause.NEWER_ATTEMPT


def replaced(at_ms: int) -> tuple[MemberChange, MemberChange]:
    """The static member as a newer driver replaces it: one record of the group, with the client id of the first."""
    client = "fenceline-flights-0-0-l1-a0"
    return (
        MemberChange("m-1", "flights-driver", client, "/10.0.0.1", at_ms, 5, has_left=True, members=1),
        MemberChange("m-2", "flights-driver", client, "/10.0.0.1", at_ms, 5, has_left=False, members=1),
    )


def case_of(*changes: MemberChange, timed_out: bool = False) -> Case:
    """A transaction of the id that InitProducerId ends, or its timeout; the new producer is initialised again."""
    coordinator = Coordinator()
    coordinator.begin(after_ms=BEGUN_MS - coordinator.now_ms)
    if timed_out:
        coordinator.time_out()
    coordinator.init(after_ms=INIT_AFTER_MS, retry_ms=100)
    # The driver fences the id, and its writer initialises it once more for the first batch.
    coordinator.init(after_ms=3_000)
    coordinator.begin()
    return with_members(
        cases_of(coordinator.live, kafka_cluster_id=CLUSTER)[0],
        {"flights": LiveGroup("flights", changes=changes)},
        lambda _: ["flights"],
    )


def verdict_of(case: Case, *more: Evidence) -> FencingVerdict:
    event = judge_case(Case(case.key, merged(case.evidence, more)))
    assert event is not None
    return event.verdict


def test_a_lease_that_was_claimed_while_the_transaction_was_open_is_a_newer_driver() -> None:
    verdict = verdict_of(case_of(*replaced(BEGUN_MS + 7_000)), FIRST, SECOND)
    assert (verdict.cause, verdict.confidence) == (NEWER_DRIVER, Confidence.LIKELY)
    assert verdict.sentence == (
        "A newer driver took pipeline flights: the driver of lease 2 on h2, claimed 4.1 s before; the older one had "
        "lease 1. It joined group flights as static member flights-driver. It fenced fl.t.flights.0.1 (producer 7 "
        "epoch 0): epoch 0 → 2. Its transaction of 8 s into delayed was aborted; read_committed consumers skip its "
        "records."
    )
    assert TAKEOVER in verdict.alternatives


def test_without_a_newer_lease_or_member_it_is_a_newer_attempt_of_the_same_driver() -> None:
    verdict = verdict_of(case_of(), FIRST)
    assert (verdict.cause, verdict.confidence) == (NEWER_ATTEMPT, Confidence.LIKELY)
    assert verdict.sentence.startswith(
        "A newer attempt took the id: a writer of the driver of lease 1 on h1. Since the transaction began, no other "
        "driver of flights had claimed a lease or joined its group. It fenced fl.t.flights.0.1"
    )
    assert TAKEOVER in verdict.alternatives


def test_first_lease_of_a_newer_run_is_a_newer_driver() -> None:
    verdict = verdict_of(case_of(), FIRST, replace(SECOND, run_id="r2", lease=1))
    assert verdict.cause is NEWER_DRIVER
    assert "the older one had lease 1 of an earlier run." in verdict.sentence


@pytest.mark.parametrize(
    ("leases", "changes", "cause"),
    [
        ((), (), TAKEOVER),
        ((), replaced(BEGUN_MS + 7_000), RETURNED),
        # A driver outside Fenceline joined the group: it has no lease.
        ((FIRST,), replaced(BEGUN_MS + 7_000), RETURNED),
        # The driver had ended before, so that its writers did not send it.
        ((replace(FIRST, ended_ms=BEGUN_MS + 1_000),), (), TAKEOVER),
        ((replace(FIRST, at_ms=BEGUN_MS + 60_000),), (), TAKEOVER),
    ],
    ids=["no lease", "no lease, returned", "another driver", "ended before", "claimed later"],
)
def test_another_sender_gets_neither_cause(
    leases: tuple[LeaseWord, ...], changes: tuple[MemberChange, ...], cause: FencingCause
) -> None:
    verdict = verdict_of(case_of(*changes), *leases)
    assert verdict.cause is cause
    assert {NEWER_DRIVER, NEWER_ATTEMPT}.isdisjoint(verdict.alternatives)


@pytest.mark.parametrize(("ended_ms", "told"), [(BEGUN_MS - 9_000, "had ended 17 s before"), (None, "had not ended")])
def test_an_older_driver_that_may_live_on_is_named_beside_the_newer_attempt(ended_ms: int | None, told: str) -> None:
    older, newer = replace(FIRST, ended_ms=ended_ms), replace(SECOND, at_ms=BEGUN_MS - 5_000)
    verdict = verdict_of(case_of(), older, newer)
    assert (verdict.cause, verdict.confidence) == (TAKEOVER, Confidence.LIKELY)
    assert verdict.sentence.startswith(
        f"The driver of lease 1 on h1 may have taken the id, though its lease {told}, or a newer attempt of the driver "
        "of lease 2 on h2. It fenced fl.t.flights.0.1"
    )
    assert NEWER_ATTEMPT in verdict.alternatives
    assert NEWER_DRIVER not in verdict.alternatives


def test_a_lease_that_is_claimed_after_the_init_took_nothing() -> None:
    verdict = verdict_of(case_of(), FIRST, replace(SECOND, at_ms=BEGUN_MS + INIT_AFTER_MS + 5_000))
    assert verdict.cause is NEWER_ATTEMPT
    assert "lease 1" in verdict.sentence


def test_a_timeout_stays_one_though_a_newer_driver_follows() -> None:
    """As after a long freeze: the coordinator was first."""
    case = case_of(timed_out=True)
    assert verdict_of(case, FIRST, replace(SECOND, at_ms=BEGUN_MS + 11_000)).cause is FencingCause.TIMEOUT


def test_the_end_of_a_lease_is_kept_in_any_order() -> None:
    ended = replace(FIRST, ended_ms=BEGUN_MS + 1_000)
    assert merged([FIRST], [ended]) == merged([ended], [FIRST]) == (ended,)


def test_the_story_has_the_claims() -> None:
    case = case_of()
    event = judge_case(Case(case.key, merged(case.evidence, [FIRST, SECOND])))
    assert event is not None
    claims = [one for one in story_of(event).moments if one.side is StorySide.DRIVER]
    assert [one.what for one in claims] == [
        "of lease 1 on h1 claimed pipeline flights",
        "of lease 2 on h2 claimed pipeline flights",
    ]


@pytest.mark.parametrize("is_query", [True, False])
async def test_the_leases_of_a_query_are_added_from_the_database_and_those_of_tasks_are_not(
    plane: ControlPlane, is_query: bool
) -> None:
    run = await (plane.running(transform=QUERY) if is_query else plane.running())
    begun = plane.pass_time(60)
    await plane.outcome(run.id, kind=OutcomeKind.FAILED)
    plane.pass_time(3)
    await plane.lease(run.id)
    await plane.submit(run.id, lease=2)
    assert (await plane.claim(run.id, lease=2)).granted
    coordinator = Coordinator(now_ms=int(begun.timestamp() * 1000), transactional_id="fl.t.flights.0.0")
    coordinator.begin()
    coordinator.init(after_ms=INIT_AFTER_MS, retry_ms=100)
    cases = [replace_cluster(case) for case in cases_of(coordinator.live, kafka_cluster_id=CLUSTER)]
    async with plane.uow() as uow:
        (event,) = await record_cases(uow, cases, now=plane.now)
        await uow.commit()
    assert event.verdict.cause is (NEWER_DRIVER if is_query else TAKEOVER)
    leases = [(one.lease, one.ended_ms is None) for one in event.evidence if isinstance(one, LeaseWord)]
    assert leases == ([(1, False), (2, True)] if is_query else [])
    async with plane.uow() as uow:
        assert await record_cases(uow, cases, now=plane.now) == [], "a second server adds nothing"


def replace_cluster(case: Case) -> Case:
    return Case(replace(case.key, kafka_cluster_id=KAFKA_CLUSTER_ID), case.evidence)

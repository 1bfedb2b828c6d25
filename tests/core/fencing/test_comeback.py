"""The return of the same application, by the id and the group's journal, in contrast to a takeover.

Of Kafka Streams on recorded journals of a 4.3.1 broker (tests/support/streams_recording.py has the scenes).
"""

from __future__ import annotations

from functools import cache, partial

import msgspec
import pytest

from app.core.fencing.cause import judge_case
from app.core.fencing.comeback import groups_by_producer, streams_id, with_members
from app.core.fencing.evidence import MemberRecord
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingEvent
from app.core.fencing.steps import cases_of
from app.core.journals.group_fold import LiveGroups
from app.core.journals.group_records import TOPIC as GROUPS
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup, MemberChange
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.record_batch import split_batches
from app.core.journals.transaction_state import TOPIC as TRANSACTIONS
from tests.core.fencing.coordinator import CLUSTER, ID, Client, Coordinator
from tests.core.fencing.scenes import every_client, felt, word
from tests.support.recordings import streams_bytes
from tests.support.streams_recording import SHORT_MS

_PROCESS = "6b662bd0-0bdb-422e-bab2-d494d7ac6aeb"


@cache
def recorded_transactions() -> dict[str, LiveTransaction]:
    live = LiveTransactions()
    for batch in split_batches(streams_bytes(TRANSACTIONS)):
        live.apply(0, batch)
    return live.ids


@cache
def recorded_groups() -> dict[str, LiveGroup]:
    live = LiveGroups()
    for batch in split_batches(streams_bytes(GROUPS)):
        live.apply(0, batch)
    assert not live.reading.unreadable
    return live.groups


def events_of(scene: str, *, with_groups: bool = True) -> list[FencingEvent]:
    """Of the scene's first instance."""
    ids = {name: live for name, live in recorded_transactions().items() if name.startswith(f"{scene}-")}
    of_scene = [live for name, live in ids.items() if (parts := streams_id(name)) and parts.application == scene]
    first = min(of_scene, key=lambda live: live.steps[0].record.offset)
    groups = recorded_groups() if with_groups else {}
    cases = [with_members(case, groups, lambda _: []) for case in cases_of(first, kafka_cluster_id=CLUSTER)]
    return [event for case in cases if (event := judge_case(case)) is not None]


@pytest.mark.parametrize("with_groups", [True, False], ids=["groups", "without groups"])
def test_streams_instance_that_was_restarted_is_no_takeover(with_groups: bool) -> None:
    verdict = events_of("killed-kept", with_groups=with_groups)[0].verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.APPLICATION_RETURNED, Confidence.LIKELY)
    assert verdict.alternatives == (FencingCause.TAKEOVER, FencingCause.OWN_ABORT)
    assert verdict.sentence.startswith("The application killed-kept returned. Only its process ")
    assert "into orders.copied" in verdict.sentence
    assert ("left group killed-kept and rejoined it" in verdict.sentence) is with_groups


@pytest.mark.parametrize("scene", ["frozen-past-session", "frozen-past-session-streams"])
def test_streams_instance_that_aborts_seconds_before_its_next_producer_begins_has_lost_nothing(scene: str) -> None:
    """Recorded on a busy machine: it aborted by itself after it was removed from the group."""
    verdict = events_of(scene)[0].verdict
    assert verdict.cause is FencingCause.OWN_ABORT
    assert verdict.alternatives == (FencingCause.APPLICATION_RETURNED,)


@pytest.mark.parametrize("member_id", ["after", "before"], ids=["classic", "streams"])
def test_streams_instance_that_was_frozen_is_no_takeover(member_id: str) -> None:
    """The same on an idle machine: 0.67 s from the abort to the init. Members of KIP-848 and KIP-1071 keep their id."""
    coordinator = Coordinator(Client.TV_2, transactional_id=f"orders-{_PROCESS}-1")
    coordinator.begin()
    ended_ms = coordinator.now_ms + 9_000
    coordinator.init(after_ms=9_000, retry_ms=670)
    coordinator.begin()
    (case,) = cases_of(coordinator.live, kafka_cluster_id=CLUSTER)
    client = f"orders-{_PROCESS}-StreamThread-1-consumer"
    changes = (
        MemberChange("before", "", client, "/10.0.0.1", ended_ms - 6_000, 5, has_left=True, members=1),
        MemberChange(member_id, "", client, "/10.0.0.1", ended_ms + 300, 6, has_left=False, members=2),
    )
    event = judge_case(with_members(case, {"orders": LiveGroup("orders", changes=changes)}, lambda _: []))
    assert event is not None
    verdict = event.verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.APPLICATION_RETURNED, Confidence.LIKELY)
    assert verdict.alternatives == (FencingCause.TAKEOVER, FencingCause.OWN_ABORT)
    assert "left group orders and rejoined it" in verdict.sentence
    assert ("so its process continued" in verdict.sentence) is (member_id == "before")


@pytest.mark.parametrize("scene", ["frozen-past-transaction", "frozen-past-both", "killed-fresh"])
def test_timeout_of_a_streams_instance_stays_a_timeout(scene: str) -> None:
    verdict = events_of(scene)[0].verdict
    assert verdict.cause is FencingCause.TIMEOUT
    assert FencingCause.TAKEOVER not in verdict.alternatives


def test_short_freeze_is_no_event_of_its_own() -> None:
    """The recording ends the instance's last transaction, long after the thaw."""
    events = events_of("frozen-short")
    assert [event.verdict.cause for event in events] == [FencingCause.TIMEOUT]
    assert events[0].verdict.at_ms - _first_commit_ms("frozen-short") > SHORT_MS


def _first_commit_ms(scene: str) -> int:
    return min(
        live.steps[0].record.timestamp_ms for name, live in recorded_transactions().items() if name.startswith(scene)
    )


def test_replaced_thread_ends_its_own_transaction_and_the_new_one_has_another_id() -> None:
    events = events_of("thread-replaced")
    assert [event.verdict.cause for event in events] == [FencingCause.OWN_ABORT]
    assert FencingCause.TAKEOVER not in events[0].verdict.alternatives
    numbers = {parts.thread for name in recorded_transactions() if (parts := streams_id(name))}
    assert numbers == {"1", "2"}


def test_two_processes_with_a_copied_state_directory_are_a_takeover() -> None:
    """The negative control: the second one looks like a restart, until the first one initialises the id again."""
    first, *others = events_of("copied-folder")
    assert FencingCause.TAKEOVER in (first.verdict.cause, *first.verdict.alternatives)
    assert len(others) >= 3
    for event in others:
        assert event.verdict.cause is FencingCause.TAKEOVER
        assert FencingCause.APPLICATION_RETURNED in event.verdict.alternatives
        assert "alternate in the group" in event.verdict.sentence


@pytest.mark.parametrize(
    ("transactional_id", "parts"),
    [
        (f"orders-app-{_PROCESS}-12", ("orders-app", _PROCESS, "12")),
        (f"a-{_PROCESS}-b-{_PROCESS}-1", (f"a-{_PROCESS}-b", _PROCESS, "1")),
        (f"-{_PROCESS}-1", None),
        (f"orders-{_PROCESS}", None),
        (f"orders-{_PROCESS.upper()}-1", None),
        (f"orders-{_PROCESS}-one", None),
        ("orders-app-0_1", None),
        (ID, None),
        ("", None),
    ],
)
def test_streams_id_is_recognised_by_its_shape(transactional_id: str, parts: tuple[str, ...] | None) -> None:
    assert streams_id(transactional_id) == parts


# Clients that are not Kafka Streams: the group's journal alone


def change(
    at_ms: int, *, has_left: bool, members: int, client: str = "orders", host: str = "/10.0.0.1", instance: str = ""
) -> MemberChange:
    member_id = f"{client}-{host}-{at_ms}"
    return MemberChange(member_id, instance, client, host, at_ms, at_ms, has_left, members)


def taken_over(client: Client) -> LiveTransaction:
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.init(after_ms=4_000, retry_ms=100)
    coordinator.begin()
    return coordinator.live


def _named(by_producer: dict[int, list[str]], producer_id: int) -> list[str]:
    return by_producer.get(producer_id, [])


def verdict_of(live: LiveTransaction, *changes: MemberChange, is_refused: bool = False) -> FencingCause:
    """Of the first loss; the group stores offsets of its producer."""
    offsets = {("orders", 0): CommittedOffset(OffsetCommit(3), 1, 7, 0)}
    groups = {"g": LiveGroup("g", changes=changes, offsets=offsets)}
    by_producer = groups_by_producer(groups.values())
    assert by_producer == {7: ["g"]}
    names = partial(_named, by_producer)
    case = with_members(cases_of(live, kafka_cluster_id=CLUSTER)[0], groups, names)
    if is_refused:
        case = msgspec.structs.replace(case, evidence=(*case.evidence, *felt(live, word(), epoch=0).evidence))
    event = judge_case(case)
    assert event is not None
    return event.verdict.cause


BEGUN_MS = 1_000_050
LEFT = change(BEGUN_MS + 2_000, has_left=True, members=0)
BACK = change(BEGUN_MS + 3_900, has_left=False, members=1)


@every_client
def test_return_of_the_only_member_is_no_takeover(client: Client) -> None:
    live = taken_over(client)
    assert verdict_of(live) is FencingCause.TAKEOVER
    assert verdict_of(live, LEFT, BACK) is FencingCause.APPLICATION_RETURNED


@pytest.mark.parametrize(
    "changes",
    [
        (LEFT, change(BEGUN_MS + 3_900, has_left=False, members=1, host="/10.0.0.2")),
        (LEFT, change(BEGUN_MS + 3_900, has_left=False, members=1, client="other")),
        (LEFT, change(BEGUN_MS + 3_900, has_left=False, members=2)),
        (LEFT,),
        (BACK,),
        (change(BEGUN_MS + 3_900, has_left=False, members=1), change(BEGUN_MS + 3_950, has_left=True, members=0)),
        (change(BEGUN_MS - 60_000, has_left=True, members=0), change(BEGUN_MS - 50_000, has_left=False, members=1)),
        (LEFT, change(BEGUN_MS + 60_000, has_left=False, members=1)),
    ],
    ids=["host", "client", "two members", "left only", "joined only", "joined first", "long before", "long after"],
)
def test_another_client_stays_a_takeover(changes: tuple[MemberChange, ...]) -> None:
    assert verdict_of(taken_over(Client.TV_0), *changes) is FencingCause.TAKEOVER


def test_static_member_returns_from_another_host() -> None:
    left = change(BEGUN_MS + 2_000, has_left=True, members=0, instance="one")
    back = change(BEGUN_MS + 2_000, has_left=False, members=1, instance="one", host="/10.0.0.2")
    assert verdict_of(taken_over(Client.TV_0), left, back) is FencingCause.APPLICATION_RETURNED


def test_refused_old_producer_excludes_a_return() -> None:
    assert verdict_of(taken_over(Client.TV_0), LEFT, BACK, is_refused=True) is FencingCause.TAKEOVER


def test_evidence_of_members_is_kept_once_in_journal_order() -> None:
    event = events_of("killed-kept")[0]
    members = [one for one in event.evidence if isinstance(one, MemberRecord)]
    assert [one.has_left for one in members] == [False, True, False]
    assert [one.offset for one in members] == sorted(one.offset for one in members)
    assert {one.host for one in members} == {"127.0.0.1"}

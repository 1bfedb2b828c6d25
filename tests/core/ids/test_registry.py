"""The registry: owner, use, expiry and contention of ids."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from app.core.ids import transactional_id
from app.core.ids.registry import (
    UNTOLD_MS,
    IdStanding,
    Needed,
    Only,
    Orphan,
    RegistryPage,
    RegistryQuery,
    RegistrySort,
    contested_by,
    expires_at_ms,
    needed_of,
    select,
    stale_mappings,
    standing_of,
    tally_of,
)
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings.mapping import IdKind, IdOrigin, PartitionMapping, ReportedIncarnation, TransactionalIdOwner
from app.kit.errors import InvalidError
from tests.support.observing import NOW_MS, live_transaction, state_of

DAY_MS = 86_400_000
TASK_ID = transactional_id.for_task(prefix="fl", pipeline="flights", instance=0, task=0)


def owner(name: str, kind: IdKind = IdKind.TASK) -> TransactionalIdOwner:
    return TransactionalIdOwner(kafka_cluster_id="k", transactional_id=name, pipeline="flights", kind=kind)


def mapping(partition: int, assigned_id: str | None, *, topic: str = "in", group: str = "g") -> PartitionMapping:
    return PartitionMapping(
        pipeline="flights",
        kafka_cluster_id="k",
        group=group,
        topic=topic,
        partition=partition,
        transactional_id=None,
        owner=None,
        since=datetime(2026, 1, 1, tzinfo=UTC),
        assigned_id=assigned_id,
        origin=None if assigned_id is None else IdOrigin.IMPORTED,
    )


def needed(*owners: TransactionalIdOwner, **more: Any) -> Needed:
    return needed_of(owners, **{"of_tasks": (), "mappings": (), "told": (), **more})


def live(
    name: str, status: TransactionStatus = TransactionStatus.ONGOING, **more: Any
) -> Mapping[str, LiveTransaction]:
    return {name: live_transaction(name, state_of(status, **more))}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("app-0_0", needed(), (IdStanding.FOREIGN, None)),
        (TASK_ID, needed(), (IdStanding.ORPHANED, Orphan.NO_PIPELINE)),
        (TASK_ID, needed(owner(TASK_ID)), (IdStanding.ORPHANED, Orphan.NO_TASK)),
        (TASK_ID, needed(owner(TASK_ID), of_tasks={TASK_ID}), (IdStanding.OURS, None)),
        ("a", needed(owner("a", IdKind.IMPORTED)), (IdStanding.ORPHANED, Orphan.NO_MAPPING)),
        ("a", needed(owner("a", IdKind.IMPORTED), mappings=[mapping(0, "a")]), (IdStanding.OURS, None)),
        # Its name is that of a task; its row says what it is.
        (
            TASK_ID,
            needed(owner(TASK_ID, IdKind.IMPORTED), of_tasks={TASK_ID}),
            (IdStanding.ORPHANED, Orphan.NO_MAPPING),
        ),
    ],
)
def test_standing_follows_from_the_need(name: str, given: Needed, expected: tuple[IdStanding, Orphan | None]) -> None:
    assert standing_of(name, given) == expected


def test_only_the_two_forms_look_managed() -> None:
    of_partition = transactional_id.for_partition(prefix="fl", group="g.1", topic="flights.eu", partition=12)
    assert transactional_id.is_named_as_ours(TASK_ID)
    assert transactional_id.is_named_as_ours(of_partition)
    for other in ("app-0_0", "fl.t.flights.0", "fl.x.flights.0.0", "fl.p.g.0", "fl.t.flights.0.0 ", "tx-g.in.0"):
        assert not transactional_id.is_named_as_ours(other)


@pytest.mark.parametrize("status", list(TransactionStatus))
def test_id_expires_unless_a_transaction_is_open(status: TransactionStatus) -> None:
    one = live("a", status)["a"]
    rests = status in (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
    assert expires_at_ms(one, DAY_MS) == (one.state.last_update_ms + DAY_MS if rests else None)
    assert expires_at_ms(one, None) is None


def test_unreported_producer_contests_the_id() -> None:
    found = live(TASK_ID)
    state = found[TASK_ID].state
    told = ReportedIncarnation(transactional_id=TASK_ID, producer_id=state.producer_id, epoch=state.producer_epoch)
    now_ms = NOW_MS + 10 * UNTOLD_MS

    def sentence(*said: ReportedIncarnation, now_ms: int = now_ms, kind: IdKind = IdKind.TASK) -> str:
        return contested_by(TASK_ID, found, needed(owner(TASK_ID, kind), told=said), now_ms=now_ms)

    assert "which no task of flights has reported" in sentence()
    assert sentence(told) == ""
    other = ReportedIncarnation(transactional_id=TASK_ID, producer_id=state.producer_id + 1, epoch=0)
    assert sentence(other) != ""
    assert "The application that it was imported from used it last" in sentence(kind=IdKind.IMPORTED)
    assert contested_by(TASK_ID, found, needed(), now_ms=now_ms) == "", "what nobody here owns is nobody's to contest"


def test_fresh_producer_has_time_until_its_first_heartbeat() -> None:
    found = live(TASK_ID)
    one = found[TASK_ID]
    began_ms = one.steps[-1].at_ms if one.steps else one.state.last_update_ms
    given = needed(owner(TASK_ID))
    assert contested_by(TASK_ID, found, given, now_ms=began_ms + UNTOLD_MS - 1) == ""
    assert contested_by(TASK_ID, found, given, now_ms=began_ms + UNTOLD_MS) != ""


def test_init_alone_contests_nothing() -> None:
    found = live(TASK_ID, TransactionStatus.EMPTY)
    assert contested_by(TASK_ID, found, needed(owner(TASK_ID)), now_ms=NOW_MS + DAY_MS) == ""


def test_abort_by_the_coordinator_at_the_next_epoch_contests_nothing() -> None:
    found = live(TASK_ID, TransactionStatus.COMPLETE_ABORT)
    state = found[TASK_ID].state
    before = ReportedIncarnation(
        transactional_id=TASK_ID, producer_id=state.producer_id, epoch=state.producer_epoch - 1
    )
    assert contested_by(TASK_ID, found, needed(owner(TASK_ID), told=[before]), now_ms=NOW_MS + DAY_MS) == ""


SEEN = {
    **live("app-0_0", TransactionStatus.COMPLETE_COMMIT),
    **live("b-open"),
    **live("fl.t.gone.0.0", TransactionStatus.EMPTY),
    **live(TASK_ID, TransactionStatus.EMPTY),
}
GIVEN = needed(owner(TASK_ID), owner("unseen", IdKind.IMPORTED), of_tasks={TASK_ID}, mappings=[mapping(0, "unseen")])


def page(query: RegistryQuery, *, after: str | None = None, limit: int = 50) -> RegistryPage:
    return select(SEEN, GIVEN, query, expiration_ms=DAY_MS, now_ms=NOW_MS, after=after, limit=limit)


def names(query: RegistryQuery) -> list[str]:
    return [one.transactional_id for one in page(query).items]


def test_list_has_ids_of_brokers_and_of_pipelines() -> None:
    assert names(RegistryQuery()) == sorted([*SEEN, "unseen"])
    tally = page(RegistryQuery()).tally
    assert tally == tally_of(SEEN, GIVEN, now_ms=NOW_MS)
    assert (tally.ids, tally.ours, tally.foreign, tally.orphaned, tally.unseen, tally.contested) == (4, 2, 2, 1, 1, 0)


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (Only.OURS, [TASK_ID, "unseen"]),
        (Only.FOREIGN, ["app-0_0", "b-open"]),
        (Only.ORPHANED, ["fl.t.gone.0.0"]),
        (Only.UNSEEN, ["unseen"]),
        (Only.CONTESTED, []),
    ],
)
def test_list_is_filtered(only: Only, expected: list[str]) -> None:
    assert names(RegistryQuery(only=only)) == expected


def test_list_is_searched_and_sorted_and_paged() -> None:
    assert names(RegistryQuery(search="OPEN")) == ["b-open"]
    assert set(names(RegistryQuery(sort=RegistrySort.EXPIRES))[-2:]) == {"b-open", "unseen"}, "these do not expire"
    for sort in RegistrySort:
        seen: list[str] = []
        after: str | None = None
        while True:
            found = page(RegistryQuery(sort=sort), after=after, limit=2)
            seen += [one.transactional_id for one in found.items]
            assert found.matching == 5
            after = found.next_cursor
            if after is None:
                break
        assert seen == names(RegistryQuery(sort=sort))
    with pytest.raises(InvalidError, match="another list"):
        page(RegistryQuery(sort=RegistrySort.ID), after=page(RegistryQuery(sort=RegistrySort.CHANGED), limit=1)[1])


def test_mapping_of_a_group_or_topic_without_its_pipeline_is_stale() -> None:
    read, left_topic, left_group = mapping(0, None), mapping(0, "a", topic="old"), mapping(0, None, group="before")
    reads = {"flights": ("g", frozenset({"in"}))}
    assert list(stale_mappings([read, left_topic, left_group], reads)) == [left_topic, left_group]

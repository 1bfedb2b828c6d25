"""The output of `transactions` and `groups` for the server's answers by REST."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from rich.console import Console, RenderableType

from app.core.journals import group_records
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings.mapping import TransactionalIdOwner
from app.core.observing.live_cluster import LiveCluster
from app.core.observing.schemas.groups import Group, GroupDetail
from app.core.observing.schemas.reading import JournalReading
from app.core.observing.schemas.transactions import Transaction, TransactionDetail
from app.core.observing.service.groups import GroupDetail as DomainGroupDetail
from app.core.observing.service.transactions import ObservedTransaction
from app.core.observing.service.transactions import TransactionDetail as DomainDetail
from app.core.observing.snapshot import ReadingPhase
from app.core.observing.transaction_list import TransactionSort
from app.kit.cli.client import Client
from app.products.direct import listing, served
from app.products.direct.served import ServedCluster
from tests.support.observing import (
    NOW_MS,
    ODD,
    cluster,
    generation_batch,
    hear,
    live_transaction,
    offset_batch,
    state_of,
    transaction_batch,
)

NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
OWNER = TransactionalIdOwner(kafka_cluster_id="k", transactional_id=ODD, pipeline="flights", ordinal=0, task=1)


@pytest.fixture
def live() -> LiveCluster:
    made = cluster()
    hear(made, transaction_batch(ODD, state_of(start_ms=NOW_MS - 90_000), at=0))
    hear(
        made,
        generation_batch("orders/copier", 17, at=0),
        offset_batch("orders/copier", 9, at=1, producer_id=7),
        topic=group_records.TOPIC,
    )
    for journal in (made.transactions, made.groups):
        made.enter(journal.topic, ReadingPhase.LIVE, now_ms=NOW_MS)
    return made


def printed(what: RenderableType) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(what)
    return " ".join(capture.get().split())


def reading(live: LiveCluster) -> dict[str, Any]:
    status = live.snapshot(now_ms=NOW_MS).transaction_journal
    return JournalReading.of_status(status, now=NOW).model_dump(mode="json")


def test_an_id_is_printed_with_its_owner_and_since_when_it_is_open(live: LiveCluster) -> None:
    snapshot = live.snapshot(now_ms=NOW_MS)
    observed = ObservedTransaction(live=snapshot.transactions[ODD], owner=OWNER)
    item = Transaction.of_observed(observed, now=NOW).model_dump(mode="json")
    text = printed(served.transactions_table({"items": [item], "matching": 3, "reading": reading(live)}))
    assert f"{ODD} flights 0.1 7 0 Ongoing" in text
    assert "1 of 3 ids, from the server's reading of __transaction_state (live" in text
    detail = DomainDetail(transaction=observed, pending_offsets=(), journal=snapshot.transaction_journal)
    whole = TransactionDetail.of_detail(detail, now=NOW).model_dump(mode="json")
    assert "owner: flights 0.1 · 0 commits and 0 aborts since the observer's start · open for" in printed(
        served.transaction_detail(whole)
    )


def test_a_group_is_printed_with_who_holds_its_offset(live: LiveCluster) -> None:
    snapshot = live.snapshot(now_ms=NOW_MS)
    group = snapshot.groups["orders/copier"]
    item = Group.of_live(group, None).model_dump(mode="json")
    text = printed(served.groups_table({"items": [item], "matching": 1, "reading": reading(live)}))
    assert "orders/copier – – – classic Stable 17 1 1" in text
    detail = DomainGroupDetail(group=group, transactional_ids={7: ODD}, journal=snapshot.group_journal, lag=None)
    text = printed(served.group_detail(GroupDetail.of_detail(detail, now=NOW).model_dump(mode="json")))
    assert f"orders 0 9 pending {ODD}" in text


class Pages:
    """A server with 250 ids, which gives at most 100 at once."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        self.asked.append({"path": path, **query})
        first = int(query.get("after") or 0)
        last = min(250, first + query["limit"])
        items = list(range(first, last))
        return {"items": items, "next_cursor": str(last) if last < 250 else None, "matching": 250, "reading": {}}


@pytest.mark.parametrize(("limit", "asked"), [(30, [30]), (100, [100]), (130, [100, 30]), (999, [100, 100, 100])])
def test_no_more_is_asked_for_than_is_wanted(limit: int, asked: list[int]) -> None:
    pages = Pages()
    found = ServedCluster(cast(Client, pages), "a b").list("transactions", limit=limit, search="x")
    assert found["items"] == list(range(min(limit, 250)))
    assert found["matching"] == 250
    assert [one["limit"] for one in pages.asked] == asked
    assert {(one["path"], one["search"]) for one in pages.asked} == {("/clusters/a%20b/transactions", "x")}


def test_a_name_of_odd_characters_is_one_part_of_the_address() -> None:
    class One:
        def get(self, path: str) -> dict[str, Any]:
            return {"path": path}

    found = ServedCluster(cast(Client, One()), "c").one("transactional-ids", "a/b ?#")
    assert found == {"path": "/clusters/c/transactional-ids/a%2Fb%20%3F%23"}


class Known:
    """A command's own read of known ids."""

    source, remark = "__transaction_state", ""

    def __init__(self, *_: object, **__: object) -> None:
        states = {
            "idle": state_of(TransactionStatus.COMPLETE_COMMIT, changed_ms=3),
            "old": state_of(start_ms=1, changed_ms=1),
            "young": state_of(start_ms=2, changed_ms=2),
            "gone": state_of(TransactionStatus.DEAD, changed_ms=4),
        }
        self._ids = {name: live_transaction(name, state) for name, state in states.items()}

    def ids(self) -> dict[str, LiveTransaction]:
        return self._ids


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["old", "young", "gone", "idle"]),
        ({"limit": 3}, ["old", "young", "gone"]),
        ({"only_open": True}, ["old", "young"]),
        ({"open_for": 1e9}, ["old", "young"]),
        ({"open_for": 1e12}, []),
        ({"state": "Dead"}, ["gone"]),
        ({"match": "O", "sort": TransactionSort.ID}, ["gone", "old", "young"]),
        ({"sort": TransactionSort.CHANGED}, ["gone", "idle", "young", "old"]),
    ],
    ids=str,
)
def test_ids_of_an_unregistered_cluster_are_selected_as_the_server_does_it(
    options: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "TransactionLook", Known)
    listing.transactions(bootstrap_server="127.0.0.1:1", as_json=True, **options)
    found = json.loads(capsys.readouterr().out)
    assert [item["transactional_id"] for item in found["items"]] == expected

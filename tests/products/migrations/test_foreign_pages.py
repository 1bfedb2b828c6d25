"""The page of a foreign migration: the journals have real formats, the coordinator's answers are simulated."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.core.clusters.brokers import GroupDescription
from app.core.clusters.cluster import GroupMember
from app.core.clusters.survey import Survey
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.live_cluster import JOURNALS
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot, SnapshotSource
from app.core.wiring import Wiring
from app.edges.db.database import Database
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from app.products.migrations.ports import MigrationQuestions
from tests.support.control_plane import CLUSTER, ControlPlane
from tests.support.observing import live_transaction, state_of
from tests.support.wiring import browser_of, client_of, token_of


class Played:
    """Simulates the answers of a group's coordinator and a survey."""

    def __init__(self) -> None:
        self.members = ["a", "b"]

    async def of_cluster(self, cluster: str, group: str) -> tuple[GroupDescription | None, Survey | None]:
        del cluster
        members = tuple(
            GroupMember(member_id=one, client_id=f"streams-{one}", host="/10.0.0.1") for one in self.members
        )
        return GroupDescription(group=group, state="Stable", protocol="classic", members=members), None


@pytest.fixture
async def coordinator(wiring: Wiring, database: Database) -> Played:
    plane = ControlPlane(database, now=wiring.clock.now())
    await plane.pipeline("ours")
    played = Played()
    object.__setattr__(wiring, "parts", {MigrationQuestions: played})
    publish(wiring, 3)
    return played


def publish(wiring: Wiring, epoch: int) -> None:
    now_ms = int(wiring.clock.now().timestamp() * 1000)
    first, second = (
        JournalStatus(
            topic=topic, phase=ReadingPhase.LIVE, phase_since_ms=now_ms, source=SnapshotSource.JOURNAL, as_of_ms=now_ms
        )
        for topic in JOURNALS
    )
    names = ("app-0_0", "app-0_1", "other-0_0")
    state: Any = state_of(TransactionStatus.EMPTY, epoch=epoch)
    wiring.observations.publish(
        Snapshot(
            cluster=CLUSTER,
            number=now_ms,
            at_ms=now_ms,
            transaction_journal=first,
            group_journal=second,
            transactions={name: live_transaction(name, state) for name in names},
        )
    )


async def test_it_is_watched_from_stage_to_stage_while_its_operator_bounces_it(
    wiring: Wiring, coordinator: Played
) -> None:
    async with browser_of(wiring, Role.OPERATOR) as browser:
        assert "Applications that Fenceline does not start" in (await browser.get("/migrations")).text
        form = {"cluster": CLUSTER, "group": "orders", "prefix": "app-", "why": "they upgrade"}
        begun = await browser.post("/migrations/foreign", data=form)
        found = re.fullmatch(r"(/foreign-migrations/[0-9a-f-]{36})\?said=migration-watched", begun.headers["location"])
        assert found is not None, begun.text
        page = (await browser.get(found[1])).text
        for said in ("2 ids begin with app-", "no journal records which offsets a client sends", "streams-a", "7:3"):
            assert said in page, said
        assert "other-0_0" not in page
        unproven = await browser.post(f"{found[1]}/go-on", data={})
        assert unproven.status_code == 422
        assert "not proven: brokers" in unproven.text
        assert (await browser.post(f"{found[1]}/go-on", data={"why": "4.1, all of them"})).status_code == 303
        page = (await browser.get(found[1])).text
        assert "app-0_0 is still at producer 7, epoch 3" in page
        assert "streams-a on /10.0.0.1 has not been bounced" in page
        coordinator.members = ["c", "d"]
        publish(wiring, 4)
        page = (await browser.get(found[1])).text
        assert "all 2 ids were initialised since it began" in page
        assert "all 2 members have joined since it began" in page
        again = await browser.post("/migrations/foreign", data=form)
        assert (again.status_code, "watched already" in again.text) == (409, True)
        ours = await browser.post("/migrations/foreign", data={**form, "group": "ours-group"})
        assert (ours.status_code, "belongs to pipeline ours" in ours.text) == (409, True)


@pytest.mark.usefixtures("coordinator")
async def test_the_same_over_rest(wiring: Wiring) -> None:
    token = await token_of(wiring, Role.OPERATOR)
    async with client_of(create_users_app(wiring), token=token) as client:
        body = {"group": "orders", "prefix": "app-"}
        begun = await client.post(f"/api/v1/clusters/{CLUSTER}/foreign-migrations", json=body)
        assert begun.status_code == 201, begun.text
        path = f"/api/v1/foreign-migrations/{begun.json()['id']}"
        seen = (await client.get(path)).json()
        assert {one["name"]: one["standing"] for one in seen["gate"]} == {
            "brokers": "unknown",
            "ids_found": "open",
            "transaction_timeout": "closed",
            "group_stable": "open",
        }
        assert seen["lacking"]
        moved = await client.post(f"{path}/go-on", json={"why": "4.1"})
        assert (moved.json()["stage"], moved.json()["marks"][0]["stage"]) == ("first_bounce", "preflight")
        assert len((await client.get("/api/v1/foreign-migrations")).json()["items"]) == 1

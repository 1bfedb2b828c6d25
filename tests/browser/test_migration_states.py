"""The pages of a migration in every state: each fits a phone, and every role can read it."""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace
from playwright.sync_api import Page, expect

from app.core.clusters.cluster import GroupMember
from app.core.runs.mode import Mode
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import MigrationState, Stage
from tests.support.browser import WIDE
from tests.support.control_plane import CLUSTER
from tests.support.migrating import FINE, id_of
from tests.support.walked import Walked, looked_at


def begin(page: Page) -> None:
    page.goto("/pipelines/flights/migrations/plan?goal=v2")
    page.locator("#begin-why").fill("the new producers")
    page.get_by_role("button", name="Start the migration").click()
    page.locator(".stages").wait_for()


def archived_everywhere(walked: Walked, page: Page) -> None:
    """In the mapping store and in the registry, over REST and on pages: since when, and by which migration."""
    migration = walked.newest()
    ids = {id_of(Mode.GENERATION, number) for number in range(2)}
    with walked.live.client() as client:
        mapped = client.get("/api/v1/pipelines/flights/mappings").json()["items"]
        registered = client.get(f"/api/v1/clusters/{CLUSTER}/id-registry", params={"only": "archived"}).json()
        owned = client.get("/api/v1/pipelines/flights/transactional-ids").json()["items"]
    assert {one["assigned_id"]: one["archived"]["migration"] for one in mapped} == dict.fromkeys(ids, migration.id)
    assert {one["transactional_id"] for one in registered["items"]} == ids
    assert (registered["tally"]["archived"], registered["tally"]["orphaned"]) == (2, 0)
    assert {one["transactional_id"] for one in owned if one["archived"] is not None} == ids
    page.goto("/mappings")
    expect(page.locator("#mappings").get_by_role("link", name="archived")).to_have_count(2)
    looked_at(page, "mappings")
    page.goto("/mappings/ids?only=archived")
    expect(page.locator("#ids tbody tr")).to_have_count(2)
    expect(page.locator("#ids")).to_contain_text("no producer may initialise it")
    looked_at(page, "registry")


def test_a_migration_from_nothing_to_an_alarm(walked: Walked, walker: Page) -> None:
    page, migrating = walker, walked.migrating
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/migrations")
    looked_at(page, "none")
    page.goto("/pipelines/flights/migrations")
    looked_at(page, "where-to")
    page.goto("/pipelines/flights/migrations/plan?goal=v2")
    expect(page.locator("#preflight-group_stable")).to_contain_text("stable now")
    looked_at(page, "plan")

    begin(page)
    looked_at(page, "begun")
    walked.until(Stage.SECOND_BOUNCE)
    expect(page.locator(".stages [aria-current=step]")).to_contain_text("second bounce")
    looked_at(page, "running")
    walked.until(Stage.VERIFY)
    expect(page.locator(".stages [aria-current=step]")).to_contain_text("verify")
    looked_at(page, "verify")
    address = page.url
    page.goto(f"{address}/evidence")
    looked_at(page, "evidence")

    page.goto(address)
    migrating.epochs[id_of(Mode.GENERATION, 1)] += 1
    walked.until_state(MigrationState.STOPPED)
    expect(page.get_by_role("alert")).to_contain_text("is in use")
    looked_at(page, "alarm")
    page.goto("/pipelines/flights/migrations")
    looked_at(page, "list-stopped")


def test_a_migration_that_is_refused_and_one_that_is_done(walked: Walked, walker: Page) -> None:
    page, migrating = walker, walked.migrating
    page.set_viewport_size(cast(Any, WIDE))
    migrating.facts = replace(
        FINE,
        versions={"1": (2, 4), "2": (4, 3)},
        rights_refused=("the coordinator does not let us describe fl.p.flights-group.in.1",),
        transaction_timeout_ms=60_000,
        abort_sweep_ms=None,
    )
    migrating.guests.append(GroupMember(member_id="rdkafka-9", client_id="somebody-else", host="/10.0.0.9"))
    page.goto("/pipelines/flights/migrations/plan?goal=v2")
    expect(page.locator("#preflight-brokers")).to_contain_text("KIP-447")
    looked_at(page, "plan-refused")
    migrating.facts = FINE
    migrating.guests.clear()
    migrating.audit_now = AuditNow(audit_id="a1", is_through=True, expected=40)
    begin(page)
    walked.until_state(MigrationState.DONE)
    expect(page.locator(".title .pill")).to_have_text("done")
    looked_at(page, "done")
    expect(page.locator("#given-up")).to_contain_text(id_of(Mode.GENERATION, 1))
    archived_everywhere(walked, page)
    page.goto("/migrations")
    looked_at(page, "list-done")


def test_a_foreign_migration(walked: Walked, walker: Page) -> None:
    page = walker
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/migrations")
    page.locator("#watch-group").fill("orders")
    page.locator("#watch-prefix").fill("fl.p.")
    page.locator("#watch-why").fill("they upgrade next week")
    page.get_by_role("button", name="Watch").click()
    expect(page.locator("#ids")).to_contain_text("fl.p.")
    looked_at(page, "foreign")
    page.locator("#go-on-why").fill("4.1, all of them")
    page.get_by_role("button", name="Begin the next stage").click()
    expect(page.locator("#mark-1")).to_contain_text("4.1, all of them")
    looked_at(page, "foreign-marked")
    page.goto("/migrations")
    looked_at(page, "list-foreign")

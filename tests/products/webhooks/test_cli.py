"""`fenceline webhooks` from the shell, and a whole server's alert about an open transaction."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.errors import ExitCode
from app.products.webhooks.signature import headers_of, key_of
from tests.conftest import MakeTopic
from tests.edges.kafka.test_raw_fetch import produce
from tests.support.fixtures import WEBHOOK_SECRETS, Fenceline, json_of
from tests.support.serving import Serving
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async
from tests.support.webhook_receiver import Received, Receiver, receiving

pytestmark = pytest.mark.slow
_TIMEOUT_S = 30.0


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with receiving() as listening:
        yield listening


@pytest.fixture
async def typed(fenceline: Fenceline) -> Callable[..., Any]:
    """A command, while the receiver listens."""

    async def run(*arguments: str) -> Any:
        return await asyncio.to_thread(fenceline, "webhooks", *arguments)

    return run


def is_signed(received: Received, *secrets: str) -> bool:
    """By each of them, at the time that it says."""
    expected = headers_of(
        received.id,
        received.body,
        timestamp_s=int(received.headers["webhook-timestamp"]),
        keys=[key_of(WEBHOOK_SECRETS[one], reference=one) for one in secrets],
    )
    return received.headers["webhook-signature"] == expected["webhook-signature"]


async def test_open_transaction_is_reported_signed_and_shown_as_delivered(
    typed: Callable[..., Any],
    receiver: Receiver,
    served: Serving,
    cluster: str,
    kafka: KafkaCluster,
    make_topic: MakeTopic,
) -> None:
    """From the broker's journal to the receiver and back to the page, by a real server."""
    name, left_open = unique_name("pager"), unique_name("left-open")
    added = await typed("add", name, "--url", receiver.url, "-s", "env:FENCELINE_SECRET_ONE", "-k", "transaction_open")
    assert added.returncode == 0, added.stderr
    assert f"try it: fenceline webhooks test {name}" in added.stdout

    def told() -> list[Received]:
        # Other tests leave transactions open on this broker, too.
        return [one for one in receiver.received if left_open in one.sentence]

    async def until_told(count: int) -> Received:
        async def is_told() -> bool:
            return len(told()) >= count

        await wait_for_async(is_told, 60, lambda: f"alert {count} of {left_open}; there came {receiver.received}")
        return told()[-1]

    producer = await asyncio.to_thread(
        lambda: produce(kafka.bootstrap_servers, make_topic(), ["x"], transactional_id=left_open)
    )
    raised = await until_told(1)
    assert (raised.type, is_signed(raised, "ONE")) == ("transaction_open.raised", True)
    await asyncio.to_thread(producer.commit_transaction, _TIMEOUT_S)
    resolved = await until_told(2)
    assert (resolved.type, is_signed(resolved, "ONE")) == ("transaction_open.resolved", True)

    async def delivered() -> bool:
        found = json_of(await typed("deliveries", name, "--json"))
        ends = {(one["state"], one["answer_status"]) for one in found if one["id"] in (raised.id, resolved.id)}
        return ends == {("delivered", 204)}

    await wait_for_async(delivered, 20, "both are delivered")
    row = await asyncio.to_thread(_row_on_page, served, name, resolved.id)
    assert "delivered" in row
    assert "204" in row
    assert (await typed("remove", name, "--yes")).returncode == 0


def _row_on_page(served: Serving, webhook: str, delivery_id: str) -> str:
    """Return the row of one delivery on the webhook's page."""
    origin = served.wait_until_announced()["users_url"] or ""
    with httpx.Client(base_url=origin, timeout=_TIMEOUT_S, trust_env=False) as browser:
        assert browser.post("/login", data={"token": served.token}, headers={"Origin": origin}).status_code == 303
        page = browser.get(f"/webhooks/{webhook}", headers={"Accept": "text/html"}).text
    _, found, rest = page.partition(f'id="delivery-{delivery_id}"')
    assert found, page
    return rest.partition("</tr>")[0]


async def test_webhook_is_added_changed_paused_tested_and_removed(
    typed: Callable[..., Any], receiver: Receiver
) -> None:
    name = unique_name("hook")
    secret = (await typed("secret")).stdout.strip()
    assert key_of(secret, reference="it")
    refused = await typed("add", name, "--url", "https://elsewhere.example.com/", "-s", secret)
    assert refused.returncode == ExitCode.INVALID
    said = " ".join(refused.stderr.split())
    assert "FENCELINE_ALLOWED_WEBHOOK_HOSTS" in said
    assert "a secret is a reference, not its value" in said
    assert secret not in said

    body = json_of(
        await typed("add", name, "--url", receiver.url, "-s", "env:FENCELINE_SECRET_ONE", "-k", "run_failed", "--json")
    )
    assert (body["name"], body["address"], body["kinds"]) == (name, receiver.url, ["run_failed"])
    (listed,) = [one for one in json_of(await typed("list", "--json")) if one["name"] == name]
    assert listed == body
    line = next(line for line in (await typed("list")).stdout.splitlines() if line.startswith(name))
    assert re.search(rf"{re.escape(receiver.url)} +run_failed +0 +0 +0 +active", line)

    changed = json_of(
        await typed("change", name, "-s", "env:FENCELINE_SECRET_ONE", "-s", "env:FENCELINE_SECRET_TWO", "--json")
    )
    assert (changed["address"], changed["kinds"], len(changed["secrets"])) == (receiver.url, ["run_failed"], 2)
    assert json_of(await typed("change", name, "--all-kinds", "--json"))["kinds"] == []

    assert (await typed("pause", name, "--why", "the pager moves")).returncode == 0
    assert "the pager moves" in (await typed("list")).stdout
    waiting = await typed("test", name)
    assert waiting.returncode == 1
    assert f"the webhook {name} is paused" in waiting.stderr
    assert (await typed("resume", name)).returncode == 0
    assert f"fenceline webhooks deliveries {name}" in (await typed("test", name, "--why", "is it there?")).stdout
    (sent,) = await receiver.wait_for(1, deadline_s=20)
    assert (sent.type, is_signed(sent, "ONE", "TWO")) == ("test.happened", True)

    async def delivered() -> list[dict[str, Any]]:
        items = json_of(await typed("deliveries", name, "--json"))
        return items if items[0]["state"] == "delivered" else []

    (delivery,) = await wait_for_async(delivered, 20, "the test is delivered")
    assert (delivery["id"], delivery["answer_status"], delivery["attempts"]) == (sent.id, 204, 1)
    shown = (await typed("deliveries", name)).stdout
    assert re.search(rf"test\.happened +delivered +1 +204 +{sent.id}", shown)

    asked = await typed("remove", name)
    assert asked.returncode != 0, "nobody is there to say yes"
    assert (await typed("remove", name, "--yes")).stdout == f"removed {name}\n"
    gone = await typed("deliveries", name)
    assert gone.returncode == 1
    assert f"there is no webhook {name}" in gone.stderr

"""The sender with real receivers: signed, in order, with retries, once by several servers, without loss."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import DeliveryState
from app.edges.db.database import Database
from app.kit.access import COMMAND_LINE
from app.products.webhooks import service as webhooks
from app.products.webhooks.retry import DeliveryPace
from app.products.webhooks.signature import headers_of, key_of
from tests.support.webhook_receiver import (
    OTHER_SECRET,
    SECRET,
    Received,
    Receiver,
    answer_with,
    one_after_the_other,
    receiving,
)
from tests.support.webhook_sending import (
    HASTY,
    NAME,
    add,
    all_are,
    deliveries,
    running,
    sender_of,
    tell,
    until,
)


async def test_delivery_is_signed_and_says_what_happened(database: Database) -> None:
    async with receiving() as receiver:
        await add(database, receiver.url)
        await tell(database, "It failed.")
        async with running(sender_of(database)):
            (received,) = await receiver.wait_for(1)
            (delivery,) = await until(database, all_are(DeliveryState.DELIVERED), "delivered")
    assert received.path == "/alerts"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"] == "fenceline/test"
    assert received.id == delivery.id
    timestamp_s = int(received.headers["webhook-timestamp"])
    assert abs(timestamp_s - datetime.now(UTC).timestamp()) < 60
    key = key_of(SECRET, reference="env:X")
    signed = headers_of(received.id, received.body, timestamp_s=timestamp_s, keys=[key])
    assert received.headers["webhook-signature"] == signed["webhook-signature"]
    assert msgspec.json.decode(received.body) == {
        "type": "run_failed.happened",
        "timestamp": "2026-11-21T12:00:00Z",
        "data": {
            "kind": "run_failed",
            "state": "happened",
            "subject": "It failed.",
            "at": "2026-11-21T12:00:00Z",
            "sentence": "It failed.",
            "page": "/pipelines/p",
            "url": "https://fenceline.example.com/pipelines/p",
        },
    }
    assert (delivery.attempts, delivery.answer_status, delivery.error) == (1, 204, None)


async def test_two_secrets_sign_while_one_replaces_the_other(database: Database) -> None:
    async with receiving() as receiver:
        await add(database, receiver.url, secrets=("ONE", "TWO"))
        await tell(database, "It failed.")
        async with running(sender_of(database)):
            (received,) = await receiver.wait_for(1)
    keys = [key_of(secret, reference="env:X") for secret in (SECRET, OTHER_SECRET)]
    signed = headers_of(received.id, received.body, timestamp_s=int(received.headers["webhook-timestamp"]), keys=keys)
    assert received.headers["webhook-signature"] == signed["webhook-signature"]
    assert received.headers["webhook-signature"].count("v1,") == 2


async def test_failed_delivery_is_tried_again_with_the_same_id_and_body(database: Database) -> None:
    answers = one_after_the_other([answer_with(500, "no"), answer_with(301, location="http://127.0.0.1:1/"), None])
    async with receiving(Receiver(answer=answers)) as receiver:
        await add(database, receiver.url)
        await tell(database, "It failed.")
        async with running(sender_of(database)):
            received = await receiver.wait_for(4)
            (delivery,) = await until(database, all_are(DeliveryState.DELIVERED), "delivered")
    assert len({(one.id, one.body) for one in received}) == 1
    assert receiver.connections == 4
    assert delivery.attempts == 4


async def test_deliveries_come_in_the_order_in_which_they_were_written(database: Database) -> None:
    """Also when the first one fails for a while: the receiver gets the alerts in order."""
    async with receiving(Receiver(answer=one_after_the_other([answer_with(503)] * 3))) as receiver:
        await add(database, receiver.url)
        await tell(database, "a", "b", "c", "d")
        async with running(sender_of(database)):
            received = await receiver.wait_for(7)
    assert [one.sentence for one in received] == ["a", "a", "a", "a", "b", "c", "d"]


async def test_rejected_message_delays_only_its_own_subject(database: Database) -> None:
    def answer(received: Received) -> bytes:
        return answer_with(422 if received.sentence == "poison" and len(receiver.received) < 6 else 204)

    async with receiving(Receiver(answer=answer)) as receiver:
        await add(database, receiver.url)
        await tell(database, "poison", subject="one")
        await tell(database, "others")
        await tell(database, "what follows the poison", subject="one")
        async with running(sender_of(database)):
            await until(database, all_are(DeliveryState.DELIVERED), "all delivered")
    sentences = [one.sentence for one in receiver.received]
    assert sentences[0] == "poison"
    # On a busy machine it is refused twice before their turn.
    assert "others" in sentences[1:-2]
    assert sentences[-2:] == ["poison", "what follows the poison"]
    assert sentences.count("what follows the poison") == 1


async def test_receiver_that_is_down_gets_everything_when_it_is_back(database: Database) -> None:
    async with receiving() as receiver:
        pass
    await add(database, receiver.url)
    await tell(database, "a", "b")
    async with running(sender_of(database)):
        found = await until(
            database, lambda found: found[0].attempts >= 2 and found[0].error is not None, "two failed attempts"
        )
        assert f"http://127.0.0.1:{receiver.port} does not answer" in (found[0].error or "")
        assert found[1].attempts == 0
        async with receiving(receiver):
            await receiver.wait_for(2)
            await until(database, all_are(DeliveryState.DELIVERED), "all delivered")
    assert [one.sentence for one in receiver.received] == ["a", "b"]


@pytest.mark.parametrize("how", ["test", "change"])
async def test_a_fixed_receiver_need_not_wait_for_the_next_attempt(database: Database, how: str) -> None:
    patient = DeliveryPace(first_s=600)
    async with receiving(Receiver(answer=one_after_the_other([answer_with(503)]))) as receiver:
        await add(database, receiver.url)
        await tell(database, "It failed.")
        async with running(sender_of(database, pace=patient)):
            await until(database, lambda found: found[0].error is not None, "a failed attempt")
            async with database.unit_of_work() as uow:
                now = datetime.now(UTC)
                # Its lease has ended, so no server is sending it.
                await uow.connection.execute(
                    sa.text("UPDATE webhook_deliveries SET last_attempt_at = last_attempt_at - interval '1 minute'")
                )
                if how == "test":
                    await webhooks.send_test(uow, NAME, by=COMMAND_LINE, why=None, now=now)
                else:
                    await webhooks.change_webhook(
                        uow,
                        NAME,
                        secrets=["env:FENCELINE_SECRET_TWO"],
                        allowed_hosts=("127.0.0.1",),
                        by=COMMAND_LINE,
                        why=None,
                        now=now,
                    )
                await uow.commit()
            await until(database, all_are(DeliveryState.DELIVERED), "delivered, the one that waited first")
    assert [one.type for one in receiver.received][:2] == ["run_failed.happened"] * 2


async def test_a_delivery_in_progress_keeps_its_lease_when_others_are_hurried(database: Database) -> None:
    await add(database, "http://127.0.0.1:1/")
    await tell(database, "It failed.")
    async with database.unit_of_work() as uow:
        assert await uow.of(DeliveryStore).begin(NAME, lease_s=30, retry_limit=HASTY.give_up_after) is not None
        await uow.of(DeliveryStore).hurry(NAME, lease_s=30)
        assert await uow.of(DeliveryStore).begin(NAME, lease_s=30, retry_limit=HASTY.give_up_after) is None
        await uow.commit()


async def test_slow_receiver_is_left_in_time_and_delays_no_other_webhook(database: Database) -> None:
    async with receiving(Receiver(answer=lambda _: None)) as slow, receiving() as quick:
        await add(database, slow.url)
        await add(database, quick.url, name="quick")
        await tell(database, "a", "b", "c")
        async with running(sender_of(database)):
            await slow.wait_for(1)
            await quick.wait_for(3, deadline_s=0.4)
            (first, *_) = await until(database, lambda found: found[0].error is not None, "an attempt that ended")
    assert "did not answer within 0.5 s" in (first.error or "")


async def test_two_servers_send_each_delivery_once(database: Database) -> None:
    sentences = [f"{number:02}" for number in range(30)]
    async with receiving() as receiver:
        await add(database, receiver.url)
        await tell(database, *sentences)
        async with running(*(sender_of(database, where=str(number)) for number in range(3))):
            await until(database, all_are(DeliveryState.DELIVERED), "all delivered")
    assert [one.sentence for one in receiver.received] == sentences


async def test_delivery_of_a_server_that_was_killed_is_sent_by_another(
    database: Database,
) -> None:
    """Killed during the request: the receiver gets it again, with the same id."""
    async with receiving(Receiver(answer=one_after_the_other([None]))) as receiver:
        await add(database, receiver.url)
        await tell(database, "a", "b")
        process = await asyncio.to_thread(_start_sender, database.url)
        try:
            await receiver.wait_for(1, deadline_s=30)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        (first, _) = await deliveries(database)
        assert (first.state, first.attempts) == (DeliveryState.PENDING, 1)
        async with running(sender_of(database)):
            await until(database, all_are(DeliveryState.DELIVERED), "all delivered")
    assert [one.sentence for one in receiver.received] == ["a", "a", "b"]
    assert receiver.received[0].id == receiver.received[1].id


def _start_sender(database_url: str) -> subprocess.Popen[bytes]:
    code = (
        "import asyncio, sys\n"
        "from app.edges.db.database import Database\n"
        "from tests.support.webhook_sending import sender_of, turn_for_ever\n"
        "asyncio.run(turn_for_ever(sender_of(Database(sys.argv[1]), timeout_s=60)))\n"
    )
    return subprocess.Popen([sys.executable, "-c", code, database_url], cwd=Path(__file__).parents[3])


async def test_late_word_of_a_failed_attempt_changes_nothing_of_the_next_one(database: Database) -> None:
    """A server that was frozen thaws after its lease: another one is sending by then."""
    await add(database, "http://127.0.0.1:9/")
    await tell(database, "a")
    async with database.unit_of_work() as uow:
        old = await uow.of(DeliveryStore).begin(NAME, lease_s=0, retry_limit=HASTY.give_up_after)
        new = await uow.of(DeliveryStore).begin(NAME, lease_s=60, retry_limit=HASTY.give_up_after)
        assert old is not None
        assert new is not None
        await uow.of(DeliveryStore).note_failed(old, pause_s=0, error="late")
        await uow.commit()
        assert await uow.of(DeliveryStore).begin(NAME, lease_s=60, retry_limit=HASTY.give_up_after) is None
    (delivery,) = await deliveries(database)
    assert (delivery.attempts, delivery.error) == (2, None)


async def test_delivery_tried_for_too_long_is_not_delivered_and_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    pace = msgspec.structs.replace(HASTY, give_up_after=timedelta(seconds=0.3))
    async with receiving(Receiver(answer=lambda _: answer_with(500))) as receiver:
        await add(database, receiver.url)
        await tell(database, "a")
        async with running(sender_of(database, pace=pace)):
            (delivery,) = await until(database, all_are(DeliveryState.GIVEN_UP), "given up")
            tried = len(receiver.received)
            receiver.answer = lambda _: answer_with(204)
            await tell(database, "b")
            await receiver.wait_for(tried + 1)
    assert delivery.ended_at is not None
    assert delivery.error == "the receiver answers 500"
    assert delivery.attempts == tried >= 1
    assert "the webhook pager: 1 deliveries not delivered" in caplog.text
    assert receiver.received[-1].sentence == "b"


async def test_delivery_without_a_server_in_its_time_is_tried_once(database: Database) -> None:
    """A server that was away for longer than the retry limit sends its alerts once."""
    pace = msgspec.structs.replace(HASTY, give_up_after=timedelta(0))
    async with receiving(Receiver(answer=lambda _: answer_with(500))) as receiver:
        await add(database, receiver.url)
        await tell(database, "a")
        async with running(sender_of(database, pace=pace)):
            (delivery,) = await until(database, all_are(DeliveryState.GIVEN_UP), "given up")
    assert (delivery.attempts, len(receiver.received)) == (1, 1)
    assert delivery.error == "the receiver answers 500"


async def test_retry_that_becomes_due_after_its_limit_is_not_sent(database: Database) -> None:
    """A turn ends old deliveries first; one whose pause ends right after that waits for the next turn."""
    async with receiving() as receiver:
        await add(database, receiver.url)
    await tell(database, "a")
    async with database.unit_of_work() as uow:
        outbox = uow.of(DeliveryStore)
        first = await outbox.begin(NAME, lease_s=0, retry_limit=timedelta(0))
        assert await outbox.begin(NAME, lease_s=0, retry_limit=timedelta(0)) is None
        again = await outbox.begin(NAME, lease_s=0, retry_limit=timedelta(hours=1))
    assert (first and first.number, again and again.number) == (1, 2)


async def test_paused_webhook_is_sent_nothing_and_gets_what_waited_when_it_is_resumed(database: Database) -> None:
    now = datetime.now(UTC)
    async with receiving() as receiver:
        await add(database, receiver.url)
        async with database.unit_of_work() as uow:
            await webhooks.pause_webhook(uow, NAME, by=COMMAND_LINE, why=None, now=now)
            await uow.commit()
        await tell(database, "a")
        sender = sender_of(database)
        await sender.turn()
        async with database.unit_of_work() as uow:
            assert await uow.of(DeliveryStore).begin(NAME, lease_s=1, retry_limit=HASTY.give_up_after) is None
            await webhooks.resume_webhook(uow, NAME, by=COMMAND_LINE, why=None, now=now)
            await uow.commit()
        assert receiver.received == []
        async with running(sender):
            await receiver.wait_for(1)


async def test_receiver_that_wants_no_more_pauses_its_webhook(database: Database) -> None:
    async with receiving(Receiver(answer=lambda _: answer_with(410))) as receiver:
        await add(database, receiver.url)
        await tell(database, "a", "b")
        async with running(sender_of(database)):
            (first, second) = await until(database, lambda found: found[0].error is not None, "an answer")
        async with database.unit_of_work() as uow:
            webhook = await uow.of(WebhookStore).get(NAME)
    assert webhook.paused_at is not None
    assert "410" in (webhook.pause_reason or "")
    assert (first.attempts, second.attempts) == (1, 0)


async def test_missing_secret_is_reported_by_its_name_and_tried_again(database: Database) -> None:
    async with receiving() as receiver:
        await add(database, receiver.url, secrets=("THREE",))
        await tell(database, "a")
        async with running(sender_of(database)):
            (delivery,) = await until(database, lambda found: found[0].attempts > 1, "a second attempt")
    assert "FENCELINE_SECRET_THREE is not in this process's environment" in (delivery.error or "")
    assert receiver.received == []


async def test_settings_that_no_longer_allow_the_host_stop_what_is_on_its_way(database: Database) -> None:
    await add(database, "http://localhost:9/")
    await tell(database, "a")
    async with running(sender_of(database)):
        (delivery,) = await until(database, lambda found: found[0].error is not None, "an attempt")
    assert "localhost:9 is not on the list of hosts" in (delivery.error or "")

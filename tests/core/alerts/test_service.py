"""Alerts are written with their cause: for webhooks of their kind, once, and corrected before they are sent."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from app.core.alerts import service as alerts
from app.core.alerts.alert import Alert, AlertKind, AlertState
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.fencing.fencing_event import Case
from app.core.fencing.service import events as fencing_events
from app.core.fencing.steps import cases_of
from app.core.runs.instance import InstanceState
from app.core.runs.service import instances, runs
from app.kit.access import RECONCILER
from tests.core.fencing.coordinator import CLUSTER, Client, Coordinator, live_of
from tests.support.control_plane import ControlPlane

ALL = "all"


async def webhook(plane: ControlPlane, name: str = ALL, *kinds: AlertKind, paused: bool = False) -> None:
    async with plane.uow() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name=name,
                url="https://hooks.example.com/x",
                secrets=("env:FENCELINE_SECRET_X",),
                kinds=kinds,
                created_at=plane.now,
                created_by="anna",
                paused_at=plane.now if paused else None,
            )
        )
        await uow.commit()


async def written(plane: ControlPlane, name: str = ALL) -> list[tuple[str, str]]:
    """Type and sentence, oldest first."""
    async with plane.uow() as uow:
        page = await uow.of(DeliveryStore).list(name, after=None, limit=100)
    return [(one.type, one.sentence) for one in reversed(page.items)]


async def types(plane: ControlPlane, name: str = ALL) -> list[str]:
    return [kind for kind, _ in await written(plane, name)]


async def begin_all(plane: ControlPlane) -> None:
    """As a sender does that is about to send: from here on nothing is taken back."""
    async with plane.uow() as uow:
        await uow.connection.execute(sa.text("UPDATE webhook_deliveries SET attempts = attempts + 1"))
        await uow.commit()


async def alerts_of(plane: ControlPlane, name: str = ALL) -> list[Alert]:
    async with plane.uow() as uow:
        rows = await uow.connection.rows(
            sa.text("SELECT alert FROM webhook_deliveries WHERE webhook = :name ORDER BY sequence"), {"name": name}
        )
    return [msgspec.convert(row.alert, Alert) for row in rows]


def happened(kind: AlertKind = AlertKind.RUN_FAILED, *, plane: ControlPlane, sentence: str = "It failed.") -> Alert:
    return Alert(
        kind=kind, state=AlertState.HAPPENED, subject="run/1", at=plane.now, sentence=sentence, page="/pipelines/p"
    )


async def test_each_webhook_gets_its_kinds(plane: ControlPlane) -> None:
    await webhook(plane)
    await webhook(plane, "runs", AlertKind.RUN_FAILED)
    await webhook(plane, "fencings", AlertKind.FENCING)
    await webhook(plane, "paused", paused=True)
    async with plane.uow() as uow:
        await alerts.tell(uow, happened(plane=plane))
        await uow.commit()
    assert [await types(plane, name) for name in (ALL, "runs", "fencings", "paused")] == [
        ["run_failed.happened"],
        ["run_failed.happened"],
        [],
        ["run_failed.happened"],
    ]


async def test_nothing_is_written_of_what_did_not_happen(plane: ControlPlane) -> None:
    """The outbox is in the transaction of its cause."""
    await webhook(plane)
    async with plane.uow() as uow:
        await alerts.tell(uow, happened(plane=plane))
    assert await types(plane) == []


async def test_lasting_condition_is_raised_once_and_resolved_once(plane: ControlPlane) -> None:
    await webhook(plane)
    alert = msgspec.structs.replace(
        happened(AlertKind.TRANSACTION_HANGING, plane=plane), state=AlertState.RAISED, subject="t/1"
    )
    for is_new in (True, False):
        async with plane.uow() as uow:
            assert await alerts.raise_alert(uow, alert) is is_new
            await uow.commit()
    plane.pass_time(90)
    for is_over in (True, False):
        async with plane.uow() as uow:
            assert await alerts.resolve_alert(uow, alert.kind, alert.subject, now=plane.now) is is_over
            await uow.commit()
    assert await written(plane) == [
        ("transaction_hanging.raised", "It failed."),
        ("transaction_hanging.resolved", "Over after 90 s. It was: It failed."),
    ]


async def test_single_event_cannot_be_raised(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        with pytest.raises(ValueError, match="use tell"):
            await alerts.raise_alert(uow, happened(plane=plane))


async def test_texts_that_postgres_cannot_store_are_corrected_and_sent(plane: ControlPlane) -> None:
    await webhook(plane)
    async with plane.uow() as uow:
        await alerts.tell(uow, happened(plane=plane, sentence="a\x00b\ud800c" + "x" * 10_000))
        await uow.commit()
    ((_, sentence),) = await written(plane)
    assert sentence.startswith("a\N{REPLACEMENT CHARACTER}b?c")
    assert len(sentence) == 2_000


async def test_lost_instance_and_failed_run_are_reported_once(plane: ControlPlane) -> None:
    await webhook(plane)
    run = await plane.running()
    async with plane.uow() as uow:
        for state in (InstanceState.UNREACHABLE, InstanceState.LOST, InstanceState.LOST):
            await instances.advance_instance(
                uow, run_id=run.id, ordinal=0, lease=1, to=state, reason="its host is gone", now=plane.now
            )
        await uow.commit()
    async with plane.uow() as uow:
        await runs.fail_run(uow, run_id=run.id, reason="no instance comes up", by=RECONCILER, now=plane.now)
        await uow.commit()
    (lost, lost_sentence), (failed, failed_sentence) = await written(plane)
    assert (lost, failed) == ("instance_lost.happened", "run_failed.happened")
    assert "its host is gone" in lost_sentence
    assert "no instance comes up" in failed_sentence


def abort_then_takeover(plane: ControlPlane) -> tuple[list[Case], list[Case]]:
    """The journal's evidence when the old transaction is aborted, and when the new producer has come."""
    coordinator = Coordinator(now_ms=int(plane.now.timestamp() * 1000))
    coordinator.begin()
    coordinator.init(after_ms=300)
    first = live_of(coordinator.batches[:-1])
    return cases_of(first, kafka_cluster_id=CLUSTER), cases_of(coordinator.live, kafka_cluster_id=CLUSTER)


async def record(plane: ControlPlane, told: list[Case]) -> None:
    async with plane.uow() as uow:
        await fencing_events.record_cases(uow, told, now=plane.now)
        await uow.commit()


async def test_takeover_is_one_alert_though_it_begins_as_an_abort(plane: ControlPlane) -> None:
    await webhook(plane)
    abort, takeover = abort_then_takeover(plane)
    await record(plane, abort)
    ((_, before),) = await written(plane)
    await record(plane, takeover)
    await record(plane, takeover)
    ((kind, after),) = await written(plane)
    assert kind == "fencing.happened"
    assert before != after
    async with plane.uow() as uow:
        (waiting,) = (await uow.of(DeliveryStore).list(ALL, after=None, limit=10)).items
        assert await uow.of(DeliveryStore).due() == []
    assert timedelta(seconds=4) < waiting.next_attempt_at - waiting.written_at < timedelta(seconds=6)


async def test_sent_alert_is_corrected_by_a_second_message(plane: ControlPlane) -> None:
    await webhook(plane)
    abort, takeover = abort_then_takeover(plane)
    await record(plane, abort)
    await begin_all(plane)
    await record(plane, takeover)
    (sent, correction) = await alerts_of(plane)
    assert (sent.type, sent.cause) == ("fencing.happened", "coordinator_abort")
    assert (correction.type, correction.cause) == ("fencing.corrected", "takeover")
    assert correction.said_before == "coordinator_abort"
    assert correction.subject == sent.subject
    assert correction.page == f"/fencing/{correction.fencing_event}"


async def test_alert_without_a_loss_is_withdrawn_or_corrected(plane: ControlPlane) -> None:
    """A client of KIP-890 that goes on has aborted its own transaction."""
    await webhook(plane, "quick")
    coordinator = Coordinator(Client.TV_2, now_ms=int(plane.now.timestamp() * 1000))
    coordinator.begin()
    coordinator.time_out()
    await record(plane, cases_of(coordinator.live, kafka_cluster_id=CLUSTER))
    await begin_all(plane)
    # This one begins when nothing was sent to it yet.
    await webhook(plane, "slow")
    async with plane.uow() as uow:
        (sent,) = await alerts_of(plane, "quick")
        await uow.of(DeliveryStore).write(sent, only="slow")
        await uow.commit()
    assert await types(plane, "slow") == ["fencing.happened"]
    coordinator.begin()
    await record(plane, cases_of(coordinator.live, kafka_cluster_id=CLUSTER))
    assert await types(plane, "quick") == ["fencing.happened", "fencing.corrected"]
    assert await types(plane, "slow") == []
    (_, correction) = await alerts_of(plane, "quick")
    assert (correction.said_before, correction.cause) == ("timeout", "own_abort")


@pytest.mark.parametrize(("hours_ago", "told"), [(0.5, 1), (2, 0)])
async def test_old_journal_causes_no_alert(plane: ControlPlane, hours_ago: float, told: int) -> None:
    await webhook(plane)
    _, takeover = abort_then_takeover(plane)
    plane.pass_time(hours_ago * 3600)
    await record(plane, takeover)
    assert len(await types(plane)) == told


async def test_clean_restart_causes_no_alert(plane: ControlPlane) -> None:
    await webhook(plane)
    coordinator = Coordinator(now_ms=int(plane.now.timestamp() * 1000))
    coordinator.init(after_ms=1_000)
    await record(plane, cases_of(coordinator.live, kafka_cluster_id=CLUSTER))
    assert await types(plane) == []

"""The workers' listener: run tokens only, both protocol versions named, and a quick answer without Postgres."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.store import FencingStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.service import instances
from app.core.runs.store.tasks import TaskStore
from app.core.runs.workers_api import ANSWER_WITHIN_S, create_workers_app
from app.core.wire import protocol, specification
from app.core.wire.heartbeat import (
    Claim,
    Counters,
    DriverHeartbeat,
    EventKind,
    HeartbeatAnswer,
    OutcomeKind,
    PartitionProgress,
    ReportedOutcome,
    TaskEvent,
    TaskHeartbeat,
    TaskState,
)
from app.core.wire.offset_events import Assigned
from app.core.wire.offset_report import OffsetReport, ReportedPartition
from app.core.wiring import Wiring
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from app.products.offset_log import service as offset_log
from tests.support.api_samples import create_pipeline, definition_on, register
from tests.support.wiring import WORKERS_URL, client_of, settings_for_test, token_of, wired


class Worker:
    """One driver with its run token."""

    def __init__(self, client: httpx.AsyncClient, run_id: str, secret: str) -> None:
        self.client = client
        self.run_id = run_id
        self.headers = {"Authorization": f"Bearer {secret}"}

    async def post(self, path: str, message: msgspec.Struct | bytes) -> httpx.Response:
        body = message if isinstance(message, bytes) else msgspec.json.encode(message)
        return await self.client.post(f"/workers/v1/{path}", content=body, headers=self.headers)

    def claim(self, **changes: Any) -> Claim:
        values: dict[str, Any] = {
            "fenceline_version": "0",
            "python_version": "3",
            "run_id": self.run_id,
            "ordinal": 0,
            "lease": 1,
            "application_id": "app-1",
            "host": "h",
            "jvm_pid": 1,
            "python_pid": 2,
            "process_started_at_ms": 1_000,
            **changes,
        }
        return Claim(**values)

    def heartbeat(self, **changes: Any) -> TaskHeartbeat:
        values: dict[str, Any] = {
            "run_id": self.run_id,
            "ordinal": 0,
            "lease": 1,
            "task": 0,
            "attempt": 0,
            "sequence": 1,
            "sent_at_ms": 1_000,
            "host": "h",
            "pid": 3,
            "state": TaskState.RUNNING,
            **changes,
        }
        return TaskHeartbeat(**values)


@pytest.fixture
async def worker(
    api_wiring: Wiring, administrator: httpx.AsyncClient, workers_client: httpx.AsyncClient, kafka: KafkaCluster
) -> Worker:
    """The driver of a run that was just submitted."""
    await register(administrator, kafka.bootstrap_servers)
    await create_pipeline(administrator, "flights", definition_on(kafka.bootstrap_servers))
    run = (await administrator.post("/api/v1/pipelines/flights/runs")).json()
    async with api_wiring.unit_of_work() as uow:
        _, secret = await instances.begin_submission(
            uow, run_id=run["id"], ordinal=0, lease=1, host="h", now=datetime.now(UTC)
        )
        await uow.commit()
    return Worker(workers_client, run["id"], secret)


async def test_a_driver_claims_reports_and_ends(worker: Worker, administrator: httpx.AsyncClient) -> None:
    assert (await worker.post("claim", worker.claim())).json()["granted"] is True
    got = await worker.client.get("/workers/v1/specification", headers=worker.headers)
    told = specification.decode(got.content)
    assert (told.run_id, told.lease, told.server_urls) == (worker.run_id, 1, (WORKERS_URL,))
    assert f"Bearer {told.run_token}" == worker.headers["Authorization"]
    beat = await worker.post("heartbeat", worker.heartbeat())
    assert msgspec.json.decode(beat.content, type=HeartbeatAnswer).is_current is True
    driver = DriverHeartbeat(
        run_id=worker.run_id,
        ordinal=0,
        lease=1,
        application_id="app-1",
        host="h",
        sent_at_ms=1,
        executors=1,
        tasks_running=1,
        tasks_waiting=0,
    )
    assert (await worker.post("driver", driver)).json()["is_current"] is True
    tasks = (await administrator.get(f"/api/v1/runs/{worker.run_id}/tasks")).json()["items"]
    assert [(task["last"]["state"], task["last"]["pid"]) for task in tasks] == [("running", 3)]
    run = (await administrator.get(f"/api/v1/runs/{worker.run_id}")).json()
    assert run["state"] == "running"
    ended = ReportedOutcome(run_id=worker.run_id, ordinal=0, lease=1, kind=OutcomeKind.DRAINED, application_id="app-1")
    assert (await worker.post("outcome", ended)).json() == {}
    run = (await administrator.get(f"/api/v1/runs/{worker.run_id}")).json()
    assert run["instances"][0]["state"] == "stopped"


async def test_locked_fencing_row_delays_no_answer_to_a_task(worker: Worker, api_wiring: Wiring) -> None:
    await worker.post("claim", worker.claim())

    async def beat(sequence: int, *kinds: EventKind) -> HeartbeatAnswer:
        events = tuple(
            TaskEvent(event_id=kind, kind=kind, at_ms=now_ms, message="as told", producer_id=7, producer_epoch=2)
            for kind in kinds
        )
        message = worker.heartbeat(sequence=sequence, transactional_id="fl.t.flights.0.0", events=events)
        answer = await worker.post("heartbeat", message)
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=HeartbeatAnswer)

    async def kept() -> list[FencingRecord]:
        async with api_wiring.unit_of_work() as uow:
            return list((await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items)

    now_ms = time.time_ns() // 1_000_000
    assert (await beat(1, EventKind.FENCED)).accepted_events == (EventKind.FENCED,)
    (before,) = await kept()
    async with api_wiring.unit_of_work() as other:
        await other.of(FencingStore).find(before.event.key, for_update=True)
        told = await beat(2, EventKind.SUPERSEDED)
        assert (told.is_current, told.accepted_events) == (True, ()), "it is heard, and repeats its event"
    assert (await beat(3, EventKind.SUPERSEDED)).accepted_events == (EventKind.SUPERSEDED,)
    (after,) = await kept()
    assert len(after.event.evidence) == len(before.event.evidence) + 1


async def test_offsets_are_stored_beside_the_heartbeat_and_a_failure_delays_no_answer(
    worker: Worker, administrator: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker.post("claim", worker.claim())
    pipeline = (await administrator.get("/api/v1/pipelines/flights")).json()
    (topic,) = pipeline["definition"]["source_topics"]

    async def beat(sequence: int, recorded: int) -> HeartbeatAnswer:
        told = ReportedPartition(
            topic=topic, partition=0, recorded=recorded, events=(Assigned(index=recorded - 1, number=1),)
        )
        message = worker.heartbeat(sequence=sequence, offsets=OffsetReport(partitions=(told,)))
        answer = await worker.post("heartbeat", message)
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=HeartbeatAnswer)

    before_ms = time.time_ns() // 1_000_000
    kept = await beat(1, recorded=1)
    assert kept.offsets_stored
    assert before_ms <= (kept.answered_ms or 0) <= time.time_ns() // 1_000_000
    with monkeypatch.context() as broken:
        broken.setattr(offset_log, "keep", None)
        refused = await beat(2, recorded=2)
    assert (refused.is_current, refused.offsets_stored) == (True, False)
    assert (await beat(3, recorded=2)).offsets_stored
    without = await worker.post("heartbeat", worker.heartbeat(sequence=4))
    assert without.json()["offsets_stored"] is False


async def test_unknown_partitions_are_known_once_brokers_have_reported_them(worker: Worker, api_wiring: Wiring) -> None:
    await worker.post("claim", worker.claim())
    async with api_wiring.unit_of_work() as uow:
        (topic,) = (await uow.of(PipelineStore).get("flights")).definition.source_topics
    forged = tuple(PartitionProgress(topic=topic, partition=number) for number in range(50))

    async def told(sequence: int) -> int:
        await worker.post("heartbeat", worker.heartbeat(sequence=sequence, partitions=forged))
        await api_wiring.partition_counts.settled()
        async with api_wiring.unit_of_work() as uow:
            (status,) = await uow.of(TaskStore).list_statuses([worker.run_id])
        return len(status.last.partitions)

    assert (await told(1), await told(2)) == (50, 2)
    assert api_wiring.dropped_fields.counts["flights", "partitions"] == 48


async def test_metrics_have_what_was_reported(worker: Worker, administrator: httpx.AsyncClient) -> None:
    await worker.post("claim", worker.claim())
    counters = Counters(records_in=1_000, records_out=400, transactions_committed=7)
    await worker.post("heartbeat", worker.heartbeat(counters=Counters()))
    beat = worker.heartbeat(sequence=2, sent_at_ms=2_000, counters=counters, commit_latency_p99_ms=12.5)
    await worker.post("heartbeat", beat)
    text = (await administrator.get("/metrics")).text
    assert 'fenceline_pipeline_state{pipeline="flights",state="running"} 1.0' in text
    assert 'fenceline_pipeline_state{pipeline="flights",state="failed"} 0.0' in text
    assert 'fenceline_pipeline_records_in_per_s{pipeline="flights"} 1000.0' in text
    assert 'fenceline_pipeline_commit_latency_p99_ms{pipeline="flights"} 12.5' in text
    assert 'fenceline_run_transactions_committed_total{pipeline="flights"} 7.0' in text


async def test_a_second_application_is_refused_the_claim_with_the_reason(worker: Worker) -> None:
    await worker.post("claim", worker.claim())
    again = await worker.post("claim", worker.claim())
    other = await worker.post("claim", worker.claim(application_id="app-2"))
    assert (again.status_code, other.status_code) == (200, 409)
    assert "app-1" in other.json()["reason"]


@pytest.mark.parametrize("changes", [{"ordinal": 1}, {"lease": 2}, {"run_id": "00000000-0000-0000-0000-000000000000"}])
async def test_a_run_token_is_good_for_its_own_lease_only(worker: Worker, changes: dict[str, Any]) -> None:
    assert (await worker.post("heartbeat", worker.heartbeat(**changes))).status_code == 403
    assert (await worker.post("claim", worker.claim(**changes))).status_code == 403


@pytest.mark.parametrize("version", [0, max(protocol.SUPPORTED) + 1, -1])
async def test_another_protocol_version_is_refused_with_both_named(worker: Worker, version: int) -> None:
    response = await worker.post("heartbeat", worker.heartbeat(protocol_version=version))
    assert response.status_code == 426
    detail = response.json()["detail"]
    assert f"version {version}" in detail
    assert f"supports {protocol.CURRENT}" in detail


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"protocol_version": 1}', b'{"protocol_version": "1"}', b"\xff"])
async def test_a_malformed_message_is_a_400(worker: Worker, body: bytes) -> None:
    response = await worker.post("heartbeat", body)
    assert response.status_code == 400, response.text
    assert str(protocol.CURRENT) in response.json()["detail"]


async def test_a_field_of_a_later_release_is_no_mistake(worker: Worker) -> None:
    message = {**msgspec.to_builtins(worker.heartbeat()), "invented_later": {"a": 1}}
    assert (await worker.post("heartbeat", msgspec.json.encode(message))).status_code == 200


@pytest.mark.parametrize("path", ["claim", "heartbeat", "driver", "outcome"])
async def test_users_tokens_and_no_tokens_are_refused(
    api_wiring: Wiring, workers_client: httpx.AsyncClient, path: str
) -> None:
    token = await token_of(api_wiring, Role.ADMINISTRATOR)
    for headers in ({}, {"Authorization": f"Bearer {token}"}):
        response = await workers_client.post(f"/workers/v1/{path}", content=b"{}", headers=headers)
        assert response.status_code == 401


async def test_a_run_token_opens_nothing_on_the_users_listener(worker: Worker, app: FastAPI) -> None:
    async with client_of(app) as client:
        assert (await client.get("/api/v1/me", headers=worker.headers)).status_code == 401


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/api/v1/pipelines", "/login", "/healthz"])
async def test_there_is_nothing_else_on_this_listener(workers_client: httpx.AsyncClient, path: str) -> None:
    assert (await workers_client.get(path)).status_code == 404


async def test_a_foreign_host_and_a_large_body_are_refused(workers_client: httpx.AsyncClient) -> None:
    foreign = await workers_client.post("/workers/v1/claim", headers={"Host": "evil.example"})
    large = await workers_client.post("/workers/v1/claim", content=b" " * (2 * 1024 * 1024))
    assert (foreign.status_code, large.status_code) == (421, 413)


async def test_without_postgres_a_worker_is_answered_before_it_stops_waiting(tmp_path: Path) -> None:
    """Workers wait for 2 s; then they would not know that it is the database, and not the network."""
    nobody_there = "postgresql://u:p@127.0.0.1:1/x"
    async with (
        wired(nobody_there, settings_for_test(tmp_path)) as wiring,
        client_of(create_workers_app(wiring), url=WORKERS_URL) as client,
    ):
        begun = time.monotonic()
        response = await client.post("/workers/v1/heartbeat", headers={"Authorization": "Bearer x"}, content=b"{}")
        took_s = time.monotonic() - begun
    assert response.status_code == 503
    assert "Postgres" in response.json()["detail"]
    assert took_s < ANSWER_WITHIN_S + 1

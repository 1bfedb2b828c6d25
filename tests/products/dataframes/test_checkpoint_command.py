"""The command for a new checkpoint on a real broker: by REST and on its page, with what it refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace
from rich.console import Console
from typer.testing import CliRunner

from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.journals.query_marker import QueryMarker
from app.core.pipelines.store import PipelineStore
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.run import RunEnd
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.runs import RunStore
from app.core.wiring import Wiring
from app.edges.cli import build
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.access import Role
from app.kit.cli.client import as_record
from app.products.dataframes.cli import planned
from app.products.dataframes.new_checkpoint import NewCheckpointPlan
from tests.conftest import MakeTopic
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import AsRole
from tests.support.queries import QUERY, progress, report, send
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from tests.support.wiring import browser_of

API = "/api/v1/pipelines/flights"
PAGE = "/pipelines/flights/checkpoint"
OLD = QUERY.checkpoint
STATELESS: dict[str, Any] = {"state_rows": None, "state_bytes": None, "state_operators": {}}


@dataclass(slots=True)
class Stopped:
    """A pipeline `flights` that has read 6 of 10 and 5 of 5 records, in batches up to 3, and whose run has ended."""

    plane: ControlPlane
    wiring: Wiring
    servers: str
    source: str
    sink: str
    group: str
    run_id: str = ""

    async def make(self, *, ends: bool = True, **batch: Any) -> None:
        producer = Producer({"bootstrap.servers": self.servers, **QUIET})
        for partition, count in ((0, 10), (1, 5)):
            for number in range(count):
                producer.produce(self.source, str(number).encode(), partition=partition)
        assert producer.flush(20) == 0
        await self.plane.registered(self.wiring.brokers, self.servers)
        streams = (replace(QUERY.streams[0], topic=self.source),)
        run = await self.plane.running(
            cluster="real",
            source_topics=(self.source,),
            sink_topic=self.sink,
            group_id=self.group,
            transaction_timeout_ms=60_000,
            transform=replace(QUERY, streams=streams),
        )
        self.run_id = run.id
        await send(self.plane, report(run.id, *(progress(number, **batch) for number in range(4))))
        await self.commit(
            {Partition(self.source, 0): 6, Partition(self.source, 1): 5, Partition(self.sink, 0): 4},
            metadata={Partition(self.sink, 0): f"fenceline/1 {run.id} 3 1 - -"},
        )
        if ends:
            await self.end(run.id)

    async def commit(self, offsets: dict[Partition, int], *, metadata: dict[Partition, str]) -> None:
        await self.wiring.brokers.alter_offsets(
            {"bootstrap.servers": self.servers}, self.group, offsets, metadata=metadata, timeout_s=30
        )

    async def committed(self) -> tuple[dict[Partition, int], dict[Partition, QueryMarker]]:
        return await self.wiring.brokers.offsets_and_markers({"bootstrap.servers": self.servers}, self.group)

    async def record(self, at: Partition, offset: int) -> None:
        async with self.plane.uow() as uow:
            await uow.of(RecordedOffsetStore).replace(
                [RecordedOffset(topic=at.topic, partition=at.partition, offset=offset)],
                pipeline="flights",
                kafka_cluster_id=(await uow.of(ClusterStore).get("real")).kafka_cluster_id,
                group=self.group,
                now=self.plane.now,
            )
            await uow.commit()

    async def end(self, run_id: str) -> None:
        async with self.plane.uow() as uow:
            await uow.of(RunStore).end(run_id, end=RunEnd.STOPPED, reason=None, now=self.plane.now)
            await uow.commit()

    async def checkpoint(self) -> tuple[int, str]:
        """The current revision, and its checkpoint."""
        async with self.plane.uow() as uow:
            found = await uow.of(PipelineStore).get("flights")
        assert found.definition.dataframe is not None
        return found.current_revision, found.definition.dataframe.checkpoint

    async def save(self, checkpoint: str) -> None:
        async with self.plane.uow() as uow:
            transform = (await uow.of(PipelineStore).get("flights")).definition.dataframe
        assert transform is not None
        await self.plane.revise("flights", transform=replace(transform, checkpoint=checkpoint))


@pytest.fixture
def stopped(database: Database, api_wiring: Wiring, kafka: KafkaCluster, make_topic: MakeTopic) -> Stopped:
    plane = ControlPlane(database)
    plane.now = api_wiring.clock.now()
    return Stopped(
        plane, api_wiring, kafka.bootstrap_servers, make_topic(partitions=2), make_topic(), unique_name("group")
    )


@pytest.fixture
async def author(as_role: AsRole) -> httpx.AsyncClient:
    return await as_role(Role.AUTHOR)


@pytest.fixture
async def browser(api_wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(api_wiring, Role.AUTHOR) as made:
        yield made


async def plan_of(client: httpx.AsyncClient, **asked: str) -> dict[str, Any]:
    answer = await client.get(f"{API}/checkpoint/plan", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def leave(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    confirmed = {name: plan[name] for name in ("begin", "checkpoint")}
    return {**confirmed, "expected_batch": plan["newest_batch"], "why": "the disk is lost", **more}


async def test_plan_of_a_query_with_state_begins_at_the_start_position(stopped: Stopped, as_role: AsRole) -> None:
    await stopped.make()
    before = await stopped.committed()
    viewer = await as_role(Role.VIEWER)
    plan = await plan_of(viewer)
    assert (plan["left"], plan["checkpoint"], plan["revision"]) == (OLD, f"{OLD}-r2", 2)
    assert (plan["begin"], plan["has_state"], plan["newest_batch"]) == ("start_position", True, 3)
    assert [(one["committed"], one["begin"], one["end"]) for one in plan["partitions"]] == [(6, 0, 10), (5, 0, 5)]
    assert (plan["read_again"], plan["never_read"]) == (11, 0)
    assert [(one["kind"], one["rows"]) for one in plan["state"]] == [("aggregation", 500)]
    assert plan["writers"] == [
        {"writer": 0, "transactional_id": "fl.t.flights.0.0", "marker": 3, "state": None, "is_open": False}
    ]
    assert plan["refusals"] == []
    assert await stopped.committed() == before
    refused = await viewer.get(f"{API}/checkpoint/plan", params={"begin": "committed"})
    assert refused.status_code == 422
    assert "The query has state" in refused.text

    console = Console(width=200)
    with console.capture() as capture:
        console.print(planned(as_record(plan, NewCheckpointPlan)))
    text = capture.get()
    assert f"{OLD} → {OLD}-r2" in text
    assert "- At most 11 records are read again." in text


async def test_query_without_state_goes_on_at_its_committed_offsets(
    stopped: Stopped, author: httpx.AsyncClient
) -> None:
    await stopped.make(**STATELESS)
    plan = await plan_of(author)
    assert (plan["begin"], plan["has_state"], plan["committed_refused"]) == ("committed", False, None)
    assert [one["begin"] for one in plan["partitions"]] == [6, 5]
    assert (plan["read_again"], plan["never_read"]) == (0, 0)
    again = await plan_of(author, begin="start_position")
    assert again["read_again"] == 11


async def test_command_makes_a_revision_and_sets_offsets_and_markers(
    stopped: Stopped, author: httpx.AsyncClient, as_role: AsRole
) -> None:
    await stopped.make()
    plan = await plan_of(author)
    operator = await as_role(Role.OPERATOR)
    assert (await operator.post(f"{API}/checkpoint", json=leave(plan))).status_code == 403
    for why in (None, " "):
        without = await author.post(f"{API}/checkpoint", json=leave(plan, why=why))
        assert without.status_code == 422
        assert "needs a reason" in without.text
    moved = await author.post(f"{API}/checkpoint", json=leave(plan, expected_batch=2))
    assert moved.status_code == 412, moved.text
    assert await stopped.checkpoint() == (1, OLD)

    done = await author.post(f"{API}/checkpoint", json=leave(plan))
    assert done.status_code == 200, done.text
    assert done.json() == plan
    assert await stopped.checkpoint() == (2, f"{OLD}-r2")
    source, sink = stopped.source, stopped.sink
    assert await stopped.committed() == (
        {Partition(source, 0): 0, Partition(source, 1): 0},
        {Partition(sink, 0): QueryMarker(batch=-1, writers=1)},
    )
    log = (await author.get("/api/v1/commands", params={"target": "pipeline:flights"})).json()["items"]
    assert [(row["verb"], row["why"]) for row in log] == [("new_checkpoint", "the disk is lost")]
    assert log[0]["details"]["read_again"] == 11
    assert (log[0]["details"]["left"], log[0]["details"]["checkpoint"]) == (OLD, f"{OLD}-r2")

    after = await plan_of(author)
    assert (after["newest_batch"], after["checkpoint"], after["revision"]) == (-1, f"{OLD}-r2", 2)
    assert after["kafka"][0].startswith("No batch is committed since the last new checkpoint.")


async def test_start_position_latest_is_an_offset_of_the_command(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make()
    await stopped.plane.revise("flights", start_position="latest")
    plan = await plan_of(author)
    assert (plan["never_read"], plan["read_again"]) == (4, 0)
    assert (await author.post(f"{API}/checkpoint", json=leave(plan))).status_code == 200
    assert (await stopped.committed())[0][Partition(stopped.source, 0)] == 10


async def test_saved_location_is_taken_if_no_driver_has_used_it(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make()
    await stopped.save("file:///srv/checkpoints/other")
    plan = await plan_of(author)
    assert (plan["left"], plan["checkpoint"], plan["revision"]) == (OLD, "file:///srv/checkpoints/other", 2)
    assert (await author.post(f"{API}/checkpoint", json=leave(plan))).status_code == 200
    assert (await stopped.checkpoint())[0] == 2
    for location, said in ((OLD, "a driver of flights has used"), ("s3://b/c", "s3a://")):
        refused = await author.get(f"{API}/checkpoint/plan", params={"checkpoint": location})
        assert refused.status_code == 422
        assert said in refused.text


async def test_changed_code_has_unknown_state(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make(**STATELESS)
    await stopped.plane.revise("flights", transform=replace(QUERY, sql="SELECT 1 AS value FROM flights"))
    plan = await plan_of(author)
    assert (plan["begin"], plan["has_state"]) == ("start_position", None)
    assert (await plan_of(author, begin="committed"))["begin"] == "committed"


async def test_refused_while_a_run_lives(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make(ends=False)
    plan = await plan_of(author)
    assert plan["refusals"] == ["The run is running. Drain it first: `fenceline runs drain flights`."]
    refused = await author.post(f"{API}/checkpoint", json=leave(plan))
    assert refused.status_code == 409
    assert "fenceline runs drain flights" in refused.text
    assert await stopped.checkpoint() == (1, OLD)


async def test_refused_while_the_group_has_a_member(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make()
    member = Consumer(
        {"bootstrap.servers": stopped.servers, **QUIET, "group.id": stopped.group, "client.id": "the-driver"}
    )
    try:
        member.subscribe([stopped.sink])
        wait_for(lambda: member.poll(0.1) is None and bool(member.assignment()), 30, "the member's assignment")
        plan = await plan_of(author)
        assert "has 1 member (the-driver)" in plan["refusals"][0]
        refused = await author.post(f"{API}/checkpoint", json=leave(plan))
        assert refused.status_code == 409
    finally:
        member.close()


async def test_refused_while_a_transaction_of_a_writer_is_open(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.make()
    before = await stopped.committed()
    producer = Producer({"bootstrap.servers": stopped.servers, **QUIET, "transactional.id": "fl.t.flights.0.0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(stopped.sink, b"open")
    producer.flush(20)
    plan = await plan_of(author)
    assert plan["writers"][0]["state"] == "Ongoing"
    assert "fenceline fence fl.t.flights.0.0 --execute" in plan["refusals"][0]
    assert (await author.post(f"{API}/checkpoint", json=leave(plan))).status_code == 409
    producer.abort_transaction(30)
    assert await stopped.committed() == before


async def test_pipeline_without_a_query_has_no_checkpoint(stopped: Stopped, author: httpx.AsyncClient) -> None:
    await stopped.plane.pipeline("flights")
    refused = await author.get(f"{API}/checkpoint/plan")
    assert refused.status_code == 422
    assert "has no query" in refused.text
    assert (await author.get("/api/v1/pipelines/missing/checkpoint/plan")).status_code == 404


async def test_page_shows_the_plan_and_leaves_the_checkpoint(stopped: Stopped, browser: httpx.AsyncClient) -> None:
    await stopped.make()
    assert f'href="{PAGE}"' in (await browser.get("/pipelines/flights/offsets")).text
    page = (await browser.get(PAGE)).text
    for text in ("At most 11 records are read again.", OLD, f'value="{OLD}-r2"', "fl.t.flights.0.0", "Lost state"):
        assert text in page
    assert 'value="committed" disabled' in page
    form = {"begin": "start_position", "checkpoint": f"{OLD}-r2", "expected_batch": "3"}
    without = await browser.post(PAGE, data=form)
    assert without.status_code == 422
    assert "needs a reason" in without.text
    moved = await browser.post(PAGE, data={**form, "expected_batch": "1", "why": "w"})
    assert moved.status_code == 412
    done = await browser.post(PAGE, data={**form, "why": "the disk is lost"})
    assert done.status_code == 303, done.text
    assert "begins as the plan showed" in (await browser.get(done.headers["location"])).text
    assert await stopped.checkpoint() == (2, f"{OLD}-r2")


async def test_page_has_refusals_and_no_form_for_other_roles(
    stopped: Stopped, browser: httpx.AsyncClient, api_wiring: Wiring
) -> None:
    await stopped.make(ends=False)
    page = (await browser.get(PAGE)).text
    assert "Not possible now" in page
    assert 'id="leave"' not in page
    assert "The query has state" in (await browser.get(PAGE, params={"begin": "committed"})).text
    async with browser_of(api_wiring, Role.VIEWER) as viewer:
        assert "requires the role author" in (await viewer.get(PAGE)).text
    assert (await browser.get("/pipelines/missing/checkpoint")).status_code == 404


class PlayedClient:
    """The server's answers of a command, without a server."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        self.requests.append((path, query))
        return self.plan

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((path, body))
        return self.plan


async def test_command_line_confirms_the_plan_that_it_has_shown(
    stopped: Stopped, author: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stopped.make()
    client = PlayedClient(await plan_of(author))
    monkeypatch.setattr("app.products.dataframes.cli.connect", lambda: client)
    runner, app = CliRunner(), build("new-checkpoint")
    path = "/pipelines/flights/checkpoint"

    shown = runner.invoke(app, ["new-checkpoint", "flights", "--begin", "start_position", "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout) == {"executed": False, "plan": client.plan}
    assert client.requests == [(f"{path}/plan", {"begin": "start_position", "checkpoint": None})]

    without = runner.invoke(app, ["new-checkpoint", "flights", "--execute"])
    assert "--execute needs a reason" in str(without.exception)
    done = runner.invoke(app, ["new-checkpoint", "flights", "--execute", "--why", "the disk is lost"])
    assert done.exit_code == 0, done.output
    assert client.requests[-1] == (path, leave(client.plan))
    assert f"checkpoint: {OLD}-r2" in " ".join(done.output.split())
    assert "fenceline runs start flights" in " ".join(done.output.split())


async def test_a_start_after_the_offsets_have_expired_names_steps_that_have_an_effect_on_a_query(
    stopped: Stopped, as_role: AsRole, browser: httpx.AsyncClient
) -> None:
    await stopped.make()
    await stopped.record(Partition(stopped.source, 0), 6)
    admin = AdminClient({"bootstrap.servers": stopped.servers})
    admin.delete_consumer_groups([stopped.group])[stopped.group].result(20)  # pyright: ignore[reportUnknownMemberType]
    refused = await browser.post("/pipelines/flights/start", data={"why": "go"})
    assert (refused.status_code, "has lost committed offsets" in refused.text) == (409, True)
    assert f'href="{PAGE}">New checkpoint…' in refused.text
    assert refused.text.count('action="/pipelines/flights/reset-offsets"') == 1

    operator = await as_role(Role.OPERATOR)
    for path, why in (("preview", {}), ("reset", {"why": "again"})):
        earliest = await operator.post(f"{API}/offsets/{path}", json={"kind": "earliest", **why})
        assert (earliest.status_code, "begins at its checkpoint" in earliest.text) == (422, True), earliest.text
    restored = await browser.post("/pipelines/flights/reset-offsets", data={"kind": "recorded", "why": "it expired"})
    assert restored.status_code == 303
    assert await stopped.committed() == ({Partition(stopped.source, 0): 6}, {})
    started = await browser.post("/pipelines/flights/start", data={"why": "go"})
    assert started.headers["location"].endswith("said=started")

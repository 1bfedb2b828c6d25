"""The application for workers: drivers and tasks report once a second, with run tokens (app/core/wire/heartbeat.py).

It answers quickly or with an error: a worker that waits continues its work, but reads its desired state later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from fastapi import FastAPI, Request, Response
from msgspec.structs import replace

from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.observing.service import groups
from app.core.runs.hooks import Hooks
from app.core.runs.message_api import (
    ANSWER_WITHIN_S,
    MalformedMessageError,
    Scope,
    answer_with,
    bounded_unit,
    read,
    secret_of,
)
from app.core.runs.service import heartbeats, instances, specifications
from app.core.wire import protocol, specification
from app.core.wire.heartbeat import Claim, DriverHeartbeat, ReportedOutcome, TaskHeartbeat
from app.core.wiring import Wiring, WiringDep
from app.kit.errors import UnavailableError
from app.kit.settings import path_of
from app.kit.web import errors
from app.kit.web.base_path import BasePath
from app.kit.web.bugs import BugBarrier
from app.kit.web.problems import ProblemResponse
from app.kit.web.security.body_limit import BodyLimit
from app.kit.web.security.perimeter import Perimeter, hosts_of

log = logging.getLogger(__name__)


def create_workers_app(wiring: Wiring) -> FastAPI:
    """Create the application for drivers and tasks, without documentation, sessions or users' tokens."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.wiring = wiring
    errors.install(app)
    app.add_exception_handler(protocol.UnsupportedProtocolError, _on_other_protocol)
    app.add_exception_handler(MalformedMessageError, _on_malformed)
    app.add_middleware(BodyLimit, limit_bytes=wiring.settings.request_limit_kib * 1024)
    app.add_middleware(BugBarrier)
    app.add_middleware(BasePath, base_path=path_of(wiring.settings.workers_url))
    app.add_middleware(
        Perimeter,
        hosts=hosts_of(wiring.settings, wiring.workers_urls),
        trusted_proxies=wiring.settings.trusted_proxies,
        public_url=wiring.settings.workers_url,
    )
    app.add_api_route("/workers/v1/claim", claim, methods=["POST"])
    app.add_api_route("/workers/v1/specification", get_specification, methods=["GET"])
    app.add_api_route("/workers/v1/heartbeat", heartbeat, methods=["POST"])
    app.add_api_route("/workers/v1/driver", driver, methods=["POST"])
    app.add_api_route("/workers/v1/outcome", outcome, methods=["POST"])
    for product in wiring.products:
        for path, handler in product.worker_routes.items():
            app.add_api_route(path, handler, methods=["POST"])
    return app


async def claim(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    """The first word of a driver; 409 with the reason when its lease is not the current one."""
    message = await read(request, Claim)
    heartbeats.check_scope(scope, run_id=message.run_id, ordinal=message.ordinal, lease=message.lease)
    async with bounded_unit(wiring) as uow:
        answer = await instances.claim_instance(uow, message, now=wiring.clock.now())
        await uow.commit()
    return answer_with(answer, status=200 if answer.granted else 409)


async def get_specification(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    """Return the specification of the token's instance; 409 if its lease has ended."""
    async with bounded_unit(wiring) as uow:
        found = await specifications.specification_for(
            uow,
            scope,
            run_token=secret_of(request),
            fenceline_version=wiring.version,
            server_urls=wiring.workers_urls,
            native_records=wiring.settings.native_records,
        )
    return Response(specification.encode(found), media_type="application/json")


async def heartbeat(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await read(request, TaskHeartbeat)
    until = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
    now = wiring.clock.now()
    async with bounded_unit(wiring) as uow:
        heard = await heartbeats.receive_heartbeat(
            uow,
            message,
            scope=scope,
            now=now,
            generations=partial(groups.generations, wiring.observations),
            counts=wiring.partition_counts.of,
        )
        await uow.commit()
    _note(wiring, heard)
    answer = replace(
        heard.answer,
        answered_ms=int(now.timestamp() * 1000),
        offsets_stored=message.offsets is not None
        and await _offsets_kept(wiring, heard.taken, heard.answer.database_epoch, now=now, until=until),
    )
    if heard.fencing and not await _recorded(wiring, heard.fencing, until=until):
        # The task repeats them with its next heartbeat.
        return answer_with(replace(answer, accepted_events=()))
    return answer_with(answer)


def _note(wiring: Wiring, heard: heartbeats.HeartbeatResult) -> None:
    """Count dropped fields, and ask the brokers for partitions that the server does not know yet."""
    taken, context = heard.taken, heard.context
    sender = f"task {taken.task} of instance {taken.ordinal}"
    wiring.dropped_fields.note(context.pipeline, sender, heard.dropped, now=wiring.clock.now())

    async def ask(topics: Collection[str]) -> dict[str, int]:
        async with wiring.unit_of_work() as uow:
            cluster = await uow.of(ClusterStore).get(context.cluster)
        facts = await wiring.brokers.facts(cluster.connection(), topics=topics)
        return {topic: found.partitions for topic, found in facts.topics.items()}

    if heard.beyond:
        wiring.partition_counts.ask(context.kafka_cluster_id, heard.beyond, ask)


async def _recorded(wiring: Wiring, cases: Sequence[Case], *, until: float) -> bool:
    """Return whether the fencing cases of a task are stored; False if rows are locked or Postgres is too slow."""
    try:
        async with asyncio.timeout_at(until), wiring.unit_of_work() as uow:
            await record_cases(uow, cases, now=wiring.clock.now())
            await uow.commit()
    except (TimeoutError, UnavailableError) as error:
        log.info("fencing reported by a task is not recorded yet, the task will repeat it: %s", error or "no time left")
        return False
    except Exception:
        # A repetition would fail again. The event itself is stored, and the task needs its answer.
        log.exception("fencing reported by a task could not be recorded: %s", cases)
    return True


async def _offsets_kept(
    wiring: Wiring, message: TaskHeartbeat, database_epoch: str, *, now: datetime, until: float
) -> bool:
    """Return whether the offset report is stored, in its own unit of work, since the task needs its answer in any case.

    The task repeats a report that is not stored.
    """
    try:
        async with asyncio.timeout_at(until), wiring.unit_of_work() as uow:
            is_kept = [await keep(uow, message, database_epoch, now) for keep in uow.part(Hooks).keep_offsets]
            await uow.commit()
    except (TimeoutError, UnavailableError) as error:
        log.info(
            "offsets reported by a task are not stored yet, the task will repeat them: %s", error or "no time left"
        )
        return False
    except Exception:
        log.exception("offsets reported by a task could not be stored: %s", message.offsets)
        return False
    return all(is_kept)


async def driver(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await read(request, DriverHeartbeat)
    async with bounded_unit(wiring) as uow:
        heard = await heartbeats.receive_driver_heartbeat(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    sender = f"the driver of instance {message.ordinal}"
    wiring.dropped_fields.note(heard.pipeline, sender, heard.dropped, now=wiring.clock.now())
    if heard.answer.is_current:
        wiring.gone(heard.taken)
    return answer_with(heard.answer)


async def outcome(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await read(request, ReportedOutcome)
    async with bounded_unit(wiring) as uow:
        await heartbeats.receive_outcome(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    return Response(b"{}", media_type="application/json")


async def _on_other_protocol(_: Request, error: Exception) -> Response:
    return ProblemResponse(426, str(error), headers={"Upgrade": f"fenceline-protocol/{protocol.CURRENT}"})


async def _on_malformed(_: Request, error: Exception) -> Response:
    return ProblemResponse(400, str(error))

"""The application for workers: drivers and tasks report once a second, with run tokens (app/core/wire/heartbeat.py).

It answers quickly or with an error: a worker that waits continues its work, but reads its desired state later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from msgspec.structs import replace

from app.core.access.service import tokens
from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import Case
from app.core.fencing.service.events import record_cases
from app.core.observing.service import groups
from app.core.runs.service import heartbeats, instances, specifications
from app.core.wire import protocol, specification
from app.core.wire.drill import DRILL_PATH, DrillReport
from app.core.wire.heartbeat import Claim, DriverHeartbeat, Outcome, TaskHeartbeat
from app.kit.access import RunTokenScope
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import UnauthenticatedError, UnavailableError
from app.kit.settings import path_of
from app.kit.web import errors
from app.kit.web.base_path import BasePath
from app.kit.web.bugs import BugBarrier
from app.kit.web.dependencies import Wiring, WiringDep
from app.kit.web.http_protocol import authenticated
from app.kit.web.problems import ProblemResponse
from app.kit.web.security.body_limit import BodyLimit
from app.kit.web.security.perimeter import Perimeter, hosts_of
from app.products.audits import wire as audit
from app.products.audits.service import carrying_out
from app.products.drills.service import drills
from app.products.offset_log import service as offset_log

log = logging.getLogger(__name__)

ANSWER_WITHIN_S = 1.5
"""Below the 2 s after which a worker stops waiting."""

Message = TypeVar(
    "Message",
    Claim,
    TaskHeartbeat,
    DriverHeartbeat,
    Outcome,
    DrillReport,
    audit.AuditClaim,
    audit.AuditProgress,
    audit.AuditOutcome,
)


class _Header(msgspec.Struct):
    protocol_version: int = -1


class MalformedMessageError(Exception):
    """A message that does not have the shape of its protocol version."""


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
    app.add_api_route(DRILL_PATH, drill, methods=["POST"])
    app.add_api_route(audit.CLAIM_PATH, claim_audit, methods=["POST"])
    app.add_api_route(audit.PROGRESS_PATH, audit_progress, methods=["POST"])
    app.add_api_route(audit.OUTCOME_PATH, audit_outcome, methods=["POST"])
    return app


@asynccontextmanager
async def _bounded_unit(wiring: Wiring) -> AsyncGenerator[UnitOfWork]:
    """Yield a unit of work with a time limit. Raises UnavailableError after it."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S), wiring.unit_of_work() as uow:
            yield uow
    except TimeoutError as error:
        raise UnavailableError(f"Postgres did not answer within {ANSWER_WITHIN_S} s; report again later") from error


async def _scope(request: Request, wiring: WiringDep) -> RunTokenScope:
    """Return the scope of the run token. Raises UnauthenticatedError."""
    secret = _secret(request)
    if secret:
        async with _bounded_unit(wiring) as uow:
            scope = await tokens.authenticate_run_token(uow, secret)
        if scope is not None:
            authenticated(request)
            return scope
    raise UnauthenticatedError("this listener takes run tokens only, and this token is unknown")


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


Scope = Annotated[RunTokenScope, Depends(_scope)]


async def _audit_id(request: Request, wiring: WiringDep) -> str:
    """Return the audit of the token. Raises UnauthenticatedError."""
    secret = _secret(request)
    if secret:
        async with _bounded_unit(wiring) as uow:
            audit_id = await carrying_out.audit_of_token(uow, secret)
        if audit_id is not None:
            authenticated(request)
            return audit_id
    raise UnauthenticatedError("this listener takes tokens of runs and audits only, and this token is unknown")


AuditId = Annotated[str, Depends(_audit_id)]


async def claim(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    """Claim a lease, as the first message of a driver; 409 with the reason if the lease is not current."""
    message = await _read(request, Claim)
    heartbeats.check_scope(scope, run_id=message.run_id, ordinal=message.ordinal, lease=message.lease)
    async with _bounded_unit(wiring) as uow:
        answer = await instances.claim_instance(uow, message, now=wiring.clock.now())
        await uow.commit()
    return _answer(answer, status=200 if answer.granted else 409)


async def get_specification(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    """Return the specification of the token's instance; 409 if its lease has ended."""
    async with _bounded_unit(wiring) as uow:
        found = await specifications.specification_for(
            uow,
            scope,
            run_token=_secret(request),
            fenceline_version=wiring.version,
            server_urls=wiring.workers_urls,
        )
    return Response(specification.encode(found), media_type="application/json")


async def heartbeat(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await _read(request, TaskHeartbeat)
    until = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
    now = wiring.clock.now()
    async with _bounded_unit(wiring) as uow:
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
        # The task repeats its events with the next heartbeat.
        return _answer(replace(answer, accepted_events=()))
    return _answer(answer)


def _note(wiring: Wiring, heard: heartbeats.Heard) -> None:
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
            is_kept = await offset_log.keep(uow, message, database_epoch=database_epoch, now=now)
            await uow.commit()
    except (TimeoutError, UnavailableError) as error:
        log.info(
            "offsets reported by a task are not stored yet, the task will repeat them: %s", error or "no time left"
        )
        return False
    except Exception:
        log.exception("offsets reported by a task could not be stored: %s", message.offsets)
        return False
    return is_kept


async def driver(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await _read(request, DriverHeartbeat)
    async with _bounded_unit(wiring) as uow:
        heard = await heartbeats.receive_driver_heartbeat(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    sender = f"the driver of instance {message.ordinal}"
    wiring.dropped_fields.note(heard.pipeline, sender, heard.dropped, now=wiring.clock.now())
    if heard.answer.is_current:
        wiring.gone(heard.taken)
    return _answer(heard.answer)


async def outcome(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await _read(request, Outcome)
    async with _bounded_unit(wiring) as uow:
        await heartbeats.receive_outcome(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    return Response(b"{}", media_type="application/json")


async def drill(request: Request, wiring: WiringDep, scope: Scope) -> Response:
    message = await _read(request, DrillReport)
    async with _bounded_unit(wiring) as uow:
        answer = await drills.receive_report(uow, message, scope=scope, now=wiring.clock.now())
        await uow.commit()
    return _answer(answer)


async def claim_audit(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    """Claim an audit, as the first message of its driver; 409 with the reason if another driver has it, or none may."""
    message = await _read(request, audit.AuditClaim)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with _bounded_unit(wiring) as uow:
        answer = await carrying_out.claim_audit(uow, message, now=wiring.clock.now())
        await uow.commit()
    return _answer(answer, status=200 if answer.granted else 409)


async def audit_progress(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    message = await _read(request, audit.AuditProgress)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with _bounded_unit(wiring) as uow:
        answer = await carrying_out.receive_progress(uow, message, now=wiring.clock.now())
        await uow.commit()
    return _answer(answer)


async def audit_outcome(request: Request, wiring: WiringDep, audit_id: AuditId) -> Response:
    message = await _read(request, audit.AuditOutcome)
    carrying_out.check_scope(audit_id, named=message.audit_id)
    async with _bounded_unit(wiring) as uow:
        await carrying_out.receive_outcome(uow, message, now=wiring.clock.now())
        await uow.commit()
    return Response(b"{}", media_type="application/json")


async def _read(request: Request, kind: type[Message]) -> Message:
    """Decode the message, after a check of its protocol version."""
    body = await request.body()
    try:
        version = msgspec.json.decode(body, type=_Header).protocol_version
        protocol.check(version, peer="the worker")
        message = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedMessageError(
            f"this is not a {kind.__name__} of protocol version {_versions()}: {why}"
        ) from error
    return message


def _versions() -> str:
    return ", ".join(str(version) for version in sorted(protocol.SUPPORTED))


def _answer(message: msgspec.Struct, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(message), status_code=status, media_type="application/json")


async def _on_other_protocol(_: Request, error: Exception) -> Response:
    return ProblemResponse(426, str(error), headers={"Upgrade": f"fenceline-protocol/{protocol.CURRENT}"})


async def _on_malformed(_: Request, error: Exception) -> Response:
    return ProblemResponse(400, str(error))

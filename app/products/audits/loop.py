"""Run audits: request those that are due, start each once its pipeline has passed the window, and end it.

app/products/audits/decision.py decides; this module reads its input and acts. Every action is committed as a row before
it is executed, so that the next server finds it if this one dies in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.brokers import Brokers
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.launcher import Submitted
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import ConflictError, FencelineError, IllegalTransitionError, NotFoundError, UnavailableError
from app.products.audits.audit import Audit, AuditState
from app.products.audits.decision import (
    Action,
    Adopt,
    AskToStop,
    AuditTiming,
    End,
    Signal,
    SubmitAgain,
    TakeWord,
    decide,
)
from app.products.audits.passing import NotPassed
from app.products.audits.plan import AuditPlan, due_windows
from app.products.audits.ports import AuditLauncher
from app.products.audits.service import carrying_out, planning
from app.products.audits.service.asking import NOTHING_MORE, NOTICE
from app.products.audits.service.passing import why_not_passed
from app.products.audits.store import AuditPlanStore, AuditStore
from app.products.audits.wire import AuditEnd, AuditOutcome

log = logging.getLogger(__name__)

LOOK_AGAIN_AFTER = timedelta(seconds=10)
"""Interval at which brokers are asked whether a pipeline has passed a window."""


class Auditor:
    """The loop of audits, on one server at a time. In memory it keeps only its start and the last requests to brokers.

    Args:
        host: this host's name, as in submissions of the launcher.
        cores: number of concurrent tasks of an audit.
        version: the version of this Fenceline, for orders.
        allowed: what a comparison may read, by the administrator's settings.
        server_urls: returns the addresses of this server and its peers for drivers, at each submission.
    """

    name = "auditor"
    wakes = frozenset({NOTICE})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: Brokers,
        launcher: AuditLauncher,
        clock: Clock,
        host: str,
        cores: int,
        version: str,
        server_urls: Callable[[], Sequence[str]],
        allowed: AllowedOptions = NOTHING_MORE,
        timing: AuditTiming | None = None,
        look_again_after: timedelta = LOOK_AGAIN_AFTER,
        period_s: float = 1.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._launcher = launcher
        self._clock = clock
        self._host = host
        self._cores = cores
        self._version = version
        self._server_urls = server_urls
        self._allowed = allowed
        self._timing = timing or AuditTiming()
        self._look_again_after = look_again_after
        self.period_s = period_s
        self.is_idle = False
        self._asked_at: dict[str, datetime] = {}
        self._listening_since: datetime | None = None

    def interrupted(self) -> None:
        self._asked_at.clear()
        self._listening_since = None

    async def turn(self) -> None:
        """Take the next step of every plan and of every audit that has not ended."""
        async with self._unit_of_work() as uow:
            plans = await uow.of(AuditPlanStore).scheduled()
            living = await uow.of(AuditStore).living()
        # A window that is due begins within the longest pause.
        self.is_idle = not living
        busy = {audit.pipeline for audit in living}
        now = self._clock.now()
        self._listening_since = self._listening_since or now
        # The older window first, so that a plan with short windows does not keep the pipeline's other one waiting.
        for plan in sorted(plans, key=lambda plan: plan.decided_until):
            if plan.pipeline not in busy and due_windows(plan, now=now) is not None:
                await self._take_due_window(plan)
        self._asked_at = {audit.id: at for audit in living if (at := self._asked_at.get(audit.id)) is not None}
        bug: Exception | None = None
        for audit in living:
            try:
                await self._step(audit)
            except UnavailableError:
                # A dependency is away, which concerns all audits: the supervisor waits for it.
                raise
            except (ConflictError, NotFoundError, IllegalTransitionError) as error:
                # The driver, a stop or another server changed it meanwhile. The next turn reads the change.
                log.info("audit %s of %s changed during the turn: %s", audit.id, audit.pipeline, error)
            except FencelineError as error:
                log.warning("audit %s of %s cannot continue: %s", audit.id, audit.pipeline, error.message)
            except Exception as error:
                # The other audits take their steps before the error is raised.
                log.exception("audit %s of %s cannot continue", audit.id, audit.pipeline)
                bug = bug or error
        if bug is not None:
            raise bug

    async def _take_due_window(self, plan: AuditPlan) -> None:
        pipeline = plan.pipeline
        try:
            async with self._unit_of_work() as uow:
                await planning.take_due_window(
                    uow,
                    pipeline=pipeline,
                    now=self._clock.now(),
                    of_comparisons=plan.comparison is not None,
                    allowed=self._allowed,
                )
                await uow.commit()
        except (ConflictError, NotFoundError) as error:
            log.info("the plan of %s changed during the turn: %s", pipeline, error)
        except UnavailableError:
            raise
        except FencelineError as error:
            # Other pipelines are audited all the same.
            log.warning("the audit plan of %s failed: %s", pipeline, error.message)

    async def _step(self, audit: Audit) -> None:
        if audit.state is AuditState.PENDING:
            await self._begin(audit)
            return
        seen = await self._launcher.observe(audit)
        now = self._clock.now()
        action = decide(audit, seen, timing=self._timing, listening_since=self._listening_since or now, now=now)
        if action is not None:
            level = logging.DEBUG if isinstance(action, Signal) else logging.INFO
            log.log(level, "audit %s of %s: %s", audit.id, audit.pipeline, type(action).__name__)
            await self._act(audit, action)

    async def _begin(self, audit: Audit) -> None:
        """Start the audit, or record why it waits. Skip it after its tolerance, or if waiting cannot help."""
        now = self._clock.now()
        asked_at = self._asked_at.get(audit.id)
        if asked_at is not None and now - asked_at < self._look_again_after:
            return
        self._asked_at[audit.id] = now
        try:
            waits = await self._why_it_waits(audit)
        except FencelineError as error:
            waits = NotPassed(reason=error.message)
        if waits is None:
            await self._submit(audit)
            return
        async with self._unit_of_work() as uow:
            if waits.is_final or now >= audit.wait_until:
                await carrying_out.move_audit(uow, audit.id, AuditState.SKIPPED, reason=waits.reason, now=now)
            else:
                await carrying_out.say_why_it_waits(uow, audit.id, waits.reason)
            await uow.commit()

    async def _why_it_waits(self, audit: Audit) -> NotPassed | None:
        async with self._unit_of_work() as uow:
            revision = await uow.of(PipelineStore).get_revision(audit.pipeline, audit.revision)
            cluster = await uow.of(ClusterStore).get(revision.definition.cluster)
        return await why_not_passed(self._brokers, cluster.connection(), revision.definition, audit.window)

    async def _submit(self, audit: Audit) -> None:
        """Commit the row and the token, start the process, commit its pid.

        The server may die between these steps: the next one finds the process by its arguments.
        """
        async with self._unit_of_work() as uow:
            order = await carrying_out.begin_submission(
                uow,
                audit.id,
                host=self._host,
                cores=self._cores,
                fenceline_version=self._version,
                server_urls=self._server_urls(),
                now=self._clock.now(),
            )
            await uow.commit()
        try:
            submitted = await self._launcher.submit(order)
        except FencelineError as error:
            await self._move(audit, AuditState.FAILED, reason=error.message)
            return
        await self._record(audit, submitted)

    async def _act(self, audit: Audit, action: Action) -> None:
        match action:
            case Adopt():
                await self._record(
                    audit,
                    Submitted(
                        host=self._host,
                        jvm_pid=action.jvm_pid,
                        started_at=action.started_at,
                        log_path=audit.log_path or "",
                    ),
                )
            case SubmitAgain():
                await self._move(audit, AuditState.PENDING, reason=None)
                self._asked_at.pop(audit.id, None)
            case TakeWord():
                outcome = AuditOutcome(
                    audit_id=audit.id,
                    application_id="",
                    kind=AuditEnd(action.word.kind),
                    message=action.word.message,
                    result=action.word.result,
                )
                async with self._unit_of_work() as uow:
                    await carrying_out.receive_outcome(uow, outcome, now=self._clock.now())
                    await uow.commit()
            case End():
                await self._move(audit, action.to, reason=action.reason)
            case AskToStop():
                await self._move(audit, AuditState.STOPPING, reason=action.reason, stops_as=AuditState.FAILED)
            case Signal():
                await self._launcher.signal(audit, is_kill=action.is_kill)

    async def _record(self, audit: Audit, submitted: Submitted) -> None:
        async with self._unit_of_work() as uow:
            await carrying_out.record_submission(uow, audit.id, submitted, now=self._clock.now())
            await uow.commit()

    async def _move(
        self, audit: Audit, to: AuditState, *, reason: str | None, stops_as: AuditState | None = None
    ) -> None:
        async with self._unit_of_work() as uow:
            await carrying_out.move_audit(uow, audit.id, to, reason=reason, now=self._clock.now(), stops_as=stops_as)
            await uow.commit()

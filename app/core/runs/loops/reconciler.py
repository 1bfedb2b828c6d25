"""Bring every live run to its desired state: read rows, observe applications, decide, write, act.

app/core/runs/reconciliation decides; this module reads and acts. Each action is a row that is committed first. So the
next server finds the row if this one dies before it acts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from app.core.access.store.identity import IdentityStore
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import MAY_HAVE_APPLICATION, Instance, InstanceState
from app.core.runs.launcher import SparkLauncher
from app.core.runs.observation import Observation
from app.core.runs.reconciliation.actions import (
    Action,
    Advance,
    FailRun,
    Kill,
    LeaseAgain,
    MarkHealthy,
    MarkMissing,
    SignalDrain,
    Submit,
    TakeOutcome,
)
from app.core.runs.reconciliation.decision import decide
from app.core.runs.reconciliation.view import Timing, View
from app.core.runs.run import DesiredRunState, Run
from app.core.runs.service import heartbeats, instances, runs, specifications
from app.core.runs.task import OutcomeKind
from app.core.wire.heartbeat import ReportedOutcome
from app.kit.access import RECONCILER, RunTokenScope
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import ConflictError, FencelineError, IllegalTransitionError, NotFoundError, UnavailableError

log = logging.getLogger(__name__)


class _Seen(NamedTuple):
    instance: Instance
    definition: PipelineDefinition
    observation: Observation


class Reconciler:
    """One turn each period. It keeps between turns only the start of its observation and the database's identity.

    Args:
        host: this host's name, as the launcher writes it into submissions.
        version: of this Fenceline, for specifications.
        server_urls: returns the addresses of the servers for workers. Called at each submission, because a listener on
            a free port knows its address only once it listens.
    """

    name = "reconciler"
    wakes = frozenset({"run"})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        launcher: SparkLauncher,
        clock: Clock,
        host: str,
        version: str,
        server_urls: Callable[[], Sequence[str]],
        native_records: bool = True,
        timing: Timing | None = None,
        period_s: float = 0.5,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._launcher = launcher
        self._clock = clock
        self._host = host
        self._version = version
        self._server_urls = server_urls
        self._native_records = native_records
        self._timing = timing or Timing()
        self.period_s = period_s
        self.is_idle = False
        self._database_epoch: str | None = None
        self._began_at: datetime | None = None
        self._listening_since: datetime | None = None
        self._was_restored = False
        self._definitions: dict[str, dict[int, PipelineDefinition]] = {}
        # The applications in the newest turn; None: a run was not at rest in it.
        self._seen: list[_Seen] | None = None

    def interrupted(self) -> None:
        """Count the time without heartbeats from the next turn: in between no server may have received them."""
        self._listening_since = None

    async def glance(self) -> bool:
        """Observe the applications again while all runs are at rest."""
        if self._seen is None:
            return False
        again = await asyncio.gather(*(self._launcher.observe(one.instance, one.definition) for one in self._seen))
        return again == [one.observation for one in self._seen]

    async def turn(self) -> None:
        """Check every live run once, and take its next step."""
        self._seen = None
        async with self._unit_of_work() as uow:
            epoch = await uow.of(IdentityStore).database_epoch()
            live = await runs.list_live_runs(uow)
            # A restored database gets its new identity from the first query, and keeps it only if that is committed.
            await uow.commit()
        self.is_idle = not live
        self._notice(epoch, self._clock.now())
        self._definitions = {run.id: self._definitions.get(run.id, {}) for run in live}
        bug: Exception | None = None
        seen: list[_Seen] | None = []
        for run in live:
            at_rest: list[_Seen] | None = None
            try:
                at_rest = await self._reconcile(run)
            except UnavailableError:
                # The run is not the cause: the supervisor waits until the dependency is back.
                raise
            except (ConflictError, NotFoundError, IllegalTransitionError) as error:
                # An outcome, a command or another server was faster. The next turn reads their rows.
                log.info("run %s of %s changed while it was being reconciled: %s", run.id, run.pipeline, error)
            except FencelineError as error:
                log.warning("run %s of %s cannot be reconciled: %s", run.id, run.pipeline, error.message)
            except Exception as error:
                # An error of one run must not keep the others from being checked; it is raised after them.
                log.exception("run %s of %s cannot be reconciled", run.id, run.pipeline)
                bug = bug or error
            seen = None if seen is None or at_rest is None else [*seen, *at_rest]
        self._seen = seen
        if bug is not None:
            raise bug

    def _notice(self, epoch: str, now: datetime) -> None:
        if self._database_epoch is not None and epoch != self._database_epoch:
            log.warning("the database has changed (a restore or a failover): observing before acting")
            self._began_at = None
            self._listening_since = None
            self._was_restored = True
            self._definitions.clear()
        self._database_epoch = epoch
        if self._began_at is not None and self._began_at > now:
            log.warning("the clock of this host went back by %s", self._began_at - now)
            self._began_at = now
        if self._listening_since is not None and self._listening_since > now:
            self._listening_since = now
        self._began_at = self._began_at or now
        self._listening_since = self._listening_since or now

    def _may_start(self, run: Run, now: datetime) -> bool:
        """Return whether two heartbeat timeouts have passed, or the run began after this server: it has no past."""
        began_at = self._began_at or now
        if now - began_at >= 2 * self._timing.heartbeat_timeout:
            return True
        return not self._was_restored and run.started_at >= began_at

    async def _definitions_of(self, run: Run) -> dict[int, PipelineDefinition]:
        """Return the definitions of all current and next revisions of the run's instances. A revision never changes."""
        known = self._definitions.setdefault(run.id, {})
        revisions = {run.revision, *run.targets.values(), *(instance.revision for instance in run.instances)}
        if missing := sorted(revisions - known.keys()):
            async with self._unit_of_work() as uow:
                for number in missing:
                    known[number] = (await uow.of(PipelineStore).get_revision(run.pipeline, number)).definition
        return {number: known[number] for number in sorted(revisions)}

    async def _reconcile(self, run: Run) -> list[_Seen] | None:
        """Return what was seen of its applications if it is at rest: only time or a change can bring an action."""
        definitions = await self._definitions_of(run)
        living = [instance for instance in run.instances if instance.state in MAY_HAVE_APPLICATION]
        observed = await asyncio.gather(*(self._launcher.observe(i, definitions[i.revision]) for i in living))
        seen = [_Seen(i, definitions[i.revision], one) for i, one in zip(living, observed, strict=True)]
        now = self._clock.now()
        view = View(
            run=run,
            ordinals=definitions[run.revision].instances,
            observations={one.instance.ordinal: one.observation for one in seen},
            now=now,
            listening_since=self._listening_since or now,
            may_start=self._may_start(run, now),
            uploads=max(map(_uploads, definitions.values())),
            timing=self._timing,
        )
        actions = decide(view)
        for action in actions:
            is_repeated = isinstance(action, Kill) and action.reason is None
            log.log(logging.DEBUG if is_repeated else logging.INFO, "run %s of %s: %s", run.id, run.pipeline, action)
            await self._act(run, action)
        is_whole = len(seen) == len(run.instances) == view.ordinals and run.desired is DesiredRunState.RUN
        return seen if is_whole and not actions and all(map(_is_running, seen)) else None

    async def _act(self, run: Run, action: Action) -> None:
        if isinstance(action, Submit):
            await self._submit(run, action)
        elif isinstance(action, (SignalDrain, Kill)):
            await self._signal(run, action)
        else:
            async with self._unit_of_work() as uow:
                await self._write(uow, run, action)
                await uow.commit()

    async def _signal(self, run: Run, action: SignalDrain | Kill) -> None:
        """1. the row, committed   2. the signal; only 2 if it is sent again."""
        if action.reason is not None:
            async with self._unit_of_work() as uow:
                await instances.record_signal(
                    uow,
                    run_id=run.id,
                    ordinal=action.ordinal,
                    lease=action.lease,
                    is_kill=isinstance(action, Kill),
                    reason=action.reason,
                    by=RECONCILER,
                    now=self._clock.now(),
                )
                await uow.commit()
        send = self._launcher.kill if isinstance(action, Kill) else self._launcher.stop
        await send(_instance(run, action.ordinal))

    async def _write(
        self,
        uow: UnitOfWork,
        run: Run,
        action: LeaseAgain | Advance | MarkMissing | MarkHealthy | TakeOutcome | FailRun,
    ) -> None:
        now = self._clock.now()
        match action:
            case LeaseAgain():
                await instances.lease_instance(
                    uow,
                    run_id=run.id,
                    ordinal=action.ordinal,
                    by=RECONCILER,
                    reason=action.reason,
                    failures=action.failures,
                    now=now,
                )
            case Advance():
                await instances.advance_instance(
                    uow,
                    run_id=run.id,
                    ordinal=action.ordinal,
                    lease=action.lease,
                    to=action.to,
                    reason=action.reason,
                    now=now,
                )
            case MarkMissing():
                await instances.mark_missing(
                    uow, run_id=run.id, ordinal=action.ordinal, lease=action.lease, missing_since=action.since
                )
            case MarkHealthy():
                await instances.mark_healthy(uow, run_id=run.id, ordinal=action.ordinal, lease=action.lease)
            case TakeOutcome():
                instance = _instance(run, action.ordinal)
                outcome = ReportedOutcome(
                    run_id=run.id,
                    ordinal=action.ordinal,
                    lease=action.lease,
                    kind=OutcomeKind(action.outcome.kind),
                    message=action.outcome.message,
                    application_id=instance.application_id or "",
                )
                scope = RunTokenScope(run_id=run.id, ordinal=action.ordinal, lease=action.lease)
                await heartbeats.receive_outcome(uow, outcome, scope=scope, now=now)
            case FailRun():
                await runs.fail_run(uow, run_id=run.id, reason=action.reason, by=RECONCILER, now=now)

    async def _submit(self, run: Run, action: Submit) -> None:
        """1. the row and the token, committed   2. the process   3. its pid, committed.

        If a server dies between 1 and 2, or 2 and 3, the next one finds the process by its arguments.
        """
        scope = RunTokenScope(run_id=run.id, ordinal=action.ordinal, lease=action.lease)
        async with self._unit_of_work() as uow:
            _, secret = await instances.begin_submission(
                uow,
                run_id=run.id,
                ordinal=action.ordinal,
                lease=action.lease,
                host=self._host,
                now=self._clock.now(),
            )
            specification = await specifications.specification_for(
                uow,
                scope,
                run_token=secret,
                fenceline_version=self._version,
                server_urls=self._server_urls(),
                native_records=self._native_records,
            )
            await uow.commit()
        try:
            submitted = await self._launcher.submit(specification)
        except FencelineError as error:
            log.warning("run %s: instance %d could not be submitted: %s", run.id, action.ordinal, error.message)
            failed = Advance(ordinal=action.ordinal, lease=action.lease, to=InstanceState.FAILED, reason=error.message)
            await self._act(run, failed)
            return
        async with self._unit_of_work() as uow:
            await instances.record_submission(
                uow,
                run_id=run.id,
                ordinal=action.ordinal,
                lease=action.lease,
                host=submitted.host,
                jvm_pid=submitted.jvm_pid,
                process_started_at=submitted.started_at,
                log_path=submitted.log_path,
            )
            await uow.commit()


def _instance(run: Run, ordinal: int) -> Instance:
    return next(instance for instance in run.instances if instance.ordinal == ordinal)


def _is_running(seen: _Seen) -> bool:
    return seen.instance.state is InstanceState.RUNNING and seen.instance.missing_since is None


def _uploads(definition: PipelineDefinition) -> timedelta:
    """Return the longest time that the driver adds to its drain bound for uploads."""
    return timedelta(milliseconds=0 if definition.files is None else definition.files.upload_timeout_ms)

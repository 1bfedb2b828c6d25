"""The driver of one instance: claims its lease, runs its work, ends it in order, reports the outcome.

    specification ─▶ context ─▶ claim ─▶ work ─▶ (drain wanted, a verdict, no executors) ─▶ context stopped ─▶ outcome

The work is one stage of endless tasks, or the streaming query of a pipeline of kind `dataframe`. The claim comes after
the context because it carries the application id. It comes before the work because an application without a lease must
not touch Kafka. The outcome comes after the context has stopped, so that its receiver may use the cores. Exit codes:
workers/spark/exit_codes.py.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire.heartbeat import Claim, DesiredTaskState, OutcomeKind
from app.core.wire.specification import InstanceSpecification
from app.kit.storable import storable
from workers import versions
from workers.server_client import ServerClient
from workers.spark import drilled_query, handover, own_process
from workers.spark.application import Application
from workers.spark.claiming import NotGrantedError
from workers.spark.coordination import CoordinationServer
from workers.spark.driver_reporting import DriverPlace, DriverReporter
from workers.spark.exit_codes import DriverExitCode
from workers.spark.query_reporting import BatchReporter, WriterReports
from workers.spark.query_watch import Desired, QueryWatch
from workers.spark.spark_errors import first_line, not_taken
from workers.spark.watch import DriverBounds, DriverEnding, SignalFlag, StageWatch

log = logging.getLogger("workers.spark.driver")

IN_BATCH_WITHIN_S = 5.0
"""How long a drill's kill waits for a batch, to end the driver within one."""


def run(
    specification: InstanceSpecification,
    *,
    specification_file: Path | None,
    outcome_file: Path | None,
    bounds: DriverBounds,
) -> DriverEnding:
    """Run all from the context to the ending; the caller reports it. Raises NotGrantedError."""
    sigterm = SignalFlag()
    sigterm.install()
    try:
        application = Application.start()
    except Exception as error:
        refused = not_taken(specification.definition.spark.master, error)
        if refused is None:
            raise
        log.exception("the application could not start")
        return DriverEnding(kind=OutcomeKind.FAILED, message=refused)
    host = socket.gethostname()
    log.info("application %s for run %s", application.application_id, _name(specification))
    for key, value in sorted(application.conf().items()):
        log.info("conf %s=%s", key, value)
    initial = DesiredTaskState.PAUSE if specification.start_paused else DesiredTaskState.RUN
    if specification.definition.dataframe is None:
        work: _Work = _Stage(application, specification, initial)
    else:
        work = _Query(application, specification, initial, outcome_file)
    place = DriverPlace(
        run_id=specification.run_id,
        ordinal=specification.ordinal,
        lease=specification.lease,
        application_id=application.application_id,
        host=host,
        database_epoch=specification.database_epoch,
    )
    client = ServerClient(specification.server_urls, specification.run_token)
    reporter = DriverReporter(place, client, heard=work.want)
    try:
        if client.is_configured:
            reporter.claim(
                _claim(specification, application.application_id, host),
                within_s=bounds.claim_s,
                give_up=lambda: sigterm.is_set,
            )
        handover.remove(specification_file)
        reporter.start()
        ending = work.run(reporter, sigterm, bounds)
        log.info("the work has ended: %s, %s", ending.kind, ending.message)
        reporter.close()
    except NotGrantedError:
        handover.remove(specification_file)
        application.stop(timeout_s=bounds.stop_s)
        raise
    if not application.stop(timeout_s=bounds.stop_s):
        log.warning("Spark's context did not stop within %g s", bounds.stop_s)
    log.info("ended: %s, %s", ending.kind, ending.message)
    reporter.tell_outcome(ending.kind, ending.message, within_s=bounds.outcome_s)
    return ending


class _Work(Protocol):
    def want(self, desired: DesiredTaskState) -> None: ...
    def run(self, reporter: DriverReporter, sigterm: SignalFlag, bounds: DriverBounds) -> DriverEnding: ...


class _Stage:
    """One stage of endless tasks."""

    def __init__(
        self, application: Application, specification: InstanceSpecification, initial: DesiredTaskState
    ) -> None:
        self._application = application
        self._specification = specification
        self._coordination = CoordinationServer(
            host=application.bind_address, tasks=len(specification.tasks), desired=initial
        )
        self.want = self._coordination.want

    def run(self, reporter: DriverReporter, sigterm: SignalFlag, bounds: DriverBounds) -> DriverEnding:
        self._coordination.start()
        return StageWatch(self._application, self._specification, reporter, self._coordination, sigterm, bounds).run()


class _Query:
    """The streaming query of a pipeline of kind `dataframe`. A drill's kill leaves its outcome in `outcome_file`."""

    def __init__(
        self,
        application: Application,
        specification: InstanceSpecification,
        initial: DesiredTaskState,
        outcome_file: Path | None,
    ) -> None:
        self._application = application
        self._specification = specification
        self._outcome_file = outcome_file
        self._desired = Desired(initial)
        self.want = self._desired.want

    def run(self, reporter: DriverReporter, sigterm: SignalFlag, bounds: DriverBounds) -> DriverEnding:
        # Spark SQL is imported for queries only: it takes a second.
        from workers.spark import query

        specification = self._specification
        urls, token = specification.server_urls, specification.run_token
        drills = drilled_query.orders_for(specification, before_kill=lambda: self._before_kill(watch))
        watch = QueryWatch(
            lambda is_held: query.start(specification, is_held=is_held),
            slots=self._application.slots,
            reporter=reporter,
            writers=WriterReports(
                specification,
                host=socket.gethostname(),
                client=lambda: ServerClient(urls, token),
                drilled=drills.hear,
            ),
            batches=BatchReporter(specification, ServerClient(urls, token)),
            desired=self._desired,
            sigterm=sigterm,
            bounds=bounds,
        )
        return watch.run()

    def _before_kill(self, watch: QueryWatch) -> None:
        watch.wait_for_batch(IN_BATCH_WITHIN_S)
        _write_outcome(self._outcome_file, DriverEnding(kind=OutcomeKind.DRILLED, message="killed by a drill"))


def for_definition(bounds: DriverBounds, definition: PipelineDefinition) -> DriverBounds:
    """Long enough for the uploads of a last checkpoint, or the last batch of a query.

    A missing upload or an aborted batch costs time, and no record.
    """
    transactions_s = 2 * definition.transaction_timeout_ms / 1000
    if definition.files is not None:
        needed_s = definition.files.upload_timeout_ms / 1000 + transactions_s
    elif definition.dataframe is not None:
        # State is computed before the transaction begins.
        needed_s = bounds.drain_s + transactions_s
    else:
        return bounds
    return msgspec.structs.replace(bounds, drain_s=max(bounds.drain_s, needed_s))


def _name(specification: InstanceSpecification) -> str:
    place = f"instance {specification.ordinal}, lease {specification.lease}"
    return f"{specification.run_id} ({specification.pipeline}, {place})"


def _claim(specification: InstanceSpecification, application_id: str, host: str) -> Claim:
    own = versions.of_this_process()
    return Claim(
        fenceline_version=own.fenceline,
        python_version=own.python,
        run_id=specification.run_id,
        ordinal=specification.ordinal,
        lease=specification.lease,
        application_id=application_id,
        host=host,
        jvm_pid=os.getppid(),
        python_pid=os.getpid(),
        process_started_at_ms=own_process.started_at_ms(),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one instance; the exit code has the kind of its end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    arguments = _parse(argv)
    bounds = DriverBounds()
    try:
        specification = (
            handover.from_file(arguments.specification)
            if arguments.specification is not None
            else handover.from_server(
                arguments.server,
                handover.token_from_file(arguments.token_file),
                within_s=bounds.specification_s,
            )
        )
    except handover.NoSpecificationError as error:
        log.critical("%s", error)
        return DriverExitCode.NO_SPECIFICATION
    try:
        ending = run(
            specification,
            specification_file=arguments.specification,
            outcome_file=arguments.outcome,
            bounds=for_definition(bounds, specification.definition),
        )
    except NotGrantedError as error:
        log.critical("this application may not run %s: %s", _name(specification), error)
        # No outcome is written: the lease may be another application's, whose end this is not.
        return DriverExitCode.NOT_GRANTED
    except Exception as error:
        log.exception("the driver failed")
        _write_outcome(
            arguments.outcome, DriverEnding(kind=OutcomeKind.FAILED, message=f"the driver failed: {first_line(error)}")
        )
        return DriverExitCode.FAILED
    _write_outcome(arguments.outcome, ending)
    return DriverExitCode[ending.kind.name]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fenceline_driver", description="Run one instance of a Fenceline pipeline.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--specification", type=Path, help="a file of mode 0600 with the specification")
    source.add_argument("--server", action="append", help="the workers' listener to fetch it from; may be repeated")
    parser.add_argument("--token-file", type=Path, help="with --server: a file of mode 0600 with the run's token")
    parser.add_argument("--outcome", type=Path, help="where to write the outcome, for a server that was away")
    arguments = parser.parse_args(argv)
    if arguments.server and arguments.token_file is None:
        parser.error("--server needs --token-file")
    return arguments


def _write_outcome(path: Path | None, ending: DriverEnding) -> None:
    if path is None:
        return
    try:
        path.write_bytes(msgspec.json.encode(storable(ending)))
    except OSError as error:
        log.warning("the outcome could not be written to %s: %s", path, error)

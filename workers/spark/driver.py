"""The driver of one instance: claims its lease, runs one stage of endless tasks, ends it in order, reports the outcome.

    specification ─▶ context ─▶ claim ─▶ stage ─▶ (drain wanted, a verdict, no executors) ─▶ context stopped ─▶ outcome

The claim comes after the context because it carries the application id. It comes before the stage because an
application without a lease must not touch Kafka. The outcome comes after the context has stopped, so that its receiver
may use the cores. Exit codes: workers/spark/exit_codes.py.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire.heartbeat import Claim, DesiredTaskState, OutcomeKind
from app.core.wire.specification import InstanceSpecification
from app.kit.storable import storable
from workers import versions
from workers.server_client import ServerClient
from workers.spark import handover, own_process
from workers.spark.application import Application
from workers.spark.claiming import NotGrantedError
from workers.spark.coordination import CoordinationServer
from workers.spark.driver_reporting import DriverPlace, DriverReporter
from workers.spark.exit_codes import DriverExitCode
from workers.spark.spark_errors import first_line, not_taken
from workers.spark.watch import DriverBounds, DriverEnding, SignalFlag, StageWatch

log = logging.getLogger("workers.spark.driver")


def run(specification: InstanceSpecification, *, specification_file: Path | None, bounds: DriverBounds) -> DriverEnding:
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
    coordination = CoordinationServer(host=application.bind_address, tasks=len(specification.tasks), desired=initial)
    place = DriverPlace(
        run_id=specification.run_id,
        ordinal=specification.ordinal,
        lease=specification.lease,
        application_id=application.application_id,
        host=host,
        database_epoch=specification.database_epoch,
    )
    client = ServerClient(specification.server_urls, specification.run_token)
    reporter = DriverReporter(place, client, heard=coordination.want)
    try:
        if client.is_configured:
            reporter.claim(
                _claim(specification, application.application_id, host),
                within_s=bounds.claim_s,
                give_up=lambda: sigterm.is_set,
            )
        handover.remove(specification_file)
        coordination.start()
        reporter.start()
        ending = StageWatch(application, specification, reporter, coordination, sigterm, bounds).run()
        log.info("the stage has ended: %s, %s", ending.kind, ending.message)
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


def for_files(bounds: DriverBounds, definition: PipelineDefinition) -> DriverBounds:
    """Long enough for the uploads of a last checkpoint. A missing upload costs time, and no record."""
    if definition.files is None:
        return bounds
    needed_s = (definition.files.upload_timeout_ms + 2 * definition.transaction_timeout_ms) / 1000
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
            bounds=for_files(bounds, specification.definition),
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

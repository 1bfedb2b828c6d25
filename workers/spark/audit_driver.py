"""The driver of one audit: claims it, runs it, reports its findings.

    order ─▶ context ─▶ claim ─▶ resolve, read, compare, describe ─▶ context stopped ─▶ outcome, as a file and sent

Exit codes: workers/spark/exit_codes.py, where DRAINED is an audit that is done.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

import msgspec
import pyspark
from pyspark import SparkContext

from app.kit.storable import storable
from app.products.audits.result import AuditResult, AuditVersions
from app.products.audits.specification import AuditSpecification
from app.products.audits.wire import AuditClaim, AuditEnd, AuditOrder, AuditOutcome, AuditProgressReport, AuditStage
from workers import versions
from workers.audit.brokers import ClusterBrokers
from workers.audit.judging import judge
from workers.audit.resolving import resolve
from workers.comparison.judging import judge_sides
from workers.server_client import ServerClient
from workers.spark import audit_job, comparison_job, handover, own_process, recomputation_job
from workers.spark.application import Application
from workers.spark.audit_reporting import AuditReporter
from workers.spark.claiming import NotGrantedError
from workers.spark.exit_codes import DriverExitCode
from workers.spark.spark_errors import first_line, not_taken
from workers.spark.watch import SignalFlag

log = logging.getLogger("workers.spark.audit_driver")

EXIT_CODES = {
    AuditEnd.DONE: DriverExitCode.DRAINED,
    AuditEnd.FAILED: DriverExitCode.FAILED,
    AuditEnd.STOPPED: DriverExitCode.SUPERSEDED,
}


class AuditDriverBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the driver's waits."""

    look_every_s: float = 1.0
    claim_s: float = 60.0
    stop_s: float = 15.0
    outcome_s: float = 10.0


class _Facts(TypedDict):
    """The parts of a result beside its findings."""

    started_at_ms: int
    duration_ms: Callable[[], int]
    versions: AuditVersions


class Course:
    """The progress of the audit; written by its thread, read by the main one."""

    def __init__(self) -> None:
        self.stage = AuditStage.RESOLVING
        self.offsets = 0
        self._first_spark_stage: int | None = None

    def read(self, offsets: int) -> None:
        """Begin to read this number of offsets."""
        self.offsets, self.stage = offsets, AuditStage.READING

    def see(self, application: Application) -> tuple[AuditStage, int, int]:
        """The stage, and the number of its tasks: done, and in all. Raises SparkGoneError."""
        active = application.active_stage()
        if self.stage is not AuditStage.READING or active is None:
            return self.stage, 0, 0
        # One job of Spark reads and compares: its second stage begins when the first is through.
        self._first_spark_stage = active.id if self._first_spark_stage is None else self._first_spark_stage
        stage = AuditStage.READING if active.id == self._first_spark_stage else AuditStage.COMPARING
        return stage, active.tasks_done, active.tasks


def run(order: AuditOrder, *, bounds: AuditDriverBounds) -> AuditOutcome:
    """Run all from the context to the outcome, which is sent to the server. Raises NotGrantedError."""
    sigterm = SignalFlag()
    sigterm.install()
    specification = order.specification
    try:
        application = Application.start()
    except Exception as error:
        refused = not_taken(specification.spark.master, error)
        if refused is None:
            raise
        log.exception("the application could not start")
        return _outcome(order, "", AuditEnd.FAILED, refused)
    application_id = application.application_id
    log.info("application %s for audit %s of %s", application_id, specification.audit_id, specification.pipeline)
    reporter = AuditReporter(ServerClient(order.server_urls, order.token))
    try:
        reporter.claim(_claim(order, application_id), within_s=bounds.claim_s, give_up=lambda: sigterm.is_set)
        outcome = _watch(application, order, reporter, sigterm, bounds)
    finally:
        if not application.stop(timeout_s=bounds.stop_s):
            log.warning("Spark's context did not stop within %g s", bounds.stop_s)
    log.info("ended: %s %s", outcome.kind, outcome.message)
    reporter.tell_outcome(outcome, within_s=bounds.outcome_s)
    return outcome


def _watch(
    application: Application, order: AuditOrder, reporter: AuditReporter, sigterm: SignalFlag, bounds: AuditDriverBounds
) -> AuditOutcome:
    """Run the audit beside this thread, which reports its progress, and ends it on request."""
    course = Course()
    application.run_job(job(order, course))
    while not application.wait(bounds.look_every_s):
        stage, tasks_done, tasks = course.see(application)
        progress = AuditProgressReport(
            audit_id=order.specification.audit_id,
            application_id=application.application_id,
            sent_at_ms=time.time_ns() // 1_000_000,
            stage=stage,
            tasks_done=tasks_done,
            tasks=tasks,
            offsets=course.offsets,
        )
        if sigterm.is_set:
            return _outcome(order, application.application_id, AuditEnd.STOPPED, "stopped by SIGTERM")
        if not reporter.is_wanted(progress):
            return _outcome(order, application.application_id, AuditEnd.STOPPED, "its result is not wanted any more")
    try:
        (data,) = application.results()
    except Exception as error:
        log.exception("the audit failed")
        return _outcome(order, application.application_id, AuditEnd.FAILED, first_line(error))
    done = msgspec.json.decode(data, type=AuditOutcome)
    return msgspec.structs.replace(done, application_id=application.application_id)


def job(order: AuditOrder, course: Course) -> Callable[[SparkContext], list[bytes]]:
    """The long part of the audit, for `Application.run_job`."""

    def run_on(context: SparkContext) -> list[bytes]:
        started_at_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        specification = order.specification
        own = versions.of_this_process()
        used = AuditVersions(
            fenceline=own.fenceline, python=own.python, spark=pyspark.__version__, confluent_kafka=own.confluent_kafka
        )
        facts: _Facts = {
            "started_at_ms": started_at_ms,
            "duration_ms": lambda: int((time.monotonic() - began) * 1000),
            "versions": used,
        }
        if specification.comparison is not None and specification.comparison.is_recomputation:
            return [_done(specification, recomputation_job.run(context, order, on_range=course.read, **facts))]
        brokers = ClusterBrokers(audit_job.resolved(order.client_config), audit_id=specification.audit_id)
        plan = audit_job.with_files(context, order, resolve(specification, brokers))
        course.read(plan.offsets)
        log.info("%d offsets of %d partitions are read, records of files among them", plan.offsets, len(plan.ranges))
        if specification.comparison is not None:
            result = judge_sides(specification, plan, *comparison_job.run(context, order, plan), **facts)
        else:
            splits, buckets = audit_job.run(context, order, plan)
            course.stage = AuditStage.DESCRIBING
            describe = audit_job.describe_on(context, order, plan.ranges)
            result = judge(specification, plan, splits, buckets, describe=describe, **facts)
        return [_done(specification, result)]

    return run_on


def _done(specification: AuditSpecification, result: AuditResult) -> bytes:
    outcome = AuditOutcome(
        audit_id=specification.audit_id, application_id="", kind=AuditEnd.DONE, result=storable(result)
    )
    return msgspec.json.encode(outcome)


def _outcome(order: AuditOrder, application_id: str, kind: AuditEnd, message: str) -> AuditOutcome:
    return AuditOutcome(
        audit_id=order.specification.audit_id, application_id=application_id, kind=kind, message=message
    )


def _claim(order: AuditOrder, application_id: str) -> AuditClaim:
    own = versions.of_this_process()
    return AuditClaim(
        fenceline_version=own.fenceline,
        python_version=own.python,
        audit_id=order.specification.audit_id,
        application_id=application_id,
        host=socket.gethostname(),
        jvm_pid=os.getppid(),
        python_pid=os.getpid(),
        process_started_at_ms=own_process.started_at_ms(),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one audit; the exit code has the kind of its end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    arguments = _parse(argv)
    try:
        order = handover.audit_from_file(arguments.specification)
    except handover.NoSpecificationError as error:
        log.critical("%s", error)
        return DriverExitCode.NO_SPECIFICATION
    # It holds the audit's token, which no other process may read.
    handover.remove(arguments.specification)
    try:
        outcome = run(order, bounds=AuditDriverBounds())
    except NotGrantedError as error:
        log.critical("the audit %s may not be run: %s", order.specification.audit_id, error)
        # No outcome is written: the audit may be another application's.
        return DriverExitCode.NOT_GRANTED
    except Exception as error:
        log.exception("the driver failed")
        outcome = _outcome(order, "", AuditEnd.FAILED, f"the driver failed: {first_line(error)}")
    try:
        arguments.outcome.write_bytes(msgspec.json.encode(storable(outcome)))
    except OSError as error:
        log.warning("the outcome could not be written to %s: %s", arguments.outcome, error)
    return EXIT_CODES[outcome.kind]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fenceline_audit", description="Run one audit of a Fenceline pipeline.")
    parser.add_argument("--specification", type=Path, required=True, help="a file of mode 0600 with what to audit")
    parser.add_argument("--outcome", type=Path, required=True, help="where to write the outcome")
    return parser.parse_args(argv)

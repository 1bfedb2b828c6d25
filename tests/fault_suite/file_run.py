"""One run of faults over a file pipeline, judged by what the committed references name."""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.edges.embedded.maven import KAFKA_VERSION
from tests.fault_suite.fault_log import FaultLog
from tests.fault_suite.file_ledger import FileEntry
from tests.fault_suite.file_stage import FileStage
from tests.fault_suite.plan import NotDoneError, faults
from tests.support.collected import assert_whole_and_collected
from tests.support.feeder import Feeder
from tests.support.file_pipelines import FileAudit, audit_files
from tests.support.lakes import Bucket
from tests.support.object_store import Fault, FaultyProxy, serving_s3
from tests.support.results import git, is_changed_since_commit
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

_RECORDS_PER_S = 400
_FIRST_WITHIN_S = 60.0
_REST_WITHIN_S = 180.0


def run_files(
    seed: int,
    folder: Path,
    *,
    brokers: int,
    minutes: float,
    at_most: int | None = None,
    guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2,
    protocol: GroupProtocol | None = None,
) -> FileEntry:
    """Faults for so many minutes, and not more than so many that were really done; then rest, and the verdict."""
    began_at, commit, is_changed = time.monotonic(), git("rev-parse", "HEAD"), is_changed_since_commit()
    with serving_s3() as s3:
        lake = Bucket(s3, unique_name("bucket"), FaultyProxy(s3.port))
        stage = FileStage(seed, folder, brokers=brokers, lake=lake, guarantee=guarantee, protocol=protocol)
        run = _FileRun(seed, stage, folder)
        try:
            with stage:
                run.over(minutes=minutes, at_most=at_most)
        except Exception as error:  # noqa: BLE001 - it is told, and counts as a failure
            run.failures.append(f"{type(error).__name__}: {error}")
        finally:
            lake.proxy.close()
    audit = run.audit
    return FileEntry(
        seed=seed,
        stage=stage.name,
        faults=run.done.total(),
        not_done=run.not_done,
        by_kind=dict(run.done),
        requests=len(lake.proxy.seen),
        requests_met={fault.name.lower(): met for fault, met in sorted(lake.proxy.met.items(), key=_name)},
        records=run.records,
        files=None if audit is None else len(audit.references),
        lost=None if audit is None else len(audit.lost),
        duplicated=None if audit is None else len(audit.duplicated),
        dangling=None if audit is None else len(audit.dangling),
        orphans=None if audit is None else len(audit.orphans),
        seconds=round(time.monotonic() - began_at),
        failure="; ".join(run.failures) or None,
        commit=commit,
        changed_since_commit=is_changed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "kafka": KAFKA_VERSION,
            "confluent-kafka": version("confluent-kafka"),
            "librdkafka": confluent_kafka.libversion()[0],
            "s3fs": version("s3fs"),
            "moto": version("moto"),
            "python": platform.python_version(),
        },
    )


def _name(met: tuple[Fault, int]) -> str:
    return met[0].name


class _FileRun:
    """The known facts of it as it goes."""

    def __init__(self, seed: int, stage: FileStage, folder: Path) -> None:
        self.done: Counter[str] = Counter()
        self.not_done = 0
        self.records = 0
        self.failures: list[str] = []
        self.audit: FileAudit | None = None
        self._seed = seed
        self._stage = stage
        self._folder = folder

    def over(self, *, minutes: float, at_most: int | None) -> None:
        stage = self._stage
        feeder = Feeder(stage.pipeline, records_per_s=_RECORDS_PER_S)
        feeder.start()
        # A fault before the pipeline is at work meets nothing.
        wait_for(stage.facts.consumed, _FIRST_WITHIN_S, "the first committed offset")
        try:
            self._do_drawn(until=time.monotonic() + 60 * minutes, at_most=at_most)
        except AssertionError as error:
            # The outputs until then are judged all the same.
            self.failures.append(str(error))
        stage.settle()
        feeder.stop()
        self.records = feeder.written
        self._judge()

    def _do_drawn(self, *, until: float, at_most: int | None) -> None:
        log = FaultLog(self._folder / "faults.jsonl")
        # Waited for and never set: a wait that is the run's own time, not that of something to happen.
        wait = threading.Event().wait
        for fault in faults(self._seed, self._stage.kinds):
            if self.done.total() == at_most:
                return
            wait(fault.gap_s)
            if time.monotonic() >= until:
                return
            self.not_done += 1
            with suppress(NotDoneError), log.doing(fault) as did:
                self._stage.do(fault, did, wait=wait)
                self.not_done -= 1
                self.done[fault.kind] += 1

    def _judge(self) -> None:
        stage = self._stage
        facts = stage.facts
        wait_for(facts.is_through, _REST_WITHIN_S, lambda: f"{facts.source_ends()}; consumed are {facts.consumed()}")
        stage.drain()
        asked = stage.ask_offset_log()
        self.failures += [asked.failure] if asked.failure else []
        proxy = stage.lake.proxy
        wait_for(lambda: not proxy.under_way, _REST_WITHIN_S, lambda: f"{proxy.under_way} requests of the store to end")
        self.audit = audit_files(stage.pipeline, stage.lake)
        assert self.audit.expected == self.records, f"{self.audit.expected} ids of {self.records} records"
        # Once more, and with the collector.
        self.audit = assert_whole_and_collected(stage.pipeline, stage.lake)

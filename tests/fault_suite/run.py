"""One run: faults for so many minutes over a pipeline that is fed, then rest, then the verdict."""

from __future__ import annotations

import platform
import shutil
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

import confluent_kafka

from app.edges.embedded.maven import KAFKA_VERSION
from tests.fault_suite.fault_log import FaultLog
from tests.fault_suite.freezes import Outlasted
from tests.fault_suite.judging import Verdict
from tests.fault_suite.ledger import Entry, KindFigures
from tests.fault_suite.lines_around import lines_around
from tests.fault_suite.offset_log import Asked
from tests.fault_suite.plan import Fault, Kind, NotDoneError, faults
from tests.fault_suite.reading import Facts, Follower
from tests.fault_suite.standstill import Standstills
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.results import git, is_changed_since_commit
from tests.support.waiting import wait_for

_RECORDS_PER_S = 2_000
_FIRST_WITHIN_S = 60.0
FLOWS_WITHIN_S = 90.0
_REST_WITHIN_S = 180.0
_AROUND = "around"
SILENCE = "silence.txt"
"""The record of every moment at which a run waited in vain for outputs."""
_RUNS = Path(__file__).parents[2] / "build" / "faults"


class CutOffError(BaseException):
    """The command was ended: all that it has started is ended first."""


def end_when_told() -> None:
    """SIGTERM and SIGINT end this process by a CutOffError. By itself a SIGTERM would leave a disk mounted."""

    def cut_off(number: int, _frame: object) -> None:
        raise CutOffError(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, cut_off)


class Stage(Protocol):
    """Where a run takes place: what can be done there, and how it comes to rest. A context manager, too."""

    pipeline: TestPipeline

    @property
    def name(self) -> str: ...
    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def kinds(self) -> tuple[Kind, ...]: ...
    def do(self, fault: Fault, did: Callable[[str], None], *, wait: Callable[[float], object]) -> None: ...
    @property
    def freezes(self) -> dict[str, dict[Outlasted, int]]: ...
    def lines_of_silence(self) -> Iterator[str]: ...
    def explanations(self) -> list[str]: ...
    def ask_offset_log(self) -> Asked: ...
    def settle(self) -> None: ...
    def drain(self) -> None: ...
    def end(self) -> None: ...


Do = Callable[[Fault], None]
"""Does a fault, and notes it. Raises NotDoneError where it came too late, AssertionError where it could not be done."""
Course = Callable[[Do], None]
"""The faults of the pipeline while it is fed."""


class Flow(NamedTuple):
    """For how long the feeder ran, how many records it wrote meanwhile, and how many had come out at the end of it."""

    seconds: float
    fed: int
    came_out: int


class Run:
    """The known facts of a run as it goes; `entry` reports it, after any end."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self._began_at = time.monotonic()
        # Now: later edits do not change the code that is run.
        self._commit = git("rev-parse", "HEAD")
        self._is_changed = is_changed_since_commit()
        self._standstills = Standstills()
        self._done: Counter[Kind] = Counter()
        self._not_done = 0
        self._verdict: Verdict | None = None
        self._failures: list[str] = []
        self._freezes: dict[str, dict[Outlasted, int]] = {}
        self._offset_log = Asked(None)
        self.flow: Flow | None = None

    def over(
        self, stage: Stage, *, minutes: float, at_most: int | None = None, only: Sequence[Kind] | None = None
    ) -> None:
        """Everything, from the first record to the verdict; faults for so many minutes, and not more than so many that
        were really done.

        only: of these kinds, in place of all that the stage has.
        """

        def course(do: Do) -> None:
            until = time.monotonic() + 60 * minutes
            self._do_drawn(stage, only or stage.kinds, do, until=until, at_most=at_most)

        self.through(stage, course)

    def through(
        self, stage: Stage, course: Course, *, records_per_s: int = _RECORDS_PER_S, is_keyed: bool = False
    ) -> None:
        """The same with what happens in between as it is given, and as much load. is_keyed: see the feeder."""
        feeder = Feeder(stage.pipeline, records_per_s=records_per_s, remembers=False, is_keyed=is_keyed)
        follower = Follower(stage.pipeline.bootstrap_servers, stage.pipeline.sink, self._standstills)
        follower.start()
        began_at = time.monotonic()
        feeder.start()
        # After any error here, the outputs until then are judged.
        with self._noted():
            wait_for(lambda: follower.trail.count, _FIRST_WITHIN_S, "the first output")
            log = FaultLog(self._folder / "faults.jsonl")
            self._expect_outputs(stage)
            course(lambda fault: self._do(stage, fault, log))
        self._freezes = stage.freezes
        with self._noted():
            stage.settle()
        with self._noted():
            feeder.stop()
        self.flow = Flow(time.monotonic() - began_at, feeder.written, follower.trail.count)
        facts = stage.facts
        is_through = self._comes_to_rest(stage, facts)
        with self._noted():
            self._offset_log = stage.ask_offset_log()
            self._failures += [self._offset_log.failure] if self._offset_log.failure else []
        follower.finish(facts.sink_ends(), deadline_s=_REST_WITHIN_S)
        self._verdict, contradictions = facts.judge(
            follower.trail, batches_to=self._folder / "batches.txt", is_through=is_through
        )
        self._failures += contradictions
        self._failures += [f"{name}: {found}" for name, found in self._verdict.wrong().items() if found]
        if self._verdict.expected == 0:
            self._failures.append("nothing was fed")
        if self._verdict.expected != feeder.written:
            self._failures.append(f"{feeder.written} records were fed, the source has {self._verdict.expected}")
        if self._failures:
            self._failures += stage.explanations()
        self._keep_around(facts, self._verdict)

    def _comes_to_rest(self, stage: Stage, facts: Facts) -> bool:
        """True if all has come out. No task is at work any more, in any case."""
        is_through = False
        with self._noted():
            try:
                wait_for(
                    facts.is_through, _REST_WITHIN_S, lambda: f"{facts.source_ends()}; consumed are {facts.consumed()}"
                )
            except AssertionError:
                # Only here: where all has come out, the quiet partitions have no more records.
                self._standstills.ended(time.monotonic())
                self._keep_silence(stage, "not at rest")
                raise
            is_through = True
            stage.drain()
            return True
        # A task at work would write the records that are being read.
        stage.end()
        with self._noted():
            wait_for(facts.is_decided, _REST_WITHIN_S, "the end of every transaction, without a task at work")
        return is_through

    def _keep_around(self, facts: Facts, verdict: Verdict) -> None:
        """A file for each kind of error: the logs around the first one, and the workers' reports of that time."""
        for name, found in verdict.wrong().items():
            if found.first is not None:
                around = facts.around(found.first)
                (self._folder / _AROUND).mkdir(exist_ok=True)
                said = "\n".join(lines_around(self._folder, around.times_ms))
                (self._folder / _AROUND / f"{name}.txt").write_text(
                    f"# {name}: {found}\n\n{around}\n{said}\n", encoding="utf-8"
                )

    def failed(self, error: BaseException) -> None:
        """Something could not be done."""
        self._failures.append(f"{type(error).__name__}: {error}")
        with (self._folder / "traceback.txt").open("a", encoding="utf-8") as told:
            told.writelines(traceback.format_exception(error))

    @contextmanager
    def _noted(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is told at the end, and counts as a failure
            self.failed(error)

    def entry(self, stage_name: str) -> Entry:
        verdict, longest = self._verdict, self._standstills.by_kind
        return Entry(
            faults=self._done.total(),
            not_done=self._not_done,
            records=0 if verdict is None else verdict.expected,
            transactions=0 if verdict is None else verdict.transactions,
            lost=None if verdict is None or verdict.lost is None else verdict.lost.count,
            duplicated=None if verdict is None else verdict.duplicated.count,
            torn=None if verdict is None else verdict.torn.count,
            out_of_order=None if verdict is None else verdict.out_of_order.count,
            longest_standstill_s=round(self._standstills.longest_s, 1),
            seed=self._seed,
            seconds=round(time.monotonic() - self._began_at),
            cluster=stage_name,
            by_kind={
                kind: KindFigures(self._done[kind], round(longest.get(kind, 0.0), 1))
                for kind in Kind
                if self._done[kind]
            },
            failure="; ".join(self._failures) or None,
            judged=verdict is not None and verdict.lost is not None,
            commit=self._commit,
            changed_since_commit=self._is_changed,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            versions={
                "kafka": KAFKA_VERSION,
                "confluent-kafka": version("confluent-kafka"),
                "librdkafka": confluent_kafka.libversion()[0],
                "python": platform.python_version(),
            },
            freezes=self._freezes,
            offset_log=self._offset_log.contradictions,
            shown_aborted=None if verdict is None else verdict.shown_aborted.count,
        )

    def _do_drawn(self, stage: Stage, kinds: Sequence[Kind], do: Do, *, until: float, at_most: int | None) -> None:
        # Waited for and never set: a wait that is the run's own time, not that of something to happen.
        wait = threading.Event().wait
        for fault in faults(self._seed, kinds):
            if self._done.total() == at_most:
                return
            wait(fault.gap_s)
            if time.monotonic() >= until:
                return
            # The log has the reason of one that came too late.
            with suppress(NotDoneError):
                do(fault)

    def _do(self, stage: Stage, fault: Fault, log: FaultLog) -> None:
        self._standstills.begun(fault.kind, time.monotonic())
        try:
            with log.doing(fault) as did:
                stage.do(fault, did, wait=threading.Event().wait)
                self._expect_outputs(stage)
                if fault.is_awaited:
                    self._wait_until_it_flows(stage, f"after {fault.kind}, number {fault.number}")
        except NotDoneError:
            self._not_done += 1
            raise
        self._done[fault.kind] += 1

    def _expect_outputs(self, stage: Stage) -> None:
        for partition in range(stage.pipeline.partitions):
            self._standstills.expected(partition, time.monotonic())

    def _wait_until_it_flows(self, stage: Stage, when: str) -> None:
        now = time.monotonic()
        try:
            wait_for(
                lambda: not self._standstills.silent_since(now),
                FLOWS_WITHIN_S,
                lambda: f"outputs of every partition; none from {self._standstills.silent_since(now)}",
            )
        except AssertionError:
            self._keep_silence(stage, when)
            raise

    def _keep_silence(self, stage: Stage, when: str) -> None:
        """While all that should be at work still are: a quiet partition leaves no trace to find later."""
        with (self._folder / SILENCE).open("a", encoding="utf-8") as kept:
            kept.writelines(f"{line}\n" for line in (f"# {when}", *stage.lines_of_silence(), ""))


def new_folder(seed: int) -> Path:
    """Where a run leaves what it knows."""
    folder = _RUNS / f"{seed}-{int(time.time())}"
    folder.mkdir(parents=True)
    return folder


def run_on(
    stage: Stage,
    *,
    seed: int,
    folder: Path,
    minutes: float,
    at_most: int | None = None,
    only: Sequence[Kind] | None = None,
) -> Entry:
    """A whole run; every error is in its entry, an interruption too."""
    run = Run(seed, folder)
    try:
        with stage:
            run.over(stage, minutes=minutes, at_most=at_most, only=only)
    except (Exception, CutOffError) as error:  # noqa: BLE001 - it is told, and counts as a failure
        run.failed(error)
    return run.entry(stage.name)


def finish(entry: Entry, folder: Path, *, keeps: bool = False) -> None:
    """A run that failed leaves its folder, with what is wrong; one that went well leaves nothing, unless it `keeps`.

    Where the logs around the first wrong records are there, whole ones are left of the journals only.
    """
    if not entry.is_exact:
        (folder / "failure.txt").write_text(f"{entry.failure}\n", encoding="utf-8")
        if (folder / _AROUND).exists() and not keeps:
            for partition in folder.glob("kafka/broker-*/data/*-*"):
                if partition.is_dir() and not partition.name.startswith("__"):
                    shutil.rmtree(partition)
    elif not keeps:
        shutil.rmtree(folder)

"""The demo's third pipeline with `--once`: started, its driver killed at the worst moment, and its windows checked."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from app.core.runs.task import TaskState
from app.kit.patience import BUSY_MACHINE_S
from app.products.demo import window_pipeline
from app.products.demo.driver_kill import KilledDriver, kill_after_a_commit
from app.products.demo.feed import FedFlight, Feed
from app.products.demo.kill import IdTail
from app.products.demo.proof import SinkProof
from app.products.demo.server import DemoRun
from app.products.demo.stage import DemoStage
from app.products.demo.starting import wait_for_tasks
from app.products.demo.window_proof import Windows, WindowVerdict, judge, read_windows

TRANSACTIONAL_ID = f"fl.t.{window_pipeline.NAME}.0.0"


@dataclass(slots=True)
class WindowRun:
    """One run of the third pipeline.

    kill: the kill of its driver; None until then.
    """

    stage: DemoStage
    run: DemoRun
    checkpoint: Path
    proof: SinkProof
    kill: KilledDriver | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failures: list[Exception] = field(default_factory=list[Exception])

    @classmethod
    def start(cls, stage: DemoStage, run: DemoRun, feed: Feed) -> "WindowRun":
        """Wait until the driver of `run` works."""
        wait_for_tasks(
            stage,
            run,
            lambda reports: any(report.state is TaskState.RUNNING for report in reports),
            timeout_s=BUSY_MACHINE_S,
            what="the third pipeline's driver at work",
        )
        proof = SinkProof(
            bootstrap_servers=stage.bootstrap_servers,
            group=window_pipeline.NAME,
            feed=feed,
            sink_topic=window_pipeline.SINK_TOPIC,
            outputs=Windows(),
        )
        return cls(stage, run, stage.checkpoint(window_pipeline.NAME), proof)

    def count_read(self) -> int:
        """Return the number of flights whose batches are committed."""
        return sum(self.proof.committed())

    def begin_to_kill(self) -> None:
        """Kill the driver in a thread of its own, after the commit of one of the next batches."""
        self._thread = threading.Thread(target=self._kill, name="driver-kill", daemon=True)
        self._thread.start()

    def end_killing(self) -> None:
        """Stop trying; raise the error of the attempt."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(BUSY_MACHINE_S)
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        self.proof.close()

    def verdict(self, flights: Iterable[FedFlight]) -> WindowVerdict:
        """Read all committed windows, and compare them with those of the fed flights."""
        read = read_windows(self.stage.bootstrap_servers)
        return judge(read.seen, read.wrong, flights)

    def complaints(self, verdict: WindowVerdict) -> list[str]:
        found: list[str] = []
        if self.kill is None:
            found.append("its driver was not killed: no batch was met between its commit and the checkpoint's record")
        if verdict.all_wrong:
            found.append(f"windows differ from the CSV: {verdict.sentence()}")
        if not verdict.expected:
            found.append("no window was closed, so nothing is proven")
        return [f"{window_pipeline.NAME}: {one}" for one in found]

    def _kill(self) -> None:
        journal = IdTail(bootstrap_servers=self.stage.bootstrap_servers, transactional_ids=[TRANSACTIONAL_ID])
        try:
            (report,) = [status.last for status in self.stage.server.tasks(self.run.id)]
            # The driver's Python process is the child of its JVM.
            parent = psutil.Process(report.pid).ppid()
            deadline = time.monotonic() + BUSY_MACHINE_S
            self.kill = kill_after_a_commit(
                journal,
                TRANSACTIONAL_ID,
                pid=parent,
                checkpoint=self.checkpoint,
                give_up=lambda: self._stop.is_set() or time.monotonic() > deadline,
            )
        except Exception as error:  # noqa: BLE001 - raised again by `end_killing`
            self._failures.append(error)
        finally:
            journal.close()

"""A pipeline that runs under a real server while it is fed: whom to hit, and what must be true afterwards."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import psutil

from app.edges.embedded.spark import Executor, SparkCluster
from tests.support import verifier
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

Json = dict[str, Any]

_LOGS_TOLD = 8
_TAIL_TOLD = 3000


@dataclass(frozen=True)
class TaskNow:
    """One task as its last heartbeat says."""

    ordinal: int
    lease: int
    attempt: int
    pid: int
    state: str
    committed: int


@dataclass
class RunningPipeline:
    """Two instances of one task each."""

    name: str
    run_id: str
    pipeline: TestPipeline
    server: ServerProcess
    cluster: SparkCluster
    feeder: Feeder

    def tasks(self) -> dict[int, TaskNow]:
        """The current attempt of each instance's task, by ordinal."""
        return {
            status["last"]["ordinal"]: TaskNow(
                ordinal=status["last"]["ordinal"],
                lease=status["last"]["lease"],
                attempt=status["last"]["attempt"],
                pid=status["last"]["pid"],
                state=status["last"]["state"],
                committed=status["last"]["counters"]["transactions_committed"],
            )
            for status in self.server.get(f"/runs/{self.run_id}/tasks")["items"]
        }

    def instance(self, ordinal: int) -> Json:
        """The current lease of an ordinal."""
        return next(one for one in self.server.get(f"/runs/{self.run_id}")["instances"] if one["ordinal"] == ordinal)

    def leases(self) -> list[tuple[int, int]]:
        """Every lease that was ever given out, as (ordinal, lease)."""
        listed = self.server.get(f"/runs/{self.run_id}/instances")["items"]
        return sorted((one["ordinal"], one["lease"]) for one in listed)

    def executor(self, ordinal: int) -> Executor:
        application_id = self.instance(ordinal)["application_id"]
        return wait_for(
            lambda: next(iter(self.cluster.executors(application_id)), None),  # pyright: ignore[reportReturnType]
            20,
            f"an executor of {application_id}",
        )

    def task_process(self, ordinal: int) -> psutil.Process:
        """The Python worker that runs the instance's task now."""
        return psutil.Process(self.tasks()[ordinal].pid)

    def wait_until_all_have_committed(self, deadline_s: float) -> None:
        seen: dict[int, TaskNow] = {}

        def all_committed() -> bool:
            seen.clear()
            seen.update(self.tasks())
            return len(seen) == 2 and all(task.committed > 0 and task.state == "running" for task in seen.values())

        wait_for(all_committed, deadline_s, lambda: f"commits of both instances; last reported {seen}")

    def wait_until_another_attempt_committed(self, before: TaskNow, deadline_s: float) -> TaskNow:
        """Wait until a later (lease, attempt) of the same task has committed."""
        seen: dict[int, TaskNow] = {}

        def has_committed() -> bool:
            seen.update(self.tasks())
            now = seen.get(before.ordinal)
            return (
                now is not None
                and (now.lease, now.attempt) > (before.lease, before.attempt)
                and now.state == "running"
                and now.committed > 0
            )

        def describe() -> str:
            return f"a later attempt than {before} to commit; last reported {seen}, {self.instance(before.ordinal)}"

        wait_for(has_committed, deadline_s, describe)
        return seen[before.ordinal]

    def assert_nothing_lost_nothing_double(self, deadline_s: float = 60) -> None:
        """Everything that is in the source now comes out, once; judged by the verifier, while the pipeline runs on."""
        fed = self.feeder.fed()
        ends = verifier.end_offsets(self.pipeline.bootstrap_servers, self.pipeline.source, verifier.READ_COMMITTED)
        group = self.pipeline.definition.group_id
        committed: dict[tuple[str, int], int] = {}

        def is_through() -> bool:
            committed.update(verifier.committed_offsets(self.pipeline.bootstrap_servers, group))
            return all(committed.get((self.pipeline.source, number), 0) >= end for number, end in ends.items())

        wait_for(is_through, deadline_s, lambda: f"the group to reach {ends}; it is at {committed}")
        found = verifier.read_all(self.pipeline.bootstrap_servers, self.pipeline.sink)
        audit = verifier.audit(found, fed)
        assert not audit.lost, str(audit)
        assert not audit.duplicated, str(audit)
        assert not audit.out_of_order, str(audit)

    def story(self) -> str:
        """The present report of server, drivers and executors: for the note of a failure."""
        told: list[str] = []
        for path in ("", "/tasks", "/instances", "/events"):
            try:
                answer = self.server.ask(f"/api/v1/runs/{self.run_id}{path}").text
            except httpx.HTTPError as error:
                answer = f"no answer: {error}"
            told.append(f"== run{path}\n{answer}")
        logs = [*self.server.state_dir.glob(f"instances/{self.run_id}-*/driver.log")]
        logs += self.cluster.data_dir.glob("**/work/**/stderr")
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-_LOGS_TOLD:]
        told.extend(f"== {log}\n{log.read_text(errors='replace')[-_TAIL_TOLD:]}" for log in newest)
        return "\n".join(told)

    def longest_gap_s(self, *, since: float) -> float:
        """The longest time, from `since` (time.time()) on, in which nothing of some source partition was appended."""
        times: dict[str, list[int]] = {}
        for record in verifier.read_all(self.pipeline.bootstrap_servers, self.pipeline.sink):
            if record.timestamp_ms >= since * 1000:
                source = verifier.id_of(record.value).partition(":")[0]
                times.setdefault(source, [int(since * 1000)]).append(record.timestamp_ms)
        return max(later - earlier for stamps in times.values() for earlier, later in pairwise(sorted(stamps))) / 1000


@contextmanager
def frozen(processes: Sequence[psutil.Process]) -> Generator[None]:
    """SIGSTOP for the length of the block; at its end no process stays frozen."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def wait_until_dead(pid: int, deadline_s: float = 20) -> None:
    """Wait until no process of that number runs."""

    def is_dead() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_for(is_dead, deadline_s, f"the end of process {pid}")


def now() -> float:
    """The wall clock, as the broker stamps records with."""
    return time.time()

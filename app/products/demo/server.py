"""The real Fenceline server as a child process, and the REST calls of the demo."""

import json
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from app.core.runs.run import RunState
from app.core.runs.task import TaskStatus
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.processes import ChildProcess
from app.kit.patience import ASK_AGAIN_AFTER_S, STARTING_S, Patience

_START = "import sys; from app.edges.cli import main; sys.argv[0] = 'fenceline'; main()"
_AWAY = (429, 502, 503, 504)
_ENDED = (RunState.STOPPED, RunState.FAILED)
LONGEST_DRILL_S = 120.0
"""A drill may freeze the server for at most so long; a request must not time out before."""


class DemoRun(msgspec.Struct, frozen=True):
    """The fields of a run that the demo uses."""

    id: str
    state: RunState
    end_reason: str | None = None


class _Tasks(msgspec.Struct, frozen=True):
    items: list[TaskStatus]


class _Runs(msgspec.Struct, frozen=True):
    items: list[DemoRun]


class _Announcement(msgspec.Struct, frozen=True):
    users_url: str
    login_url: str | None


@dataclass(slots=True)
class DemoServer:
    """A server that was started for the demo; `login_url` logs its administrator in once."""

    process: ChildProcess
    users_url: str
    login_url: str | None
    _http: httpx.Client

    @classmethod
    def start(cls, *, folder: Path, environment: Mapping[str, str]) -> "DemoServer":
        """Start `fenceline serve` on free ports and wait until it prints its addresses.

        Args:
            folder: of its state and its log.
            environment: of the server, with its settings (`FENCELINE_*`), and so of every driver that it submits.
        """
        state = folder / "state"
        process = ChildProcess(
            name="the Fenceline server",
            argv=[sys.executable, "-c", _START, "serve", "--json"],
            log_path=folder / "server.log",
            env={
                **environment,
                "FENCELINE_STATE_DIR": str(state),
                "FENCELINE_USERS_PORT": "0",
                "FENCELINE_WORKERS_PORT": "0",
            },
            cwd=folder,
        )
        process.start()
        found: list[_Announcement] = []

        def has_announced() -> bool:
            found.extend(_announcements(process.log_path))
            return bool(found)

        try:
            process.wait_until(has_announced, timeout_s=STARTING_S, what="printing its addresses")
            token = (state / "token").read_text(encoding="utf-8").strip()
        except BaseException:
            process.kill()
            raise
        client = httpx.Client(
            base_url=f"{found[0].users_url}/api/v1",
            headers={"authorization": f"Bearer {token}"},
            timeout=LONGEST_DRILL_S + 30,
            trust_env=False,
        )
        return cls(process, found[0].users_url, found[0].login_url, client)

    def register_cluster(self, name: str, bootstrap_servers: str) -> None:
        self._ask("POST", "/clusters", {"name": name, "bootstrap_servers": bootstrap_servers})

    def create_pipeline(self, name: str, definition: Mapping[str, Any]) -> None:
        self._ask("POST", "/pipelines", {"name": name, "definition": definition, "note": "made by the demo"})

    def plan_audits(self, pipeline: str, plan: Mapping[str, Any]) -> None:
        self._ask("PUT", f"/pipelines/{pipeline}/audit-plan", {**plan, "why": "the demo"})

    def start_run(self, pipeline: str) -> DemoRun:
        return self._run(self._ask("POST", f"/pipelines/{pipeline}/runs", {"why": "the demo"}))

    def get_run(self, run_id: str) -> DemoRun:
        return self._run(self._ask("GET", f"/runs/{run_id}"))

    def latest_run(self, pipeline: str) -> DemoRun | None:
        """Return the newest run, live or ended; None: it was never started."""
        listed = msgspec.json.decode(self._ask("GET", f"/runs?pipeline={pipeline}&limit=1"), type=_Runs)
        return listed.items[0] if listed.items else None

    def tasks(self, run_id: str) -> list[TaskStatus]:
        """Return the newest report of each task, by ordinal and task."""
        return msgspec.json.decode(self._ask("GET", f"/runs/{run_id}/tasks"), type=_Tasks, strict=False).items

    def end_run(self, run_id: str, how: str, *, timeout_s: float) -> DemoRun:
        """`drain` or `kill` the run and wait until it has ended. Raises EmbeddedError when it does not."""
        return self.end_runs([run_id], how, timeout_s=timeout_s)[0]

    def end_runs(self, run_ids: Sequence[str], how: str, *, timeout_s: float) -> list[DemoRun]:
        """Do `end_run` for all at once, as each mostly waits."""
        deadline = time.monotonic() + timeout_s
        for run_id in run_ids:
            if self.get_run(run_id).state not in _ENDED:
                self._ask("POST", f"/runs/{run_id}/{how}", {"why": "the demo ends"})
        ended: list[DemoRun] = []
        for run_id in run_ids:
            while (run := self.get_run(run_id)).state not in _ENDED:
                if time.monotonic() > deadline:
                    raise EmbeddedError(f"the run is still {run.state} {timeout_s:.0f} s after its {how}")
                time.sleep(0.2)
            ended.append(run)
        return ended

    def stop(self) -> None:
        """End only the server; a live run would continue."""
        self._http.close()
        self.process.stop(timeout_s=10)

    def _run(self, body: bytes) -> DemoRun:
        return msgspec.json.decode(body, type=DemoRun)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return the answer; repeated while the server or its database does not answer.

        A command carries an idempotency key, so it is done once.
        """
        headers = {} if method == "GET" else {"Idempotency-Key": str(uuid.uuid4())}
        patience = Patience()
        while True:
            try:
                answer = self._http.request(method, path, json=body, headers=headers)
            except httpx.HTTPError as error:
                # A thawed server closes connections that were idle for too long.
                if not self.process.is_running or not patience.lasts():
                    raise EmbeddedError(
                        f"the Fenceline server at {self.users_url} does not answer: {error}\n{self.process.log_tail()}"
                    ) from error
            else:
                if not answer.is_error:
                    return answer.content
                if answer.status_code not in _AWAY or not patience.lasts():
                    raise EmbeddedError(f"{method} {path} was refused ({answer.status_code}): {_detail(answer)}")
            time.sleep(ASK_AGAIN_AFTER_S)


def _announcements(log: Path) -> list[_Announcement]:
    """Return the line of JSON among the log's lines, once it is complete."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    whole = [line for line in text.splitlines(keepends=True) if line.startswith('{"users_url"') and line.endswith("\n")]
    return [msgspec.json.decode(line, type=_Announcement) for line in whole]


def _detail(answer: httpx.Response) -> str:
    try:
        document = json.loads(answer.content)
    except ValueError:
        return answer.text[:500]
    problems = "; ".join(f"{p['field']}: {p['message']}" for p in document.get("problems", ()))
    return f"{document.get('detail', '')} {problems}".strip()

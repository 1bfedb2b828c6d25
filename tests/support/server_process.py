"""The real server as a child process: started, killed, started again on the same ports, spoken to over REST."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.edges.embedded.ports import free_ports
from app.edges.embedded.processes import ChildProcess
from app.edges.spark import driver_processes
from tests.support.serving import FENCELINE
from tests.support.waiting import wait_for

Json = dict[str, Any]


@dataclass
class ServerProcess:
    """`fenceline serve` with its own state folder. Drivers that it starts outlive it; `end_drivers` ends them.

    program: what is started with `serve` and its options; the command `fenceline` of this very environment.
    log_name: of a file beside the state folder.
    """

    state_dir: Path
    cache_dir: Path
    database_url: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    program: Sequence[str] = field(default_factory=lambda: FENCELINE)
    log_name: str = "server.log"

    def __post_init__(self) -> None:
        self._users_port, self._workers_port = free_ports(2)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FENCELINE_")}
        self.process = ChildProcess(
            name="Fenceline server",
            argv=[
                *self.program,
                *("serve", "--users-port", str(self._users_port), "--workers-port", str(self._workers_port)),
            ],
            log_path=self.state_dir.with_name(self.log_name),
            env={
                **inherited,
                "FENCELINE_DATABASE_URL": self.database_url,
                "FENCELINE_STATE_DIR": str(self.state_dir),
                "FENCELINE_CACHE_DIR": str(self.cache_dir),
                **self.settings,
            },
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._users_port}"

    @property
    def workers_url(self) -> str:
        return f"http://127.0.0.1:{self._workers_port}"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.process.start()
        self.process.wait_until(self._is_ready, timeout_s=90, what="answering /readyz")

    def kill(self) -> None:
        """SIGKILL the server alone; drivers have sessions of their own and go on."""
        self.process.kill(whole_tree=False)

    def terminate(self) -> None:
        """SIGTERM the server alone, and wait for its end."""
        self.process.stop()

    def get(self, path: str) -> Json:
        return self._request("GET", path, None)

    def post(self, path: str, body: Json | None = None) -> Json:
        return self._request("POST", path, body)

    def upload(self, source: str) -> Json:
        """A Python file for a transform."""
        return self._request("POST", "/transform-sources", None, content=source, media_type="text/x-python")

    def ask(self, path: str) -> httpx.Response:
        """The answer to GET, with any status."""
        return httpx.get(f"{self.url}{path}", headers=self._authorization(), timeout=60, trust_env=False)

    def log_in(self, browser: httpx.Client, *, token: str | None = None) -> None:
        """With the form: as the administrator, or the owner of `token`."""
        token = token or self._authorization()["Authorization"].removeprefix("Bearer ")
        assert browser.post("/login", data={"token": token}, headers={"Origin": self.url}).status_code == 303

    def look(self, path: str) -> str:
        """The page at `path` as the logged-in administrator sees it."""
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as browser:
            self.log_in(browser)
            page = browser.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200, page.text
        return page.text

    def registered_cluster(self, bootstrap_servers: str) -> str:
        """The name of the Kafka cluster, registered unless it is already."""
        name = "embedded"
        if name not in {cluster["name"] for cluster in self.get("/clusters")["items"]}:
            self.post("/clusters", {"name": name, "bootstrap_servers": bootstrap_servers})
        return name

    def wait_until_ready(self, deadline_s: float) -> None:
        wait_for(self._is_ready, deadline_s, lambda: self.ask("/readyz").text)

    def put(self, path: str, body: Json) -> Json:
        return self._request("PUT", path, body)

    def create_pipeline(self, name: str, definition: PipelineDefinition) -> None:
        self.post("/pipelines", {"name": name, "definition": msgspec.to_builtins(definition)})

    def wait_for_run(self, run_id: str, state: str, deadline_s: float) -> Json:
        """The run once it is in `state`."""
        seen: Json = {}

        def is_there() -> bool:
            seen.update(self.get(f"/runs/{run_id}"))
            return seen["state"] == state

        def describe() -> str:
            instances = [
                (one["ordinal"], one["lease"], one["state"], one["reason"]) for one in seen.get("instances", [])
            ]
            return f"run {state}; it is {seen.get('state')} with {instances}\n{self.process.log_tail()}"

        wait_for(is_there, deadline_s, describe)
        return seen

    def end_drivers(self) -> None:
        """Kill every driver that belongs to this server's state folder."""
        for process in driver_processes.search(self.state_dir):
            process.kill()

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.state_dir / 'token').read_text().strip()}"}

    def _request(
        self, method: str, path: str, body: Json | None, *, content: str | None = None, media_type: str | None = None
    ) -> Json:
        answer = httpx.request(
            method,
            f"{self.url}/api/v1{path}",
            json=body,
            content=content,
            headers={**self._authorization(), **({} if media_type is None else {"Content-Type": media_type})},
            # Creating a query waits for its plan, which a JVM makes.
            timeout=120,
            trust_env=False,
        )
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return msgspec.json.decode(answer.content) if answer.content else {}

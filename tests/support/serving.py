"""`fenceline serve` as a person starts it: on free ports, with its own state folder, its words read as they come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

import httpx

from app.edges.embedded import guardian
from tests.support.waiting import wait_for

FENCELINE = [sys.executable, "-c", "import sys; from app.edges.cli import main; sys.argv[0] = 'fenceline'; main()"]
"""The command `fenceline` of this very environment, whether or not its script is on PATH."""


def environment_for(folder: Path, **settings: str) -> dict[str, str]:
    """This process's environment without any Fenceline setting, and then these; the state lies in `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCELINE_")}
    given = {f"FENCELINE_{name.upper()}": value for name, value in settings.items()}
    return {**kept, "FENCELINE_STATE_DIR": str(folder / "state"), **given}


@dataclass(slots=True)
class Serving:
    """A running server; a context manager that leaves nothing running. `log` is its standard error."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    log: Path
    announced: list[str] = field(default_factory=list[str])

    @classmethod
    def start(cls, folder: Path, *, settings: Mapping[str, str] | None = None) -> Self:
        """Start it. It may not answer yet: `wait_until_announced` or `wait_until_serving`."""
        folder.mkdir(parents=True, exist_ok=True)
        environment = environment_for(folder, **{"users_port": "0", "workers_port": "0", **(settings or {})})
        log = folder / "server.stderr"
        with log.open("a") as stderr:
            process = subprocess.Popen(
                [*FENCELINE, "serve", "--json"],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        # No other process ends it when the test run is killed; its own children go with it in the same way.
        guardian.watch(process.pid)
        server = cls(process, environment, log)
        assert process.stdout is not None
        threading.Thread(target=server._read, args=(process.stdout,), daemon=True).start()
        return server

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self.announced.append(line)

    def wait_until_announced(self, *, deadline_s: float = 60) -> dict[str, str | None]:
        """Its own report once its database is ready: users_url, workers_url, login_url."""
        wait_for(
            lambda: bool(self.announced) or self.process.poll() is not None,
            deadline_s,
            lambda: f"the server announces itself; its log: {self.tail()}",
        )
        assert self.announced, f"the server ended with {self.process.poll()}: {self.tail()}"
        said: dict[str, str | None] = json.loads(self.announced[0])
        return said

    def wait_until_serving(self, *, deadline_s: float = 60) -> str:
        """The users' URL, as soon as it listens, whether or not its database answers."""
        file = self.state_dir / "server.json"
        wait_for(
            lambda: file.is_file() or self.process.poll() is not None,
            deadline_s,
            lambda: f"the server says where it listens; its log: {self.tail()}",
        )
        assert file.is_file(), f"the server ended with {self.process.poll()}: {self.tail()}"
        url: str = json.loads(file.read_text())["users_url"]
        return url

    @property
    def state_dir(self) -> Path:
        return Path(self.environment["FENCELINE_STATE_DIR"])

    @property
    def token(self) -> str:
        """The administrator's token that the first start made."""
        return (self.state_dir / "token").read_text().strip()

    def client(self) -> httpx.Client:
        """As the administrator."""
        url = self.wait_until_announced()["users_url"] or ""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)

    def run(self, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of `fenceline` on the same state folder, to its end."""
        return subprocess.run(
            [*FENCELINE, *arguments],
            cwd=folder,
            env={**self.environment, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def tail(self) -> str:
        return self.log.read_text()[-3000:]

    def terminate(self, *, deadline_s: float = 30) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=deadline_s)
        guardian.forget(self.process.pid)
        return code

    def kill(self) -> None:
        """SIGKILL: what a crash leaves."""
        self.process.kill()
        self.process.wait(timeout=20)
        guardian.forget(self.process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            try:
                self.terminate()
            except subprocess.TimeoutExpired:
                self.kill()

"""The server of a run and its Postgres, with a copy of the database as it was at the beginning."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from sqlalchemy import make_url

from app.core.pipelines.pipeline import PipelineDefinition
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.embedded.spark import SparkCluster
from tests.fault_suite.offset_log import Asked
from tests.support.databases import create_database, drop_database, end_sessions
from tests.support.server_process import ServerProcess

_READY_S = 90.0
_STARTED_S = 180.0
_DRAINED_S = 150.0


class ControlPlane:
    """A context manager; the run that it starts outlives faults of everything in here.

    heartbeat_timeout_s, lost_after_s: settings of the server, short, since a run of faults is.
    """

    def __init__(
        self,
        folder: Path,
        *,
        state_dir: Path,
        spark: SparkCluster,
        heartbeat_timeout_s: float = 4,
        lost_after_s: float = 10,
    ) -> None:
        self.spark = spark
        self._folder = folder
        self._state_dir = state_dir
        self._settings = {
            "FENCELINE_SPARK_MASTER_WEB_URLS": f"{spark.master_url}={spark.master_web_url}",
            "FENCELINE_HEARTBEAT_TIMEOUT_S": f"{heartbeat_timeout_s:g}",
            "FENCELINE_LOST_AFTER_S": f"{lost_after_s:g}",
        }
        self._stack = ExitStack()
        self._copy: str | None = None
        self.name = ""
        self.run_id = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.postgres = stack.enter_context(EmbeddedPostgres.start(durable=False))
            self.server = ServerProcess(
                state_dir=self._state_dir,
                cache_dir=self._folder / "cache",
                database_url=create_database(self.postgres.url),
                settings=self._settings,
            )
            stack.callback(self.server.end_drivers)
            stack.callback(self.server.process.kill)
            self.server.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def start_run(self, name: str, definition: PipelineDefinition) -> None:
        """Returns when it is running."""
        self.server.create_pipeline(name, definition)
        self._definition = definition
        self.name, self.run_id = name, str(self.server.post(f"/pipelines/{name}/runs")["id"])
        self.server.wait_for_run(self.run_id, "running", _STARTED_S)

    def wait_until_ready(self) -> None:
        """End all faults of it."""
        self.server.wait_until_ready(_READY_S)

    def scale(self, instances: int) -> int:
        """A revision with so many of them, and its number."""
        known = self.server.get(f"/pipelines/{self.name}")
        changed = msgspec.structs.replace(self._definition, instances=instances)
        body = {"definition": msgspec.to_builtins(changed), "expected_revision": known["current_revision"]}
        return int(self.server.put(f"/pipelines/{self.name}", body)["pipeline"]["current_revision"])

    def wanted_instances(self) -> int:
        """By the current revision."""
        return int(self.server.get(f"/pipelines/{self.name}")["definition"]["instances"])

    def leases(self) -> dict[int, int]:
        """The current one of each ordinal."""
        instances = self.server.get(f"/runs/{self.run_id}")["instances"]
        return {int(one["ordinal"]): int(one["lease"]) for one in instances}

    def drain(self) -> None:
        """Every instance of the run commits and leaves."""
        self.wait_until_ready()
        self.server.post(f"/runs/{self.run_id}/drain")
        self.server.wait_for_run(self.run_id, "stopped", _DRAINED_S)

    def ask_offset_log(self) -> Asked:
        """The findings of a check of all kept events, and those of the live check meanwhile."""
        if not self.server.process.is_running:
            return Asked(None)
        address = f"/pipelines/{self.name}/offset-log"
        kept = [record["finding"] for record in self.server.get(address)["findings"]]
        return Asked.of_server(self.server.get(f"{address}/check"), kept)

    def keep_copy(self) -> None:
        """The backup for `restore`. Postgres copies a database only without connections: the server is killed."""
        self.server.kill()
        self._copy = create_database(self.postgres.url, template=self.server.database_url)
        self.server.start()

    def restore(self) -> None:
        """The server is killed, and finds the database of long ago under the old name."""
        assert self._copy is not None
        self.server.kill()
        drop_database(self.postgres.url, self.server.database_url)
        create_database(self.postgres.url, template=self._copy, name=make_url(self.server.database_url).database)
        self.server.start()

    def end_sessions(self) -> int:
        """As Postgres does by itself with a host that does not answer any more: locks are free, without a notice."""
        return end_sessions(self.postgres.url, self.server.database_url)

    def another_server(self) -> ServerProcess:
        """One more on the same database, with a folder of its own; not started."""
        return ServerProcess(
            state_dir=self._folder / "another-state",
            cache_dir=self._folder / "cache",
            database_url=self.server.database_url,
            settings=self._settings,
            log_name="another-server.log",
        )

    def settle(self) -> None:
        """No server is stopped, all run."""
        self.postgres.resume()
        if not self.postgres.is_running:
            self.postgres.start_again()
        self.server.process.resume()
        if not self.server.process.is_running:
            self.server.start()
        # A server that cannot become ready is reported by the next step, with its log.
        with suppress(AssertionError):
            self.wait_until_ready()

"""A real Spark standalone cluster from the PySpark wheel: a master and workers as child processes on loopback."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import msgspec
import psutil

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.ports import LOOPBACK, with_free_ports
from app.edges.embedded.processes import ChildProcess
from app.edges.embedded.pyspark_package import spark_home
from app.kit.patience import STARTING_S
from app.kit.utf8_locale import with_utf8_locale

# Quick to start and small: master and workers pass messages and start processes, nothing more.
_DAEMON_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class WorkerStatus(msgspec.Struct, frozen=True):
    """One worker as the master's web page describes it (a dead one stays listed for a while)."""

    id: str
    state: str


class ApplicationStatus(msgspec.Struct, frozen=True):
    """One application as the master's web page describes it."""

    id: str
    name: str
    state: str


class MasterStatus(msgspec.Struct, frozen=True):
    """The master's report of its cluster at `/json/`."""

    status: str
    workers: list[WorkerStatus]
    activeapps: list[ApplicationStatus]
    completedapps: list[ApplicationStatus]

    @property
    def alive_workers(self) -> list[WorkerStatus]:
        """Workers whose heartbeats the master still gets."""
        return [worker for worker in self.workers if worker.state == "ALIVE"]


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor's JVM."""

    pid: int
    application_id: str
    executor_id: str

    def python_pids(self) -> list[int]:
        """The Python processes that it started: PySpark's daemon, then the workers that the daemon forked."""
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children]


@dataclass(slots=True)
class SparkNode:
    """The daemon of the master or of one worker."""

    process: ChildProcess
    web_url: str

    @property
    def pid(self) -> int:
        """Process id of the daemon's JVM; raises EmbeddedError when it is not running."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """True until the daemon has ended (also while it is paused)."""
        return self.process.is_running

    def start(self) -> None:
        """Start the daemon after `stop` or `kill`; ask the cluster (`wait_until_ready`) when it has joined."""
        self.process.start()

    def stop(self) -> None:
        """SIGTERM: a worker ends its executors first; does nothing when it is not running."""
        self.process.stop(timeout_s=15)

    def kill(self) -> None:
        """SIGKILL the daemon alone; a worker's executors notice and end by themselves."""
        self.process.kill(whole_tree=False)

    def pause(self) -> None:
        """SIGSTOP the daemon alone; executors go on."""
        self.process.pause(whole_tree=False)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.process.resume()

    def restart(self) -> None:
        """Stop it if it runs, then start it on the same ports and folders."""
        self.stop()
        self.start()


@dataclass(slots=True)
class SparkCluster:
    """A master that survives its own restart (recoveryMode=FILESYSTEM), and its workers."""

    master_url: str
    master: SparkNode
    workers: Sequence[SparkNode]
    data_dir: Path
    is_temporary: bool
    _stopped: bool = field(default=False, repr=False)

    @classmethod
    def start(
        cls,
        *,
        workers: int = 1,
        cores_per_worker: int = 2,
        memory_per_core_mb: int = 640,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Start master and workers and wait until the master counts every worker as alive.

        Args:
            workers: number of worker daemons.
            cores_per_worker: executor cores that each offers, independent of the machine's.
            memory_per_core_mb: a worker offers this much for each core, so that one executor a core fits.
            data_dir: folder for logs, work directories and the master's memory; a temporary one by default.
            settings: `spark.*` properties of the daemons (not of applications), which replace the defaults.
            environment: for daemons, and the executors that they start; this process's own by default.

        Raises:
            EmbeddedError: no Java, or a daemon that does not start (with the tail of its log).
        """
        is_temporary = data_dir is None
        folder = Path(tempfile.mkdtemp(prefix="fenceline-spark-")) if data_dir is None else data_dir.absolute()
        inherited = daemon_environment(folder, settings or {}, os.environ if environment is None else environment)

        def launch(ports: list[int]) -> Self:
            master_url = f"spark://{LOOPBACK}:{ports[0]}"
            master = _node(folder, inherited, "master", ["--host", LOOPBACK, "--port", str(ports[0])], ports[1])
            nodes = [
                _node(
                    folder,
                    inherited,
                    f"worker-{number}",
                    [
                        *("--host", LOOPBACK, "--port", str(ports[2 * number])),
                        *("--cores", str(cores_per_worker), "--memory", f"{cores_per_worker * memory_per_core_mb}m"),
                        *("--work-dir", str(folder / f"worker-{number}" / "work"), master_url),
                    ],
                    ports[2 * number + 1],
                )
                for number in range(1, workers + 1)
            ]
            cluster = cls(master_url, master, nodes, folder, is_temporary)
            try:
                # Workers ask again until the master answers, so all can start at once.
                for node in (master, *nodes):
                    node.start()
                cluster.wait_until_ready()
            except BaseException:
                for node in (master, *nodes):
                    node.process.kill()
                raise
            return cluster

        try:
            return with_free_ports(2 + 2 * workers, launch)
        except BaseException:
            if is_temporary:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def master_web_url(self) -> str:
        """The master's web page, with its state as JSON at `/json/`."""
        return self.master.web_url

    def status(self) -> MasterStatus:
        """Return the master's present state; raises EmbeddedError without an answer."""
        try:
            answer = httpx.get(f"{self.master_web_url}/json/", timeout=5, trust_env=False)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise EmbeddedError(f"the Spark master at {self.master_web_url} does not answer: {error}") from error
        try:
            return msgspec.json.decode(answer.content, type=MasterStatus)
        except msgspec.MsgspecError as error:
            # For a moment its web server answers before the master has added its pages.
            raise EmbeddedError(f"the Spark master at {self.master_web_url} gives no state yet: {error}") from error

    def wait_until_ready(self, *, timeout_s: float = STARTING_S) -> None:
        """Wait until the master is ALIVE and counts as many live workers as run."""
        expected = [node for node in self.workers if node.is_running]
        wanted = len(expected)

        def is_complete() -> bool:
            for node in expected:
                if not node.is_running:
                    # Reports at once why it ended.
                    node.process.wait_until(lambda: False, timeout_s=0, what="being counted by the master")
            try:
                status = self.status()
            except EmbeddedError:
                return False
            return status.status == "ALIVE" and len(status.alive_workers) >= wanted

        self.master.process.wait_until(is_complete, timeout_s=timeout_s, what=f"counting {wanted} live workers")

    def executors(self, application_id: str | None = None) -> list[Executor]:
        """The executors that run now, of one application or of all, found among the workers' children."""
        found: list[Executor] = []
        for node in self.workers:
            if not node.is_running:
                continue
            for child in psutil.Process(node.pid).children(recursive=True):
                executor = _as_executor(child)
                if executor is not None and application_id in (None, executor.application_id):
                    found.append(executor)
        return found

    def stop(self) -> None:
        """Stop the workers with their executors, then the master; remove the folder if temporary; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        if self.workers:
            with ThreadPoolExecutor(max_workers=len(self.workers)) as pool:
                list(pool.map(SparkNode.stop, self.workers))
        self.master.stop()
        if self.is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def daemon_environment(folder: Path, settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of master and workers, without the settings of the machine's own Spark."""
    configuration = folder / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    recovery = folder / "recovery"
    recovery.mkdir(exist_ok=True)
    properties = {
        # Without it a restarted master does not know its running applications, and they are killed.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(recovery),
        "spark.master.rest.enabled": "false",
        "spark.ui.killEnabled": "false",
        # A daemon on another port than the announced one is worse than one that does not start.
        "spark.port.maxRetries": "0",
        **settings,
    }
    kept = {key: value for key, value in environment.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    inherited = with_utf8_locale(kept)
    return find_java(may_fetch=True).environment(
        {
            **inherited,
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(configuration),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_PUBLIC_DNS": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(
                [*_DAEMON_JVM, *(f'"-D{key}={value}"' for key, value in properties.items())]
            ),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
    )


def _node(
    folder: Path, environment: Mapping[str, str], name: str, arguments: Sequence[str], web_port: int
) -> SparkNode:
    kind = "Master" if name == "master" else "Worker"
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    temporary = home / "tmp"
    options = f'{environment["SPARK_DAEMON_JAVA_OPTS"]} "-Djava.io.tmpdir={temporary}"'
    process = ChildProcess(
        name=f"Spark {name.replace('-', ' ')}",
        argv=[
            # The script ends in `exec`, so its pid becomes the JVM's.
            *(str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"),
            *("--webui-port", str(web_port), *arguments),
        ],
        log_path=home / "daemon.log",
        env={**environment, "SPARK_DAEMON_JAVA_OPTS": options},
        cwd=home,
        temporary=temporary,
    )
    return SparkNode(process=process, web_url=f"http://{LOOPBACK}:{web_port}")


def _as_executor(process: psutil.Process) -> Executor | None:
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    if not any(word.endswith("CoarseGrainedExecutorBackend") for word in words):
        return None
    options = {word: following for word, following in pairwise(words) if re.match(r"--\w", word)}
    return Executor(process.pid, options.get("--app-id", ""), options.get("--executor-id", ""))

"""Starts, watches and ends drivers as detached spark-submit processes on this host (the port app/ports/spark.py)."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil

from app.domain.allow_lists.spark_master import SparkMasterKind, parse
from app.domain.errors import UnavailableError
from app.domain.pipelines.pipeline import PipelineDefinition
from app.domain.runs.instance import Instance
from app.domain.runs.observation import MasterWord, Observation, ProcessWord
from app.ports.spark import Submitted
from app.spark import conf, driver_processes, master_state, package
from app.spark.instance_files import InstanceFiles, folder_of_instances
from app.wire.specification import InstanceSpecification

PASSED_ON_PREFIX = "FENCELINE_SECRET"
"""Of our own settings only secrets and their folder reach a driver: not, for one, the database's address."""


class SubmitLauncher:
    """Drivers outlive this process: they get a session of their own and no pipe to us.

    Args:
        java_home: the Java that Spark runs on; None leaves it to `JAVA_HOME` and PATH.
        java_missing: why there is no such Java; every submission is then refused with this sentence.
        python: the interpreter of drivers, and of executors unless `worker_python` names another.
        worker_python: the interpreter on the executors' hosts, with requirements/worker.lock installed.
        master_web_urls: for standalone masters whose web page is not at Spark's default port, by their `spark://` URL.
        spark_home: a Spark installation; None is the PySpark package of this environment.
    """

    def __init__(
        self,
        *,
        state_dir: Path,
        cache_dir: Path,
        version: str,
        python: str,
        worker_python: str | None = None,
        java_home: Path | None = None,
        java_missing: str | None = None,
        master_web_urls: Mapping[str, str] | None = None,
        spark_home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        host: str | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._cache_dir = cache_dir
        self._version = version
        self._python = python
        self._worker_python = worker_python or python
        self._java_home = java_home
        self._java_missing = java_missing
        self._master_web_urls = dict(master_web_urls or {})
        self._spark_home = spark_home
        self._environment = dict(os.environ if environment is None else environment)
        self._host = host or socket.gethostname()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._exit_codes: dict[int, int] = {}

    async def submit(self, specification: InstanceSpecification) -> Submitted:
        return await asyncio.to_thread(self._submit, specification)

    async def observe(self, instance: Instance, definition: PipelineDefinition) -> Observation:
        return await asyncio.to_thread(self._observe, instance, definition)

    async def stop(self, instance: Instance) -> None:
        await asyncio.to_thread(self._stop, instance)

    async def kill(self, instance: Instance) -> None:
        await asyncio.to_thread(self._kill, instance)

    def exit_code(self, jvm_pid: int) -> int | None:
        """How a driver ended that this very process started; None while it runs, or when another one started it."""
        child = self._children.get(jvm_pid)
        return self._exit_codes.get(jvm_pid) if child is None else child.poll()

    def _submit(self, specification: InstanceSpecification) -> Submitted:
        if self._java_missing is not None:
            raise UnavailableError(self._java_missing)
        files = InstanceFiles.of(
            self._state_dir,
            run_id=specification.run_id,
            ordinal=specification.ordinal,
            lease=specification.lease,
        )
        argv = self._argv(specification, files)
        files.hand_over(specification)
        try:
            with files.log.open("ab") as log:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._driver_environment(specification),
                    cwd=files.folder,
                    start_new_session=True,
                    close_fds=True,
                )
        except OSError as error:
            files.withdraw()
            raise UnavailableError(f"spark-submit could not be started ({argv[0]}): {error}") from error
        self._children[child.pid] = child
        return Submitted(host=self._host, jvm_pid=child.pid, started_at=_started_at(child.pid), log_path=str(files.log))

    def _argv(self, specification: InstanceSpecification, files: InstanceFiles) -> list[str]:
        try:
            built = package.build(version=self._version, into=self._cache_dir / "worker-package")
        except OSError as error:
            raise UnavailableError(
                f"the package for the executors could not be written under {self._cache_dir}: {error}"
            ) from error
        submission = conf.effective(
            specification.definition,
            application_name=_application_name(specification.run_id, specification.ordinal, specification.lease),
            python=self._worker_python,
            driver_python=self._python,
            local_dir=str(files.local_dir),
        )
        return [
            str(self._home() / "bin" / "spark-submit"),
            *("--master", submission.master),
            *(word for key, value in sorted(submission.conf.items()) for word in ("--conf", f"{key}={value}")),
            *("--py-files", str(built.archive)),
            str(built.entry_point),
            *("--specification", str(files.specification)),
            *("--outcome", str(files.outcome)),
        ]

    def _home(self) -> Path:
        if self._spark_home is not None:
            return self._spark_home
        # The module is looked for, not imported: only workers/spark imports pyspark.
        found = importlib.util.find_spec("pyspark")
        if found is None or found.origin is None:
            raise UnavailableError("PySpark is not installed in the server's environment; run `make setup`")
        return Path(found.origin).parent

    def _driver_environment(self, specification: InstanceSpecification) -> dict[str, str]:
        dropped = ("FENCELINE_", "SPARK_", "PYSPARK_", "PYTHONPATH")
        kept = {
            name: value
            for name, value in self._environment.items()
            if name.startswith(PASSED_ON_PREFIX) or name == "SPARK_CONF_DIR" or not name.startswith(dropped)
        }
        kept["SPARK_HOME"] = str(self._home())
        kept["PYSPARK_PYTHON"] = self._worker_python
        kept["PYSPARK_DRIVER_PYTHON"] = self._python
        if self._java_home is not None:
            kept["JAVA_HOME"] = str(self._java_home)
        if conf.is_on_this_machine(parse(specification.definition.spark.master)):
            kept["SPARK_LOCAL_IP"] = conf.LOOPBACK
        return kept

    def _observe(self, instance: Instance, definition: PipelineDefinition) -> Observation:
        self._reap()
        files = self._files(instance)
        process = self._process_word(instance, files)
        is_starting = instance.claimed_at is None and instance.jvm_pid is None
        if process is ProcessWord.GONE and not is_starting and self._is_here(files):
            files.clear_away()
        return Observation(
            process=process,
            master=self._master_word(instance, definition, process),
            log_tail=files.log_tail() if process is ProcessWord.GONE else "",
            outcome=files.read_outcome() if process is ProcessWord.GONE else None,
        )

    def _process_word(self, instance: Instance, files: InstanceFiles) -> ProcessWord:
        if instance.host is not None and instance.host != self._host:
            return ProcessWord.UNKNOWN
        return ProcessWord.ALIVE if self._processes(instance, files) else ProcessWord.GONE

    def _master_word(self, instance: Instance, definition: PipelineDefinition, process: ProcessWord) -> MasterWord:
        if process is ProcessWord.ALIVE:
            return MasterWord.NOT_ASKED
        master = parse(definition.spark.master)
        if master.kind is SparkMasterKind.LOCAL:
            # The driver is its own resource manager.
            return MasterWord.FINISHED if process is ProcessWord.GONE else MasterWord.UNREACHABLE
        return master_state.word(
            master,
            named=definition.spark.master,
            web_urls=self._master_web_urls,
            application_id=instance.application_id,
            name=_application_name(instance.run_id, instance.ordinal, instance.lease),
        )

    def _stop(self, instance: Instance) -> None:
        if instance.host not in (None, self._host):
            return
        for process in self._processes(instance, self._files(instance)):
            if driver_processes.is_python(process):
                driver_processes.send(process, signal.SIGTERM)

    def _kill(self, instance: Instance) -> None:
        if instance.host not in (None, self._host):
            return
        files = self._files(instance)
        for process in self._processes(instance, files):
            driver_processes.send(process, signal.SIGKILL)
        if self._is_here(files):
            files.withdraw()

    def _processes(self, instance: Instance, files: InstanceFiles) -> list[psutil.Process]:
        """The driver's living processes; by the recorded pids, else (nothing was recorded) by their arguments."""
        if instance.jvm_pid is None and instance.python_pid is None:
            return driver_processes.search(files.folder)
        started_at, is_claimed = instance.process_started_at, instance.claimed_at is not None
        # Before the claim that is spark-submit's start, since then the Python driver's.
        jvm = driver_processes.find_submitted(
            instance.jvm_pid, folder=files.folder, started_at=None if is_claimed else started_at
        )
        python = driver_processes.find(
            instance.python_pid, folder=files.folder, started_at=started_at if is_claimed else None
        )
        found = [process for process in (python, jvm) if process is not None]
        if jvm is not None and python is None:
            # Not claimed yet: the Python driver is the JVM's child.
            found = [*driver_processes.children(jvm, folder=files.folder), *found]
        return found

    def _files(self, instance: Instance) -> InstanceFiles:
        """Where the lease was submitted: here, or on this host by a server with another state folder (ours, before)."""
        own = InstanceFiles.of(self._state_dir, run_id=instance.run_id, ordinal=instance.ordinal, lease=instance.lease)
        if instance.log_path is None:
            return own
        recorded = InstanceFiles(Path(instance.log_path).parent)
        return recorded if recorded.folder.name == own.folder.name else own

    def _is_here(self, files: InstanceFiles) -> bool:
        """Whether it is ours to remove: nothing outside our folder is, whatever the database says."""
        return files.folder.parent == folder_of_instances(self._state_dir)

    def _reap(self) -> None:
        """Children that have ended stay as zombies until somebody asks how."""
        for pid, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                self._exit_codes[pid] = code
                del self._children[pid]


def _application_name(run_id: str, ordinal: int, lease: int) -> str:
    """Unique to the lease: before the claim the master can be asked by nothing else."""
    return f"fenceline {run_id}-{ordinal}-{lease}"


def _started_at(pid: int) -> datetime:
    try:
        return datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
    except psutil.NoSuchProcess:
        # Too late to ask: it has ended already, and the next look will say so.
        return datetime.now(UTC)

"""Start, watch and end drivers as detached spark-submit processes on this host (app/core/runs/launcher.py)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection, Mapping
from pathlib import Path

import psutil

from app.core.allow_lists.spark_master import SparkMasterKind, parse
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.instance import Instance
from app.core.runs.launcher import Submitted
from app.core.runs.observation import MasterWord, Observation, ProcessWord, ReportedProcess
from app.core.wire.specification import InstanceSpecification
from app.edges.spark import conf, driver_processes, master_state, package
from app.edges.spark.instance_files import InstanceFiles, folder_of_instances
from app.edges.spark.spark_submit import SparkSubmit
from app.edges.spark.task_processes import TaskProcesses
from app.kit.errors import UnavailableError


class SubmitLauncher:
    """One application for each lease of an instance.

    Args:
        master_web_urls: for standalone masters whose web page is not at Spark's default port, by their `spark://` URL.
    """

    def __init__(
        self, spark_submit: SparkSubmit, *, state_dir: Path, master_web_urls: Mapping[str, str] | None = None
    ) -> None:
        self._spark_submit = spark_submit
        self._state_dir = state_dir
        self._master_web_urls = dict(master_web_urls or {})
        self._tasks = TaskProcesses()

    async def submit(self, specification: InstanceSpecification) -> Submitted:
        return await asyncio.to_thread(self._submit, specification)

    async def observe(self, instance: Instance, definition: PipelineDefinition) -> Observation:
        return await asyncio.to_thread(self._observe, instance, definition)

    async def ended_tasks(self, reported: Collection[ReportedProcess]) -> list[ReportedProcess]:
        return await asyncio.to_thread(
            self._tasks.ended, reported, folder_of=lambda process: self._files(process).folder
        )

    async def stop(self, instance: Instance) -> None:
        await asyncio.to_thread(self._stop, instance)

    async def kill(self, instance: Instance) -> None:
        await asyncio.to_thread(self._kill, instance)

    def exit_code(self, jvm_pid: int) -> int | None:
        """Return the outcome of a driver that this process started; None while it runs, or for another server's."""
        return self._spark_submit.exit_code(jvm_pid)

    def _submit(self, specification: InstanceSpecification) -> Submitted:
        self._spark_submit.refuse_without_java()
        files = InstanceFiles.of(
            self._state_dir,
            run_id=specification.run_id,
            ordinal=specification.ordinal,
            lease=specification.lease,
        )
        submission = conf.effective(
            specification.definition,
            application_name=_application_name(specification.run_id, specification.ordinal, specification.lease),
            python=self._spark_submit.worker_python,
            driver_python=self._spark_submit.python,
            local_dir=str(files.local_dir),
        )
        argv = self._spark_submit.argv(
            submission,
            module=package.DRIVER,
            arguments=("--specification", str(files.specification), "--outcome", str(files.outcome)),
            is_query=specification.definition.dataframe is not None,
        )
        files.hand_over(specification)
        try:
            return self._spark_submit.start(
                argv,
                log=files.log,
                folder=files.folder,
                is_on_this_machine=conf.is_on_this_machine(parse(specification.definition.spark.master)),
            )
        except UnavailableError:
            files.withdraw()
            raise

    def _observe(self, instance: Instance, definition: PipelineDefinition) -> Observation:
        self._spark_submit.reap()
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
            exit_code=None if instance.jvm_pid is None else self._spark_submit.exit_code(instance.jvm_pid),
        )

    def _process_word(self, instance: Instance, files: InstanceFiles) -> ProcessWord:
        if instance.host is not None and instance.host != self._spark_submit.host:
            return ProcessWord.UNKNOWN
        return ProcessWord.ALIVE if self._processes(instance, files) else ProcessWord.GONE

    def _master_word(self, instance: Instance, definition: PipelineDefinition, process: ProcessWord) -> MasterWord:
        if process is ProcessWord.ALIVE:
            return MasterWord.NOT_ASKED
        master = parse(definition.spark.master)
        if master.kind is SparkMasterKind.LOCAL:
            # The driver is its own cluster manager.
            return MasterWord.FINISHED if process is ProcessWord.GONE else MasterWord.UNREACHABLE
        return master_state.word(
            master,
            named=definition.spark.master,
            web_urls=self._master_web_urls,
            application_id=instance.application_id,
            name=_application_name(instance.run_id, instance.ordinal, instance.lease),
        )

    def _stop(self, instance: Instance) -> None:
        if instance.host not in (None, self._spark_submit.host):
            return
        for process in self._processes(instance, self._files(instance)):
            if driver_processes.is_python(process):
                driver_processes.send(process, signal.SIGTERM)

    def _kill(self, instance: Instance) -> None:
        if instance.host not in (None, self._spark_submit.host):
            return
        files = self._files(instance)
        for process in self._processes(instance, files):
            driver_processes.send(process, signal.SIGKILL)
        if self._is_here(files):
            files.withdraw()

    def _processes(self, instance: Instance, files: InstanceFiles) -> list[psutil.Process]:
        return driver_processes.living(
            files.folder,
            jvm_pid=instance.jvm_pid,
            python_pid=instance.python_pid,
            started_at=instance.process_started_at,
            is_claimed=instance.claimed_at is not None,
        )

    def _files(self, of: Instance | ReportedProcess) -> InstanceFiles:
        """Return where the lease was submitted: here, or by a server with another state folder on this host."""
        own = InstanceFiles.of(self._state_dir, run_id=of.run_id, ordinal=of.ordinal, lease=of.lease)
        if of.log_path is None:
            return own
        recorded = InstanceFiles(Path(of.log_path).parent)
        return recorded if recorded.folder.name == own.folder.name else own

    def _is_here(self, files: InstanceFiles) -> bool:
        """Return whether it may be removed: nothing outside of this server's folder is, even if the database has it."""
        return files.folder.parent == folder_of_instances(self._state_dir)


def _application_name(run_id: str, ordinal: int, lease: int) -> str:
    """Return a name unique to the lease: before the claim the master knows the application by nothing else."""
    return f"fenceline {run_id}-{ordinal}-{lease}"

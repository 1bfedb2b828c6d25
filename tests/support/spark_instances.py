"""Instances of a pipeline on a real Spark cluster without a server: started, watched, stopped."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from msgspec.structs import replace

from app.core.ids import transactional_id
from app.core.pipelines.pipeline import PipelineDefinition, SparkSettings
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.observation import Observation, ProcessWord
from app.core.wire.specification import InstanceSpecification, TaskIdentity
from app.edges.embedded.java import find_java
from app.edges.main.drivers import query_jars
from app.edges.spark.instance_files import InstanceFiles
from app.edges.spark.launcher import SubmitLauncher
from app.edges.spark.spark_submit import SparkSubmit
from tests.support.topics import unique_name
from tests.support.waiting import wait_for


@dataclass
class StartedInstance:
    """One submitted instance; `instance` is the row that a server would keep."""

    specification: InstanceSpecification
    instance: Instance
    files: InstanceFiles
    launcher: SubmitLauncher

    def observe(self) -> Observation:
        return asyncio.run(self.launcher.observe(self.instance, self.specification.definition))

    def sigterm(self) -> None:
        asyncio.run(self.launcher.stop(self.instance))

    def kill(self) -> None:
        asyncio.run(self.launcher.kill(self.instance))

    def log(self) -> str:
        try:
            return self.files.log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def application_id(self) -> str:
        """As the driver wrote it into its log; waits until it is there."""
        pattern = re.compile(r"workers\.spark\.driver: application (\S+) for run")
        found = wait_for(
            lambda: pattern.search(self.log()), 120, lambda: f"an application id in:\n{self.log()[-3000:]}"
        )
        assert found is not None
        return found[1]

    def effective_conf(self) -> dict[str, str]:
        """The configuration that Spark read back, from the driver's log."""
        return dict(re.findall(r"workers\.spark\.driver: conf (\S+?)=(.*)", self.log()))

    def wait_until_gone(self, deadline_s: float = 60) -> Observation:
        wait_for(
            lambda: self.observe().process is ProcessWord.GONE,
            deadline_s,
            lambda: f"the driver's end; its log ends with:\n{self.log()[-3000:]}",
        )
        return self.observe()

    def exit_code(self) -> int:
        """The exit code of spark-submit, which is the Python driver's; the kernel has it a moment after the end."""
        pid = self.instance.jvm_pid
        assert pid is not None
        wait_for(lambda: self.launcher.exit_code(pid) is not None, 10, f"the exit code of process {pid}")
        code = self.launcher.exit_code(pid)
        assert code is not None
        return code


@dataclass
class SparkInstances:
    """Makes specifications and submits them.

    cache_dir: where the package for the executors is built. master_web_urls: as the launcher takes them.
    """

    state_dir: Path
    cache_dir: Path
    master: str
    bootstrap_servers: str
    master_web_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    started: list[StartedInstance] = field(default_factory=list[StartedInstance])

    def definition(self, *, source: str, sink: str, group: str | None = None, tasks: int = 1) -> PipelineDefinition:
        return PipelineDefinition(
            cluster="embedded",
            source_topics=(source,),
            sink_topic=sink,
            group_id=group or unique_name("group"),
            tasks_per_instance=tasks,
            spark=SparkSettings(master=self.master),
        )

    def specification(
        self,
        definition: PipelineDefinition,
        *,
        run_id: str | None = None,
        pipeline: str = "p",
        ordinal: int = 0,
        lease: int = 1,
        server_urls: Sequence[str] = (),
        database_epoch: str = "epoch",
    ) -> InstanceSpecification:
        return InstanceSpecification(
            fenceline_version="0.0.test",
            pipeline=pipeline,
            revision=1,
            run_id=run_id or unique_name("run"),
            ordinal=ordinal,
            lease=lease,
            database_epoch=database_epoch,
            definition=definition,
            client_config={"bootstrap.servers": self.bootstrap_servers},
            tasks=tuple(
                TaskIdentity(
                    task=task,
                    transactional_id=transactional_id.for_task(
                        prefix="fl", pipeline=pipeline, instance=ordinal, task=task
                    ),
                )
                for task in range(definition.tasks_per_instance)
            ),
            server_urls=tuple(server_urls),
            run_token="token",
        )

    def submit(self, specification: InstanceSpecification, *, worker_python: str | None = None) -> StartedInstance:
        """worker_python: the interpreter of the executors, if it is not this one."""
        spark_submit = SparkSubmit(
            cache_dir=self.cache_dir,
            version="0.0.test",
            python=sys.executable,
            worker_python=worker_python,
            java_home=find_java(may_fetch=False).home,
            query_jars=query_jars,
            environment={**os.environ, "LC_ALL": "C", "JAVA_TOOL_OPTIONS": "-Dx=y"},
        )
        launcher = SubmitLauncher(spark_submit, state_dir=self.state_dir, master_web_urls=self.master_web_urls)
        submitted = asyncio.run(launcher.submit(specification))
        now = datetime.now(UTC)
        started = StartedInstance(
            specification=specification,
            instance=Instance(
                run_id=specification.run_id,
                ordinal=specification.ordinal,
                lease=specification.lease,
                revision=1,
                state=InstanceState.SUBMITTING,
                since=now,
                leased_at=now,
                host=submitted.host,
                jvm_pid=submitted.jvm_pid,
                process_started_at=submitted.started_at,
            ),
            files=InstanceFiles.of(
                self.state_dir,
                run_id=specification.run_id,
                ordinal=specification.ordinal,
                lease=specification.lease,
            ),
            launcher=launcher,
        )
        self.started.append(started)
        return started

    def kill_all(self) -> None:
        for one in self.started:
            one.kill()
        for one in self.started:
            one.instance = replace(one.instance, jvm_pid=None)
            one.wait_until_gone(20)


def python_children(pid: int) -> list[psutil.Process]:
    """The living Python processes below `pid`."""
    return [child for child in psutil.Process(pid).children(recursive=True) if "python" in child.name()]

"""The configuration of an instance's application: a pure function of its definition."""

from __future__ import annotations

import msgspec

from app.core.allow_lists.spark_master import SparkMaster, SparkMasterKind, parse
from app.core.pipelines.pipeline import PipelineDefinition

LOOPBACK = "127.0.0.1"
RETRIES = 1_000_000
"""Spark counts failures over the life of the stage; the driver has its own limit within a window."""

_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """`master` and `conf` of a spark-submit."""

    master: str
    conf: dict[str, str]


def effective(
    definition: PipelineDefinition, *, application_name: str, python: str, driver_python: str, local_dir: str
) -> Submission:
    """Return the master and conf of one instance of `definition`.

    The definition's own keys (app/core/allow_lists/spark_options.py allows tuning only) override the defaults; the keys
    that the design relies on override both.

    Args:
        python: the interpreter of the executors, which has requirements/worker.lock installed.
        driver_python: the interpreter of the driver.
        local_dir: the driver's folder of temporary files.
    """
    master = parse(definition.spark.master)
    tasks = definition.tasks_per_instance
    conf = {
        **defaults(),
        **definition.spark.conf,
        **_fixed(
            definition,
            tasks=tasks,
            application_name=application_name,
            python=python,
            driver_python=driver_python,
            local_dir=local_dir,
        ),
        **(_on_this_machine() if is_on_this_machine(master) else {}),
    }
    return Submission(master=_with_retries(master, tasks, definition.spark.master), conf=conf)


def is_on_this_machine(master: SparkMaster) -> bool:
    """Return whether all of the application runs here: `local`, or a master that only this machine can reach."""
    return all(host.is_loopback for host in master.hosts)


def defaults() -> dict[str, str]:
    return {
        "spark.driver.memory": "512m",
        "spark.executor.heartbeatInterval": "10s",
        # Well above Kafka's session timeout: otherwise Spark starts a second attempt beside one that only hangs.
        "spark.network.timeout": "120s",
        "spark.log.level": "WARN",
    }


def _fixed(
    definition: PipelineDefinition,
    *,
    tasks: int,
    application_name: str,
    python: str,
    driver_python: str,
    local_dir: str,
) -> dict[str, str]:
    return {
        **of_all(application_name=application_name, python=python, driver_python=driver_python, local_dir=local_dir),
        # One executor a task keeps a kill local. Without a bound the first application takes the whole standalone
        # cluster, and the next instance waits for ever.
        "spark.cores.max": str(tasks),
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{definition.spark.executor_memory_mb}m",
        "spark.task.cpus": "1",
        "spark.excludeOnFailure.enabled": "false",
        "spark.task.reaper.enabled": "true",
        "spark.task.maxFailures": str(RETRIES),
        # A reused worker could keep the consumer of an ended attempt, which would hold its partitions.
        "spark.python.worker.reuse": "false",
        # Driver and executors pass messages only; a small and quick JVM leaves the cores to the loop.
        "spark.driver.extraJavaOptions": f"{_SMALL_JVM} {_temporary(local_dir)}",
        "spark.executor.extraJavaOptions": _SMALL_JVM,
    }


def of_all(*, application_name: str, python: str, driver_python: str, local_dir: str) -> dict[str, str]:
    """Return the properties of every application that Fenceline submits."""
    return {
        "spark.app.name": application_name,
        "spark.submit.deployMode": "client",
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": driver_python,
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.local.dir": local_dir,
        "spark.driver.extraJavaOptions": _temporary(local_dir),
    }


def loopback() -> dict[str, str]:
    """With every part on this machine nothing listens on an address that others can reach."""
    return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}


def _on_this_machine() -> dict[str, str]:
    """Executors on this machine keep temporary files in the folder that they run in, which the worker removes."""
    return {**loopback(), "spark.executor.extraJavaOptions": f"{_SMALL_JVM} -Djava.io.tmpdir=."}


def _temporary(folder: str) -> str:
    """Put the remains of a killed JVM (unpacked libraries, Spark's artifacts) into a folder that is removed."""
    escaped = folder.replace("\\", "\\\\").replace('"', '\\"')
    return f'"-Djava.io.tmpdir={escaped}"'


def _with_retries(master: SparkMaster, tasks: int, named: str) -> str:
    """`local[k]` never retries a task; `local[k,F]` does."""
    if master.kind is SparkMasterKind.LOCAL:
        return f"local[{master.slots or tasks},{RETRIES}]"
    return named

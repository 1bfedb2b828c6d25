"""The configuration of an instance's application: a pure function of its definition."""

from __future__ import annotations

import msgspec

from app.core.allow_lists.spark_master import SparkMaster, SparkMasterKind, parse
from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition, StateStore

LOOPBACK = "127.0.0.1"
RETRIES = 1_000_000
"""Spark counts failures over the life of the stage; the driver has its own limit within a window."""

FAILURES_OF_A_QUERY = 4
"""Attempts of a task of a query, as Spark's default."""

_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_STATE_STORES = "org.apache.spark.sql.execution.streaming.state."
_STATE_STORE = {
    StateStore.ROCKSDB: f"{_STATE_STORES}RocksDBStateStoreProvider",
    StateStore.MEMORY: f"{_STATE_STORES}HDFSBackedStateStoreProvider",
}


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
    query = definition.dataframe
    applied = of_all(application_name=application_name, python=python, driver_python=driver_python, local_dir=local_dir)
    if query is None:
        cores, failures = definition.tasks_per_instance, RETRIES
        own = {**defaults(), **definition.spark.conf, **applied, **_of_tasks(definition, local_dir=local_dir)}
    else:
        cores, failures = query.executor_cores, FAILURES_OF_A_QUERY
        own = {**_query_defaults(), **definition.spark.conf, **applied, **_of_query(definition, query)}
        if master.kind is SparkMasterKind.LOCAL and (master.slots or cores) == 1:
            # A query on one core is a trial: the second compiler and a second collector would compete with it.
            own["spark.driver.extraJavaOptions"] = f"{_SMALL_JVM} {_temporary(local_dir)}"
    jvm = _SMALL_JVM if query is None else ""
    conf = {**own, **(_on_this_machine(jvm) if is_on_this_machine(master) else {})}
    named = definition.spark.master
    return Submission(master=_with_retries(master, cores, failures, named), conf=conf)


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


def _query_defaults() -> dict[str, str]:
    """The driver plans each batch, and the sink's claim is there."""
    return {**defaults(), "spark.driver.memory": "1g"}


def _of_query(definition: PipelineDefinition, query: DataframeQuery) -> dict[str, str]:
    """Return the fixed properties of a query: one executor with all cores, Spark's own retries of a task."""
    return {
        "spark.cores.max": str(query.executor_cores),
        "spark.executor.cores": str(query.executor_cores),
        "spark.executor.memory": f"{definition.spark.executor_memory_mb}m",
        "spark.task.cpus": "1",
        "spark.task.maxFailures": str(FAILURES_OF_A_QUERY),
        "spark.task.reaper.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(query.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE[query.state_store],
        # Without it a stop would wait for the end of a batch that does not end.
        "spark.sql.streaming.stopTimeout": "20s",
    }


def _of_tasks(definition: PipelineDefinition, *, local_dir: str) -> dict[str, str]:
    """Return the fixed properties of endless tasks."""
    return {
        # One executor a task keeps a kill local. Without a bound the first application takes the whole standalone
        # cluster, and the next instance waits for ever.
        "spark.cores.max": str(definition.tasks_per_instance),
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


def _on_this_machine(jvm: str) -> dict[str, str]:
    """Executors on this machine keep temporary files in the folder that they run in, which the worker removes."""
    return {**loopback(), "spark.executor.extraJavaOptions": f"{jvm} -Djava.io.tmpdir=.".strip()}


def _temporary(folder: str) -> str:
    """Put the remains of a killed JVM (unpacked libraries, Spark's artifacts) into a folder that is removed."""
    escaped = folder.replace("\\", "\\\\").replace('"', '\\"')
    return f'"-Djava.io.tmpdir={escaped}"'


def _with_retries(master: SparkMaster, cores: int, failures: int, named: str) -> str:
    """`local[k]` never retries a task; `local[k,F]` does."""
    if master.kind is SparkMasterKind.LOCAL:
        return f"local[{master.slots or cores},{failures}]"
    return named

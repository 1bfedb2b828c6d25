"""The child process that makes the plan of a query: `python -I -m workers.spark.check_plan`.

It reads one request as JSON from its standard input, changes to the user of the request, applies its limits and starts
Spark. Then it writes an empty line, makes the plan on empty streams and writes one verdict as a line of JSON. No query
is started and no broker is asked. The server starts it with an empty environment, isolated where possible, and kills it
when its time is up.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from workers.transforms.check_file import LONGEST_MESSAGE, ONE_THREAD, Answer, become
from workers.transforms.user_code import UserCodeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAP_MB = 512
"""Spark refuses to start with less than 450 MB."""
_LARGEST_FILE = 16 << 20
_THREADS = 200
"""The threads of Java and of this process together. A quiet Spark has about 50."""
_MORE_THREADS = 16
"""Those that Spark may start while it makes the plan."""
_JAVA_OPTIONS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:ReservedCodeCacheSize=64m"),
    *("-XX:CompressedClassSpaceSize=96m", "-Xss512k"),
)


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """source: the text of the uploaded file; None for SQL. java_home: of the Java that runs Spark.

    cpu_s: seconds of processor time; memory_mb: of address space. Each of the two processes has its own.
    uid: the user and group to become, for a child of root; None: no change.
    is_isolated: the kernel counts this check's processes apart, by user or by user namespace.
    """

    definition: PipelineDefinition
    source: str | None
    java_home: str
    cpu_s: int
    memory_mb: int
    uid: int | None = None
    is_isolated: bool = False


class PlanVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`message` None: the definition has a plan."""

    field: str | None = None
    message: str | None = None
    missing_module: str | None = None


def judge(request: PlanRequest, spark: SparkSession) -> PlanVerdict:
    """Make the plan in this process."""
    from workers.spark.query_plan import PlanError, empty_source, plan

    empty = empty_source(spark)
    try:
        plan(request.definition, spark, lambda _: empty, transform_source=request.source)
    except PlanError as error:
        cause = error.__cause__
        missing = cause.missing_module if isinstance(cause, UserCodeError) else None
        return PlanVerdict(field=error.field, message=error.message[:LONGEST_MESSAGE], missing_module=missing)
    return PlanVerdict()


def start_spark(request: PlanRequest, more: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in a small Java virtual machine, with its files in the working folder. more: further settings."""
    here = str(Path.cwd())
    options = f"{' '.join(_JAVA_OPTIONS)} -Djava.io.tmpdir={here} -Duser.home={here}"
    submit = ("--driver-memory", f"{_HEAP_MB}m", "--driver-java-options", f"'{options}'", "pyspark-shell")
    os.environ.update(
        ONE_THREAD,
        JAVA_HOME=request.java_home,
        PATH="/usr/bin:/bin",
        TMPDIR=here,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_LOCAL_HOSTNAME="127.0.0.1",
        SPARK_LOCAL_DIRS=here,
        SPARK_USER="fenceline",
        # glibc reserves 64 MB of addresses for each thread otherwise.
        MALLOC_ARENA_MAX="1",
        PYSPARK_SUBMIT_ARGS=" ".join(submit),
    )
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._ensure_initialized()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - Java without Spark yet
    # This user has no account, and Hadoop would look for its name.
    users: Any = cast(Any, SparkContext)._jvm.org.apache.hadoop.security.UserGroupInformation  # noqa: SLF001 - as above
    users.setLoginUser(users.createRemoteUser("fenceline"))
    settings: dict[str, str | bool | float | int | None] = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # The name localhost cannot be resolved without /etc/hosts.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": here,
        "spark.sql.warehouse.dir": f"{here}/warehouse",
        **(more or {}),
    }
    return SparkSession.builder.master("local[1]").appName("plan").config(map=settings).getOrCreate()


def limit(request: PlanRequest) -> None:
    """Set the limits of this process and of Java, without a way back: the hard limits go down too."""
    # The kernel ends this process before the server if memory runs out. Only its owner may write it.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if request.uid is not None:
        Path.cwd().chmod(0o1777)
        become(request.uid)
    size_bytes = request.memory_mb * 1024 * 1024
    for kind, value in (
        (resource.RLIMIT_AS, size_bytes),
        (resource.RLIMIT_CPU, request.cpu_s),
        (resource.RLIMIT_FSIZE, _LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
        *([(resource.RLIMIT_NPROC, _THREADS)] if request.is_isolated else []),
    ):
        resource.setrlimit(kind, (value, value))


def limit_processes(spark: SparkSession) -> None:
    """From here on this process starts no other one and no thread, and Java a few."""
    java = int(cast(Any, spark).sparkContext._gateway.proc.pid)  # noqa: SLF001 - not offered
    threads = len(list(Path(f"/proc/{java}/task").iterdir())) + _MORE_THREADS
    resource.prlimit(java, resource.RLIMIT_NPROC, (threads, threads))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=PlanRequest)
    answer = Answer(keeps_errors=True)
    limit(request)
    spark = start_spark(request)
    if request.is_isolated:
        limit_processes(spark)
    answer.start()
    answer.end_with(judge(request, spark))


if __name__ == "__main__":
    main()

"""spark-submit as a detached process of this host: its arguments, its environment, its exit."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from app.core.runs.launcher import Submitted
from app.edges.spark import conf, package
from app.edges.spark.conf import Submission
from app.kit.errors import UnavailableError
from app.kit.utf8_locale import with_utf8_locale

PASSED_ON_PREFIX = "FENCELINE_SECRET"
"""A driver gets only secrets and their folder of Fenceline's own settings, without the database's address."""


class SparkSubmit:
    """Processes outlive this one: they get a session of their own and no pipe to it.

    Args:
        java_home: the Java that Spark runs on; None leaves it to `JAVA_HOME` and PATH.
        java_missing: why there is no such Java; every submission is then refused with this sentence.
        python: the interpreter of drivers, and of executors unless `worker_python` is another one.
        worker_python: the interpreter on the executors' hosts, with requirements/worker.lock installed.
        spark_home: a Spark installation; None is the PySpark package of this environment.
        query_jars: the jars of pipelines of kind `dataframe`: Spark's Kafka connector and the sink. It may fetch and
            compile them, and raises UnavailableError.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        version: str,
        python: str,
        worker_python: str | None = None,
        java_home: Path | None = None,
        java_missing: str | None = None,
        spark_home: Path | None = None,
        query_jars: Callable[[], Sequence[Path]] = tuple,
        environment: Mapping[str, str] | None = None,
        host: str | None = None,
    ) -> None:
        self.python = python
        self.worker_python = worker_python or python
        self.host = host or socket.gethostname()
        self._cache_dir = cache_dir
        self._version = version
        self.java_home = java_home
        self._java_missing = java_missing
        self._spark_home = spark_home
        self._query_jars = query_jars
        self._environment = dict(os.environ if environment is None else environment)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._exit_codes: dict[int, int] = {}

    def refuse_without_java(self) -> None:
        """Check that it can run. Raises UnavailableError with the reason."""
        if self._java_missing is not None:
            raise UnavailableError(self._java_missing)

    def argv(
        self, submission: Submission, *, module: str, arguments: Sequence[str], is_query: bool = False
    ) -> list[str]:
        """Return the command that runs `main` of `module` with `arguments`; builds the package if needed.

        Args:
            is_query: the application has a streaming query, which needs the jars of the connector and the sink.

        Raises UnavailableError.
        """
        jars = self._query_jars() if is_query else ()
        try:
            built = package.build(version=self._version, into=self._cache_dir / "worker-package")
        except OSError as error:
            raise UnavailableError(
                f"the package for the executors could not be written under {self._cache_dir}: {error}"
            ) from error
        return [
            str(self._home() / "bin" / "spark-submit"),
            *("--master", submission.master),
            *(word for key, value in sorted(submission.conf.items()) for word in ("--conf", f"{key}={value}")),
            *(("--jars", ",".join(map(str, jars))) if jars else ()),
            *("--py-files", str(built.archive)),
            str(built.entry_points[module]),
            *arguments,
        ]

    def start(self, argv: Sequence[str], *, log: Path, folder: Path, is_on_this_machine: bool) -> Submitted:
        """Start it in `folder`, with its output appended to `log`. Raises UnavailableError."""
        try:
            with log.open("ab") as words:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=subprocess.STDOUT,
                    env=self._driver_environment(is_on_this_machine),
                    cwd=folder,
                    start_new_session=True,
                    close_fds=True,
                )
        except OSError as error:
            raise UnavailableError(f"spark-submit could not be started ({argv[0]}): {error}") from error
        self._children[child.pid] = child
        return Submitted(host=self.host, jvm_pid=child.pid, started_at=_started_at(child.pid), log_path=str(log))

    def exit_code(self, jvm_pid: int) -> int | None:
        """Return the outcome of a driver that this process started; None while it runs, or for another server's."""
        child = self._children.get(jvm_pid)
        return self._exit_codes.get(jvm_pid) if child is None else child.poll()

    def reap(self) -> None:
        """Collect ended children, which stay zombies otherwise."""
        for pid, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                self._exit_codes[pid] = code
                self._children.pop(pid, None)  # several checks at once

    def _home(self) -> Path:
        if self._spark_home is not None:
            return self._spark_home
        # The module is located, not imported: only workers/spark imports pyspark.
        found = importlib.util.find_spec("pyspark")
        if found is None or found.origin is None:
            raise UnavailableError("PySpark is not installed in the server's environment; run `make setup`")
        return Path(found.origin).parent

    def _driver_environment(self, is_on_this_machine: bool) -> dict[str, str]:
        dropped = ("FENCELINE_", "SPARK_", "PYSPARK_", "PYTHONPATH")
        kept = {
            name: value
            for name, value in self._environment.items()
            if name.startswith(PASSED_ON_PREFIX) or name == "SPARK_CONF_DIR" or not name.startswith(dropped)
        }
        kept["SPARK_HOME"] = str(self._home())
        kept["PYSPARK_PYTHON"] = self.worker_python
        kept["PYSPARK_DRIVER_PYTHON"] = self.python
        if self.java_home is not None:
            kept["JAVA_HOME"] = str(self.java_home)
        if is_on_this_machine:
            kept["SPARK_LOCAL_IP"] = conf.LOOPBACK
        return with_utf8_locale(kept)


def _started_at(pid: int) -> datetime:
    try:
        return datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
    except psutil.NoSuchProcess:
        # It has ended already, and the next check will report it.
        return datetime.now(UTC)

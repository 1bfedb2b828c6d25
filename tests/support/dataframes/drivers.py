"""Drivers of DataFrames as processes, with the sink's jar or a mutated one, and orders to stop them at a step."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from app.edges.embedded.java import find_java
from app.edges.embedded.spark_sink import SOURCES, compile_jar, ensure_sink_jar, spark_kafka_jars
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]
_PROGRAM = Path(__file__).parent / "program.py"
_STOPS_SOURCE = Path(__file__).parents[1] / "java"
_LISTENER = "META-INF/services/io.fenceline.spark.Step$Listener"
_SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class DriverDiedError(AssertionError):
    """The driver's process ended during an order."""


class Driver:
    """A driver that carries out one order after the other.

    Attributes:
        stops: folder of orders to stop, see `StopAtStep.java`.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path, stops: Path) -> None:
        self.process = process
        self.stops = stops
        self._log = log

    def begin(self, **order: Any) -> None:
        """Give an order and do not wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the order that was begun; DriverDiedError when the process ends instead."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise DriverDiedError(f"the driver ended with {self.process.wait()}: {self.tail()}")

    def has_answered(self) -> bool:
        """Whether `answer` would find something at once."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def do(self, **order: Any) -> dict[str, Any]:
        self.begin(**order)
        return self.answer()

    def run(self, **order: Any) -> list[dict[str, Any]]:
        """Run a query until all records that are there are processed; its progress, batch by batch."""
        answer = self.do(do="run", **order)
        assert "error" not in answer, answer["text"]
        return answer["progress"]

    def stop_at(
        self, step: str, *, batch: int | None = None, writer: int | str | None = None, action: str = "kill"
    ) -> None:
        """Order the next process of this folder that reaches the step to stop."""
        where = "-".join("any" if part is None else str(part) for part in (batch, writer))
        (self.stops / f"{step}-{where}-{action}.stop").touch()

    def has_reached(self, step: str) -> bool:
        return any(self.stops.glob(f"{step}-*.reached"))

    def wait_until_held(self, step: str, *, deadline_s: float = 120) -> None:
        wait_for(
            lambda: self.has_reached(step) or self.process.poll() is not None, deadline_s, f"{step}\n{self.tail()}"
        )
        assert self.process.poll() is None, self.tail()

    def release(self) -> None:
        """Let the threads that are held go on."""
        for held in self.stops.glob("*-hold.reached"):
            held.with_suffix(".go").touch()

    def forget_stops(self) -> None:
        """Withdraw orders that were not carried out, and forget those that were."""
        for file in self.stops.glob("*"):
            if not file.name.endswith("-hold.reached"):
                file.unlink(missing_ok=True)

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """kill -9 of driver and JVM."""
        # The group is gone where driver and JVM have ended.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def driver(
    folder: Path,
    *,
    stops: Path | None = None,
    sink_jar: Path | None = None,
    jars: Sequence[Path] = (),
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    stops_in_executors: bool = False,
) -> Generator[Driver]:
    """A driver with its Spark session; it is killed at the latest when this is left.

    Args:
        folder: for its log and Spark's files.
        stops: folder of orders to stop; one for each driver by default.
        sink_jar: a mutated sink.
        jars: further jars of driver and executors.
        stops_in_executors: executors carry out orders to stop, too; in local mode the driver is the only one.
    """
    folder = Path(tempfile.mkdtemp(prefix="driver-", dir=folder))
    stops = stops or folder / "stops"
    stops.mkdir(exist_ok=True)
    log = folder / "driver.log"
    settings = {
        **_SPARK,
        "spark.master": master,
        "spark.jars": ",".join(map(str, [*spark_kafka_jars(), sink_jar or ensure_sink_jar(), stop_jar(), *jars])),
        "spark.local.dir": str(folder / "spark"),
        **({"spark.executorEnv.FENCELINE_TEST_STOPS": str(stops)} if stops_in_executors else {}),
        **(conf or {}),
    }
    conf_arguments = [f"--conf {key}={json.dumps(value)}" for key, value in settings.items()]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "workers" / "dataframes"),
        "FENCELINE_TEST_STOPS": str(stops),
        "PYSPARK_SUBMIT_ARGS": " ".join([*conf_arguments, "pyspark-shell"]),
    }
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-u", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
    started = Driver(process, log, stops)
    try:
        started.answer()
        yield started
    finally:
        started.kill()


@cache
def stop_jar() -> Path:
    """The jar that carries out orders to stop."""
    folder = Path(tempfile.mkdtemp(prefix="fenceline-stops-"))
    jar = folder / "stops.jar"
    compile_jar(
        [_STOPS_SOURCE / "StopAtStep.java"], jar, services={_LISTENER: "StopAtStep"}, class_path=[ensure_sink_jar()]
    )
    return jar


def mutated_sink(folder: Path, changes: Sequence[tuple[str, str, str]]) -> Path:
    """The sink with parts of its sources replaced: (file, text, replacement). Each text must be there once."""
    sources = folder / "mutated"
    for file in SOURCES.rglob("*.java"):
        target = sources / file.relative_to(SOURCES)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text()
        for name, before, after in changes:
            if name == file.name:
                assert text.count(before) == 1, f"{name} has {text.count(before)} times: {before}"
                text = text.replace(before, after)
        target.write_text(text)
    return ensure_sink_jar(sources)

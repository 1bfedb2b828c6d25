"""A process that makes plans of definitions in a Spark session of its own (planner.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from app.core.pipelines.pipeline import DataframeQuery, Stream
from app.edges.embedded.java import find_java
from tests.support.definitions import a_definition
from workers.transforms.user_code import sha256_of

ROOT = Path(__file__).parents[3]
FLIGHTS = Stream(
    name="flights",
    topic="flights",
    schema="carrier STRING, delay INT, at TIMESTAMP",
    event_time="at",
    watermark_ms=60_000,
)


class Planner:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def plan(
        self,
        sql: str | None = None,
        *,
        source: str | None = None,
        streams: tuple[Stream, ...] = (FLIGHTS,),
        writers: int = 1,
        is_recomputed: bool = False,
        **changes: Any,
    ) -> dict[str, Any]:
        """The types of the result's columns, or `field` and `message` of the error.

        is_recomputed: the rules of a recomputation instead.
        """
        if source is not None:
            changes = {"function": "f", "file_name": "q.py", "sha256": sha256_of(source), **changes}
        query = DataframeQuery(streams=streams, checkpoint="/c", sql=sql, **changes)
        definition = a_definition(transform=query, tasks_per_instance=writers)
        order = {"definition": msgspec.to_builtins(definition), "source": source, "recomputed": is_recomputed}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise AssertionError(f"the session has ended: {self._log.read_text()[-4000:]}")


@contextmanager
def running_planner(folder: Path) -> Generator[Planner]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_SUBMIT_ARGS": "--master local[1] --driver-memory 640m --conf spark.ui.enabled=false "
        f"--conf spark.local.dir={folder} pyspark-shell",
    }
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/support/dataframes/planner.py")],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield Planner(process, log)
    finally:
        process.kill()
        process.wait()

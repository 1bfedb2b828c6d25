"""The data source in a Spark session of its own, over a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.edges.embedded.java import find_java
from tests.products.files.reader.conftest import MakeSink, Sink

ROOT = Path(__file__).parents[4]
DEADLINE_S = 180

SESSION = """
import json, sys

from pyspark.sql import SparkSession

from app.products.files.reader.spark import FencelineFiles

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(FencelineFiles)


def answer(order):
    reading = spark.read.format("fenceline_files").options(**order["options"])
    if "schema" in order:
        reading = reading.schema(order["schema"])
    try:
        frame = kept.get(order["name"]) if "name" in order and order["name"] in kept else reading.load()
        kept[order.get("name")] = frame
        rows = [row.asDict(recursive=True) for row in frame.select("*").collect()]
    except Exception as error:
        return {"error": str(error)}
    return {"schema": frame.schema.simpleString(), "rows": rows, "partitions": frame.rdd.getNumPartitions()}


kept = {}
for line in sys.stdin:
    print("ANSWER", json.dumps(answer(json.loads(line))), flush=True)
spark.stop()
"""


class Session:
    """A Spark session that answers one order a line."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def read(self, sink: Sink, *, name: str | None = None, schema: str | None = None, **options: str) -> dict[str, Any]:
        given = {"kafka.bootstrap.servers": sink.bootstrap_servers, "topic": sink.topic, **options}
        order = {"options": given, **({"name": name} if name else {}), **({"schema": schema} if schema else {})}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise AssertionError(f"the session has ended: {self._log.read_text()[-4000:]}")


@contextmanager
def started(folder: Path) -> Generator[Session]:
    log = folder / "session.log"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(may_fetch=False).home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --driver-memory 512m --conf spark.ui.enabled=false "
        f"--conf spark.local.dir={folder} --conf spark.driver.host=127.0.0.1 pyspark-shell",
    }
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SESSION],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Session(process, log)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(DEADLINE_S)
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_dataframe_has_what_committed_references_name(make_sink: MakeSink, tmp_path: Path) -> None:
    sink = make_sink(partitions=2)
    wider = {
        "type": "record",
        "name": "flight",
        "fields": [
            {"name": "id", "type": "double"},
            {"name": "_xtail_20_number", "type": "string", "json": "tail number"},
        ],
    }
    sink.commit(sink.upload(1, 2, partition={"day": "1"}))
    second = sink.upload_records([{"id": 3.5, "_xtail_20_number": "N1"}], schema=wider, partition={"day": "2"})
    sink.commit(second, b"no reference", partition=1)
    sink.abort(sink.upload(100))

    with started(tmp_path) as session:
        found = session.read(sink, name="kept")
        assert found.get("error") is None, found
        assert found["schema"] == "struct<carrier:string,id:double,tail number:string>"
        assert sorted(found["rows"], key=lambda row: row["id"]) == [
            {"carrier": None, "id": 1.0, "tail number": None},
            {"carrier": None, "id": 2.0, "tail number": None},
            {"carrier": None, "id": 3.5, "tail number": "N1"},
        ]
        assert found["partitions"] == 2

        chosen = session.read(sink, partitions='{"day": "1"}')
        assert (chosen["schema"], len(chosen["rows"])) == ("struct<carrier:string,id:bigint>", 2)
        given = session.read(sink, name="given", schema="id double")
        assert sorted(row["id"] for row in given["rows"]) == [1.0, 2.0, 3.5]
        assert session.read(sink, schema="id double", pipeline="other")["rows"] == []

        # What is committed later is not in a DataFrame that was made before; one that is made now has it.
        sink.commit(sink.upload(4))
        assert len(session.read(sink, name="kept")["rows"]) == 3
        assert len(session.read(sink, name="given")["rows"]) == 3
        assert len(session.read(sink)["rows"]) == 4

        damaged = sink.root / second.path
        damaged.write_bytes(damaged.read_bytes()[:-1])
        said = session.read(sink)["error"]
        assert f"{second.path}, referenced at {sink.topic}-1@0, has" in said
        assert "there is no schema" in session.read(sink, pipeline="other")["error"]
        assert "the option from is" in session.read(sink, **{"from": "yesterday"})["error"]

"""The package as a user has it: the wheel in a fresh environment, a plain script, no server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.edges.embedded.java import find_java
from app.edges.embedded.spark_sink import spark_kafka_jars
from tests.support.dataframes.drivers import ROOT
from tests.support.dataframes.jobs import EVENTS
from tests.workers.dataframes.conftest import Control, MakeJob

pytestmark = pytest.mark.slow

SCRIPT = """
import sys

import fenceline_spark
from fenceline_spark import exactly_once
from pyspark.sql import SparkSession

bootstrap_servers, source, topic, name, checkpoint, connector = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", connector)
spark = fenceline_spark.configure(builder, with_connector=False).getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .load()
    .select("key", "value")
)
query = exactly_once(records, topic=topic, bootstrap_servers=bootstrap_servers, name=name, checkpoint=checkpoint)
query.trigger(availableNow=True).start().awaitTermination()
"""


def test_a_plain_script_writes_once_with_the_wheel_alone(
    tmp_path: Path, events: str, make_job: MakeJob, control: Control
) -> None:
    uv = shutil.which("uv") or str(ROOT / "build" / "uv" / "bin" / "uv")
    wheels, environment = tmp_path / "dist", tmp_path / "environment"

    # The network's settings stay; nothing of this environment's Python does.
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYSPARK"))
    }

    def run(*command: str, **variables: str) -> str:
        given = {**outside, **variables}
        ended = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=600)
        assert ended.returncode == 0, f"{command}: {ended.stdout[-2000:]}{ended.stderr[-6000:]}"
        return ended.stdout

    sources = tmp_path / "sources"
    shutil.copytree(ROOT / "workers" / "dataframes", sources, ignore=shutil.ignore_patterns("__pycache__", "jars"))
    subprocess.run(
        [sys.executable, "-m", "app.edges.embedded.spark_sink", str(sources / "fenceline_spark" / "jars")],
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    run(uv, "build", "--quiet", "--wheel", "--out-dir", str(wheels), str(sources), UV_SYSTEM_CERTS="1")
    run(uv, "venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    (wheel,) = wheels.glob("*.whl")
    run(uv, "pip", "install", "--quiet", "--python", python, str(wheel), UV_SYSTEM_CERTS="1")
    assert "--jars" in run(python, "-m", "fenceline_spark")

    (tmp_path / "job.py").write_text(SCRIPT)
    job = make_job()
    spark = {"JAVA_HOME": str(find_java(may_fetch=False).home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    # The pinned jars instead of a download by Spark, which a mirror of Maven Central may not serve.
    connector = ",".join(map(str, spark_kafka_jars()))
    order = (job.bootstrap_servers, events, job.topic, job.name, str(job.checkpoint), connector)
    for _ in range(2):
        run(python, "job.py", *order, **spark)
        assert job.rows() == control("stateless")
    assert sum(job.rows().values()) == EVENTS

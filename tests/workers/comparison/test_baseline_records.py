"""Files and tables as Spark reads them: no field and no record is left out without an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow
import pyarrow.parquet
import pytest

from app.edges.embedded.java import find_java
from app.edges.embedded.maven import ensure_jars
from app.products.audits.comparison import Baseline, FileFormat, FilesBaseline, TableBaseline
from app.products.audits.specification import JsonField
from tests.support.comparisons import BEGIN_MS, a_comparison

ROOT = Path(__file__).parents[3]
pa: Any = pyarrow
pq: Any = pyarrow.parquet

PROGRAM = """
import sys

import msgspec
from pyspark import SparkConf, SparkContext

from app.products.audits.specification import AuditSpecification
from workers.spark.baseline_records import baseline_records

context = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.jars", sys.argv[1]))
for line in sys.stdin:
    specification = msgspec.json.decode(line, type=AuditSpecification)
    try:
        answer = [record for record, _ in baseline_records(context, specification).collect()]
    except Exception as error:
        answer = str(error)
    print("ANSWER", msgspec.json.encode(answer).decode(), flush=True)
"""


def read(*baselines: Baseline, jar: str = "", **variables: str) -> list[Any]:
    """Return the records of each baseline, or the error. variables: of the environment."""
    orders = [a_comparison("sink", baseline, id=JsonField(path="id")) for baseline in baselines]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, jar],
        input="".join(msgspec.json.encode(order).decode() + "\n" for order in orders),
        env=find_java().environment(
            {**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answers = [line.removeprefix("ANSWER ") for line in ended.stdout.splitlines() if line.startswith("ANSWER ")]
    assert len(answers) == len(orders), ended.stderr[-4000:]
    return [json.loads(answer) for answer in answers]


@pytest.mark.slow
def test_nothing_is_left_out(tmp_path: Path) -> None:
    unlike, times, texts = (tmp_path / name for name in ("unlike", "times", "texts"))
    for folder in (unlike, times, texts):
        folder.mkdir()
    pq.write_table(pa.table({"id": [1], "at": [BEGIN_MS], "n": [1]}), unlike / "1.parquet")
    pq.write_table(pa.table({"id": [2], "at": [BEGIN_MS], "N": [2], "more": ["a"]}), unlike / "2.parquet")
    at = [BEGIN_MS, float("nan"), float("inf"), float("-inf"), 1e30, None, 0.0]
    pq.write_table(pa.table({"id": list(range(7)), "at": pa.array(at, pa.float64())}), times / "1.parquet")
    (texts / "1.csv").write_text(f"id,at,n\n1,{BEGIN_MS},1\n")
    (texts / "2.csv").write_text(f"id,at,n,more\n2,{BEGIN_MS},2,a\n")
    of_unlike, of_times, of_texts = read(
        FilesBaseline(format=FileFormat.PARQUET, location=unlike.as_uri()),
        FilesBaseline(format=FileFormat.PARQUET, location=times.as_uri()),
        FilesBaseline(format=FileFormat.CSV, location=texts.as_uri()),
    )
    values = [{name: value for name, value in record.items() if value is not None} for record in of_unlike]
    assert sorted(values, key=lambda record: record["id"]) == [
        {"id": 1, "at": BEGIN_MS, "n": 1},
        {"id": 2, "at": BEGIN_MS, "N": 2, "more": "a"},
    ]
    assert sorted(record["id"] for record in of_times) == [0, 1, 2, 3, 4, 5], "one is a time beyond the window"
    assert isinstance(of_texts, str), f"files with other first lines are refused, not {of_texts}"
    assert "header" in of_texts.lower()


@pytest.mark.slow
def test_zone_of_the_host_moves_no_record_of_a_table_out_of_the_window(database_url: str) -> None:
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute('create table "Old Payments" (id bigint, at timestamptz)')
        connection.execute('insert into "Old Payments" values (1, to_timestamp(%s))', [BEGIN_MS // 1000 + 1])
        connection.commit()
        at = connection.info
        url = f"jdbc:postgresql://{at.host}:{at.port}/{at.dbname}"
        secrets = {"FENCELINE_SECRET_USER": at.user, "FENCELINE_SECRET_PASSWORD": at.password}
    (jar,) = ensure_jars("postgresql-42.7.13")
    user, password = (f"env:{name}" for name in secrets)
    baseline = TableBaseline(url=url, table='public."Old Payments"', user=user, password=password)
    (records,) = read(baseline, jar=str(jar), TZ="America/Los_Angeles", **secrets)
    assert [record["id"] for record in records] == [1]

"""The Spark application of a comparison: every kind of baseline, with planted differences and their exact counts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import psycopg
import pyarrow
import pyarrow.parquet
import pytest

from app.core.wire.file_references import encode
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import ensure_jars
from app.products.audits.comparison import Baseline, FileFormat, FilesBaseline, TableBaseline, TopicBaseline
from app.products.audits.result import AuditResult, AuditVerdict, FindingTally, IdFinding, verdict
from app.products.audits.specification import AuditSpecification
from tests.conftest import MakeTopic
from tests.products.audits.spark.test_job import carry_out
from tests.support.audited_files import a_file_specification, write_ids
from tests.support.audits import Writer, examples_of, ids_of
from tests.support.comparisons import BEGIN_MS, Record, a_comparison, assert_planted, compare_here, planted, records
from workers.spark.exit_codes import DriverExitCode

Write = Callable[[Path, Sequence[Record]], FileFormat]
pa: Any = pyarrow
pq: Any = pyarrow.parquet
avro: Any = fastavro
"""These have no complete types."""
POSTGRES_DRIVER = "postgresql-42.7.13"
"""The manifest of its jar, for tests."""
AVRO = {
    "type": "record",
    "name": "Old",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "double"]},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "added", "type": ["null", "string"], "default": None},
    ],
}


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


def write(writer: Writer, topic: str, several: Sequence[Record]) -> None:
    values = [(str(record["id"]).encode(), msgspec.json.encode(record)) for record in several]
    writer.write_values(topic, values, at_ms=lambda index: several[index]["at"])


def as_parquet(folder: Path, several: Sequence[Record]) -> FileFormat:
    """Two files in folders of hours, as batch systems write; times are timestamps."""
    for hour, part in enumerate((several[:150], several[150:])):
        (folder / f"hour={hour}").mkdir(parents=True)
        rows = [{**record, "at": _moment(record), "added": None} for record in part]
        schema = pa.schema(
            [("id", pa.int64()), ("n", pa.float64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))]
        ).append(pa.field("added", pa.string()))
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"hour={hour}" / "part.parquet")
    return FileFormat.PARQUET


def as_csv(folder: Path, several: Sequence[Record]) -> FileFormat:
    folder.mkdir()
    with (folder / "all.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["id", "n", "name", "at", "added"])
        rows.writeheader()
        rows.writerows({**record, "at": _moment(record).isoformat(), "added": ""} for record in several)
    return FileFormat.CSV


def as_avro(folder: Path, several: Sequence[Record]) -> FileFormat:
    for hour, part in enumerate((several[:150], several[150:])):
        (folder / f"hour={hour}").mkdir(parents=True)
        content = io.BytesIO()
        rows = [{**record, "at": _moment(record), "added": None} for record in part]
        avro.writer(content, AVRO, rows, codec="deflate")
        (folder / f"hour={hour}" / "part.avro").write_bytes(content.getvalue())
        (folder / "_SUCCESS").touch()
    return FileFormat.AVRO


def _moment(record: Record) -> datetime:
    return datetime.fromtimestamp(record["at"] / 1000, UTC)


def compared(specification: AuditSpecification, kafka: KafkaCluster, folder: Path, **more: Any) -> AuditResult:
    folder.mkdir()
    exit_code, outcome = carry_out(specification, kafka.bootstrap_servers, folder, **more)
    assert exit_code == DriverExitCode.DRAINED, outcome.message
    assert outcome.result is not None
    return outcome.result


@pytest.mark.core
@pytest.mark.slow
def test_topic_is_the_baseline(kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, tmp_path: Path) -> None:
    old, new = make_topic(partitions=1), make_topic(partitions=1)
    there, here = planted()
    write(writer, old, there)
    write(writer, new, here)
    specification = a_comparison(new, TopicBaseline(topic=old))
    result = compared(specification, kafka, tmp_path / "run")
    assert_planted(result)
    alone = compare_here(specification, kafka.bootstrap_servers)
    assert (result.counts, result.examples, result.ranges) == (alone.counts, alone.examples, alone.ranges)
    different = examples_of(result, IdFinding.DIFFERENT)
    values = {(one.id, value.field): (value.baseline, value.output) for one in different for value in one.values}
    assert values["11", "n"] == ("2.75", "3.75")
    assert values["12", "name"] == ('"name 12"', '"other"')


@pytest.mark.slow
@pytest.mark.parametrize("wrote", [as_avro, as_parquet, as_csv])
def test_files_are_the_baseline(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, tmp_path: Path, wrote: Write
) -> None:
    new = make_topic(partitions=1)
    there, here = planted()
    write(writer, new, here)
    format_ = wrote(tmp_path / "old", there)
    baseline = FilesBaseline(format=format_, location=(tmp_path / "old").as_uri())
    result = compared(a_comparison(new, baseline), kafka, tmp_path / "run")
    assert_planted(result)
    (lost, _) = examples_of(result, IdFinding.LOST)
    assert lost.baseline_file is not None
    assert "/old/" in lost.baseline_file
    write(writer, (other := make_topic(partitions=1)), records())
    wrote(tmp_path / "equal", records())
    equal: Baseline = FilesBaseline(format=format_, location=(tmp_path / "equal").as_uri())
    assert verdict(compared(a_comparison(other, equal), kafka, tmp_path / "control")) is AuditVerdict.CLEAN


@pytest.mark.slow
def test_table_is_the_baseline_and_its_password_is_in_no_log(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, database_url: str, tmp_path: Path
) -> None:
    new = make_topic(partitions=1)
    there, here = planted()
    write(writer, new, here)
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute("create table old (id bigint, n numeric(10, 2), name text, at timestamptz, added text)")
        connection.cursor().executemany(
            "insert into old values (%s, %s, %s, %s, null)",
            [(one["id"], one["n"], one["name"], _moment(one)) for one in there],
        )
        connection.commit()
        at = connection.info
        url = f"jdbc:postgresql://{at.host}:{at.port}/{at.dbname}"
        user, password = at.user, at.password
    (jar,) = ensure_jars(POSTGRES_DRIVER)
    baseline = TableBaseline(
        url=url, table="public.old", user="env:FENCELINE_SECRET_DB_USER", password="env:FENCELINE_SECRET_DB_PASSWORD"
    )
    result = compared(
        a_comparison(new, baseline),
        kafka,
        tmp_path / "run",
        conf=f"--jars {jar}",
        FENCELINE_SECRET_DB_USER=user,
        FENCELINE_SECRET_DB_PASSWORD=password,
    )
    assert_planted(result)
    assert result.baseline == "the table public.old"
    written = [path for path in (tmp_path / "run").iterdir() if path.is_file()]
    assert {"driver.log", "outcome.json"} <= {path.name for path in written}
    assert [path.name for path in written if password.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_pipeline_with_files_is_compared_with_a_topic(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> None:
    """One of four files is missing; the time of a record is that of its baseline."""
    old, references = make_topic(partitions=1), make_topic(partitions=1)
    root = tmp_path / "files"
    ids = [f"id-{number}" for number in range(40)]
    writer.write(old, [*ids, "only there"], at_ms=BEGIN_MS)
    files = [write_ids(root, number, ids[10 * number : 10 * number + 10]) for number in range(4)]
    writer.write_values(references, [(one.path.encode(), encode(one)) for one in files], at_ms=BEGIN_MS + 1_000)
    (root / files[2].path).unlink()
    rules = {"time_field": None, "baseline_time_field": None}
    compares = a_comparison(references, TopicBaseline(topic=old), rules=rules)
    of_files = a_file_specification(root, old, references)
    specification = msgspec.structs.replace(compares, files=of_files.files, file_roots=of_files.file_roots)
    result = compared(specification, kafka, tmp_path / "run")
    assert result.counts.dangling == FindingTally(ids=1, records=10)
    assert result.counts.lost == FindingTally(ids=11, records=11)
    assert (result.counts.expected, result.counts.outputs, result.counts.files) == (41, 30, 3)
    assert {*ids_of(result, IdFinding.LOST)} == {*ids[20:30], "only there"}

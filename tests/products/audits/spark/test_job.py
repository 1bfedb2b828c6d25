"""The Spark application of an audit, from the order file to the outcome file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from app.core.wire.file_references import encode
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import KafkaCluster
from app.products.audits.result import AuditResult, AuditVerdict, FindingTally, IdFinding, verdict
from app.products.audits.specification import AuditSpecification
from app.products.audits.wire import AuditEnd, AuditOrder, AuditOutcome
from tests.conftest import MakeTopic
from tests.support.audited_files import a_file_specification, write_ids
from tests.support.audits import Writer, a_specification, audit_here, ids_of
from workers.spark.exit_codes import DriverExitCode

DEADLINE_S = 240.0
AUDIT = "import sys; from workers.spark.audit_driver import main; sys.exit(main())"


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


def carry_out(
    specification: AuditSpecification, bootstrap_servers: str, folder: Path, *, conf: str = "", **secrets: str
) -> tuple[int, AuditOutcome]:
    """Run the driver in a process of its own on a local master; return its exit code and outcome."""
    order = AuditOrder(
        fenceline_version="test", specification=specification, client_config={"bootstrap.servers": bootstrap_servers}
    )
    handed, outcome = folder / "order.json", folder / "outcome.json"
    handed.touch(mode=0o600)
    handed.write_bytes(msgspec.json.encode(order))
    java = find_java(may_fetch=False).home
    environment = {
        **os.environ,
        **secrets,
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2,2] --driver-memory 512m --conf spark.ui.enabled=false "
        f"--conf spark.local.dir={folder} --conf spark.driver.host=127.0.0.1 {conf} pyspark-shell",
    }
    argv = [sys.executable, "-c", AUDIT]
    ended = subprocess.run(
        [*argv, "--specification", str(handed), "--outcome", str(outcome)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEADLINE_S,
        check=False,
    )
    (folder / "driver.log").write_bytes(ended.stdout)
    assert not handed.exists(), ended.stdout.decode()[-4000:]
    assert outcome.exists(), ended.stdout.decode()[-4000:]
    return ended.returncode, msgspec.json.decode(outcome.read_bytes(), type=AuditOutcome)


def without_course(result: AuditResult, like: AuditResult) -> AuditResult:
    return msgspec.structs.replace(
        result, started_at_ms=like.started_at_ms, duration_ms=like.duration_ms, versions=like.versions
    )


@pytest.mark.core
@pytest.mark.slow
def test_spark_and_one_process_have_the_same_findings(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    ids = [f"id-{number}" for number in range(600)]
    for partition in (0, 1):
        writer.write(source, ids[partition::2], partition=partition)
        writer.write(sink, ids[:300], partition=partition, end="abort")
    writer.write(sink, ids[:598])
    writer.write(sink, ["id-3", "foreign"], partition=1)
    specification = a_specification(source, sink)
    exit_code, outcome = carry_out(specification, kafka.bootstrap_servers, tmp_path)
    assert exit_code == DriverExitCode.DRAINED
    assert outcome.kind is AuditEnd.DONE
    assert outcome.application_id
    result = outcome.result
    assert result is not None
    assert verdict(result) is AuditVerdict.BROKEN
    assert result.counts.lost == FindingTally(ids=2, records=2)
    assert ids_of(result, IdFinding.LOST) == ["id-598", "id-599"]
    assert ids_of(result, IdFinding.DUPLICATED) == ["id-3"]
    assert ids_of(result, IdFinding.UNEXPECTED) == ["foreign"]
    assert result.versions.spark.startswith("4.")
    here = audit_here(specification, kafka.bootstrap_servers)
    assert without_course(result, like=here) == here


@pytest.mark.slow
def test_spark_and_one_process_have_the_same_findings_in_files(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> None:
    """One of 24 files is missing, one has two references, one lacks two ids; an aborted one has no reference."""
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    ids = [f"id-{number}" for number in range(480)]
    root = tmp_path / "files"
    for partition in (0, 1):
        writer.write(source, ids[partition::2], partition=partition)
    inputs = [(source, 0, 0, 239), (source, 1, 0, 239)]
    files = [write_ids(root, number, ids[20 * number : 20 * number + 20], inputs=inputs) for number in range(23)]
    files.append(write_ids(root, 23, ids[460:478], inputs=inputs))
    for number, reference in enumerate([*files, files[5]]):
        value = [(reference.path.encode(), encode(reference))]
        writer.write_values(sink, value, partition=number % 2)
        writer.write_values(sink, value, partition=number % 2, end="abort")
    (root / files[9].path).unlink()
    specification = a_file_specification(root, source, sink)
    exit_code, outcome = carry_out(specification, kafka.bootstrap_servers, tmp_path)
    assert exit_code == DriverExitCode.DRAINED, outcome.message
    result = outcome.result
    assert result is not None
    assert verdict(result) is AuditVerdict.BROKEN
    assert result.counts.dangling == FindingTally(ids=1, records=20)
    assert result.counts.lost == FindingTally(ids=22, records=22)
    assert result.counts.duplicated == FindingTally(ids=20, records=20)
    assert (result.counts.files, result.counts.outputs) == (24, 23 * 20 - 20 + 18 + 20)
    assert {"id-478", "id-479"} <= set(ids_of(result, IdFinding.LOST)) or len(ids_of(result, IdFinding.LOST)) == 20
    here = audit_here(specification, kafka.bootstrap_servers)
    assert without_course(result, like=here) == here

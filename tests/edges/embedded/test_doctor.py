"""The doctor names missing requirements of a purpose, with the command to add them."""

import json
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner

from app.edges.cli.doctor import doctor
from app.edges.embedded.caches import cache_dir
from app.edges.embedded.doctor import DoctorFinding, DoctorVerdict, Machine, Purpose, examine, find_chromium, is_enough
from app.edges.embedded.maven import ECJ_JARS, KAFKA_JARS, SPARK_KAFKA_JARS, ensure_jars
from app.edges.embedded.spark_sink import JAR_NAME
from tests.support.worker_listener import WorkerListener

runner = CliRunner()
command = typer.Typer()
command.command()(doctor)


def by_name(findings: list[DoctorFinding]) -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in findings}


def machine(
    environ: dict[str, str] | None = None,
    *,
    database_url: str | None = None,
    java_home: Path | None = None,
    worker_python: str | None = None,
    port: int = 0,
    spark_masters: dict[str, str] | None = None,
) -> Machine:
    return Machine(
        environ=dict(os.environ) if environ is None else environ,
        database_url=database_url,
        java_home=java_home,
        worker_python=worker_python,
        ports={"FENCELINE_USERS_PORT": port},
        spark_masters=spark_masters or {},
    )


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_machine_that_runs_this_suite_lacks_nothing() -> None:
    findings = examine(machine(), [Purpose.DEMO, Purpose.TESTS])
    assert is_enough(findings), findings


def test_bare_path_lacks_java_bash_and_chromium_each_with_a_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    findings = examine(machine({"PATH": str(tmp_path)}), [Purpose.TESTS])
    missing = {finding.name: finding.remedy for finding in findings if finding.verdict is DoctorVerdict.MISSING}
    prefix = "" if os.geteuid() == 0 else "sudo "
    assert missing == {
        "Java": f"{prefix}apt-get install openjdk-17-jre-headless  (where there is none: openjdk-21-jre-headless)",
        "bash": f"{prefix}apt-get install bash",
        "Chromium": f"{prefix}apt-get install chromium",
        "Isolation": f"{prefix}apt-get install bubblewrap",
    }
    assert not is_enough(findings)


def test_demo_needs_no_chromium() -> None:
    assert "Chromium" not in by_name(examine(machine(), [Purpose.DEMO]))


def test_server_needs_no_embedded_kafka_and_reports_missing_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    findings = examine(machine({"PATH": str(tmp_path)}), [Purpose.SERVE])
    assert not {"Kafka", "Java"} & by_name(findings).keys()
    drivers, connector = by_name(findings)["Drivers' Java"], by_name(findings)["Kafka connector"]
    assert drivers.verdict is DoctorVerdict.WARNING
    assert "cannot start a pipeline" in drivers.detail
    assert connector.verdict is DoctorVerdict.LATER
    assert is_enough(findings)


def test_wrong_java_home_setting_is_named_though_path_has_a_java(tmp_path: Path) -> None:
    finding = by_name(examine(machine(java_home=tmp_path / "nowhere")))["Drivers' Java"]
    assert finding.verdict is DoctorVerdict.MISSING
    assert f"the setting java_home ({tmp_path}/nowhere/bin/java) does not exist" in finding.detail
    assert "FENCELINE_JAVA_HOME" in finding.remedy


def test_wrong_java_home_in_the_environment_is_named_beside_what_is_taken_instead(tmp_path: Path) -> None:
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    finding = by_name(examine(machine(environ), [Purpose.DEMO]))["Java"]
    assert finding.verdict is DoctorVerdict.WARNING
    assert f"is taken, because JAVA_HOME ({tmp_path}/bin/java) does not exist" in finding.detail


def test_workers_python_that_this_machine_lacks_is_a_warning_as_executors_may_have_it(tmp_path: Path) -> None:
    there = program(tmp_path / "python", "exit 0")
    found = by_name(examine(machine(worker_python=str(there)), [Purpose.SERVE]))["Workers' Python"]
    lacking = by_name(examine(machine(worker_python=f"{there}9"), [Purpose.SERVE]))["Workers' Python"]
    assert (found.verdict, lacking.verdict) == (DoctorVerdict.FOUND, DoctorVerdict.WARNING)
    assert f"{there}9" in lacking.detail


def test_chromium_that_does_not_run_is_missing(tmp_path: Path) -> None:
    stub = program(tmp_path / "chromium", "echo 'install the snap' >&2; exit 1")
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    finding = by_name(examine(machine(environ), [Purpose.TESTS]))["Chromium"]
    assert finding.verdict is DoctorVerdict.MISSING
    assert f"{stub} does not run" in finding.detail


def test_folder_that_cannot_be_made_is_missing_with_the_setting_that_moves_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folders = {"FENCELINE_STATE_DIR": tmp_path / "file" / "state", "FENCELINE_CACHE_DIR": tmp_path / "new" / "cache"}
    findings = by_name(examine(Machine(environ=os.environ, folders=folders), [Purpose.SERVE]))
    assert findings["FENCELINE_STATE_DIR"].verdict is DoctorVerdict.MISSING
    assert f"{tmp_path}/file is not a folder" in findings["FENCELINE_STATE_DIR"].detail
    assert findings["FENCELINE_CACHE_DIR"].verdict is DoctorVerdict.FOUND


def test_empty_cache_is_filled_later_and_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = examine(machine(), [Purpose.DEMO])
    kafka = by_name(findings)["Kafka"]
    assert (kafka.verdict, kafka.remedy) == (DoctorVerdict.LATER, "fenceline doctor --fetch")
    assert "0 of" in kafka.detail
    connector = by_name(findings)["Kafka connector"]
    assert (connector.verdict, connector.remedy) == (DoctorVerdict.LATER, "fenceline doctor --fetch")
    assert "4.2.0: 0 of 4 jars" in connector.detail
    assert is_enough(findings)


def test_damaged_jar_in_the_cache_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = ensure_jars(KAFKA_JARS)
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copies = cache_dir() / "jars" / KAFKA_JARS
    copies.mkdir(parents=True)
    for jar in jars:
        (copies / jar.name).symlink_to(jar)
    assert by_name(examine(machine(), [Purpose.DEMO]))["Kafka"].verdict is DoctorVerdict.FOUND
    (copies / jars[0].name).unlink()
    (copies / jars[0].name).write_bytes(b"damaged")
    assert f"{len(jars) - 1} of {len(jars)} jars" in by_name(examine(machine(), [Purpose.DEMO]))["Kafka"].detail


def test_named_database_that_answers_is_found_and_its_password_is_not_shown(postgres_server_url: str) -> None:
    postgres = by_name(examine(machine(database_url=postgres_server_url), [Purpose.SERVE]))["Postgres"]
    assert postgres.verdict is DoctorVerdict.FOUND, postgres
    assert "FENCELINE_DATABASE_URL" in postgres.detail
    assert (sa.make_url(postgres_server_url).password or "") not in postgres.detail


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:1/f", "secret@nowhere"])
def test_named_database_that_does_not_answer_is_missing_and_no_other_is_taken(url: str) -> None:
    postgres = by_name(examine(machine(database_url=url), [Purpose.SERVE]))["Postgres"]
    assert postgres.verdict is DoctorVerdict.MISSING
    assert "FENCELINE_DATABASE_URL" in postgres.detail
    assert "secret" not in postgres.detail


def test_port_in_use_is_a_warning_with_the_setting_that_moves_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        findings = examine(machine(port=port), [Purpose.SERVE])
    finding = by_name(findings)[f"Port {port}"]
    assert finding.verdict is DoctorVerdict.WARNING
    assert finding.remedy == "FENCELINE_USERS_PORT=PORT fenceline serve"
    assert is_enough(findings)


def test_isolation_that_the_kernel_forbids_is_named_with_its_reason(tmp_path: Path) -> None:
    program(tmp_path / "bwrap", "echo 'No permissions to create new namespace' >&2; exit 1")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    asked = machine(environ)
    assert "Isolation" not in by_name(examine(asked, [Purpose.SERVE])), "nobody may upload Python"
    finding = by_name(examine(replace(asked, validates_python=True), [Purpose.SERVE]))["Isolation"]
    assert finding.verdict is DoctorVerdict.WARNING
    assert "No permissions to create new namespace" in finding.detail


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_chromium_goes_by_several_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch(mode=0o755)
    assert find_chromium({"PATH": str(tmp_path)}) == tmp_path / name


def test_command_prints_one_json_document_and_succeeds() -> None:
    result = runner.invoke(command, ["--for", "tests", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["ready"] is True
    assert {"name", "verdict", "detail", "remedy"} == set(answer["findings"][0])


def test_command_fails_and_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = runner.invoke(command, ["--for", "tests"])
    assert result.exit_code == 1
    assert "apt-get install openjdk-17-jre-headless" in result.stdout
    assert "apt-get install chromium" in result.stdout


def test_fetching_for_a_server_compiles_the_sink_and_brings_no_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = [jar for manifest in (SPARK_KAFKA_JARS, ECJ_JARS) for jar in ensure_jars(manifest)]
    monkeypatch.setenv("FENCELINE_CACHE_DIR", str(tmp_path))
    for jar in jars:  # as the download leaves them
        (tmp_path / "jars" / jar.parent.name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "jars" / jar.parent.name / jar.name).symlink_to(jar)
    result = runner.invoke(command, ["--for", "serve", "--fetch", "--json"])
    assert result.exit_code == 0, result.output
    found = {finding["name"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert found["Kafka connector"]["detail"] == f"4.2.0, 4 jars, checksums right ({tmp_path}/jars/{SPARK_KAFKA_JARS})"
    assert [path.name for path in (tmp_path / "spark-sink").rglob("*.jar")] == [JAR_NAME]
    assert not (tmp_path / "jars" / KAFKA_JARS).exists()


ENVIRONMENT = "<h4>Spark Properties</h4><table><tr><td>spark.master.rest.enabled</td><td>false</td></tr>{}</table>"
RECOVERY = "<tr><td>spark.deploy.recoveryMode</td><td>{}</td></tr>"


@pytest.mark.parametrize(
    ("page", "verdict", "said"),
    [
        (ENVIRONMENT.format(RECOVERY.format("FILESYSTEM")), DoctorVerdict.FOUND, r"\(FILESYSTEM\)"),
        (ENVIRONMENT.format(RECOVERY.format("NONE")), DoctorVerdict.WARNING, "forgets all applications"),
        (ENVIRONMENT.format(""), DoctorVerdict.WARNING, "forgets all applications"),
        ("<html>something else</html>", DoctorVerdict.WARNING, "is not the environment page of a Spark master"),
        (None, DoctorVerdict.WARNING, "/environment/ answers 404; masters before Spark 4.0"),
    ],
)
def test_spark_master_that_forgets_its_applications_is_warned_of(
    page: str | None, verdict: DoctorVerdict, said: str
) -> None:
    listener = WorkerListener()
    listener.answer_with("/environment/", (page or "").encode())
    if page is None:
        listener.fail_with("/environment/", 404)
    try:
        findings = examine(machine(spark_masters={"spark://m:7077": listener.url}), [Purpose.SERVE])
    finally:
        listener.close()
    finding = by_name(findings)["spark://m:7077"]
    assert finding.verdict is verdict
    assert re.search(said, finding.detail), finding.detail
    assert bool(finding.remedy) is (verdict is DoctorVerdict.WARNING)


def test_unreachable_spark_master_is_reported_with_its_address() -> None:
    finding = by_name(examine(machine(spark_masters={"spark://m:7077": "http://127.0.0.1:9"}), [Purpose.SERVE]))
    assert "http://127.0.0.1:9/environment/ does not answer" in finding["spark://m:7077"].detail


def test_doctor_checks_the_masters_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELINE_ALLOWED_SPARK_MASTERS", "spark://127.0.0.1:7077,spark://*.example.org:7077")
    monkeypatch.setenv("FENCELINE_SPARK_MASTER_WEB_URLS", "spark://other:7077=http://127.0.0.1:9")
    result = runner.invoke(command, ["--for", "serve", "--json"])
    masters = {
        finding["name"]: finding["detail"]
        for finding in json.loads(result.output)["findings"]
        if finding["name"].startswith("spark://")
    }
    assert set(masters) == {"spark://127.0.0.1:7077", "spark://other:7077"}
    assert "http://127.0.0.1:8080/environment/" in masters["spark://127.0.0.1:7077"]

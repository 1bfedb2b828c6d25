"""The doctor names what is missing for a purpose, and the line to type."""

import json
import os
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.cli.doctor import doctor
from app.embedded.caches import cache_dir
from app.embedded.doctor import Finding, Machine, Purpose, Verdict, examine, find_chromium, is_enough
from app.embedded.maven import KAFKA_JARS, ensure_jars

runner = CliRunner()
command = typer.Typer()
command.command()(doctor)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def machine(environ: dict[str, str] | None = None, *, database_url: str | None = None, port: int = 0) -> Machine:
    return Machine(
        environ=dict(os.environ) if environ is None else environ,
        database_url=database_url,
        ports={"FENCELINE_USERS_PORT": port},
    )


def test_machine_that_runs_this_suite_lacks_nothing() -> None:
    findings = examine(machine(), [Purpose.DEMO, Purpose.TESTS])
    assert is_enough(findings), findings


def test_bare_path_lacks_java_bash_and_chromium_each_with_a_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    findings = examine(machine({"PATH": str(tmp_path)}), [Purpose.TESTS])
    missing = {finding.name: finding.remedy for finding in findings if finding.verdict is Verdict.MISSING}
    prefix = "" if os.geteuid() == 0 else "sudo "
    assert missing == {
        "Java": f"{prefix}apt-get install openjdk-17-jre-headless",
        "bash": f"{prefix}apt-get install bash",
        "Chromium": f"{prefix}apt-get install chromium",
    }
    assert not is_enough(findings)


def test_demo_needs_no_chromium() -> None:
    assert "Chromium" not in by_name(examine(machine(), [Purpose.DEMO]))


def test_server_needs_no_kafka_of_ours() -> None:
    assert not {"Kafka", "Java"} & by_name(examine(machine(), [Purpose.SERVE])).keys()


def test_empty_cache_is_filled_later_and_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = examine(machine(), [Purpose.DEMO])
    kafka = by_name(findings)["Kafka"]
    assert (kafka.verdict, kafka.remedy) == (Verdict.LATER, "fenceline doctor --fetch")
    assert "0 of" in kafka.detail
    assert is_enough(findings)


def test_damaged_jar_in_the_cache_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = ensure_jars(KAFKA_JARS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copies = cache_dir() / "jars" / KAFKA_JARS
    copies.mkdir(parents=True)
    for jar in jars:
        (copies / jar.name).symlink_to(jar)
    assert by_name(examine(machine(), [Purpose.DEMO]))["Kafka"].verdict is Verdict.FOUND
    (copies / jars[0].name).unlink()
    (copies / jars[0].name).write_bytes(b"damaged")
    assert f"{len(jars) - 1} of {len(jars)} jars" in by_name(examine(machine(), [Purpose.DEMO]))["Kafka"].detail


def test_named_database_needs_no_embedded_postgres() -> None:
    postgres = by_name(examine(machine(database_url="postgresql://u:secret@db/f"), [Purpose.SERVE]))["Postgres"]
    assert postgres.verdict is Verdict.FOUND
    assert "FENCELINE_DATABASE_URL" in postgres.detail
    assert "secret" not in postgres.detail


def test_port_in_use_is_a_warning_with_the_setting_that_moves_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        findings = examine(machine(port=port), [Purpose.SERVE])
    finding = by_name(findings)[f"Port {port}"]
    assert finding.verdict is Verdict.WARNING
    assert finding.remedy == "FENCELINE_USERS_PORT=PORT fenceline serve"
    assert is_enough(findings)


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = runner.invoke(command, ["--for", "tests"])
    assert result.exit_code == 1
    assert "apt-get install openjdk-17-jre-headless" in result.stdout
    assert "apt-get install chromium" in result.stdout

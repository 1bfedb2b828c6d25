"""From a file to a pipeline and back, as a user or a script would do it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.errors import ExitCode
from tests.support.api_samples import definition_on
from tests.support.fixtures import Fenceline, json_of
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow


@pytest.fixture
def definition(kafka: KafkaCluster, cluster: str) -> dict[str, Any]:
    return definition_on(kafka.bootstrap_servers, cluster=cluster)


@pytest.fixture
def name() -> str:
    return unique_name("cli")


def _write(folder: Path, name: str, definition: dict[str, Any]) -> str:
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"name": name, **definition}, sort_keys=False))
    return "pipeline.yaml"


def test_apply_creates_changes_and_then_leaves_alone(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    file = _write(tmp_path, name, definition)
    assert "created" in fenceline("apply", "-f", file).stdout
    _write(tmp_path, name, {**definition, "commit_interval_ms": 250})
    assert "revision 2" in fenceline("apply", "-f", file, "--note", "slower").stdout
    again = json_of(fenceline("apply", "-f", file, "--json"))
    assert (again["is_changed"], again["pipeline"]["current_revision"]) == (False, 2)
    diff = fenceline("pipelines", "diff", name).stdout
    assert "100" in diff
    assert "250" in diff
    assert [r["note"] for r in json_of(fenceline("pipelines", "revisions", name, "--json"))] == ["slower", None]
    assert name in fenceline("pipelines", "list").stdout
    assert definition["sink_topic"] in fenceline("pipelines", "show", name).stdout


def test_export_can_be_applied_again(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    (tmp_path / "exported.yaml").write_text(fenceline("pipelines", "export", name).stdout)
    again = json_of(fenceline("apply", "-f", "exported.yaml", "--json"))
    assert again["is_changed"] is False


def test_a_pipeline_of_files_is_applied_shown_and_exported_as_it_was(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    columns = [{"of": "field", "name": "user", "field": "user.id"}, {"of": "date", "name": "date"}]
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"], "default": None}]}
    files = {"root": "s3://flights/files", "partition_by": columns, "schema": schema}
    applied = fenceline("apply", "-f", _write(tmp_path, name, {**definition, "files": files}))
    assert "created" in applied.stdout, applied.stderr
    assert "files under s3://flights/files, by user (user.id) and date" in fenceline("pipelines", "show", name).stdout
    (tmp_path / "exported.yaml").write_text(fenceline("pipelines", "export", name).stdout)
    assert json_of(fenceline("apply", "-f", "exported.yaml", "--json"))["is_changed"] is False
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    assert "no files any more" in fenceline("pipelines", "diff", name).stdout


def test_a_file_sink_that_makes_no_sense_is_refused_at_its_fields(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    columns = [{"of": "date", "name": "date"}, {"of": "hour", "name": "DATE"}]
    wrong = {**definition, "files": {"root": "gs://b", "partition_by": columns, "upload_timeout_ms": 200_000}}
    ended = fenceline("pipelines", "validate", "-f", _write(tmp_path, name, wrong))
    assert ended.returncode == 5
    for field in ("files.root", "files.partition_by.1.name", "files.upload_timeout_ms"):
        assert field in ended.stdout


def test_validate_names_every_mistake_and_saves_nothing(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    wrong = {**definition, "sink_topic": definition["source_topics"][0], "instances": 0}
    ended = fenceline("pipelines", "validate", "-f", _write(tmp_path, name, wrong))
    assert ended.returncode == 5
    assert "sink_topic" in ended.stdout
    assert "instances" in ended.stdout
    missing = fenceline("pipelines", "show", name)
    assert missing.returncode == 1
    assert name in missing.stderr


def test_a_file_that_is_no_pipeline_is_refused_with_its_line(fenceline: Fenceline, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: x\ncluster: c\nsource_topics: [a]\ngroup_id: g\nsink_topic: 7\n")
    ended = fenceline("apply", "-f", "p.yaml")
    assert ended.returncode == 5
    assert "line 5" in ended.stderr


def test_a_python_transform_is_uploaded_with_the_file_that_names_it(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    source = "def clean(record):\n    return record\n"
    (tmp_path / "clean.py").write_text(source)
    transform = {"kind": "python", "function": "clean", "file_name": "clean.py"}
    applied = fenceline("apply", "-f", _write(tmp_path, name, {**definition, "transform": transform}))
    assert applied.returncode == 0, applied.stderr
    shown = json_of(fenceline("pipelines", "show", name, "--json"))
    assert shown["definition"]["transform"]["sha256"] == hashlib.sha256(source.encode()).hexdigest()


def test_a_query_of_a_python_file_elsewhere_is_created_with_source(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    source = "def late(spark, streams):\n    return streams['flights'].where('delay > {}')\n"
    (tmp_path / "queries").mkdir()
    file = tmp_path / "queries" / "new.py"
    file.write_text(source.format("no_such_column"))
    stream = {"name": "flights", "topic": definition["source_topics"][0], "schema": "carrier STRING, delay INT"}
    query = {"kind": "dataframe", "streams": [stream], "checkpoint": (tmp_path / "checkpoint").as_uri()}
    transform = {**query, "function": "late", "file_name": "late.py"}
    written = _write(tmp_path, name, {**definition, "transform": transform, "transaction_timeout_ms": 60_000})
    refused = fenceline("pipelines", "create", "-f", written, "--source", str(file))
    assert refused.returncode == ExitCode.INVALID
    assert "transform.function: late.py, line 2" in refused.stderr
    assert "no_such_column" in refused.stderr

    file.write_text(source.format(15))
    created = fenceline("pipelines", "create", "-f", written, "--source", str(file))
    assert f"created {name}, revision 1" in created.stdout, created.stderr
    saved = json_of(fenceline("pipelines", "show", name, "--json"))["definition"]["transform"]
    assert (saved["file_name"], saved["sha256"]) == ("late.py", hashlib.sha256(file.read_bytes()).hexdigest())


def test_delete_asks_first_and_says_what_is_gone(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    unasked = fenceline("pipelines", "delete", name)
    assert unasked.returncode == 1
    assert "--yes" in unasked.stderr
    assert "deleted" in fenceline("pipelines", "delete", name, "--yes").stdout


def test_offsets_are_shown_before_they_are_moved(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    shown = fenceline("runs", "offsets", name, "--to", "earliest")
    assert "nothing was changed" in shown.stdout, shown.stderr
    source = definition["source_topics"][0]
    moved = json_of(fenceline("runs", "offsets", name, "--set", f"{source}:0=0", "--execute", "-m", "again", "--json"))
    assert [(c["topic"], c["partition"], c["target"]) for c in moved["changes"]] == [(source, 0, 0)]


def test_offsets_are_not_moved_without_a_reason(fenceline: Fenceline, name: str) -> None:
    for options in (
        ("--to", "earliest"),
        ("--to", "latest", "--why", " "),
        ("--to", "recorded"),
        ("--set", "in:0=0"),
    ):
        refused = fenceline("runs", "offsets", name, *options, "--execute")
        assert refused.returncode == ExitCode.USAGE, options
        assert "--execute needs a reason: add --why" in refused.stderr


def test_a_pipeline_without_a_run_says_how_to_start_one(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    ended = fenceline("runs", "show", name)
    assert ended.returncode == 1
    assert f"fenceline runs start {name}" in ended.stderr
    assert json_of(fenceline("runs", "list", "--pipeline", name, "--json")) == []


def test_a_shell_completes_names_and_is_not_disturbed_by_a_server_that_is_away(
    fenceline: Fenceline, tmp_path: Path, name: str, definition: dict[str, Any]
) -> None:
    fenceline("apply", "-f", _write(tmp_path, name, definition))
    asked = {
        "_FENCELINE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"fenceline pipelines show {name[:-2]}",
        "COMP_CWORD": "3",
    }
    assert name in fenceline(**asked).stdout.split()
    away = fenceline(**asked, FENCELINE_SERVER_URL="http://127.0.0.1:1")
    assert (away.stdout.strip(), away.stderr.strip()) == ("", "")

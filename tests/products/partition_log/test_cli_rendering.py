"""The output of `fenceline log` for an invented log, and the options that it refuses."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from typer.testing import CliRunner

from app.core.journals.log_content import Content
from app.core.journals.log_entries import LogRecord
from app.edges.cli import build
from app.kit.cli.errors import CommandError, ExitCode
from app.products.partition_log import cli as log
from app.products.partition_log.service import PartitionLog
from tests.core.journals.logs import WrittenLog, taken_over

BOOTSTRAP = ("--bootstrap-server", "127.0.0.1:9092")


def printed(monkeypatch: pytest.MonkeyPatch, found: PartitionLog, *arguments: str) -> str:
    def ask(_: object) -> PartitionLog:
        return found

    monkeypatch.setattr(log, "ask", ask)
    monkeypatch.setattr(log.console, "width", 400)
    result = CliRunner().invoke(build(), ["log", "t", "0", *BOOTSTRAP, *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_batch_is_a_line_with_its_producer_and_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    said = printed(monkeypatch, taken_over("t")).splitlines()
    assert said[0] == "t-0 has offsets 0 to 3; read_committed consumers are blocked at 2, 2 offsets before the end"
    lines = [" ".join(line.split()) for line in said]
    assert lines[2].startswith("0 aborted 7 5 0 1 payments by the marker at 1")
    assert lines[3].startswith("1 ABORT 7 6 – 1 payments coordinator epoch 3; decides 1 record from 0")
    assert lines[4].startswith("2–3 open 7 7 0 2 payments epoch 6 → 7")


def test_json_is_the_whole_look(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken_over("t")
    assert msgspec.convert(orjson.loads(printed(monkeypatch, found, "--json")), PartitionLog) == found


def test_unknown_ids_and_the_next_offset_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = msgspec.structs.replace(taken_over("t"), is_at_end=False, ids_note="nobody may read the journal")
    said = printed(monkeypatch, found)
    assert "nobody may read the journal" in said
    assert "more: --from 4" in said


def test_record_cannot_draw_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken_over("t")
    value = Content(text="\x1b[2J\nhidden", size_bytes=11)
    record = LogRecord(offset=0, timestamp_ms=0, key=Content(text="[red]k", size_bytes=6), value=value)
    entries = (msgspec.structs.replace(found.entries[0], records=(record,)), *found.entries[1:])
    said = printed(monkeypatch, msgspec.structs.replace(found, entries=entries), "--keys", "--values")
    assert r"key=[red]k  value=\x1b[2J\nhidden" in said
    assert "\x1b" not in said


def test_empty_partition_is_called_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    look = WrittenLog().look()
    empty = PartitionLog(topic="t", partition=0, bounds=look.bounds, start=0, next_offset=0, is_at_end=True, entries=())
    assert printed(monkeypatch, empty).splitlines()[0] == "t-0 is empty; its next record gets offset 0"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name the cluster"),
        ([*BOOTSTRAP, "--cluster", "demo"], "name the cluster"),
        (["--cluster", "demo", "-c", "a=b"], "--config goes with --bootstrap-server"),
        ([*BOOTSTRAP, "--from", "yesterday"], "yesterday is neither an offset nor one of: start, lso, end"),
        ([*BOOTSTRAP, "-c", "sasl.password"], "expected KEY=VALUE"),
        (["--bootstrap-server", "nowhere"], "the cluster's options are not valid"),
        ([*BOOTSTRAP, "-c", "sasl.password=secret"], "the cluster's options are not valid"),
    ],
)
def test_mistakes_on_the_command_line_are_named(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(build(), ["log", "t", "0", *arguments])
    assert isinstance(result.exception, CommandError)
    assert says in result.exception.message
    assert result.exception.code is ExitCode.USAGE

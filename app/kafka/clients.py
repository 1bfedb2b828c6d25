"""Admin clients, one a cluster configuration: made when first asked for, kept while they are used."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from app.domain import secret_reference
from app.domain.errors import InvalidError

MAX_CLIENTS = 16
# librdkafka prints a line for every refused connection; what matters of it stands in our own error.
_quiet = logging.getLogger("fenceline.kafka.admin")
_quiet.propagate = False
_quiet.addHandler(logging.NullHandler())


class Client:
    """One AdminClient, its resolved configuration, and the last thing that it complained of."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self.last_error: str | None = None
        # The package's annotations leave its futures and callbacks open; what comes out is typed where it is read.
        make: Any = AdminClient
        self.admin: Any = make(
            {
                **config,
                "client.id": "fenceline-admin",
                "socket.connection.setup.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 1000,
                "error_cb": self._remember,
            },
            logger=_quiet,
        )

    @property
    def address(self) -> str:
        return self.config["bootstrap.servers"]

    def complaint(self) -> str | None:
        """The last error of a connection, in the client's words; its callbacks are served only when asked."""
        self.admin.poll(0)
        return self.last_error

    def _remember(self, error: KafkaError) -> None:
        # "All brokers are down" says less than the refused connection before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.last_error is None:  # noqa: SLF001 - its public name
            self.last_error = error.str()


class Clients:
    """The clients of one process. A client that was not used for longest goes when there are too many."""

    def __init__(self, *, environment: Mapping[str, str] | None = None, secrets_dir: Path | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._secrets_dir = secrets_dir
        self._clients: OrderedDict[frozenset[tuple[str, str]], Client] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, connection: Mapping[str, str]) -> Client:
        """The client for a cluster's connection. Raises InvalidError when a secret cannot be resolved."""
        config = secret_reference.resolve(connection, environment=self._environment, read_file=self._read_secret())
        key = frozenset(config.items())
        with self._lock:
            client = self._clients.pop(key, None)
            if client is None:
                try:
                    client = Client(config)
                except Exception as error:
                    raise InvalidError(f"the cluster's settings are refused by librdkafka: {error}") from error
            self._clients[key] = client
            if len(self._clients) > MAX_CLIENTS:
                self._clients.popitem(last=False)
        return client

    def forget(self, client: Client) -> None:
        """The next `of` makes a new client: one that was refused for long waits long before it tries again."""
        with self._lock:
            for key, kept in list(self._clients.items()):
                if kept is client:
                    del self._clients[key]

    def close(self) -> None:
        with self._lock:
            self._clients.clear()

    def _read_secret(self) -> Callable[[str], str]:
        folder = self._secrets_dir

        def read(name: str) -> str:
            if folder is None:
                raise FileNotFoundError(2, "no folder of secrets is set (FENCELINE_SECRETS_DIR)")
            return (folder / name).read_text(encoding="utf-8")

        return read

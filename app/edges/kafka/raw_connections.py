"""Connections of kafka-python that report why they fail, with limits on time and size.

The library logs the reason, retries until the time is up, and raises "unable to bootstrap" for a wrong password too.
It has no time limit for a TLS handshake, and reads for as long as bytes come. It stops reading without a report when
its parser fails with anything but a ValueError.
"""

# The base class is untyped: its values are checked where they are used.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, cast

from kafka import errors as library_errors  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.compat import KafkaNetClient  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.inet import create_connection  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.manager import KafkaConnectionManager  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.selector import NetworkSelector  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport  # pyright: ignore[reportMissingTypeStubs]

from app.core.clusters.cluster_entry import not_allowed
from app.edges.kafka.handshake import refusal_of_broker
from app.edges.kafka.tagged_fields import read_without_copies

errors: Any = library_errors
read_without_copies()

_Manager: Any = KafkaConnectionManager
# The library's text for a connection that the other side has closed.
_CLOSED = "disconnected"
_CONNECT_MS = 10_000
# The largest frame of an answer. Decoded into small structures it takes about forty times as much memory.
LARGEST_ANSWER_BYTES = 24 << 20
_CHUNK_BYTES = 64 << 10
_CHUNKS_AT_ONCE = 16


class UntrustedError(library_errors.KafkaError):
    """The broker's certificate or the client's is not accepted: its authority, its host name or its time."""


class ClosedAtLoginError(library_errors.KafkaError):
    """The broker closed the connection during SASL: often a refusal whose message came with the end.

    The library drops data that arrives together with the end of a connection, so the refusal is not always read.
    """


class UnreachedError(library_errors.KafkaError):
    """No broker is reached at the addresses; with the reasons."""

    def __str__(self) -> str:
        return str(self.args[0])  # the library's puts the name of the class before it


class UnreachedBrokersError(UnreachedError):
    """The bootstrap address answers, but these brokers do not at their advertised ones; with their names."""


class NotAllowedError(library_errors.KafkaError):
    """A broker advertises an address that the administrator does not allow; with the address."""

    def __str__(self) -> str:
        return str(self.args[0])


class MalformedAnswerError(library_errors.KafkaProtocolError):
    """A broker's answer is malformed."""


class _PlainTransport(cast(Any, KafkaTCPTransport)):
    """Passes on received data before it reads more: the library reads until no more data comes for a moment."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received: list[bytes] = []
        try:
            # Data that TLS has decrypted already causes no event of the socket.
            while len(received) < _CHUNKS_AT_ONCE or self._has_decrypted():
                chunk = self._sock.recv(_CHUNK_BYTES)
                if not chunk:
                    return b"".join(received), errors.KafkaConnectionError(f"socket {_CLOSED}")
                received.append(chunk)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass  # that is all for now
        except OSError as error:
            return b"".join(received), errors.KafkaConnectionError(error)
        return b"".join(received), None

    def _has_decrypted(self) -> bool:
        return False


class _TlsTransport(_PlainTransport, cast(Any, KafkaSSLTransport)):
    def _has_decrypted(self) -> bool:
        return self._sock.pending() > 0


class Connections(_Manager):
    """last_failure: why the newest connection failed, as far as it is known; None until then.

    failures: the same by node. may_connect: checks addresses, as brokers may advertise any.
    """

    may_connect: Callable[[str], bool]

    def __init__(self, net: Any, **settings: Any) -> None:
        super().__init__(net, **settings)
        connect_ms = min(_CONNECT_MS, settings["request_timeout_ms"])
        self.config["socket_connection_setup_timeout_ms"] = connect_ms
        self.config["socket_connection_setup_timeout_max_ms"] = connect_ms
        self.last_failure: Exception | None = None
        self.failures: dict[Any, Exception] = {}
        self._logs_in = str(settings.get("security_protocol", "")).startswith("SASL")
        self._refusals: dict[Any, Exception] = {}

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        is_new = node_id not in self._conns
        connection = super().get_connection(node_id, **options)
        if is_new:
            connection.init_future.add_errback(lambda error: self._note(node_id, error))
            connection.data_received = _guarded(connection.data_received)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Do as the library, with the connection's time limit for the handshake too."""
        address = address_of(node)
        if not self.may_connect(address):
            raise NotAllowedError(not_allowed(address))
        options = self.config["socket_options"]
        sock = await create_connection(self._net, node.host, node.port, options, timeout_at=timeout_at)
        try:
            if not self.ssl_enabled:
                return _PlainTransport(self._net, sock, host=node.host)
            transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
            # The given socket has been replaced.
            sock = transport._sock  # noqa: SLF001 - it has no other name
            await self._shake_hands(sock, timeout_at)
        except Exception as error:
            sock.close()
            raise errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport

    async def _shake_hands(self, sock: ssl.SSLSocket, timeout_at: float | None) -> None:
        while True:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(sock, timeout_at)
            else:
                return

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Called by the library before it retries a node. It forgets failures of bootstrap connections by itself."""
        super().maybe_raise_auth_failure(node_id)
        # Another of the addresses may have a better certificate.
        if node_id in self._refusals and len(self._refusals) == len(self.cluster.bootstrap_brokers()):
            raise self._refusals[node_id]

    def _note(self, node_id: Any, error: Exception) -> None:
        handshake = error.__cause__ or error.__context__
        if isinstance(handshake, ssl.SSLCertVerificationError):
            error = UntrustedError(refusal_of_broker(handshake))
        elif isinstance(error, errors.KafkaConnectionError) and _CLOSED in str(error) and self._logs_in:
            error = ClosedAtLoginError(
                "the broker closed the connection during the login: it may not accept this user, password or mechanism"
            )
        self.failures[node_id] = error
        if self.last_failure is None or not isinstance(error, errors.RequestTimedOutError):
            self.last_failure = error
        if self.cluster.is_bootstrap(node_id):
            if is_about_settings(error):
                self._refusals[node_id] = error
            else:
                self._refusals.pop(node_id, None)


def _guarded(received: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Raise other errors as KafkaProtocolError, for which the library ends a connection."""

    def guarded(data: bytes) -> None:
        try:
            received(data)
        except errors.KafkaError:
            raise
        except Exception as error:
            raise MalformedAnswerError(f"an answer cannot be read: {type(error).__name__}: {error}") from error

    return guarded


def address_of(node: Any) -> str:
    """Return `host:port`, or `[v6]:port`, of a broker's metadata."""
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def open_network(*, may_connect: Callable[[str], bool], **settings: Any) -> Any:
    """Make the `kafka_client` of kafka-python's clients."""
    net: Any = cast(Any, NetworkSelector)(**settings)
    manager = Connections(net, **settings)
    manager.may_connect = may_connect
    return cast(Any, KafkaNetClient)(net=net, manager=manager, **settings)


def is_about_settings(error: Exception) -> bool:
    """Return whether the same settings will fail again: by the login, or by an untrusted broker."""
    about = (UntrustedError, errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)
    return isinstance(error, about)

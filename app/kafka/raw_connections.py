"""Connections of kafka-python that say why they cannot be made, and give up where trying again does not help.

The library logs the reason, tries until the time is up, and raises "unable to bootstrap" for a wrong password too.
"""

# The base class is untyped: what it gives is checked where it is used.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import ssl
from typing import Any, cast

from kafka import errors as library_errors  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.compat import KafkaNetClient  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.manager import KafkaConnectionManager  # pyright: ignore[reportMissingTypeStubs]
from kafka.net.selector import NetworkSelector  # pyright: ignore[reportMissingTypeStubs]

from app.kafka.handshake import refusal_of_broker

errors: Any = library_errors

_Manager: Any = KafkaConnectionManager
# How the library words an end of the connection by the other side.
_CLOSED = "disconnected"


class UntrustedError(library_errors.KafkaError):
    """A certificate is not accepted, the broker's or ours: its authority, its host name or its time."""


class ClosedAtLoginError(library_errors.KafkaError):
    """The broker closed the connection in the middle of SASL: often a refusal whose words came with the end.

    The library drops what was received together with the end of a connection, so that it depends on the moment whether
    a refusal is read.
    """


class Connections(_Manager):
    """last_failure: why a connection could not be made the last time, as far as it was heard; None until then."""

    def __init__(self, net: Any, **settings: Any) -> None:
        super().__init__(net, **settings)
        self.last_failure: Exception | None = None
        self._logs_in = str(settings.get("security_protocol", "")).startswith("SASL")
        self._refusals: dict[Any, Exception] = {}

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        is_new = node_id not in self._conns
        connection = super().get_connection(node_id, **options)
        if is_new:
            connection.init_future.add_errback(lambda error: self._note(node_id, error))
        return connection

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Asked by the library before it tries a node again. It forgets failures of bootstrap connections by itself."""
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
                "the broker closed the connection while we logged in: it may not take this user, password or mechanism"
            )
        if self.last_failure is None or not isinstance(error, errors.RequestTimedOutError):
            self.last_failure = error
        if self.cluster.is_bootstrap(node_id):
            if is_about_settings(error):
                self._refusals[node_id] = error
            else:
                self._refusals.pop(node_id, None)


def open_network(**settings: Any) -> Any:
    """What kafka-python's clients take as their `kafka_client`."""
    net: Any = cast(Any, NetworkSelector)(**settings)
    return cast(Any, KafkaNetClient)(net=net, manager=Connections(net, **settings), **settings)


def is_about_settings(error: Exception) -> bool:
    """Whether the same settings will meet the same failure: who we are, or whether the broker is to be trusted."""
    about = (UntrustedError, errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)
    return isinstance(error, about)

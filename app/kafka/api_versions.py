"""How old a broker is, told from the API versions that it offers.

confluent-kafka does not say them; kafka-python asks for them when it connects and keeps them behind a private name, so
this is the one module that touches it, and a test against a real broker holds it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from kafka import KafkaAdminClient  # pyright: ignore[reportMissingTypeStubs] - the package has no types
from kafka.errors import KafkaError  # pyright: ignore[reportMissingTypeStubs] - as above

CONSUMER_GROUP_HEARTBEAT = 68
"""The request of KIP-848 groups."""

_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


class OfferedApis(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is (major, minor) of the newest release whose requests the broker knows."""

    version: tuple[int, int]
    keys: frozenset[int]

    @property
    def offers_consumer_protocol(self) -> bool:
        return CONSUMER_GROUP_HEARTBEAT in self.keys


def offered_apis(address: str, connection: Mapping[str, str], *, timeout_s: float) -> OfferedApis | None:
    """What the broker at `host:port` offers; None when it does not say in time. Blocks; secrets are resolved."""
    settings: dict[str, Any] = {ours: connection[theirs] for theirs, ours in _NAMES.items() if theirs in connection}
    if connection.get("ssl.endpoint.identification.algorithm") in ("none", ""):
        settings["ssl_check_hostname"] = False
    make: Any = KafkaAdminClient
    client: Any = None
    try:
        client = make(
            bootstrap_servers=[address],
            client_id="fenceline-admin",
            bootstrap_timeout_ms=round(timeout_s * 1000),
            request_timeout_ms=round(timeout_s * 1000),
            **settings,
        )
        data: Any = client._manager.broker_version_data  # noqa: SLF001 - see the module's docstring
        if data is None:
            return None
        version = cast("tuple[int, ...]", data.broker_version)
        return OfferedApis(
            version=(version[0], version[1]), keys=frozenset(cast("Mapping[int, Any]", data.api_versions))
        )
    except (KafkaError, OSError):
        return None
    finally:
        if client is not None:
            with contextlib.suppress(KafkaError, OSError):
                client.close()

"""A wrong address is explained: the kind of its listener, and the setting to change."""

# trustme also takes contexts of pyOpenSSL, which is not installed.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
import trustme

from app.edges.kafka import first_contact
from tests.support.hostile_broker import (
    API_VERSIONS,
    METADATA,
    SASL_HANDSHAKE,
    answering,
    hang_up,
    metadata,
    sasl_handshake,
    serving,
    versions,
)

_WITHIN_S = 4.0


def _why(address: str, **settings: str) -> str:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    began = time.monotonic()
    found = first_contact.why_not({"bootstrap.servers": address, **given}, within_s=_WITHIN_S)
    assert time.monotonic() - began < _WITHIN_S + 5
    assert found is not None
    assert address in found
    return found


@pytest.mark.parametrize("port", ["9" * 23, "65536", "²"])
def test_an_invalid_port_has_no_reason(port: str) -> None:
    assert f"127.0.0.1:{port}" in _why(f"127.0.0.1:{port}")


def test_unused_port_and_name_without_an_address() -> None:
    assert "Connection refused" in _why("127.0.0.1:1")
    assert "the name resolves to no address" in _why("nowhere.invalid:9092")


def test_http_server_is_named_as_one() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert "is an HTTP server, no Kafka broker" in _why(address)


def test_tls_where_plain_was_meant_and_the_reverse(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with answering(b"", context) as address:
        assert "speaks TLS" in _why(address)
    with serving(hang_up) as broker:

        def answer(number: int, version: int, _: bytes) -> bytes | None:
            return versions({API_VERSIONS: (0, 0)}, version) if number == API_VERSIONS else None

        broker.answer = answer
        found = _why(broker.address, security_protocol="SSL", ssl_ca_location=str(tmp_path / "ca.pem"))
    assert "is a Kafka listener without TLS: set security.protocol to PLAINTEXT" in found


def test_listener_that_expects_sasl_and_one_that_takes_none_or_another() -> None:
    code = [34]

    def answer(number: int, version: int, _: bytes) -> bytes | None:
        if number == API_VERSIONS:
            return versions({API_VERSIONS: (0, 0)}, version)
        return sasl_handshake(code[0], "SCRAM-SHA-512") if number == SASL_HANDSHAKE else None

    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with serving(answer) as broker:
        assert "expects SASL: set security.protocol to SASL_PLAINTEXT" in _why(broker.address)
        assert "takes no SASL: set security.protocol to PLAINTEXT" in _why(broker.address, **login)
        code[0] = 33
        assert "does not take the mechanism PLAIN; it takes SCRAM-SHA-512" in _why(broker.address, **login)


def test_broker_that_answers_has_no_problem() -> None:
    with serving(hang_up) as broker:

        def answer(number: int, version: int, _: bytes) -> bytes | None:
            if number == API_VERSIONS:
                return versions({API_VERSIONS: (0, 0)}, version)
            return metadata(broker.port, version, cluster_id=None) if number == METADATA else None

        broker.answer = answer
        assert first_contact.why_not({"bootstrap.servers": broker.address}, within_s=_WITHIN_S) is None

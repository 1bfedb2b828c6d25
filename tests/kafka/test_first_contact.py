"""A wrong address is explained: what listens there, and which setting is to be changed."""

# trustme also takes contexts of pyOpenSSL, which is not installed.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_server

import trustme

from app.kafka import first_contact
from tests.support.hostile_broker import API_VERSIONS, METADATA, hang_up, metadata, serving, string, versions

_SASL_HANDSHAKE = 17
_WITHIN_S = 4.0


@contextmanager
def _answering(said: bytes, context: ssl.SSLContext | None = None) -> Generator[str]:
    """The address of a listener that says this to whatever it is asked, and hangs up."""
    with create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return  # closed: the test is over
                with plain, suppress(OSError):
                    connection = plain if context is None else context.wrap_socket(plain, server_side=True)
                    connection.recv(4096)
                    connection.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(2)


def _why(address: str, **settings: str) -> str:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    began = time.monotonic()
    found = first_contact.why_not({"bootstrap.servers": address, **given}, within_s=_WITHIN_S)
    assert time.monotonic() - began < _WITHIN_S + 5
    assert found is not None
    assert address in found
    return found


def test_port_that_nobody_listens_on_and_name_without_an_address() -> None:
    assert "Connection refused" in _why("127.0.0.1:1")
    assert "the name resolves to no address" in _why("nowhere.invalid:9092")


def test_http_server_is_named_as_one() -> None:
    with _answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert "is an HTTP server, no Kafka broker" in _why(address)


def test_tls_where_plain_was_meant_and_the_reverse(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with _answering(b"", context) as address:
        assert "speaks TLS" in _why(address)
    with serving(hang_up) as broker:

        def answer(number: int, version: int, _: bytes) -> bytes | None:
            return versions({API_VERSIONS: (0, 0)}, version) if number == API_VERSIONS else None

        broker.answer = answer
        found = _why(broker.address, security_protocol="SSL", ssl_ca_location=str(tmp_path / "ca.pem"))
    assert "speaks no TLS, but Kafka: set security.protocol to PLAINTEXT" in found


def test_listener_that_expects_sasl_and_one_that_takes_none_or_another() -> None:
    code = [34]

    def answer(number: int, version: int, _: bytes) -> bytes | None:
        if number == API_VERSIONS:
            return versions({API_VERSIONS: (0, 0)}, version)
        if number == _SASL_HANDSHAKE:
            return struct.pack(">ihi", 0, code[0], 1) + string("SCRAM-SHA-512")
        return None

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

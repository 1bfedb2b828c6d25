"""An expired certificate is named at every kind of connection; with a listener that only does TLS."""

# trustme also takes contexts of pyOpenSSL, which is not installed.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

import pytest
import trustme

from app.core.clusters.partition import Partition
from app.edges.kafka import handshake
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.errors import BrokerUnreachableError
from tests.support.secured import EXPIRED

Settings = dict[str, str]


@contextmanager
def listening(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> Generator[str]:
    """Its address; with `clients` it wants a certificate of that authority. It answers nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    with create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return  # closed: the test is over
                with plain:
                    try:
                        context.wrap_socket(plain, server_side=True).close()
                    except OSError:
                        continue  # what the client makes of it is the test

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(2)


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made


def settings(address: str, folder: Path, client: trustme.LeafCert | None = None) -> Settings:
    given = {
        "bootstrap.servers": address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
    }
    if client is not None:
        file = folder / "client.pem"
        client.private_key_and_cert_chain_pem.write_to_path(file)
        given |= {"ssl.certificate.location": str(file), "ssl.key.location": str(file)}
    return given


async def through_the_brokers_port(connection: Settings) -> None:
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    try:
        await brokers.describe_cluster(connection, timeout_s=3)
    finally:
        await brokers.close()


async def through_the_transactions_port(connection: Settings) -> None:
    transactions = KafkaTransactions(environment={}, secrets_dir=None)
    await transactions.look_at_partitions(connection, [Partition("t", 0)], timeout_s=3)


through_each_port = pytest.mark.parametrize(
    "ask", [through_the_brokers_port, through_the_transactions_port], ids=lambda f: f.__name__
)


@through_each_port
async def test_expired_certificate_of_a_broker_is_named(
    ask: Callable[[Settings], Awaitable[None]], authority: trustme.CA, tmp_path: Path
) -> None:
    expired = authority.issue_cert("127.0.0.1", **EXPIRED)
    with listening(expired) as address, pytest.raises(BrokerUnreachableError) as raised:
        await ask(settings(address, tmp_path))
    assert (
        raised.value.error.removeprefix(f"{address}: ")
        == "the broker's certificate is not accepted: certificate has expired"
    )


@through_each_port
async def test_expired_client_certificate_is_named_with_its_file(
    ask: Callable[[Settings], Awaitable[None]], authority: trustme.CA, tmp_path: Path
) -> None:
    expired, broker = authority.issue_cert("client.invalid", **EXPIRED), authority.issue_cert("127.0.0.1")
    with listening(broker, clients=authority) as address, pytest.raises(BrokerUnreachableError) as raised:
        await ask(settings(address, tmp_path, expired))
    said = f"the broker does not accept the client certificate, {tmp_path / 'client.pem'}: certificate has expired"
    assert raised.value.error.removeprefix(f"{address}: ") == said


def test_client_certificate_refused_for_another_reason_is_not_called_expired(
    authority: trustme.CA, tmp_path: Path
) -> None:
    of_others = trustme.CA().issue_cert("client.invalid")
    with listening(authority.issue_cert("127.0.0.1"), clients=authority) as address:
        said = handshake.problem(settings(address, tmp_path, of_others), address)
    assert said == f"the broker does not accept the client certificate, {tmp_path / 'client.pem'}: unknown ca"


@through_each_port
async def test_certificate_of_another_host_is_named(
    ask: Callable[[Settings], Awaitable[None]], authority: trustme.CA, tmp_path: Path
) -> None:
    elsewhere = authority.issue_cert("elsewhere.invalid")
    with listening(elsewhere) as address, pytest.raises(BrokerUnreachableError) as raised:
        await ask(settings(address, tmp_path))
    mismatch = "IP address mismatch, certificate is not valid for '127.0.0.1'."
    assert raised.value.error.removeprefix(f"{address}: ") == f"the broker's certificate is not accepted: {mismatch}"


def test_missing_client_certificate_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    with listening(authority.issue_cert("127.0.0.1"), clients=authority) as address:
        assert "ssl.certificate.location" in (handshake.problem(settings(address, tmp_path), address) or "")


def test_handshake_that_goes_well_has_no_problem(authority: trustme.CA, tmp_path: Path) -> None:
    with listening(authority.issue_cert("127.0.0.1")) as address:
        assert handshake.problem(settings(address, tmp_path), address) is None
    assert handshake.problem(settings("", tmp_path), "127.0.0.1:1") is None
    assert handshake.problem(settings("", tmp_path), "nowhere.invalid:9093") is None

"""A broker that answers at its bootstrap address and advertises a wrong one is reported with address and reason."""

# trustme also takes contexts of pyOpenSSL, which is not installed.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
import time
from collections.abc import Generator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import trustme

from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.journal_tail import KafkaJournals
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.searching import KafkaSearch
from app.kit.errors import BrokerUnreachableError, InvalidError
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hostile_broker import answering, expecting_sasl, serving

pytestmark = pytest.mark.slow

_VERDICT_S = 15.0
_ELSEWHERE = "192.0.2.1:9092"
_KINDS = {
    "DEAD": "Connection refused",
    "UNRESOLVED": "the name resolves to no address",
    "WEB": "is an HTTP server, no Kafka broker",
    "TLS": "speaks TLS",
    "LOGIN": "is Kafka and expects SASL: set security.protocol to SASL_PLAINTEXT",
}
_QUESTIONS = ("describe", "transactions", "journals", "search")


class Wrong(NamedTuple):
    """A real broker with a listener for each kind: where it answers, and where it says that it does."""

    cluster: KafkaCluster
    advertised: dict[str, str]

    def bootstrap(self, kind: str) -> str:
        return self.cluster.broker(1).listeners[kind].bound


@pytest.fixture(scope="module")
def wrong() -> Generator[Wrong]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with ExitStack() as stack:
        advertised = {
            "DEAD": "127.0.0.1:1",
            "UNRESOLVED": "nowhere.invalid:9092",
            "WEB": stack.enter_context(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
            "TLS": stack.enter_context(answering(b"", context)),
            "LOGIN": stack.enter_context(serving(expecting_sasl)).address,
            "ELSEWHERE": _ELSEWHERE,
        }
        cluster = stack.enter_context(
            KafkaCluster.start(
                listeners=dict.fromkeys(advertised, "PLAINTEXT"),
                advertised={name: [address] for name, address in advertised.items()},
                overrides=TEST_BROKER_SETTINGS,
            )
        )
        yield Wrong(cluster, advertised)


async def _ask(question: str, bootstrap: str, allowed: tuple[str, ...]) -> None:
    connection = {"bootstrap.servers": bootstrap}
    if question == "describe":
        brokers = KafkaBrokers(environment={}, secrets_dir=None, allowed_addresses=allowed)
        try:
            # As long as questions may take: the verdict does not wait for that.
            await brokers.describe_cluster(connection, timeout_s=60)
        finally:
            await brokers.close()
    elif question == "transactions":
        asking = KafkaTransactions(environment={}, secrets_dir=None, allowed_addresses=allowed)
        await asking.look_at_group(connection, "g")
    elif question == "journals":
        journals = KafkaJournals(
            environment={}, secrets_dir=None, topics=["__transaction_state"], allowed_addresses=allowed
        )
        with journals.open(connection, timeout_s=5):
            pass
    else:
        search = KafkaSearch(environment={}, secrets_dir=None, allowed_addresses=allowed)
        with search.open_search(connection, timeout_s=5) as asked:
            asked.all_partitions()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "question"), [*((kind, "describe") for kind in _KINDS), *(("DEAD", one) for one in _QUESTIONS[1:])]
)
async def test_verdict_names_broker_address_and_kind_within_15_s(wrong: Wrong, kind: str, question: str) -> None:
    bootstrap, advertised = wrong.bootstrap(kind), wrong.advertised[kind]
    began = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as refused:
        await _ask(question, bootstrap, (advertised,))
    assert time.monotonic() - began < _VERDICT_S
    message = refused.value.message
    assert message.startswith(f"{bootstrap} answers, but broker 1 does not at its advertised address: {advertised}")
    assert _KINDS[kind] in message


@pytest.mark.parametrize("question", _QUESTIONS)
async def test_address_that_is_not_allowed_is_not_connected_to(wrong: Wrong, question: str) -> None:
    """Registered long ago: the list is compared with what the brokers say now, at every question."""
    with pytest.raises(InvalidError) as refused:
        await _ask(question, wrong.bootstrap("ELSEWHERE"), ())
    assert (
        f"the cluster advertises an address that is not allowed: {_ELSEWHERE} is not on this machine"
        in refused.value.message
    )

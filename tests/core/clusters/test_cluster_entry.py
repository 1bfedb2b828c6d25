"""The addresses and options that a cluster's entry may have."""

from __future__ import annotations

import pytest

from app.core.clusters.cluster_entry import check_advertised, check_cluster, is_allowed_address

PATTERNS = ("kafka-*.example.org:9093", "10.0.0.*:9092", "[fd00::1]:9092")


@pytest.mark.parametrize(
    ("address", "ok"),
    [
        ("127.0.0.1:1", True),
        ("localhost:9092", True),
        ("[::1]:9092", True),
        ("kafka-1.example.org:9093", True),
        ("10.0.0.7:9092", True),
        ("[fd00::1]:9092", True),
        ("kafka-1.example.org:9092", False),
        ("10.0.1.7:9092", False),
        ("127.0.0.1.evil.org:9092", False),
        ("example.org:9093", False),
        ("127.evil.org:9092", False),
        ("10.0.0.evil.org:9092", False),
        ("KAFKA-2.example.ORG:9093", True),
        ("kafka-1.sub.example.org:9093", False),
    ],
)
def test_addresses_beyond_loopback_need_a_pattern(address: str, ok: bool) -> None:
    assert is_allowed_address(address, PATTERNS) is ok


def test_a_star_alone_is_every_host() -> None:
    assert is_allowed_address("kafka.example.org:9092", ["*:9092"])
    assert not is_allowed_address("kafka.example.org:9093", ["*:9092"])
    assert is_allowed_address("kafka.example.org:9093", ["*"])


def problems(servers: str = "127.0.0.1:9092", name: str = "demo", **config: str) -> dict[str, str]:
    found = check_cluster(
        name=name,
        bootstrap_servers=servers,
        client_config={key.replace("_", "."): value for key, value in config.items()},
        allowed_addresses=PATTERNS,
    )
    return {problem.field: problem.message for problem in found}


def test_a_plain_entry_has_no_problems() -> None:
    assert problems(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_password="env:FENCELINE_SECRET_K") == {}


@pytest.mark.parametrize(
    ("found", "field", "words"),
    [
        (problems(servers=" , "), "bootstrap_servers", "name at least one broker as host:port"),
        (problems(servers="localhost"), "bootstrap_servers", "not of the form host:port"),
        *(
            (problems(servers=f"localhost:{port}"), "bootstrap_servers", "not of the form host:port")
            for port in ("²", "99999", "65536", "0", "9" * 23, "٩٠٩٢", "-1", "+1", " 1", "")
        ),
        (problems(servers="example.org:9092"), "bootstrap_servers", "FENCELINE_ALLOWED_BROKER_ADDRESSES"),
        (problems(name="Demo!"), "name", "begins with a letter"),
        (problems(sasl_password="hunter2"), "client_config.sasl.password", "must be a reference"),
        (problems(builtin_features="x"), "client_config.builtin.features", "cannot be set on a cluster"),
        (problems(sasl_username="-x"), "client_config.sasl.username", "cannot begin with '-'"),
    ],
)
def test_each_mistake_has_its_field_and_its_way_out(found: dict[str, str], field: str, words: str) -> None:
    assert words in found[field]


def test_where_a_cluster_sends_its_clients_must_be_allowed_too() -> None:
    (problem,) = check_advertised(["127.0.0.1:9092", "203.0.113.9:9092"], allowed_addresses=())
    assert problem.field == "bootstrap_servers"
    assert "the cluster advertises an address that is not allowed: 203.0.113.9:9092" in problem.message


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "sasl.mechanism", "AWS_MSK_IAM is not supported: use PLAIN, SCRAM-SHA-256"),
        ({"sasl_mechanisms": "OAUTHBEARER"}, "sasl.mechanisms", "OAUTHBEARER is not supported"),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism", "SASL_SSL needs a mechanism"),
        ({"security_protocol": "TLS"}, "security.protocol", "TLS is not supported: use PLAINTEXT, SASL_PLAINTEXT"),
    ],
)
def test_login_that_no_client_speaks_is_refused(config: dict[str, str], field: str, words: str) -> None:
    """librdkafka would accept AWS_MSK_IAM and then wait for ever for a token."""
    assert words in problems(**config)[f"client_config.{field}"]

"""librdkafka's settings of a cluster as Kafka's Java clients take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.errors import InvalidError
from workers.spark.java_client import java_settings

AT = {"bootstrap.servers": "a:1"}


def read(path: str) -> str:
    return f"PEM of {path}"


KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----"


def test_plain_text_is_the_default() -> None:
    assert java_settings(AT) == {**AT, "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", "plain.Plain"), ("SCRAM-SHA-512", "scram.Scram")])
def test_a_login_is_quoted_for_jaas(mechanism: str, module: str) -> None:
    login = {"sasl.mechanisms": mechanism, "sasl.username": "u", "sasl.password": 'a"b\\c;'}
    found = java_settings({**AT, "security.protocol": "sasl_plaintext", **login})
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert found["sasl.mechanism"] == mechanism
    assert found["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module}LoginModule required username="u" password="a\\"b\\\\c;";'
    )


def test_certificates_and_key_travel_as_text() -> None:
    files = {"ssl.ca.location": "ca", "ssl.certificate.location": "cert", "ssl.key.location": KEY}
    found = java_settings({**AT, "security.protocol": "SSL", **files, "ssl.key.password": "p"}, read=read)
    assert found == {
        **AT,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM of ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "PEM of cert",
        "ssl.keystore.key": f"PEM of {KEY}",
        "ssl.key.password": "p",
    }


def test_a_password_is_left_out_for_a_key_that_is_not_encrypted() -> None:
    files = {"ssl.certificate.location": "cert", "ssl.key.location": "key"}
    found = java_settings({**AT, "security.protocol": "SSL", **files, "ssl.key.password": "p"}, read=read)
    assert "ssl.key.password" not in found


def test_the_check_of_the_host_name_can_be_off() -> None:
    found = java_settings(
        {**AT, "security.protocol": "SASL_SSL", **_scram(), "ssl.endpoint.identification.algorithm": "none"}
    )
    assert found["ssl.endpoint.identification.algorithm"] == ""


def _scram() -> dict[str, str]:
    return {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "p"}


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, "certificate.verification"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/absent"}, "ssl.ca.location /absent cannot be read"),
        ({"security.protocol": "SSL", "ssl.certificate.location": "c"}, "ssl.key.location is missing"),
    ],
)
def test_a_setting_without_an_equivalent_is_named(given: dict[str, str], part: str) -> None:
    with pytest.raises(InvalidError, match=part):
        java_settings({**AT, **given})


def test_a_key_that_java_cannot_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----")
    files = {"ssl.certificate.location": str(key), "ssl.key.location": str(key)}
    with pytest.raises(InvalidError, match="openssl pkcs8 -topk8"):
        java_settings({**AT, "security.protocol": "SSL", **files})

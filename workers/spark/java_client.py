"""The settings of Kafka's Java clients from a cluster's librdkafka settings.

Names: librdkafka's CONFIGURATION.md, and Kafka's SslConfigs and SaslConfigs (3.9). Certificates and keys travel as
text, since an executor may have no such file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from app.kit.errors import InvalidError

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
_OLD_KEYS = ("BEGIN RSA PRIVATE KEY", "BEGIN EC PRIVATE KEY", "BEGIN DSA PRIVATE KEY")


def _text_of(path: str) -> str:
    return Path(path).read_text("ascii")


def java_settings(client_config: Mapping[str, str], *, read: Callable[[str], str] = _text_of) -> dict[str, str]:
    """Return the settings for Java, without "kafka.".

    Args:
        client_config: the settings of a cluster's entry (app/core/clusters/cluster_entry.py), secrets resolved.
        read: returns the text of a file by its path.

    Raises:
        InvalidError: a setting without an equivalent in Java, or a file that cannot be read.
    """
    protocol = client_config.get("security.protocol", "PLAINTEXT").upper()
    found = {"bootstrap.servers": client_config["bootstrap.servers"], "security.protocol": protocol}
    if protocol.startswith("SASL_"):
        found |= _login(client_config)
    if protocol.endswith("SSL"):
        found |= _tls(client_config, read)
    return found


def _login(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))
    module = _MODULES.get(mechanism)
    if module is None:
        raise InvalidError(f"sasl.mechanism {mechanism or '(none)'} is not supported: use {', '.join(_MODULES)}")
    name, password = (_quoted(given.get(f"sasl.{part}", "")) for part in ("username", "password"))
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required username={name} password={password};",
    }


def _quoted(text: str) -> str:
    """As JAAS reads it: a backslash escapes itself and the quote."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(given: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise InvalidError("enable.ssl.certificate.verification=false is not possible with Java. Use ssl.ca.location.")
    found: dict[str, str] = {}
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if "ssl.ca.location" in given:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.certificates"] = _read(given, "ssl.ca.location", read)
    if "ssl.certificate.location" in given:
        key = _read(given, "ssl.key.location", read)
        if any(kind in key for kind in _OLD_KEYS):
            raise InvalidError("ssl.key.location has no PKCS#8 key. Convert it with `openssl pkcs8 -topk8`.")
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = _read(given, "ssl.certificate.location", read)
        found["ssl.keystore.key"] = key
        # Unlike librdkafka, Java decrypts every key if there is a password.
        if "ssl.key.password" in given and "ENCRYPTED PRIVATE KEY" in key:
            found["ssl.key.password"] = given["ssl.key.password"]
    return found


def _read(given: Mapping[str, str], option: str, read: Callable[[str], str]) -> str:
    if option not in given:
        raise InvalidError(f"{option} is missing.")
    try:
        return read(given[option])
    except (OSError, ValueError) as error:
        raise InvalidError(f"{option} {given[option]} cannot be read: {error}") from error

"""From a cluster's entry to what a client is given: references to secrets resolved, here and nowhere earlier."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path

from app.core.clusters import secret_reference
from app.core.clusters.cluster_entry import SASL_MECHANISMS, is_allowed_address
from app.kit.errors import InvalidError

BOOTSTRAP = "bootstrap.servers"
ANYWHERE = ("*",)
"""Addresses that whoever types them may ask: without a server there is no list of allowed brokers."""
# No client's setting: it goes where the settings go, and no client of ours is given it.
_ALLOWED = "fenceline.allowed.broker.addresses"
_CERTIFICATE = "CERTIFICATE"
_PEM_FILES = {
    "ssl.ca.location": _CERTIFICATE,
    "ssl.certificate.location": _CERTIFICATE,
    "ssl.key.location": "PRIVATE KEY",
}
_LARGEST_PEM_BYTES = 4 << 20


def resolve(
    connection: Mapping[str, str],
    *,
    environment: Mapping[str, str],
    secrets_dir: Path | None,
    allowed_addresses: Collection[str] = ANYWHERE,
) -> dict[str, str]:
    """The client settings with their secrets, and what `is_allowed` is to say of each address.

    Raises InvalidError that names the option, and the reference or the file that cannot be used.
    """

    def read_file(name: str) -> str:
        if secrets_dir is None:
            raise FileNotFoundError(errno.ENOENT, "FENCELINE_SECRETS_DIR is not set")
        return (secrets_dir / name).read_text()

    resolved = secret_reference.resolve(connection, environment=environment, read_file=read_file)
    for option, label in _PEM_FILES.items():
        if option in resolved and not _is_pem(Path(resolved[option]), label):
            raise InvalidError(
                f"{option}: {resolved[option]} is not a readable PEM file with a {label.lower()}", field="client_config"
            )
    if allowed_addresses != ANYWHERE:
        resolved[_ALLOWED] = ",".join(allowed_addresses)
    return resolved


def is_allowed(resolved: Mapping[str, str], address: str) -> bool:
    """Whether the server may connect to `host:port`: brokers name addresses of their own choice."""
    allowed = resolved.get(_ALLOWED)
    return allowed is None or is_allowed_address(address, [one for one in allowed.split(",") if one])


def _is_pem(path: Path, label: str) -> bool:
    """Whatever else the file is, nothing of it is read further or said."""
    if label == _CERTIFICATE and (path.is_dir() or str(path) == "probe"):
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return f"{label}-----".encode() in file.read(_LARGEST_PEM_BYTES)
    except OSError:
        return False


def to_kafka_python(resolved: Mapping[str, str]) -> dict[str, object]:
    """The same settings in the words of kafka-python; only those that a cluster's entry may have.

    Raises InvalidError for a mechanism that is not spoken, and for files of certificates that cannot be used.
    """
    protocol = resolved.get("security.protocol", "PLAINTEXT").upper()
    settings: dict[str, object] = {
        "bootstrap_servers": [address.strip() for address in resolved[BOOTSTRAP].split(",")],
        "security_protocol": protocol,
        "sasl_mechanism": mechanism_of(resolved) if protocol.startswith("SASL") else None,
        "sasl_plain_username": resolved.get("sasl.username"),
        "sasl_plain_password": resolved.get("sasl.password"),
    }
    if protocol.endswith("SSL"):
        try:
            settings["ssl_context"] = tls_context(resolved)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InvalidError(_unusable(resolved, error), field="client_config") from error
    return settings


def mechanism_of(resolved: Mapping[str, str]) -> str:
    """The SASL mechanism. Raises InvalidError for one that is not spoken."""
    named = resolved.get("sasl.mechanism", resolved.get("sasl.mechanisms", ""))
    if named.upper() not in SASL_MECHANISMS:
        known = ", ".join(sorted(SASL_MECHANISMS))
        raise InvalidError(f"sasl.mechanism {named or '(none)'} is not spoken: use {known}", field="client_config")
    return named.upper()


def _unusable(resolved: Mapping[str, str], error: Exception) -> str:
    """Which of the files it is that cannot be used."""
    for option in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        path = resolved.get(option)
        if path is not None and path != "probe" and not Path(path).exists():
            return f"{option}: there is no file {path}"
    which = "ssl.certificate.location" if "ssl.certificate.location" in resolved else "ssl.ca.location"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{which} {resolved.get(which, '')} cannot be used: {why}"


def tls_context(resolved: Mapping[str, str]) -> ssl.SSLContext:
    """TLS as librdkafka does it by these settings: certificates and host names are checked unless told otherwise."""
    authority = resolved.get("ssl.ca.location")
    if authority is None or authority == "probe":
        context = ssl.create_default_context()
    elif Path(authority).is_dir():
        context = ssl.create_default_context(capath=authority)
    else:
        context = ssl.create_default_context(cafile=authority)
    if resolved.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if resolved.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = resolved.get("ssl.certificate.location")
    if certificate is not None:
        context.load_cert_chain(certificate, resolved.get("ssl.key.location"), resolved.get("ssl.key.password"))
    return context

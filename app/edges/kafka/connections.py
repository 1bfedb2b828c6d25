"""Make client settings of a cluster's entry: references to secrets are resolved here, and nowhere earlier."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from app.core.clusters import secret_reference
from app.core.clusters.cluster_entry import SASL_MECHANISMS, is_allowed_address
from app.kit.errors import InvalidError

BOOTSTRAP = "bootstrap.servers"
ANYWHERE = ("*",)
"""A command without a server may ask any address: the list of allowed brokers is the server's."""
# Fenceline's own entry in the settings, which no client gets.
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
    """Return the client settings with their secrets, and the check `is_allowed` for addresses.

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


class ClusterConnector:
    """Connects to clusters by their entries.

    environment, secrets_dir: for references to secrets, which are resolved for each connection.
    allowed_addresses: the permitted addresses of brokers, advertised ones included.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secrets_dir: Path | None,
        allowed_addresses: Collection[str] = ANYWHERE,
    ) -> None:
        self._resolve = partial(
            resolve, environment=environment, secrets_dir=secrets_dir, allowed_addresses=allowed_addresses
        )


def is_allowed(resolved: Mapping[str, str], address: str) -> bool:
    """Return whether the server may connect to `host:port`, as brokers choose their advertised addresses."""
    allowed = resolved.get(_ALLOWED)
    return allowed is None or is_allowed_address(address, [one for one in allowed.split(",") if one])


def _is_pem(path: Path, label: str) -> bool:
    """Read no further than the first lines, and quote nothing: the file may be of any kind."""
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
    """Return the same settings for kafka-python; only those that a cluster's entry may have.

    Raises InvalidError for an unsupported mechanism, and for unusable files of certificates.
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
    """Return the SASL mechanism. Raises InvalidError for an unsupported one."""
    named = resolved.get("sasl.mechanism", resolved.get("sasl.mechanisms", ""))
    if named.upper() not in SASL_MECHANISMS:
        known = ", ".join(sorted(SASL_MECHANISMS))
        raise InvalidError(f"sasl.mechanism {named or '(none)'} is not supported: use {known}", field="client_config")
    return named.upper()


def _unusable(resolved: Mapping[str, str], error: Exception) -> str:
    """Name the file that cannot be used."""
    for option in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        path = resolved.get(option)
        if path is not None and path != "probe" and not Path(path).exists():
            return f"{option}: there is no file {path}"
    which = "ssl.certificate.location" if "ssl.certificate.location" in resolved else "ssl.ca.location"
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{which} {resolved.get(which, '')} cannot be used: {why}"


def tls_context(resolved: Mapping[str, str]) -> ssl.SSLContext:
    """Make a TLS context as librdkafka by these settings: certificates and host names are checked by default."""
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

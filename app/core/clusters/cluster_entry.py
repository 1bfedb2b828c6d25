"""Checks of a cluster's entry: allowed addresses, security options, secrets as references only."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from app.core.clusters import secret_reference
from app.kit.errors import Problem

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
SECURITY_OPTIONS = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "client.dns.lookup",
        "broker.address.family",
        "socket.connection.setup.timeout.ms",
    }
)
"""The options of an entry besides bootstrap.servers. None of them loads code or runs a command."""
SECRET_OPTIONS = frozenset({"sasl.password", "ssl.key.password"})
SECURITY_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
SASL_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
"""Mechanisms of all clients. librdkafka accepts others and then waits for callbacks that do not exist (AWS_MSK_IAM)."""


def host_and_port(address: str) -> tuple[str, str]:
    """Split `host:port` or `[v6]:port`; the port is empty if there is none."""
    host, _, port = address.strip().rpartition(":")
    return (host.strip("[]"), port) if host else (address.strip(), "")


def port_number(port: str) -> int | None:
    """Return the number of a port, from 1 to 65535; None for any other text."""
    is_number = port.isascii() and port.isdecimal() and len(port) <= len("65535")
    return int(port) if is_number and 0 < int(port) <= 65_535 else None


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine, by address or as `localhost`; a similar name is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_allowed_address(address: str, patterns: Collection[str]) -> bool:
    """Return whether `host:port` is loopback or matches one of the administrator's `host:port` patterns."""
    return is_loopback(host_and_port(address)[0]) or matches_an_address(address, patterns)


def matches_an_address(address: str, patterns: Collection[str]) -> bool:
    """Return whether `host:port` matches one of the patterns; a pattern without a port matches any.

    A `*` matches one part between dots, as in certificates; alone it matches every host, or every port.
    """
    host, port = host_and_port(address)
    return any(_matches(host, port, pattern) for pattern in patterns)


def _matches(host: str, port: str, pattern: str) -> bool:
    host_pattern, port_pattern = host_and_port(pattern)
    host_is_right = host_pattern == "*" or re.fullmatch(
        "[^.]*".join(re.escape(part) for part in host_pattern.lower().split("*")), host.lower()
    )
    return bool(host_is_right) and port_pattern in ("", "*", port)


def check_cluster(
    *, name: str, bootstrap_servers: str, client_config: Mapping[str, str], allowed_addresses: Collection[str]
) -> list[Problem]:
    """Return all problems of an entry, without a request to the cluster."""
    problems: list[Problem] = []
    if not _NAME.fullmatch(name):
        problems.append(
            Problem(field="name", message="a cluster's name has 1 to 63 of a-z, 0-9 and -, and begins with a letter")
        )
    addresses = [part.strip() for part in bootstrap_servers.split(",") if part.strip()]
    if not addresses:
        problems.append(Problem(field="bootstrap_servers", message="name at least one broker as host:port"))
    for address in addresses:
        if port_number(host_and_port(address)[1]) is None:
            problems.append(Problem(field="bootstrap_servers", message=f"{address} is not of the form host:port"))
        elif not is_allowed_address(address, allowed_addresses):
            problems.append(Problem(field="bootstrap_servers", message=not_allowed(address)))
    for option, value in client_config.items():
        field = f"client_config.{option}"
        if option not in SECURITY_OPTIONS:
            known = ", ".join(sorted(SECURITY_OPTIONS))
            problems.append(Problem(field=field, message=f"{option} cannot be set on a cluster; these can: {known}"))
        elif option in SECRET_OPTIONS and not secret_reference.is_reference(value):
            problems.append(
                Problem(
                    field=field,
                    message=f"{option} must be a reference, not the secret itself: env:FENCELINE_SECRET_NAME, or "
                    "file:NAME for a file in the folder FENCELINE_SECRETS_DIR",
                )
            )
        elif value.startswith("-"):
            problems.append(Problem(field=field, message="a value cannot begin with '-'"))
    return [*problems, *_login_problems(client_config)]


def _login_problems(client_config: Mapping[str, str]) -> Iterator[Problem]:
    """Yield unsupported protocols and mechanisms: librdkafka would accept them and then wait for ever."""
    protocol = client_config.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in SECURITY_PROTOCOLS:
        known = ", ".join(sorted(SECURITY_PROTOCOLS))
        yield Problem(field="client_config.security.protocol", message=f"{protocol} is not supported: use {known}")
    named = next((name for name in ("sasl.mechanism", "sasl.mechanisms") if name in client_config), None)
    mechanism = "" if named is None else client_config[named]
    if mechanism.upper() in SASL_MECHANISMS or (named is None and not protocol.upper().startswith("SASL")):
        return
    known = ", ".join(sorted(SASL_MECHANISMS))
    field = f"client_config.{named or 'sasl.mechanism'}"
    if mechanism.upper() == "AWS_MSK_IAM":
        yield Problem(field=field, message=f"AWS_MSK_IAM is not supported: use {known} (MSK offers SCRAM-SHA-512)")
    elif named is None:
        yield Problem(field=field, message=f"{protocol} needs a mechanism: {known}")
    else:
        yield Problem(field=field, message=f"{mechanism} is not supported: use {known}")


def not_allowed(address: str) -> str:
    return (
        f"{address} is not on this machine and not on the list of allowed brokers; an administrator allows it "
        f"by the setting FENCELINE_ALLOWED_BROKER_ADDRESSES, for instance {address}"
    )


def sent_on(address: str) -> str:
    """Return the problem of an advertised address that is not allowed."""
    return f"the cluster advertises an address that is not allowed: {not_allowed(address)}"


def check_advertised(addresses: Iterable[str], *, allowed_addresses: Collection[str]) -> list[Problem]:
    """Check the addresses that a cluster's brokers advertise to clients: they must be allowed too."""
    return [
        Problem(field="bootstrap_servers", message=sent_on(address))
        for address in addresses
        if not is_allowed_address(address, allowed_addresses)
    ]

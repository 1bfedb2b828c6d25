"""The allowed receivers: hosts that the administrator names, at public addresses or others that he names too.

Two checks, because a name does not determine its address. The URL is checked when a webhook is written and again before
each delivery. The network address of the host's name is checked before the connection to it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from app.core.clusters.cluster_entry import matches_an_address

_PORTS = {"https": 443, "http": 80}
_IPV4_AT_THE_END = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
"""NAT64 by its well-known prefix (RFC 6052), and stateless translation (RFC 2765)."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The identifier before an IPv4 address in an interface identifier (RFC 5214)."""
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC = (
    *map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    ),
    *map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")),
)
"""By IANA's special-purpose registries (RFC 6890), and relays of 6to4. `is_global` differs by the version of Python."""

Address = IPv4Address | IPv6Address


def origin_of(url: str) -> str:
    """`scheme://host[:port]`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_and_port_of(url: str) -> tuple[str, int]:
    """Return host and port of a URL without problems (`problem_of_url`)."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def problem_of_url(url: str, *, allowed_hosts: Collection[str]) -> str | None:
    """Return why the URL is refused, as a sentence; None: it is allowed, if the host's network address is."""
    if not url.isascii() or any(char.isspace() or not char.isprintable() for char in url):
        return "an address has no spaces and only ASCII; write the host's name in its DNS form (xn--…)"
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError as error:
        return f"this is not an address: {error}"
    return _problem_of_parts(parts) or _problem_of_host(parts.hostname or "", port, allowed_hosts)


def _problem_of_parts(parts: SplitResult) -> str | None:
    if parts.scheme not in _PORTS:
        return "an address begins with https://, or with http:// inside a network that the settings allow"
    if not parts.hostname:
        return "an address names a host"
    if "@" in parts.netloc:
        return "an address has no user and password in it: deliveries are signed instead"
    if parts.fragment:
        return "an address has no #part"
    return None


def _problem_of_host(host: str, port: int | None, allowed_hosts: Collection[str]) -> str | None:
    name = f"[{host}]" if ":" in host else host
    if matches_an_address(f"{name}:{port}", allowed_hosts):
        return None
    return (
        f"{name}:{port} is not on the list of hosts that webhooks may be sent to; an administrator allows it by the "
        f"setting FENCELINE_ALLOWED_WEBHOOK_HOSTS, for instance {name}:{port}"
    )


def problem_of_addresses(
    host: str, addresses: Iterable[str], *, scheme: str, allowed_networks: Collection[str]
) -> str | None:
    """Return why no address of the host's name may be connected to; None: each may.

    One refused address is enough: the owner of the name could choose which one is used.
    """
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(_is_in(one, network) for one in _meant_by(address) for network in allowed_networks):
            continue
        if not all(_is_public(one) for one in _meant_by(address)):
            return (
                f"{host} is at {text}, which is not a public address; an administrator allows it by the setting "
                f"FENCELINE_ALLOWED_WEBHOOK_NETWORKS, for instance {text}"
            )
        if scheme != "https":
            return f"{host} is at {text}, a public address: use https:// for it"
    return None


def _is_public(address: Address) -> bool:
    """Return whether IPv6 is assigned for public use (RFC 4291): the rest is local, reserved, or embeds IPv4."""
    is_assigned = isinstance(address, IPv4Address) or address in _PUBLIC_IPV6
    return is_assigned and not any(address in network for network in _NOT_PUBLIC)


def _meant_by(address: Address) -> tuple[Address, ...]:
    """Return the address, or the IPv4 address that it embeds, in several kinds of IPv6 addresses."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _IPV4_AT_THE_END):
        return (last,)
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return (address, last)
    return (address,)


def _is_in(address: Address, network: str) -> bool:
    allowed = ipaddress.ip_network(network, strict=False)
    return address.version == allowed.version and address in allowed

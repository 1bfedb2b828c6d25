"""Find out by a few bytes why no broker is reached at an address, and which setting to change.

Asked after a client has failed, as its error is often "no answer in time". That is so for a plain client at a TLS
listener, or one without SASL at a listener that expects it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from app.core.clusters.cluster_entry import host_and_port, not_allowed, port_number
from app.edges.kafka import handshake
from app.edges.kafka.connections import BOOTSTRAP, is_allowed, mechanism_of

_MOST_ADDRESSES = 8
_MOST_BROKERS = 64
_MOST_BYTES = 64 << 10
_API_VERSIONS, _METADATA, _SASL_HANDSHAKE = 18, 3, 17
_UNSUPPORTED_MECHANISM, _ILLEGAL_SASL_STATE = 33, 34
_CLIENT_ID = b"fenceline-server"


def why_not(resolved: Mapping[str, str], *, within_s: float) -> str | None:
    """Return a reason for each bootstrap address; None if all of them answer now. Blocks for about `within_s`."""
    addresses = [address.strip() for address in resolved[BOOTSTRAP].split(",") if address.strip()]
    found = _why_not_at(resolved, addresses[:_MOST_ADDRESSES], within_s=within_s)
    return "; ".join(dict.fromkeys(found.values())) or None


def why_not_advertised(resolved: Mapping[str, str], brokers: Mapping[int, str], *, within_s: float) -> dict[int, str]:
    """Return a reason for each broker without an answer at its advertised address, by id. Blocks as `why_not` does.

    brokers: advertised addresses by broker id. More than 64 are not tried, nor is an address that is not allowed.
    """
    tried = {number: brokers[number] for number in sorted(brokers)[:_MOST_BROKERS]}
    may_go_to = [address for address in dict.fromkeys(tried.values()) if is_allowed(resolved, address)]
    found = _why_not_at(resolved, may_go_to, within_s=within_s)
    found |= {address: not_allowed(address) for address in tried.values() if not is_allowed(resolved, address)}
    return {number: of_broker(number, found[address]) for number, address in tried.items() if address in found}


def of_broker(number: int, problem: str) -> str:
    """Return the reason of one broker, to follow "HOST:PORT answers, but"."""
    return f"broker {number} does not at its advertised address: {problem}"


def _why_not_at(resolved: Mapping[str, str], addresses: list[str], *, within_s: float) -> dict[str, str]:
    """Return the addresses without a broker, with reasons. All are tried at once."""
    if not addresses:
        return {}
    until = time.monotonic() + within_s
    threads = ThreadPoolExecutor(len(addresses), thread_name_prefix="first-contact")
    tried = [_Address(resolved, address, until) for address in addresses]
    asked = {one: threads.submit(one.problem) for one in tried}
    wait(asked.values(), timeout=within_s)
    # A name lookup cannot be interrupted.
    threads.shutdown(wait=False, cancel_futures=True)
    found = {one.address: future.result() if future.done() else one.so_far for one, future in asked.items()}
    return {address: problem for address, problem in found.items() if problem is not None}


class _Address:
    """One address, tried until `until` (time.monotonic)."""

    def __init__(self, resolved: Mapping[str, str], address: str, until: float) -> None:
        self._resolved = resolved
        self.address = address
        self.so_far = f"{address}: the name is not resolved in time"
        host, port = host_and_port(address)
        self._where = (host, port_number(port) or 0)
        self._until = until
        self._uses_tls = handshake.uses_tls(resolved)
        self._uses_sasl = resolved.get("security.protocol", "").upper().startswith("SASL")

    def problem(self) -> str | None:
        try:
            socket.getaddrinfo(*self._where, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no host name"
            return f"{self.address}: the name resolves to no address ({why})"
        self.so_far = f"{self.address}: no answer in time"
        try:
            self._connected().close()
        except TimeoutError:
            return f"{self.address} does not accept the connection: no answer in time"
        except OSError as error:
            return f"{self.address}: {error.strerror or error}"
        refused = handshake.problem(self._resolved, self.address) if self._uses_tls else None
        if refused is not None:
            return f"{self.address}: {refused}"
        return self._of_listener()

    def _of_listener(self) -> str | None:
        """Identify the listener, which accepts connections."""
        if self._uses_tls and not self._speaks_tls():
            if self._is_kafka(tls=False):
                protocol = self._other(tls=False)
                return f"{self.address} is a Kafka listener without TLS: set security.protocol to {protocol}"
            return self._no_kafka()
        if not self._is_kafka(tls=self._uses_tls):
            if not self._uses_tls and self._speaks_tls():
                if self._is_kafka(tls=True):
                    return f"{self.address} speaks TLS: set security.protocol to {self._other(tls=True)}"
                return f"{self.address} speaks TLS, and does not answer as Kafka does"
            return self._no_kafka()
        return self._of_sasl()

    def _other(self, *, tls: bool) -> str:
        return ("SASL_SSL" if tls else "SASL_PLAINTEXT") if self._uses_sasl else ("SSL" if tls else "PLAINTEXT")

    def _no_kafka(self) -> str:
        answer = self._said(b"GET / HTTP/1.0\r\n\r\n")
        if answer.startswith(b"HTTP/"):
            return f"{self.address} is an HTTP server, no Kafka broker: check the port"
        if self._is_over:
            return f"{self.address} accepts the connection and does not answer: no answer in time"
        return f"{self.address} accepts the connection and does not answer as Kafka does: check the port"

    def _of_sasl(self) -> str | None:
        """Check whether a Kafka listener expects SASL, and accepts the mechanism."""
        if not self._uses_sasl:
            # A listener with SASL reports its versions without a login, and ends the connection at the next request.
            if self._answer(_METADATA, 1, struct.pack(">i", 0), tls=self._uses_tls) is None:
                wanted = "SASL_SSL" if self._uses_tls else "SASL_PLAINTEXT"
                return f"{self.address} is Kafka and expects SASL: set security.protocol to {wanted}, and a login"
            return None
        mechanism = mechanism_of(self._resolved).encode()
        body = struct.pack(">h", len(mechanism)) + mechanism
        answer = self._answer(_SASL_HANDSHAKE, 1, body, tls=self._uses_tls) or b""
        code = struct.unpack_from(">h", answer)[0] if len(answer) >= 2 else 0
        if code == _ILLEGAL_SASL_STATE:
            wanted = "SSL" if self._uses_tls else "PLAINTEXT"
            return f"{self.address} is Kafka and takes no SASL: set security.protocol to {wanted}"
        if code == _UNSUPPORTED_MECHANISM:
            offered = ", ".join(_strings(answer[2:])) or "none"
            return f"{self.address} does not take the mechanism {mechanism.decode()}; it takes {offered}"
        return None

    def _is_kafka(self, *, tls: bool) -> bool:
        return self._answer(_API_VERSIONS, 0, b"", tls=tls) is not None

    def _answer(self, number: int, version: int, body: bytes, *, tls: bool) -> bytes | None:
        header = struct.pack(">hhih", number, version, number, len(_CLIENT_ID)) + _CLIENT_ID
        said = self._said(struct.pack(">i", len(header) + len(body)) + header + body, tls=tls)
        if len(said) < 8 or struct.unpack_from(">i", said, 4)[0] != number:
            return None
        return said[8:]

    def _said(self, request: bytes, *, tls: bool = False) -> bytes:
        """Return the first bytes of an answer on a connection of its own; empty without an answer."""
        try:
            with self._connected() as plain:
                if not tls:
                    return _first_bytes(plain, request)
                with _unverified().wrap_socket(plain) as secured:
                    return _first_bytes(secured, request)
        except OSError:
            return b""

    def _speaks_tls(self) -> bool:
        try:
            with self._connected() as plain, _unverified().wrap_socket(plain):
                return True
        except ssl.SSLError as error:
            # An alert belongs to TLS: the listener may require a client certificate.
            return "ALERT" in (error.reason or "")
        except OSError:
            return False

    def _connected(self) -> socket.socket:
        # Several requests share the time.
        return socket.create_connection(self._where, max(0.05, (self._until - time.monotonic()) / 3))

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._until


def _first_bytes(connected: socket.socket, request: bytes) -> bytes:
    connected.sendall(request)
    return connected.recv(_MOST_BYTES)


def _unverified() -> ssl.SSLContext:
    """Make a context to detect TLS without verification; no secret is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _strings(data: bytes) -> list[str]:
    """Read an array of strings, as far as possible."""
    found: list[str] = []
    if len(data) < 4:
        return found
    (count,) = struct.unpack_from(">i", data)
    at = 4
    while len(found) < min(count, 20) and at + 2 <= len(data):
        (length,) = struct.unpack_from(">h", data, at)
        found.append(data[at + 2 : at + 2 + max(0, length)].decode("ascii", "replace"))
        at += 2 + max(0, length)
    return found

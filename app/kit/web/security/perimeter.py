"""The checks of every request: peer, Host, Origin; and the headers of every answer.

Loopback is not trusted: a page of any site can make the browser send requests to 127.0.0.1. They come under a name of
its own (DNS rebinding) or with the user's cookies. So Host and Origin must always be names of this server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.settings import Settings, is_loopback
from app.kit.web.problems import ProblemResponse
from app.kit.web.security.cookies import COOKIE_NAMES

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
"""No inline script or style, and nothing from other sites; every asset is a file of Fenceline."""
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def hosts_of(settings: Settings, urls: Iterable[str]) -> frozenset[str]:
    """Return the names of a listener: of its own URLs, and those that the settings allow."""
    named = {*settings.allowed_hosts, *(host for url in urls if (host := urlsplit(url).hostname))}
    return frozenset(name.lower().strip("[]") for name in named) | _LOOPBACK_NAMES


class Perimeter:
    """ASGI middleware: refuses foreign peers (403), unknown hosts (421) and foreign origins (403)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        trusted_proxies: Iterable[str] = (),
        public_url: str | None = None,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in trusted_proxies]
        self._public_origin = None if public_url is None else _origin_of(public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._read_peer(scope, headers) or self._check_host(headers) or self._check_origin(scope, headers)
        is_https = scope["scheme"] == "https"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    answer.setdefault("cache-control", "no-store")
                if is_https:
                    answer.setdefault("strict-transport-security", "max-age=31536000")
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _read_peer(self, scope: Scope, headers: Headers) -> ProblemResponse | None:
        """Take scheme and client from a trusted proxy; if proxies are named, other remote peers are refused."""
        if not self._proxies:
            return None
        client = scope.get("client")
        peer = "" if client is None else str(client[0])
        if self._is_proxy(peer):
            scope["scheme"] = _values_of(headers, "x-forwarded-proto")[-1] or scope["scheme"]
            # Each proxy appends its peer: behind a chain of them the last one is a trusted proxy.
            forwarded = _values_of(headers, "x-forwarded-for")
            if client := next((one for one in reversed(forwarded) if not self._is_proxy(one)), forwarded[-1]):
                scope["client"] = (client, 0)
            return None
        if is_loopback(peer):
            return None
        return ProblemResponse(403, f"{peer or 'this peer'} is none of the proxies in trusted_proxies")

    def _is_proxy(self, address: str) -> bool:
        return any(_is_in(address, network) for network in self._proxies)

    def _check_host(self, headers: Headers) -> ProblemResponse | None:
        given = headers.getlist("host")
        name = _host_name(given[0]) if len(given) == 1 else None
        if name is not None and name in self._hosts:
            return None
        shown = ", ".join(given) or "no host"
        return ProblemResponse(
            421, f"this server is not {shown}: an administrator may add its name to the setting allowed_hosts"
        )

    def _check_origin(self, scope: Scope, headers: Headers) -> ProblemResponse | None:
        origin = headers.get("origin")
        if origin is not None:
            own = {f"{scope['scheme']}://{headers['host']}".lower(), self._public_origin}
            return None if origin.lower() in own else _refuse_origin(f"the page of {origin} may not use this server")
        if scope["method"] in SAFE_METHODS:
            return None
        site = headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            return _refuse_origin(f"a {site} page may not use this server")
        if site is None and any(f"{name}=" in headers.get("cookie", "") for name in COOKIE_NAMES):
            return _refuse_origin("a change under a browser's session needs an Origin header; scripts use a token")
        return None


def _refuse_origin(detail: str) -> ProblemResponse:
    return ProblemResponse(403, detail)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _host_name(value: str) -> str | None:
    """The name in a Host header without its port, or None if it is malformed."""
    try:
        parts = urlsplit(f"//{value}")
        _ = parts.port  # raises on a port that is no number
    except ValueError:
        return None
    return None if parts.hostname is None or parts.netloc != value or parts.username is not None else parts.hostname


def _values_of(headers: Headers, name: str) -> list[str]:
    """At least one, which may be empty: lines of one name are one list (RFC 9110), and proxies append to its end."""
    return [value.strip() for value in ",".join(headers.getlist(name)).split(",")]


def _is_in(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False

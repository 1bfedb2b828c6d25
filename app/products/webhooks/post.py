"""Post to the receivers of webhooks: resolve and check addresses, then connect to exactly those.

The name is not resolved again in between, so that a changed DNS answer cannot redirect the connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from app.core.alerts.target import host_and_port_of, origin_of, problem_of_addresses, problem_of_url
from app.core.alerts.webhook import Answered
from app.core.clusters import secret_reference
from app.kit.errors import InvalidError, UnavailableError
from app.products.webhooks.signature import key_of

ANSWER_BYTES = 500
"""The part of an answer that is kept; the rest is not read."""

LookUp = Callable[[str, int], Awaitable[list[str]]]


async def look_up(host: str, port: int) -> list[str]:
    """Resolve a host to its addresses, in the system's order. Raises OSError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        # A name with an empty part, or with one of more than 63 characters.
        raise OSError(errno.EINVAL, f"{host} is no valid host name: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HttpWebhookPost:
    """Implements Post of app/products/webhooks/ports.py.

    allowed_hosts, allowed_networks: the administrator's settings.
    timeout_s: of the complete attempt, from the lookup to the end of the answer.
    """

    def __init__(
        self,
        *,
        allowed_hosts: Collection[str],
        allowed_networks: Collection[str],
        timeout_s: float,
        user_agent: str,
        look_up: LookUp = look_up,
    ) -> None:
        self._allowed_hosts = allowed_hosts
        self._allowed_networks = allowed_networks
        self._timeout_s = timeout_s
        self._user_agent = user_agent
        self._look_up = look_up
        self._tls = httpx.create_ssl_context()

    async def __call__(self, url: str, *, headers: Mapping[str, str], body: bytes) -> Answered:
        # Checked again, as the settings may have changed since the webhook was saved.
        problem = problem_of_url(url, allowed_hosts=self._allowed_hosts)
        if problem is not None:
            raise InvalidError(problem)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(url, headers, body, await self._addresses(url))
        except TimeoutError as error:
            raise UnavailableError(f"{origin_of(url)} did not answer within {self._timeout_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            tried_s = time.monotonic() - began
            why = str(error) or type(error).__name__
            raise UnavailableError(f"{origin_of(url)} does not answer: {why} (tried for {tried_s:.1f} s)") from error

    async def _addresses(self, url: str) -> list[str]:
        host, port = host_and_port_of(url)
        addresses = await self._look_up(host, port)
        problem = problem_of_addresses(
            host, addresses, scheme=httpx.URL(url).scheme, allowed_networks=self._allowed_networks
        )
        if problem is not None:
            raise InvalidError(problem)
        return addresses

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, addresses: list[str]) -> Answered:
        asked = httpx.URL(url)
        host = asked.netloc.decode("ascii")
        # A proxy of the environment would resolve the name again, and could connect elsewhere.
        async with httpx.AsyncClient(
            verify=self._tls, trust_env=False, follow_redirects=False, timeout=self._timeout_s
        ) as client:
            for last, address in ((at == len(addresses), one) for at, one in enumerate(addresses, start=1)):
                request = client.build_request(
                    "POST",
                    asked.copy_with(host=address),
                    content=body,
                    headers={
                        **headers,
                        "host": host,
                        "content-type": "application/json",
                        "user-agent": self._user_agent,
                        "accept-encoding": "identity",
                    },
                    extensions={"sni_hostname": asked.host},
                )
                try:
                    response = await client.send(request, stream=True)
                except httpx.ConnectError:
                    if last:
                        raise
                    continue
                try:
                    return Answered(response.status_code, await _beginning(response), _clock_ahead_s(response, headers))
                finally:
                    await response.aclose()
        raise OSError(errno.EHOSTUNREACH, f"{host} has no address")


async def _beginning(response: httpx.Response) -> str:
    read = b""
    async for part in response.aiter_raw():
        read += part
        if len(read) >= ANSWER_BYTES:
            break
    return read[:ANSWER_BYTES].decode("utf-8", "replace")


def _clock_ahead_s(response: httpx.Response, headers: Mapping[str, str]) -> int:
    """Return the difference of the receiver's clock from the time of the delivery's signature."""
    try:
        theirs = parsedate_to_datetime(response.headers["date"])
        return round(theirs.timestamp()) - int(headers["webhook-timestamp"])
    except (KeyError, ValueError, OverflowError):
        return 0


class KeysByReference:
    """Implements app/products/webhooks/ports.py. Resolved for each delivery, so that a file may be replaced."""

    def __init__(self, *, environment: Mapping[str, str], secrets_dir: Path | None) -> None:
        self._environment = environment
        self._secrets_dir = secrets_dir

    async def __call__(self, references: tuple[str, ...]) -> list[bytes]:
        return await asyncio.to_thread(lambda: [self._key(reference) for reference in references])

    def _key(self, reference: str) -> bytes:
        secret = secret_reference.resolve(
            {"the webhook": reference}, environment=self._environment, read_file=self._read_file
        )
        return key_of(secret["the webhook"], reference=reference)

    def _read_file(self, name: str) -> str:
        if self._secrets_dir is None:
            raise FileNotFoundError(errno.ENOENT, "FENCELINE_SECRETS_DIR is not set")
        return (self._secrets_dir / name).read_text()

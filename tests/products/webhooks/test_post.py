"""Deliveries go to the address that was checked: not elsewhere by a redirect, a proxy, or a name that changes."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.kit.errors import InvalidError, UnavailableError
from app.products.webhooks.post import ANSWER_BYTES, HttpWebhookPost, KeysByReference, LookUp, look_up
from tests.support.webhook_receiver import SECRET, Receiver, answer_with, receiving

TLS = Path(__file__).parents[2] / "kit/web/tls"


def post_to(
    *hosts: str, networks: tuple[str, ...] = ("127.0.0.1",), timeout_s: float = 5.0, names: LookUp = look_up
) -> HttpWebhookPost:
    return HttpWebhookPost(
        allowed_hosts=hosts or ("127.0.0.1",),
        allowed_networks=networks,
        timeout_s=timeout_s,
        user_agent="fenceline/test",
        look_up=names,
    )


async def send(post: HttpWebhookPost, url: str, body: bytes = b"{}"):
    return await post(url, headers={"webhook-id": "1"}, body=body)


async def test_answer_comes_back_with_the_beginning_of_its_text() -> None:
    async with receiving(Receiver(answer=lambda _: answer_with(200, "x" * 100_000))) as receiver:
        answered = await send(post_to(), receiver.url)
    assert (answered.status, answered.text) == (200, "x" * ANSWER_BYTES)


async def test_clock_of_the_receiver_is_held_against_the_time_of_the_signature() -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": str(int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()))}
    for date, ahead_s in (("Sat, 21 Nov 2026 12:06:52 GMT", 412), ("tomorrow", 0)):
        async with receiving(Receiver(answer=lambda _, date=date: answer_with(401, date=date))) as receiver:
            answered = await post_to()(receiver.url, headers=headers, body=b"{}")
        assert answered.clock_ahead_s == ahead_s


async def test_name_that_cannot_be_looked_up_is_named() -> None:
    host = "x" * 64 + ".example.com"
    with pytest.raises(UnavailableError, match="is no valid host name"):
        await send(post_to("*"), f"https://{host}/")


async def test_name_is_looked_up_once_and_connected_to_as_it_was_judged() -> None:
    """A name that is public when it is checked and private when it is connected to (DNS rebinding)."""
    asked: list[str] = []

    async def changes_its_mind(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with receiving() as receiver:
        url = f"http://hooks.example.com:{receiver.port}/alerts"
        await send(post_to("hooks.example.com", names=changes_its_mind), url)
        assert asked == ["hooks.example.com"]
        assert receiver.received[0].headers["host"] == f"hooks.example.com:{receiver.port}"
        with pytest.raises(InvalidError, match=r"hooks\.example\.com is at 10\.0\.0\.1, which is not a public address"):
            await send(post_to("hooks.example.com", names=changes_its_mind), url)
        assert len(receiver.received) == 1


async def test_private_address_is_refused_before_anything_is_sent() -> None:
    async with receiving() as receiver:
        with pytest.raises(InvalidError, match="FENCELINE_ALLOWED_WEBHOOK_NETWORKS"):
            await send(post_to(networks=()), receiver.url)
        assert receiver.connections == 0


async def test_redirect_is_an_answer_and_not_followed() -> None:
    async with receiving() as inside:
        redirect = answer_with(307, location=inside.url)
        async with receiving(Receiver(answer=lambda _: redirect)) as receiver:
            answered = await send(post_to(), receiver.url)
        assert (answered.status, answered.is_taken) == (307, False)
        assert inside.connections == 0


async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with receiving() as receiver:
        assert (await send(post_to(), receiver.url)).is_taken


async def test_next_address_is_taken_when_one_does_not_listen() -> None:
    async def two(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with receiving() as receiver:
        url = f"http://hooks.example.com:{receiver.port}/"
        assert (await send(post_to("hooks.example.com", networks=("127.0.0.0/8",), names=two), url)).is_taken


async def test_whole_attempt_is_bounded_also_when_the_answer_drips() -> None:
    """Each byte in time, but never all of them: httpx's own limits are for one read."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"
    async with receiving(Receiver(answer=lambda _: head, drips=True)) as receiver:
        with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
            await send(post_to(timeout_s=0.3), receiver.url)


async def test_missing_receiver_is_reported_with_the_address() -> None:
    async with receiving() as receiver:
        pass
    with pytest.raises(UnavailableError, match=rf"http://127\.0\.0\.1:{receiver.port} does not answer"):
        await send(post_to(), receiver.url)


async def test_unknown_host_name_is_reported() -> None:
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    with pytest.raises(UnavailableError, match="Name or service not known"):
        await send(post_to("hooks.example.com", names=nothing), "https://hooks.example.com/")


async def test_certificate_is_verified_for_the_name_and_not_for_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with receiving(tls=server) as receiver:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await send(post_to("localhost", names=here), f"https://localhost:{receiver.port}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "certificate.pem"))
        assert (await send(post_to("localhost", names=here), f"https://localhost:{receiver.port}/")).is_taken
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await send(post_to("other.example.com", names=here), f"https://other.example.com:{receiver.port}/")
    assert len(receiver.received) == 1


async def test_secret_is_read_again_from_its_file(tmp_path: Path) -> None:
    keys = KeysByReference(environment={}, secrets_dir=tmp_path)
    with pytest.raises(InvalidError, match="file:pager, which cannot be read"):
        await keys(("file:pager",))
    (tmp_path / "pager").write_text(SECRET + "\n")
    (first,) = await keys(("file:pager",))
    (tmp_path / "pager").write_text("whsec_" + "YQ" * 20)
    assert await keys(("file:pager",)) != [first]

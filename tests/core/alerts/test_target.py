"""Allowed receivers: only hosts that are named, and only addresses that are public or named."""

from __future__ import annotations

import pytest

from app.core.alerts.target import host_and_port_of, origin_of, problem_of_addresses, problem_of_url

ALLOWED = ("hooks.example.com", "*.pager.example:8443", "127.0.0.1:9000", "[::1]:9000")


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/services/T0/B0?x=1",
        "https://HOOKS.example.com",
        "https://hooks.example.com:444/",
        "https://eu.pager.example:8443/v2",
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/",
    ],
)
def test_named_hosts_are_allowed(url: str) -> None:
    assert problem_of_url(url, allowed_hosts=ALLOWED) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.com/", "not on the list"),
        ("https://hooks.example.com.evil.example/", "not on the list"),
        ("https://evil.example/?hooks.example.com", "not on the list"),
        ("https://eu.pager.example/", "not on the list"),
        ("https://a.b.pager.example:8443/", "not on the list"),
        ("http://127.0.0.1:9001/", "not on the list"),
        ("https://user:secret@hooks.example.com/", "user and password"),
        ("https://hooks.example.com@evil.example/", "user and password"),
        ("ftp://hooks.example.com/", "begins with https"),
        ("hooks.example.com", "begins with https"),
        ("file:///etc/passwd", "begins with https"),
        ("https:///alerts", "names a host"),
        ("https://hooks.example.com/#x", "#part"),
        ("https://hooks.example.com/ x", "spaces"),
        ("https://hooks.example.com/\r\nX: y", "spaces"),
        ("https://höoks.example.com/", "ASCII"),
        ("https://hooks.example.com:http/", "not an address"),
        ("https://[::1/", "not an address"),
        ("https://hooks.example.com:99999/", "not an address"),
    ],
)
def test_others_are_refused_with_the_reason(url: str, why: str) -> None:
    problem = problem_of_url(url, allowed_hosts=ALLOWED)
    assert problem is not None
    assert why in problem


def test_nothing_is_allowed_by_default() -> None:
    problem = problem_of_url("https://127.0.0.1/", allowed_hosts=())
    assert problem is not None
    assert "FENCELINE_ALLOWED_WEBHOOK_HOSTS, for instance 127.0.0.1:443" in problem


PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - nothing is bound to it
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1%eth0",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:0001::",
    "2002:a9fe:a9fe::",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::a9fe:a9fe",
    "2600:1f00::5efe:169.254.169.254",
    "2600:1f00::200:5efe:10.0.0.1",
    "2001:0:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fec0::1",
    "100::1",
    "2001:db8::1",
    "192.0.0.8",
    "192.0.0.9",
    "192.88.99.1",
    "3fff::1",
    "2001:1::1",
    "2002:5db8:d70e::",
    "4000::1",
    "5f00::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_no_private_address_in_any_of_its_spellings(address: str) -> None:
    for addresses in ([address], ["93.184.215.14", address]):
        problem = problem_of_addresses("hooks.example.com", addresses, scheme="https", allowed_networks=())
        assert problem is not None
        assert f"hooks.example.com is at {address}" in problem
        assert "FENCELINE_ALLOWED_WEBHOOK_NETWORKS" in problem


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::93.184.215.14"]
)
def test_public_addresses_are_allowed_by_https_only(address: str) -> None:
    assert problem_of_addresses("h", [address], scheme="https", allowed_networks=()) is None
    problem = problem_of_addresses("h", [address], scheme="http", allowed_networks=())
    assert problem is not None
    assert "use https:// for it" in problem


@pytest.mark.parametrize(
    ("address", "network"),
    [("10.1.2.3", "10.0.0.0/8"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::ffff:10.1.2.3", "10.0.0.0/8")],
)
def test_named_networks_are_allowed_without_tls_too(address: str, network: str) -> None:
    assert problem_of_addresses("h", [address], scheme="http", allowed_networks=(network,)) is None
    assert problem_of_addresses("h", [address], scheme="http", allowed_networks=("192.168.0.0/16",)) is not None


def test_parts_of_an_address() -> None:
    assert origin_of("https://hooks.example.com:444/a/secret") == "https://hooks.example.com:444"
    assert host_and_port_of("https://hooks.example.com/a") == ("hooks.example.com", 443)
    assert host_and_port_of("http://[::1]:9000/a") == ("::1", 9000)

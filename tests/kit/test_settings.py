"""Settings: their sources, the refused values, and their description in docs/settings.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from app.kit import settings as settings_module
from app.kit.settings import Settings, SettingsError, config_file, load

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>.*?) \| (?P<words>.*) \|$")
_COMPUTED = {"state_dir": "`$XDG_STATE_HOME/fenceline`", "cache_dir": "`$XDG_CACHE_HOME/fenceline`"}


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of who runs the tests, and an empty working directory."""
    for name in list(os.environ):
        if name.startswith("FENCELINE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def _shown(default: object) -> str:
    if default is None or default == ():
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_setting_is_documented_as_it_is() -> None:
    documented = {
        match["name"]: (match["default"], match["words"])
        for line in DOCUMENT.read_text(encoding="utf-8").splitlines()
        if (match := _ROW.match(line))
    }
    real = {
        name: (_COMPUTED.get(name) or _shown(field.default), field.description)
        for name, field in Settings.model_fields.items()
    }
    assert documented == real


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fenceline.toml").write_text('users_port = 1234\nlog_level = "debug"\nallowed_hosts = ["a", "b"]\n')
    monkeypatch.setenv("FENCELINE_USERS_PORT", "4321")
    found = load()
    assert (found.users_port, found.log_level, found.allowed_hosts) == (4321, "debug", ("a", "b"))
    assert load(users_port=1).users_port == 1


def test_a_named_file_is_the_one_that_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fenceline.toml").write_text("users_port = 1\n")
    (tmp_path / "other.toml").write_text("users_port = 2\n")
    monkeypatch.setenv("FENCELINE_CONFIG", str(tmp_path / "other.toml"))
    assert load().users_port == 2
    monkeypatch.setenv("FENCELINE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load()


def test_several_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELINE_ALLOWED_SPARK_CONF", "spark.a, spark.b,")
    assert load().allowed_spark_conf == ("spark.a", "spark.b")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FENCELINE_USERS_PORT", "many", "users_port"),
        ("FENCELINE_USERS_PORT", "70000", "users_port"),
        ("FENCELINE_LOG_LEVEL", "loud", "log_level"),
        ("FENCELINE_PYTHON_TRANSFORM", "true", "FENCELINE_PYTHON_TRANSFORM is not a setting"),
        ("FENCELINE_TLS_KEY", "key.pem", "tls_certificate and tls_key belong together"),
        ("FENCELINE_TRUSTED_PROXIES", "my-proxy", "my-proxy is not an address or a network"),
        ("FENCELINE_USERS_HOST", "192.0.2.1", "users_host is 192.0.2.1"),
        ("FENCELINE_WORKERS_HOST", "::", "workers_host is ::"),
        ("FENCELINE_USERS_HOST", "fence.example", "without TLS"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load()
    assert says in str(refused.value)


def test_every_mistake_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELINE_USERS_PORT", "x")
    monkeypatch.setenv("FENCELINE_LOG_LEVEL", "x")
    with pytest.raises(SettingsError) as refused:
        load()
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize("text", ["users_port = ", "no_such_setting = 1"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "fenceline.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"fenceline\.toml"):
        load()


def test_secrets_of_clusters_are_no_unknown_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELINE_SECRET_KAFKA", "x")
    monkeypatch.setenv("FENCELINE_TOKEN", "x")
    load()


def test_beyond_loopback_a_proxy_or_an_own_certificate_is_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FENCELINE_USERS_HOST", "192.0.2.1")
    assert load(trusted_proxies=("10.0.0.1",)).trusted_proxies == ("10.0.0.1",)
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    own = load(tls_certificate=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    assert own.users_url == "https://192.0.2.1:8700"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a", False)],  # noqa: S104 - compared, not bound
)
def test_addresses_that_only_this_machine_can_reach(host: str, expected: bool) -> None:
    assert settings_module.is_loopback(host) is expected


def test_no_file_is_no_mistake() -> None:
    assert config_file() is None

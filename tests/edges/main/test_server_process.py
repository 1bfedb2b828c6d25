"""A real server: first start, failures of its database and its ports, and a clean end."""

from __future__ import annotations

import http.client
import signal
import ssl
import stat
import subprocess
import threading
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from app.edges.embedded.postgres import EmbeddedPostgres
from tests.support.serving import FENCELINE, Serving, environment_for
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
TLS = Path(__file__).parents[2] / "kit/web/tls"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - it is refused


def _serve_and_fail(folder: Path, **settings: str) -> tuple[int, str]:
    """Exit code and standard error of a server that cannot start."""
    ended = subprocess.run(
        [*FENCELINE, "serve"],
        cwd=folder,
        env=environment_for(folder, **settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.fixture(scope="module")
def postgres() -> Generator[EmbeddedPostgres]:
    """A server of its own, since these tests end it."""
    with EmbeddedPostgres.start(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    """One server with its own embedded Postgres."""
    with Serving.start(tmp_path_factory.mktemp("own")) as server:
        server.wait_until_announced()
        yield server


def _ready(url: str) -> httpx.Response:
    return httpx.get(f"{url}/readyz", timeout=20, trust_env=False)


def test_the_first_start_makes_a_link_and_a_token_that_only_its_owner_can_read(own: Serving) -> None:
    said = own.wait_until_announced()
    file = own.state_dir / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.state_dir.stat().st_mode) == 0o700
    with own.client() as client:
        assert client.get("/api/v1/me").json()["role"] == "administrator"
    assert said["login_url"] is not None
    origin = {"Origin": said["users_url"] or ""}
    with httpx.Client(trust_env=False) as browser:
        assert browser.get(said["login_url"]).status_code == 200
        assert browser.post(said["login_url"], headers=origin).status_code == 303
        assert browser.get(f"{said['users_url']}/api/v1/me").json()["role"] == "administrator"
    with httpx.Client(trust_env=False) as other:
        assert other.post(said["login_url"], headers=origin).status_code == 401


def test_readyz_names_every_part(own: Serving) -> None:
    url = own.wait_until_serving()
    wait_for(lambda: _ready(url).status_code == 200, deadline_s=30, describe=lambda: _ready(url).text)
    assert {"postgres", "schema", "change feed", "loop reconciler", "loop retention"} <= set(
        _ready(url).json()["parts"]
    )


def test_metrics_are_what_prometheus_reads_and_need_a_viewer(own: Serving) -> None:
    with own.client() as client:
        text = client.get("/metrics").text
        assert 'fenceline_part_ready{part="postgres"} 1.0' in text
        assert client.get("/metrics", headers={"Authorization": ""}).status_code == 401


def test_a_second_server_on_the_same_port_gets_the_port_and_the_setting(own: Serving, tmp_path: Path) -> None:
    port = urlsplit(own.wait_until_serving()).port
    code, said = _serve_and_fail(tmp_path, users_port=str(port), workers_port="0")
    assert code == 1
    assert f"port {port} on 127.0.0.1 is in use" in said
    assert "FENCELINE_USERS_PORT" in said
    assert "Traceback" not in said
    assert not (tmp_path / "state" / "postgres").exists(), "nothing may be started before the ports are ours"


def test_a_second_server_on_the_same_state_is_refused(own: Serving, tmp_path: Path) -> None:
    settings = {"state_dir": str(own.state_dir), "users_port": "0", "workers_port": "0"}
    code, said = _serve_and_fail(tmp_path, **settings)
    assert code == 1
    assert f"pid {own.process.pid}" in said
    assert "FENCELINE_STATE_DIR" in said


@pytest.mark.parametrize("name", ["users_host", "workers_host"])
def test_an_address_that_others_can_reach_is_refused_without_tls(tmp_path: Path, name: str) -> None:
    code, said = _serve_and_fail(tmp_path, **{name: EVERY_ADDRESS})
    assert code == 2
    assert name in said
    assert "tls_certificate" in said
    assert "trusted_proxies" in said


def test_with_an_own_certificate_both_listeners_speak_tls(tmp_path: Path) -> None:
    files = {"tls_certificate": str(TLS / "certificate.pem"), "tls_key": str(TLS / "key.pem")}
    trusted = ssl.create_default_context(cafile=files["tls_certificate"])
    with Serving.start(tmp_path, settings=files) as server:
        said = server.wait_until_announced()
        users, workers = said["users_url"] or "", said["workers_url"] or ""
        assert users.startswith("https://")
        assert workers.startswith("https://")
        with httpx.Client(verify=trusted, trust_env=False) as client:
            assert "strict-transport-security" in client.get(f"{users}/healthz").headers
            assert client.post(f"{workers}/workers/v1/claim").status_code == 401
            logged_in = client.post(f"{users}/login", data={"token": server.token}, headers={"Origin": users})
            assert "Secure" in logged_in.headers["set-cookie"]


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for name in ("certificate.pem", "key.pem"):
        (tmp_path / name).write_text("no PEM")
    files = {"tls_certificate": str(tmp_path / "certificate.pem"), "tls_key": str(tmp_path / "key.pem")}
    code, said = _serve_and_fail(tmp_path, users_port="0", workers_port="0", **files)
    assert code == 1
    assert "certificate.pem" in said
    assert "Traceback" not in said


def test_a_misspelt_setting_is_named(tmp_path: Path) -> None:
    code, said = _serve_and_fail(tmp_path, usrs_port="1")
    assert code == 2
    assert "FENCELINE_USRS_PORT is not a setting" in said


def _postmaster(server: Serving) -> psutil.Process:
    """The one that Postgres did not start itself: what it has just forked still has its command line."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    found = [child for child in children if "postgres" in child.name() and "-D" in child.cmdline()]
    pids = {child.pid for child in found}
    (first,) = [child for child in found if child.ppid() not in pids]
    return first


def test_the_embedded_postgres_is_started_again_when_it_dies(own: Serving) -> None:
    url = own.wait_until_serving()
    postmaster = _postmaster(own)
    postmaster.send_signal(signal.SIGKILL)
    postmaster.wait(10)
    wait_for(
        lambda: postmaster.pid not in psutil.pids() and _ready(url).status_code == 200,
        deadline_s=60,
        describe=lambda: f"{_ready(url).text}; {own.tail()}",
    )
    with own.client() as client:
        assert client.get("/api/v1/me").status_code == 200


def test_an_embedded_postgres_that_cannot_be_started_again_says_why_once_and_comes_back(tmp_path: Path) -> None:
    with Serving.start(tmp_path) as server:
        url = server.wait_until_announced()["users_url"] or ""
        control = (server.state_dir / "postgres" / "data").resolve() / "global" / "pg_control"
        away = control.with_name("pg_control.away")
        postmaster = _postmaster(server)
        control.rename(away)
        postmaster.kill()
        said = "the embedded Postgres cannot be started again: Postgres ended with exit code"
        wait_for(lambda: said in server.log.read_text(), 60, server.tail)
        log = server.state_dir / "postgres" / "postgres.log"
        starts = log.read_text().count("could not open file")
        wait_for(lambda: log.read_text().count("could not open file") >= starts + 2, 60, "two more attempts")
        assert server.log.read_text().count(said) == 1
        away.rename(control)
        wait_for(lambda: _ready(url).status_code == 200, 60, lambda: f"{_ready(url).text}; {server.tail()}")


class _Reader:
    """Reads an event stream in a thread; `ended` is set when the server ends it."""

    def __init__(self, url: str, path: str, cookie: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/event-stream"})
        self.response = self._connection.getresponse()
        self.text = b""
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while chunk := self.response.read1(65_536):
                self.text += chunk
        except (OSError, http.client.HTTPException):
            pass  # a connection that the server closed in the middle is an end, too
        self.ended.set()


def _log_in(url: str, token: str) -> str:
    response = httpx.post(f"{url}/login", data={"token": token}, headers={"Origin": url}, trust_env=False)
    assert response.status_code == 303, response.text
    return response.headers["set-cookie"].partition(";")[0]


def test_an_event_stream_ends_when_its_token_is_revoked(own: Serving) -> None:
    url = own.wait_until_serving()
    with own.client() as client:
        secret = client.post("/api/v1/tokens", json={"name": "watcher", "role": "viewer"}).json()["secret"]
        reader = _Reader(url, "/stream", _log_in(url, secret))
        assert reader.response.status == 200
        wait_for(lambda: bool(reader.text), deadline_s=10, describe="the stream's first frame")
        assert not reader.ended.is_set()
        assert client.delete("/api/v1/tokens/watcher").status_code == 204
    wait_for(reader.ended.is_set, deadline_s=10, describe=lambda: f"the end of the stream; read {reader.text[-200:]!r}")


def test_sigterm_ends_streams_and_the_process_soon_and_leaves_nothing(tmp_path: Path) -> None:
    with Serving.start(tmp_path) as server:
        url = server.wait_until_announced()["users_url"] or ""
        reader = _Reader(url, "/stream", _log_in(url, server.token))
        wait_for(lambda: bool(reader.text), deadline_s=10, describe="the stream's first frame")
        children = psutil.Process(server.process.pid).children(recursive=True)
        begun = time.monotonic()
        assert server.terminate() == 0
        took_s = time.monotonic() - begun
        assert took_s < 10
        assert reader.ended.wait(5)
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
        assert not (server.state_dir / "server.json").exists()
        assert "Traceback" not in server.log.read_text()


def test_it_answers_while_postgres_is_away_says_so_and_recovers(tmp_path: Path, postgres: EmbeddedPostgres) -> None:
    postgres.kill()
    try:
        with Serving.start(tmp_path, settings={"database_url": postgres.url}) as server:
            url = server.wait_until_serving()
            assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
            away = _ready(url)
            assert away.status_code == 503
            assert away.headers["content-type"] == "application/problem+json"
            assert f"127.0.0.1:{urlsplit(postgres.url).port}" in away.json()["detail"]
            assert {"postgres", "schema"} <= {problem["field"] for problem in away.json()["problems"]}
            refused = httpx.get(f"{url}/api/v1/me", headers={"Authorization": "Bearer flt_x"}, trust_env=False)
            assert refused.status_code == 503
            postgres.start_again()
            server.wait_until_announced()
            wait_for(lambda: _ready(url).status_code == 200, deadline_s=30, describe=lambda: _ready(url).text)
            postgres.kill()
            wait_for(lambda: _ready(url).status_code == 503, deadline_s=30, describe=lambda: _ready(url).text)
            postgres.start_again()
            wait_for(lambda: _ready(url).status_code == 200, deadline_s=60, describe=lambda: _ready(url).text)
            with server.client() as client:
                assert client.get("/api/v1/me").status_code == 200
    finally:
        if not postgres.is_running:
            postgres.start_again()


def test_a_restart_keeps_tokens_and_makes_no_second_link(tmp_path: Path) -> None:
    with Serving.start(tmp_path) as server:
        assert server.wait_until_announced()["login_url"] is not None
        token = server.token
        server.kill()
    with Serving.start(tmp_path) as again:
        assert again.wait_until_announced()["login_url"] is None
        with again.client() as client:
            assert client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 200

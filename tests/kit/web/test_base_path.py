"""The base path: where it is removed, where it is added, and where it is not."""

from __future__ import annotations

import http.server
import threading

import msgspec
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.kit.settings import SettingsError, load
from app.kit.web.base_path import BasePath, below, links_below
from app.kit.web.security.cookies import clear_session, session_secret, set_session
from tests.support.wiring import client_of
from workers.server_client import ServerClient

PAGE = (
    '<a href="/x">x</a> <a href="//elsewhere/x">y</a> <a href="https://e/x">z</a> <p title="/x">href=&#34;/x&#34;</p>'
)


def application(base: str) -> FastAPI:
    app = FastAPI()

    @app.get("/page")
    def page() -> Response:
        return HTMLResponse(links_below(PAGE))

    @app.get("/away")
    def away(to: str) -> Response:
        return RedirectResponse(to, status_code=303)

    @app.get("/{path:path}")
    def other(path: str, request: Request) -> dict[str, str]:
        return {"path": path, "url": request.url.path, "below": below("/a")}

    app.add_middleware(BasePath, base_path=base)
    return app


@pytest.mark.parametrize("prefix", ["", "/ops"])
async def test_links_and_redirects_get_the_path_whether_the_proxy_takes_it_off_or_not(prefix: str) -> None:
    async with client_of(application("/ops")) as client:
        page = (await client.get(f"{prefix}/page")).text
        assert page == PAGE.replace('href="/x"', 'href="/ops/x"', 1)
        for to, location in (("/x", "/ops/x"), ("//e/x", "//e/x"), ("https://e/x", "https://e/x")):
            response = await client.get(f"{prefix}/away", params={"to": to})
            assert response.headers["location"] == location


@pytest.mark.parametrize("prefix", ["", "/ops"])
@pytest.mark.parametrize(
    ("asked", "location"),
    [
        ("/pipelines/", "/ops/pipelines"),
        ("/pipelines/?a=/b", "/ops/pipelines?a=/b"),
        ("/api/v1/pipelines/", "/ops/api/v1/pipelines"),
    ],
)
async def test_slash_too_many_does_not_lead_out_of_the_path(prefix: str, asked: str, location: str) -> None:
    app = FastAPI()
    for path in ("/pipelines", "/api/v1/pipelines"):
        app.get(path)(lambda: "here")
    app.add_middleware(BasePath, base_path="/ops")
    async with client_of(app) as client:
        response = await client.get(f"{prefix}{asked}")
        assert (response.status_code, response.headers["location"]) == (307, location)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("/ops", ""),
        ("/ops/", ""),
        ("/ops/a/b", "a/b"),
        ("/opsy", "opsy"),
        ("/ops/ops/a", "ops/a"),
        ("/ops/a%2Fb", "a/b"),
    ],
)
async def test_only_the_path_itself_is_taken_off_and_once(asked: str, path: str) -> None:
    async with client_of(application("/ops")) as client:
        assert (await client.get(asked)).json() == {"path": path, "url": f"/{path}", "below": "/ops/a"}


async def test_without_one_nothing_changes() -> None:
    async with client_of(application("")) as client:
        assert (await client.get("/page")).text == PAGE
        assert (await client.get("/away", params={"to": "/x"})).headers["location"] == "/x"


@pytest.mark.parametrize(
    ("base", "scheme", "name", "path"),
    [
        ("", "http", "fenceline_session", "/"),
        ("", "https", "__Host-fenceline_session", "/"),
        ("/ops", "http", "fenceline_session", "/ops"),
        ("/ops", "https", "__Secure-fenceline_session", "/ops"),
    ],
)
async def test_the_session_is_sent_to_this_server_alone(base: str, scheme: str, name: str, path: str) -> None:
    app = FastAPI()

    @app.get("/in")
    def log_in(request: Request) -> Response:
        response = Response()
        set_session(response, request, "s3cret", lifetime_s=60)
        return response

    @app.get("/who")
    def who(request: Request) -> dict[str, str | None]:
        return {"secret": session_secret(request)}

    @app.get("/out")
    def log_out(request: Request) -> Response:
        response = Response()
        clear_session(response, request)
        return response

    app.add_middleware(BasePath, base_path=base)
    async with client_of(app, url=f"{scheme}://ops.example") as client:
        cookie = (await client.get(f"{base}/in")).headers["set-cookie"]
        assert cookie.startswith(f"{name}=s3cret;")
        assert f"Path={path};" in cookie
        assert ("; Secure" in cookie) is (scheme == "https")
        assert (await client.get(f"{base}/who")).json() == {"secret": "s3cret"}
        await client.get(f"{base}/out")
        assert (await client.get(f"{base}/who")).json() == {"secret": None}


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://ops.example", ""),
        ("https://ops.example/", ""),
        ("https://ops.example/fenceline/", "/fenceline"),
        ("http://ops.example:8080/a/b-c_d.e~f", "/a/b-c_d.e~f"),
    ],
)
def test_the_path_is_that_of_the_public_address(url: str, base: str) -> None:
    settings = load(public_url=url, workers_url=url)
    assert settings.base_path == base
    assert settings.public_url == settings.workers_url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "ops.example/fenceline",
        "ftp://ops.example",
        "https:///x",
        "https://o/x?y",
        "https://o/x#y",
        'https://o/"',
        "https://o//x",
    ],
)
def test_another_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="public_url"):
        load(public_url=url)


class _Answer(msgspec.Struct):
    path: str


def test_workers_ask_below_the_path_of_their_listener() -> None:
    class Echo(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = msgspec.json.encode(_Answer(self.path))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for base in ("", "/", "/ops", "/ops/"):
            asked = ServerClient([url + base], "t").get("/workers/v1/x", _Answer, timeout_s=10)
            assert asked.path == f"{base.rstrip('/')}/workers/v1/x"
        server.shutdown()

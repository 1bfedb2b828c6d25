"""An S3 API of the test's own, and a proxy before it that loses, holds, repeats and changes what passes."""

from __future__ import annotations

import http.client
import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

# moto takes any; without them botocore searches the machine's own, and asks a metadata service that does not exist.
CREDENTIALS = {"key": "test", "secret": "a-secret-of-the-test"}
REGION = "us-east-1"


class Fault(Enum):
    """The treatment of one request."""

    NONE = auto()
    ERROR = auto()  # answered with 503, and not passed on
    LOST = auto()  # passed on; the answer is lost with the connection
    HELD = auto()  # neither passed on nor answered until `release`; then passed on: it arrives late
    UNANSWERED = auto()  # passed on; answered only after `release`
    TWICE = auto()  # passed on twice; the second answer is given
    CHANGED = auto()  # a byte of the body is another one


class FaultyProxy:
    """Passes HTTP requests on. `fault` is asked for each: method, path with query, how many came before it.

    `seen` has what was asked for, in order; `met` how many requests met which fault. releases_itself: what is held goes
    on when the next request comes.
    """

    def __init__(self, port: int) -> None:
        self.fault: Callable[[str, str, int], Fault] = lambda _method, _path, _before: Fault.NONE
        self.seen: list[tuple[str, str]] = []
        self.met: Counter[Fault] = Counter()
        self.releases_itself = False
        self._port = port
        self._release = threading.Event()
        self._lock = threading.Lock()
        self._is_holding = False
        self._under_way = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                with proxy.counted():
                    proxy.pass_on(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - http.server calls them so

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def is_holding(self) -> bool:
        """A request has been held at least once."""
        return self._is_holding

    @property
    def under_way(self) -> int:
        """The number of requests in progress or on hold, with or without a client that waits for the answers."""
        return self._under_way

    @contextmanager
    def counted(self) -> Generator[None]:
        """A request is under way."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def release(self) -> None:
        """Release all held requests, and hold none from now on."""
        self._release.set()

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", "0")))
        with self._lock:
            before = len(self.seen)
            self.seen.append((request.command, request.path))
            if self._is_holding and self.releases_itself:
                self.release()
        fault = self.fault(request.command, request.path, before)
        if fault is not Fault.NONE:
            with self._lock:
                self.met[fault] += 1
        if fault is Fault.ERROR:
            request.send_response(503)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if fault is Fault.HELD and not self._release.is_set():
            self._hold()
        if fault is Fault.CHANGED and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault is Fault.TWICE:
            self._ask(request, body)
        status, headers, answer = self._ask(request, body)
        if fault is Fault.UNANSWERED:
            self._hold()
        if fault is Fault.LOST:
            request.close_connection = True
            return
        try:
            request.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    request.send_header(name, value)
            is_head = request.command == "HEAD"
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(answer)))
            request.send_header("Content-Length", length if is_head else str(len(answer)))
            request.end_headers()
            request.wfile.write(answer)
        except OSError:
            # The client has gone: a late answer meets a closed connection.
            request.close_connection = True

    def _hold(self) -> None:
        self._is_holding = True
        self._release.wait()

    def _ask(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


class S3:
    """One S3 API in this process, by moto; `client` is boto3's, for an independent view."""

    def __init__(self, server: ThreadedMotoServer) -> None:
        host, port = server.get_host_and_port()
        self.port = port
        self.url = f"http://{host}:{port}"
        self.client: Any = boto3.client(  # pyright: ignore[reportUnknownMemberType]
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["key"],
            aws_secret_access_key=CREDENTIALS["secret"],
        )

    def options(self, url: str | None = None) -> dict[str, Any]:
        """For s3fs."""
        return {
            **CREDENTIALS,
            "client_kwargs": {"endpoint_url": url or self.url, "region_name": REGION},
        }

    def keys(self, bucket: str) -> list[str]:
        return sorted(one["Key"] for one in self.client.list_objects_v2(Bucket=bucket).get("Contents", []))

    def content(self, bucket: str, key: str) -> bytes:
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def open_uploads(self, bucket: str) -> list[str]:
        return [one["Key"] for one in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


@contextmanager
def serving_s3() -> Generator[S3]:
    # It logs every request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield S3(server)
    finally:
        server.stop()

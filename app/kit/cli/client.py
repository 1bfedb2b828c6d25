"""The REST client of commands, with the errors for a server that does not answer."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import msgspec

from app.kit import state_files
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.meanwhile import saying_that_it_waits
from app.kit.cli.watching import outlast
from app.kit.settings import Settings, SettingsError, is_loopback, load

T = TypeVar("T")
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_COMMAND_TIMEOUT = httpx.Timeout(180.0, connect=5.0)
"""For a change: the server may make the plan of a query for 150 s (app/core/transforms/dataframe_plan.py)."""


def settings_or_exit(**overrides: Any) -> Settings:
    """Return the settings of this process. Raises CommandError with their errors."""
    try:
        return load(**overrides)
    except SettingsError as error:
        raise CommandError(
            "the settings are not valid:", code=ExitCode.USAGE, lines=tuple(str(error).splitlines())
        ) from error


def read_token(file: Path) -> str | None:
    """FENCELINE_TOKEN, else the file's content. Raises CommandError when others may read the file."""
    named = os.environ.get("FENCELINE_TOKEN", "").strip()
    if named:
        return named
    try:
        return (state_files.read_private(file) or "").strip() or None
    except state_files.StateFileError as error:
        raise CommandError(str(error)) from error


def running_server_url(settings: Settings) -> str:
    """Return the server of the settings, else the one that runs on this state folder, else the default address."""
    if settings.server_url is not None:
        return settings.server_url
    here = state_files.find_server(settings.server_file)
    return settings.users_url if here is None else here.users_url


class Client:
    """The REST API with a token; every refusal becomes a CommandError."""

    def __init__(
        self, *, url: str, token: str | None, token_file: Path, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = url
        self._token = token
        self._token_file = token_file
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # A proxy of the environment is for addresses elsewhere.
        is_here = is_loopback(httpx.URL(url).host)
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=_TIMEOUT, transport=transport, trust_env=not is_here
        )

    @classmethod
    def of(cls, settings: Settings) -> Client:
        return cls(
            url=running_server_url(settings),
            token=read_token(settings.token_file),
            token_file=settings.token_file,
        )

    def get(self, path: str, **parameters: str | int | None) -> Any:
        """Get a resource; a watching command repeats it while the server or its database does not answer."""
        return outlast(lambda: self._ask("GET", path, parameters=parameters))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a command. Its idempotency key makes one retry safe when the connection breaks."""
        return self._change("POST", path, body or {})

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._change("PUT", path, body)

    def _change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        with saying_that_it_waits("the server"):
            return self._ask(method, path, body=body, key=str(uuid.uuid4()), timeout=_COMMAND_TIMEOUT)

    def delete(self, path: str, **parameters: str | int | None) -> Any:
        return self._ask("DELETE", path, parameters=parameters)

    def upload(self, path: str, content: bytes) -> Any:
        return self._ask("POST", path, content=content, key=str(uuid.uuid4()))

    def ready(self) -> Any:
        """Return the answer of /readyz, ready or not."""
        try:
            response = self._http.get("/readyz")
            return msgspec.json.decode(response.content)
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            raise CommandError(
                f"no Fenceline server answers at {self._url}: {error}", code=ExitCode.UNREACHABLE
            ) from error

    def lines(self, path: str, **parameters: str | int | None) -> Iterator[str]:
        """Get a download line by line, as it arrives."""
        query = {name: value for name, value in parameters.items() if value is not None}
        try:
            with self._http.stream("GET", f"/api/v1{path}", params=query) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal(response)
                yield from response.iter_lines()
        except httpx.HTTPError as error:
            raise self._no_answer(error) from error

    def items(self, path: str, *, limit: int | None = None, **parameters: str | int | None) -> Iterator[Any]:
        """Get every item of a list, page by page; at most `limit`."""
        given = 0
        after: str | None = None
        while True:
            page = self.get(path, after=after, limit=min(limit or 100, 100), **parameters)
            for item in page["items"]:
                if limit is not None and given >= limit:
                    return
                given += 1
                yield item
            after = cast("str | None", page["next_cursor"])
            if after is None:
                return

    def _ask(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int | None] | None = None,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        key: str | None = None,
        timeout: httpx.Timeout = _TIMEOUT,
    ) -> Any:
        headers: dict[str, str] = {}
        if key is not None:
            headers["Idempotency-Key"] = key
        data = content
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        elif content is not None:
            headers["Content-Type"] = "text/x-python"
        query = {name: value for name, value in (parameters or {}).items() if value is not None}
        request = self._http.build_request(
            method, f"/api/v1{path}", params=query, content=data, headers=headers, timeout=timeout
        )
        try:
            try:
                response = self._http.send(request)
            except (httpx.RemoteProtocolError, httpx.ReadError):
                if key is None and method != "GET":
                    raise
                response = self._http.send(request)
        except httpx.HTTPError as error:
            raise self._no_answer(error) from error
        if response.is_success:
            return msgspec.json.decode(response.content) if response.content else None
        raise self._refusal(response)

    def _no_answer(self, error: httpx.HTTPError) -> CommandError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return CommandError(
                f"no Fenceline server answers at {self._url}: {error}",
                code=ExitCode.UNREACHABLE,
                lines=("start one with `fenceline serve`, or name another with FENCELINE_SERVER_URL",),
            )
        return CommandError(
            f"the Fenceline server at {self._url} did not answer: {error or type(error).__name__}",
            code=ExitCode.UNREACHABLE,
        )

    def _refusal(self, response: httpx.Response) -> CommandError:
        try:
            problem = msgspec.json.decode(response.content, type=_ProblemDocument)
        except msgspec.MsgspecError:
            return CommandError(
                f"the server at {self._url} is not Fenceline (HTTP {response.status_code}); "
                "name the server with FENCELINE_SERVER_URL",
                status=response.status_code,
            )
        status = response.status_code
        lines = tuple(f"{p.field}: {p.message}{' (warning)' if p.is_warning else ''}" for p in problem.problems)
        code = _EXIT_CODES.get(status, ExitCode.FAILED)
        if status == 401:
            said = "this requires a token, and none was found" if self._token is None else problem.detail
            way_out = (
                f"put a token into FENCELINE_TOKEN or {self._token_file}; on the server's host, "
                "`fenceline tokens create NAME --role ROLE --save` makes one"
            )
            return CommandError(said, code=code, lines=(way_out,), status=status)
        return CommandError(problem.detail, code=code, lines=lines, status=status)


def connect() -> Client:
    """Return the server and the token of this process's settings."""
    return Client.of(settings_or_exit())


_EXIT_CODES = {
    400: ExitCode.INVALID,
    401: ExitCode.NOT_ALLOWED,
    403: ExitCode.NOT_ALLOWED,
    422: ExitCode.INVALID,
    503: ExitCode.UNREACHABLE,
}


class _ProblemLine(msgspec.Struct):
    field: str
    message: str
    is_warning: bool = False


class _ProblemDocument(msgspec.Struct):
    status: int
    detail: str
    problems: tuple[_ProblemLine, ...] = ()


def as_record(item: Any, record: type[T]) -> T:
    """Return an item of an answer as the domain's record; REST has the same fields."""
    return msgspec.convert(item, record)

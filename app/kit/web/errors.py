"""Turn errors into answers: problem documents, or the login page for a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.kit.errors import FencelineError, IllegalTransitionError, UnauthenticatedError, UnavailableError
from app.kit.web.problems import ProblemResponse, title_of

_RETRY_AFTER = {"Retry-After": "2"}
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def is_for_a_person(request: Request) -> bool:
    """Return whether to answer with a page: not below /api, and the browser accepts HTML."""
    return not request.url.path.startswith(("/api/", "/workers/")) and "text/html" in request.headers.get("accept", "")


class ErrorPage(Protocol):
    """Renders an error for a user (app/kit/web/pages/errors.py)."""

    def __call__(
        self, request: Request, *, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> Response: ...


def install(app: FastAPI, *, page: ErrorPage | None = None) -> None:
    """Render every error of `app` as RFC 9457, or as a page for a user's browser if `page` is given."""
    app.state.error_page = page
    app.add_exception_handler(FencelineError, _on_fenceline_error)
    app.add_exception_handler(IllegalTransitionError, _on_illegal_transition)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


async def _on_fenceline_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FencelineError)  # noqa: S101 - registered for this type
    if isinstance(error, UnauthenticatedError):
        if is_for_a_person(request):
            wanted = request.url.path if request.method == "GET" else "/"
            return RedirectResponse(f"/login?next={quote(wanted)}", status_code=303)
        return problem_of(error, headers={"WWW-Authenticate": 'Bearer realm="fenceline"'})
    if isinstance(error, UnavailableError):
        return problem_of(error, headers=_RETRY_AFTER)
    return problem_of(error)


def problem_of(error: FencelineError, *, headers: Mapping[str, str] | None = None) -> ProblemResponse:
    """Return the problem document of an error."""
    problems = [
        {"field": problem.field, "message": problem.message, "is_warning": problem.is_warning}
        for problem in error.problems
    ]
    return ProblemResponse(error.status, error.message, title=error.title, problems=problems, headers=headers)


async def _on_illegal_transition(request: Request, error: Exception) -> Response:
    return _rendered(request, 409, f"{error}: its state changed meanwhile; check it before another try")


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type
    found: list[dict[str, Any]] = list(error.errors())
    if any(item["type"] == "json_invalid" for item in found):
        reason = str(found[0].get("ctx", {}).get("error", found[0]["msg"]))
        return ProblemResponse(400, f"the request body is not JSON: {reason}")
    problems = [
        {"field": field_path(tuple(item["loc"])), "message": _said(item), "is_warning": False} for item in found
    ]
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    detail = f"{first['field'] or 'the request'}: {first['message']}{more}"
    return _rendered(request, 422, detail, problems=problems)


_LISTS_OF_UNIONS = frozenset({"steps", "partition_by"})


def field_path(loc: tuple[int | str, ...]) -> str:
    """Return the path as a user would write it: `transform.steps.2.value`.

    loc: as pydantic gives it: the place first (`body`, `query`, …), and the tag of a union after the field of a union.
    """
    parts: list[str] = []
    rest = list(loc[1:])
    while rest:
        part = rest.pop(0)
        parts.append(str(part))
        is_union = part == "transform" or (isinstance(part, int) and len(parts) > 1 and parts[-2] in _LISTS_OF_UNIONS)
        if is_union and rest:
            rest.pop(0)
    # Problems of a definition are named from its own root, as in checks, forms and files.
    return ".".join(parts[1:] if parts[:1] == ["definition"] and len(parts) > 1 else parts)


def _said(item: Mapping[str, Any]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type
    detail = str(error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        detail = f"{request.url.path} was not found"
    elif error.status_code == 405:
        allowed = _methods_at(request)
        headers["Allow"] = ", ".join(allowed)
        detail = f"{request.method} is not supported here; {', '.join(allowed)} is"
    return _rendered(request, error.status_code, detail, headers=headers)


def _rendered(
    request: Request,
    status: int,
    detail: str,
    *,
    problems: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    page: ErrorPage | None = request.app.state.error_page
    if page is None or not is_for_a_person(request):
        return ProblemResponse(status, detail, problems=problems, headers=headers)
    return page(request, status=status, title=title_of(status), detail=detail, headers=headers)


def _methods_at(request: Request) -> list[str]:
    """Return every method of the routes at this path; a single route only knows its own."""
    found: list[str] = []
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            found.append(method)
    return found

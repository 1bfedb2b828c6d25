"""The session cookie: HttpOnly, SameSite=Strict, and under TLS Secure with the `__Host-` prefix."""

from __future__ import annotations

from fastapi import Request, Response

from app.kit.web.base_path import base_path

_PLAIN = "fenceline_session"
_SECURE = "__Host-fenceline_session"
_SECURE_BELOW = "__Secure-fenceline_session"
"""Below a base path: a `__Host-` cookie would go to every other application of the same host."""
COOKIE_NAMES = (_SECURE, _SECURE_BELOW, _PLAIN)


def session_secret(request: Request) -> str | None:
    """The secret of the browser's session, if it sent one. Under TLS only the cookie with a prefix counts."""
    return request.cookies.get(_name(request))


def set_session(response: Response, request: Request, secret: str, *, lifetime_s: int) -> None:
    response.set_cookie(
        _name(request),
        secret,
        max_age=lifetime_s,
        path=base_path() or "/",
        httponly=True,
        samesite="strict",
        secure=_is_https(request),
    )


def clear_session(response: Response, request: Request) -> None:
    path = base_path() or "/"
    response.delete_cookie(_name(request), path=path, httponly=True, samesite="strict", secure=_is_https(request))


def _name(request: Request) -> str:
    if not _is_https(request):
        return _PLAIN
    return _SECURE_BELOW if base_path() else _SECURE


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"

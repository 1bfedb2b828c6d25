"""The session cookie: HttpOnly, SameSite=Strict, and under TLS Secure with the `__Host-` prefix."""

from __future__ import annotations

from fastapi import Request, Response

_PLAIN = "fenceline_session"
_SECURE = "__Host-fenceline_session"
COOKIE_NAMES = (_SECURE, _PLAIN)


def session_secret(request: Request) -> str | None:
    """The secret of the browser's session, if it sent one. Under TLS only the `__Host-` cookie counts."""
    return request.cookies.get(_SECURE if request.url.scheme == "https" else _PLAIN)


def set_session(response: Response, request: Request, secret: str, *, lifetime_s: int) -> None:
    is_https = request.url.scheme == "https"
    response.set_cookie(
        _SECURE if is_https else _PLAIN,
        secret,
        max_age=lifetime_s,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_https,
    )


def clear_session(response: Response, request: Request) -> None:
    is_https = request.url.scheme == "https"
    name = _SECURE if is_https else _PLAIN
    response.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=is_https)

"""Our own files for the browser, addressed by what is in them, so that they may be cached for ever."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC_DIR = Path(__file__).resolve().parents[1] / "static"
STYLESHEETS = tuple(
    f"css/{name}.css"
    for name in (
        "names",
        "base",
        "frame",
        "cards",
        "state",
        "ids",
        "chain",
        "buttons",
        "tables",
        "batches",
        "forms",
        "log",
        "chart",
        "timeline",
        "files",
        "stages",
        "dialog",
        "print",
    )
)
"""In the order in which they are said: what comes later wins."""
_FOR_EVER = "public, max-age=31536000, immutable"


@cache
def asset_url(path: str) -> str:
    """`/static/<path>` with a part of the file's SHA-256: another content is another address."""
    return f"/static/{path}?v={_sha(path).hex()[:16]}"


@cache
def asset_integrity(path: str) -> str:
    """The value of `integrity`: the browser refuses a script that is not the file we read at start."""
    return "sha256-" + base64.b64encode(_sha(path)).decode("ascii")


def _sha(path: str) -> bytes:
    return hashlib.sha256((STATIC_DIR / path).read_bytes()).digest()


class Static(StaticFiles):
    """Static files that a browser keeps when they are asked for by content, and asks again for otherwise."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC_DIR)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        by_content = scope["query_string"].startswith(b"v=") and response.status_code == 200
        response.headers["cache-control"] = _FOR_EVER if by_content else "no-cache"
        return response

"""Errors as RFC 9457 problem documents, rendered in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Response

MEDIA_TYPE = "application/problem+json"


class ProblemResponse(Response):
    """`{"type", "title", "status", "detail"}`, and `problems` when single fields are at fault.

    problems: dicts of `field` (a path such as `definition.sink_topic`), `message` and `is_warning`.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        problems: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": title or title_of(status),
            "status": status,
            "detail": detail,
        }
        if problems:
            document["problems"] = list(problems)
        super().__init__(orjson.dumps(document), status_code=status, headers=dict(headers or {}))


def title_of(status: int) -> str:
    """Return HTTP's name of this status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

"""Names as long as they may be, and without a place to break."""

from __future__ import annotations

from app.core.pipelines.pipeline_checks import MAX_NAME_LENGTH

LONG_TOPIC = "payments-" + "7f3c9b2d" * 30
LONG_ID = "order:" + "0123456789abcdef" * 15
LONG_HOST = "worker-" + "4a" * 28
LONG_TOKEN_NAME = "a" * 63


def long_pipeline(begin: str) -> str:
    return begin.ljust(MAX_NAME_LENGTH, "9")

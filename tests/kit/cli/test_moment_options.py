"""Options whose value is a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.moments import moment_option

NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)


@pytest.mark.parametrize(("since", "back"), [("90m", {"minutes": 90}), ("24h", {"hours": 24}), ("7d", {"days": 7})])
def test_span_is_counted_back_from_now(since: str, back: dict[str, int]) -> None:
    assert moment_option(since, "--since", now=NOW) == NOW - timedelta(**back)


@pytest.mark.parametrize("since", ["yesterday", "2026-01-31T09:00:00", "1w", ""])
def test_error_names_the_option_and_the_accepted_forms(since: str) -> None:
    with pytest.raises(CommandError, match=f"^--since `{since}`: expected .* a span such as 90m, or now") as refused:
        moment_option(since, "--since", now=NOW)
    assert refused.value.code is ExitCode.USAGE

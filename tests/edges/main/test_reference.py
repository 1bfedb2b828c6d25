"""docs/api.md names only operations that there are."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import FastAPI

ROW = re.compile(r"^\| (?P<what>[^|]+?) \| (?P<how>.*`.*) \|$", re.MULTILINE)
OPERATION = re.compile(r"`(?:(?P<methods>[A-Z]+(?:, [A-Z]+)*) )?(?P<path>[/…][^`?]*)(?:\?[^`]*)?`")
ROOT = "/api/v1"


def test_every_operation_of_the_reference_is_there(app: FastAPI) -> None:
    described: dict[str, dict[str, object]] = app.openapi()["paths"]
    there = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path.removeprefix(ROOT)))
        for path, operations in described.items()
        for method in operations
    }
    text = (Path(__file__).parents[3] / "docs/api.md").read_text("utf-8")
    missing: list[str] = []
    count = 0
    for row in ROW.finditer(text):
        methods: list[str] = []
        for named in OPERATION.finditer(row["how"]):
            # `…/tasks` goes on from the path before it, with the same methods.
            methods = named["methods"].split(", ") if named["methods"] else methods
            path = re.sub(r"\{\w+\}", "{}", named["path"])
            wanted = {path} if "[" not in path else {re.sub(r"\[.*\]", "", path), re.sub(r"[\[\]]", "", path)}
            for method, one in ((method, one) for method in methods for one in wanted):
                count += 1
                is_there = (
                    any(m == method and p.endswith(one[1:]) for m, p in there)
                    if one.startswith("…")
                    else (method, one) in there
                )
                missing += [] if is_there else [f"{method} {one} ({row['what']})"]
    assert count > 30
    assert missing == []

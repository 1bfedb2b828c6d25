"""Plans of queries, made by Spark in a child process: the problems at their fields, and what the child cannot do."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from app.core.pipelines.pipeline import DataframeQuery, OutputMode, Stream
from app.core.transforms.dataframe_plan import check_plan
from app.edges.embedded.java import find_java
from app.kit.errors import Problem
from tests.support.definitions import a_definition
from workers.transforms.user_code import sha256_of

FLIGHTS = Stream(name="flights", topic="flights", schema="carrier STRING, delay INT, at TIMESTAMP")
PER_HOUR = "SELECT carrier AS key, window(at, '1 hour') AS hour, count(*) AS n FROM flights GROUP BY carrier, 2"


@functools.cache
def _java_home() -> str:
    return str(find_java().home)


async def check(
    sql: str | None = None, *, source: str | None = None, writers: int = 1, secret: Path | None = None, **changes: Any
) -> list[Problem]:
    if source is not None:
        changes |= {"function": "f", "file_name": "q.py", "sha256": sha256_of(source)}
    given: dict[str, Any] = {"streams": (FLIGHTS,), "checkpoint": "file:///c", "sql": sql, **changes}
    query = DataframeQuery(**given)
    return await check_plan(
        a_definition(transform=query, tasks_per_instance=writers),
        source=source,
        secret_paths=() if secret is None else [str(secret)],
        java_home=_java_home(),
        # Two cores may be busy with other tests.
        start_limit_s=240.0,
        time_limit_s=120.0,
    )


async def only(sql: str | None = None, **changes: Any) -> Problem:
    (problem,) = await check(sql, **changes)
    return problem


@pytest.mark.slow
async def test_a_plan_is_made_and_kept_for_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await check("SELECT carrier FROM flights") == []
    monkeypatch.setenv("PATH", "")  # no bubblewrap any more: a second child would be refused
    assert await check("SELECT carrier FROM flights") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "field", "part"),
    [
        ({"sql": PER_HOUR}, "transform.output_mode", "watermark"),
        ({"source": "def f(spark, streams): return 1"}, "transform.function", "DataFrame"),
    ],
)
async def test_a_problem_is_at_its_field_in_one_line(given: dict[str, Any], field: str, part: str) -> None:
    problem = await only(given.pop("sql", None), **given)
    assert problem.field == field
    assert part in problem.message
    assert "\n" not in problem.message
    assert len(problem.message) < 500


@pytest.mark.slow
async def test_a_function_cannot_reach_the_server(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    source = f"""
import os, socket, subprocess

def f(spark, streams):
    reached = []
    if os.path.exists({str(secret)!r}):
        reached.append("secret")
    if os.path.exists("/proc/{os.getpid()}/environ") and b"PYTEST" in open("/proc/{os.getpid()}/environ", "rb").read():
        reached.append("server")
    try:
        subprocess.run(["/bin/true"])
        reached.append("process")
    except OSError:
        pass
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=1)
        reached.append("network")
    except OSError as error:
        if error.errno != 101:
            reached.append("network")
    assert not reached
    return streams["flights"].groupBy("carrier").count()
"""
    assert await check(source=source, output_mode=OutputMode.UPDATE, secret=secret) == []


async def test_a_server_without_java_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    query = DataframeQuery(streams=(FLIGHTS,), checkpoint="file:///c", sql="SELECT 2 FROM flights")
    (problem,) = await check_plan(a_definition(transform=query), source=None)
    assert (problem.field, problem.is_warning) == ("transform.kind", True)
    assert "Java" in problem.message


async def test_a_query_is_not_checked_without_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    query = DataframeQuery(streams=(FLIGHTS,), checkpoint="file:///c", sql="SELECT 3 FROM flights")
    (problem,) = await check_plan(a_definition(transform=query), source=None, java_home="/usr")
    assert (problem.field, problem.is_warning) == ("transform.sql", False)
    assert "bubblewrap" in problem.message

"""The plan of a query of DataFrames, made by Spark in a child process: nothing runs in the server."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Annotated

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.transforms.asked_process import ProcessEnd
from app.core.transforms.check_process import TOO_MANY, how_it_ended
from app.core.transforms.spark_check import (
    NO_JAVA,
    NOT_STARTED,
    START_LIMIT_S,
    TIME_LIMIT_S,
    find_java_home,
    run_spark_check,
)
from app.kit.errors import Problem
from app.kit.printable import one_line

_CHECKER = "workers.spark.check_plan"
_LONGEST_MESSAGE = 2_000
_MOST_KEPT = 64


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The file can write its own: it has only fields that `workers.spark.check_plan` may report."""

    field: Annotated[str, msgspec.Meta(pattern=r"^(transform\.[a-z0-9_.]{1,80}|tasks_per_instance)\Z")] = "transform"
    message: Annotated[str, msgspec.Meta(max_length=_LONGEST_MESSAGE)] | None = None
    missing_module: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,99}\Z")] | None = None


_kept: OrderedDict[str, list[Problem]] = OrderedDict()
"""Problems of the newest plans, by their definition: a save asks again what a check has asked."""


async def check_plan(
    definition: PipelineDefinition,
    *,
    source: str | None,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
    java_home: str | None = None,
    start_limit_s: float = START_LIMIT_S,
    time_limit_s: float = TIME_LIMIT_S,
) -> list[Problem]:
    """Return the problem of the query's plan at its field; empty if it has a plan that its output mode permits.

    Spark makes the plan on empty streams in a child process (workers/spark/check_plan.py). No query is started.

    Args:
        source: the text of the uploaded file; None for SQL.
        secret_paths: files and folders of the server that it must not see.
        accepts_no_isolation: run it as the server's user if isolation is not available; else that is the problem.
        java_home: of the Java that runs Spark; None: `JAVA_HOME`, else of `java` on PATH.
        start_limit_s, time_limit_s: seconds until Spark has started, and from there to the plan.
    """
    home = find_java_home(java_home)
    if home is None:
        return [Problem(field="transform.kind", message=NO_JAVA.format("checked"), is_warning=True)]
    key = hashlib.sha256(
        msgspec.json.encode((definition.transform, definition.tasks_per_instance), order="sorted")
    ).hexdigest()
    if key in _kept:
        return _kept[key]
    ended = await run_spark_check(
        _CHECKER,
        definition,
        java_home=home,
        source=source,
        secret_paths=secret_paths,
        accepts_no_isolation=accepts_no_isolation,
        start_limit_s=start_limit_s,
        time_limit_s=time_limit_s,
    )
    code = "transform.sql" if source is None else "transform.function"
    if ended is None:
        return [Problem(field=code, message=TOO_MANY.format(what="The query"))]
    if not ended.started:
        return [Problem(field=code, message=NOT_STARTED.format("checked", start_limit_s, one_line(ended.reason)))]
    try:
        verdict = msgspec.json.decode(ended.answer, type=_Verdict)
    except msgspec.DecodeError:
        return [Problem(field=code, message=_end(ended, time_limit_s))]
    problems = _problems(verdict)
    if verdict.missing_module is None:
        _kept[key] = problems
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return problems


def _problems(verdict: _Verdict) -> list[Problem]:
    if verdict.message is None:
        return []
    if verdict.missing_module is not None:
        message = (
            f"The file imports `{verdict.missing_module}`, which is not installed where the server runs, "
            "so that the query was not checked; it must be installed on the driver's host and the executors"
        )
        return [Problem(field="transform.file_name", message=message, is_warning=True)]
    return [Problem(field=verdict.field, message=one_line(verdict.message))]


def _end(ended: ProcessEnd, time_limit_s: float) -> str:
    if ended.exit_code is None and not ended.is_too_long:
        return f"The query has no plan after {time_limit_s:g} s. A function must only describe the query, without work"
    if ended.exit_code is None:
        return "The file wrote to the descriptor of its validation's answer; write only to files that it opens"
    return f"The query ended the process that makes its plan, by {how_it_ended(ended.exit_code)}"

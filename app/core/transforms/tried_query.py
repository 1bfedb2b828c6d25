"""Try a query of DataFrames on some records, by Spark in a child process. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.transforms.spark_check import (
    NO_JAVA,
    NOT_STARTED,
    START_LIMIT_S,
    TIME_LIMIT_S,
    find_java_home,
    run_spark_check,
)
from app.core.transforms.tried_transform import ANSWER_BYTES, TOO_MANY, trial_end
from app.core.transforms.trying import QueryAnswer, SampleRecord
from app.kit.errors import InvalidError, UnavailableError
from app.kit.printable import one_line

_CHILD = "workers.spark.try_query"
_WHAT = "The query"


async def try_query(
    definition: PipelineDefinition,
    records: Sequence[SampleRecord],
    *,
    source: str | None,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
    java_home: str | None = None,
    start_limit_s: float = START_LIMIT_S,
    time_limit_s: float = TIME_LIMIT_S,
) -> QueryAnswer:
    """Return the rows that the query makes of the records as one batch, or the error of Spark over them.

    Arguments are those of `check_plan`. The child has the limits of the one that makes the plan.

    Raises InvalidError at a field if the query has no plan, cannot run as a batch or does not end. Raises
    UnavailableError without Java or a place for the child.
    """
    home = find_java_home(java_home)
    if home is None:
        raise UnavailableError(NO_JAVA.format("tried"))
    ended = await run_spark_check(
        _CHILD,
        definition,
        java_home=home,
        source=source,
        secret_paths=secret_paths,
        accepts_no_isolation=accepts_no_isolation,
        start_limit_s=start_limit_s,
        time_limit_s=time_limit_s,
        answer_bytes=ANSWER_BYTES,
        records=records,
    )
    if ended is None:
        raise UnavailableError(TOO_MANY.format(what=_WHAT))
    if not ended.started:
        raise UnavailableError(NOT_STARTED.format("tried", start_limit_s, one_line(ended.reason)))
    code = "transform.sql" if source is None else "transform.function"
    try:
        answer = msgspec.json.decode(ended.answer, type=QueryAnswer)
    except msgspec.DecodeError as error:
        raise InvalidError(trial_end(ended, time_limit_s, what=_WHAT), field=code) from error
    if answer.message is not None:
        raise InvalidError(one_line(answer.message), field=answer.field)
    if ended.exit_code is None or answer.count < len(answer.rows):
        raise InvalidError(trial_end(ended, time_limit_s, what=_WHAT), field=code)
    return msgspec.structs.replace(answer, error=None if answer.error is None else one_line(answer.error))

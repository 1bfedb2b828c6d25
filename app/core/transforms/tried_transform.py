"""Run a transform on some records in a child process, as validation runs an uploaded file. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition, PythonFunction
from app.core.transforms.asked_process import ProcessEnd
from app.core.transforms.check_process import Checker, how_it_ended, run_check
from app.core.transforms.trying import CONTENT_BYTES, SampleRecord, TrialAnswer, TrialRequest, TriedResult
from app.kit.errors import InvalidError, UnavailableError
from app.kit.printable import one_line

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_MB = 1_024
_CHILD = "workers.transforms.try_records"
_WHAT = "The transform"
_START_LIMIT_S = 30.0
ANSWER_BYTES = CONTENT_BYTES + (2 << 20)
TOO_MANY = "{what} was not tried: others are being validated. Try again in a minute"
_NOT_ISOLATED = (
    "The transform was not tried: no isolation for it here ({reason}). Install bubblewrap, or accept validation "
    "without isolation in the settings (docs/security.md)"
)


async def try_transform(
    definition: PipelineDefinition,
    records: Sequence[SampleRecord],
    *,
    source: str | None,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
) -> tuple[TriedResult, ...]:
    """Return the result of each record, in order. The definition is not one of a query.

    source: text of the Python file. secret_paths, accepts_no_isolation: as in `check_python_transform`. Steps are no
    code of the author's, so they run without isolation if there is none.

    Raises InvalidError if the transform cannot run or does not end, UnavailableError without a place for the child.
    """
    is_file = isinstance(definition.transform, PythonFunction)
    request = TrialRequest(
        transform=definition.transform,
        source=source,
        sink_topic=definition.sink_topic,
        records=tuple(records),
        cpu_s=int(time_limit_s) + 1,
        memory_mb=MEMORY_LIMIT_MB,
    )
    ended = await run_check(
        Checker(module=_CHILD, start_limit_s=_START_LIMIT_S, limit_s=time_limit_s, answer_bytes=ANSWER_BYTES),
        lambda isolated: msgspec.json.encode(
            msgspec.structs.replace(request, uid=isolated.uid, is_isolated=True) if isolated else request
        ),
        secret_paths=secret_paths,
        accepts_no_isolation=accepts_no_isolation or not is_file,
    )
    if ended is None:
        raise UnavailableError(TOO_MANY.format(what=_WHAT))
    if not ended.started:
        raise UnavailableError(_NOT_ISOLATED.format(reason=one_line(ended.reason)))
    field = "transform.function" if is_file else "transform.kind"
    try:
        answer = msgspec.json.decode(ended.answer, type=TrialAnswer)
    except msgspec.DecodeError as error:
        raise InvalidError(trial_end(ended, time_limit_s, what=_WHAT), field=field) from error
    if answer.message is not None:
        at = f"transform.{answer.field}" if answer.field else field
        raise InvalidError(one_line(answer.message), field=at)
    if ended.exit_code is None or len(answer.results) != len(records):
        raise InvalidError(trial_end(ended, time_limit_s, what=_WHAT), field=field)
    return answer.results


def trial_end(ended: ProcessEnd, time_limit_s: float, *, what: str) -> str:
    """Return the sentence for a child that ended without a valid answer."""
    if ended.is_too_long or (ended.exit_code == -9 and ended.answer):
        return "The trial has no valid answer: the file wrote to the descriptor of the answer"
    if ended.exit_code is None:
        return f"{what} was still running after {time_limit_s:g} s. Try fewer records, or make it faster"
    return f"{what} ended its process, by {how_it_ended(ended.exit_code)}, and the trial has no result"

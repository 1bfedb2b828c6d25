"""The child process that tries a transform on some records: `python -I -m workers.transforms.try_records`.

It reads a TrialRequest (app/core/transforms/trying.py) and answers like check_file.py, with the same limits. It has no
network, and no Kafka client is made: nothing can be written.
"""

from __future__ import annotations

import sys

import msgspec
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from app.core.journals.log_content import RecordHeader, content
from app.core.transforms.trying import (
    CONTENT_BYTES,
    LONGEST_MESSAGE,
    MOST_OUTPUTS,
    SampleRecord,
    TrialAnswer,
    TrialRequest,
    TriedOutput,
    TriedResult,
    fitting,
)
from workers.transforms import Output, RecordError, TransformError
from workers.transforms.build import build
from workers.transforms.carrying import transformed, untimed
from workers.transforms.check_file import Answer, become, limit
from workers.transforms.user_code import UserCodeError


def run(request: TrialRequest) -> TrialAnswer:
    """Transform the records as one batch, as a task does, in this process."""
    try:
        transform = build(request.transform, source=request.source, sink_topic=request.sink_topic)
        messages = [_message(record) for record in request.records]
        processed, failed = transformed(transform, messages)
    except UserCodeError as error:
        field = "function" if error.field == "function" else "file_name"
        return TrialAnswer(message=str(error)[:LONGEST_MESSAGE], field=field)
    except TransformError as error:
        return TrialAnswer(message=str(error)[:LONGEST_MESSAGE])
    failed |= untimed(processed)
    outputs: list[list[Output]] = [[] for _ in messages]
    for index, output in zip(processed.inputs or (), processed.outputs, strict=True):
        outputs[index].append(output)
    left = CONTENT_BYTES
    results: list[TriedResult] = []
    for index, its in enumerate(outputs):
        if (error := failed.get(index)) is not None:
            contents = error.contents if isinstance(error, RecordError) else ""
            results.append(TriedResult(error=str(error)[:LONGEST_MESSAGE], contents=contents[:LONGEST_MESSAGE]))
            continue
        shown, left = fitting((_shown(output, request.sink_topic) for output in its[:MOST_OUTPUTS]), left)
        results.append(TriedResult(outputs=tuple(shown), output_count=len(its)))
    return TrialAnswer(results=tuple(results))


def _message(record: SampleRecord) -> Message:
    kind = TIMESTAMP_NOT_AVAILABLE if record.timestamp_ms < 0 else TIMESTAMP_CREATE_TIME
    return Message(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=[*record.headers] or None,
        timestamp=(kind, record.timestamp_ms),
    )


def _shown(output: Output, sink_topic: str) -> TriedOutput:
    return TriedOutput(
        topic=output.topic or sink_topic,
        timestamp_ms=output.timestamp_ms,
        key=content(output.key),
        value=content(output.value),
        headers=tuple(RecordHeader(name=name, value=content(value)) for name, value in output.headers or ()),
    )


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=TrialRequest)
    answer = Answer()
    if request.uid is not None:
        become(request.uid)
    limit(request)
    answer.start()
    answer.end_with(run(request))


if __name__ == "__main__":
    main()

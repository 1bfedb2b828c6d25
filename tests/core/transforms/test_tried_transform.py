"""Trials of transforms on records, in the child process: outputs, drops, bad records, and the bounds of the child."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.core.journals.log_content import bytes_of
from app.core.pipelines.pipeline import (
    Filter,
    Identity,
    PipelineDefinition,
    PythonFunction,
    Route,
    StepOperator,
    Steps,
    Transform,
)
from app.core.transforms.tried_transform import try_transform
from app.core.transforms.trying import MOST_OUTPUTS, SampleRecord, TriedResult
from app.kit.errors import InvalidError
from tests.support.control_plane import definition
from workers.transforms.user_code import sha256_of

LATE = Filter(field="delay", operator=StepOperator.GE, value=15)
FAR = Route(field="delay", operator=StepOperator.GE, value=60, topic="far")


def record(value: object, offset: int = 0, headers: tuple[tuple[str, bytes | None], ...] = ()) -> SampleRecord:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return SampleRecord(
        topic="flights",
        partition=1,
        offset=offset,
        timestamp_ms=1_700_000_000_000,
        key=b"k",
        value=data,
        headers=headers,
    )


def with_transform(transform: Transform) -> PipelineDefinition:
    return definition(transform=transform, sink_topic="out")


async def of_file(source: str, *records: SampleRecord, time_limit_s: float = 10.0) -> tuple[TriedResult, ...]:
    python = PythonFunction(function="f", file_name="mine.py", sha256=sha256_of(source))
    return await try_transform(with_transform(python), records, source=source, time_limit_s=time_limit_s)


async def test_steps_write_route_drop_and_fail_each_record() -> None:
    given = [record({"delay": 20}), record({"delay": 90}), record({"delay": 1}), record({"delay": "x"}), record(b"{")]
    steps = with_transform(Steps(steps=(LATE, FAR)))
    written, routed, dropped, mismatched, unreadable = await try_transform(steps, given, source=None)
    (output,) = written.outputs
    assert (output.topic, bytes_of(output.key), bytes_of(output.value)) == ("out", b"k", b'{"delay":20}')
    assert [one.topic for one in routed.outputs] == ["far"]
    assert (dropped.output_count, dropped.error) == (0, None)
    assert mismatched.error is not None
    assert "step 1: `delay`" in mismatched.error
    assert unreadable.error is not None
    assert "not JSON" in unreadable.error


async def test_identity_keeps_key_headers_timestamp_and_bytes_that_are_no_text() -> None:
    (found,) = await try_transform(
        with_transform(Identity()), [record(b"\xff\x00", headers=(("h", b"\xfe"), ("none", None)))], source=None
    )
    (output,) = found.outputs
    assert bytes_of(output.value) == b"\xff\x00"
    assert [(one.name, bytes_of(one.value)) for one in output.headers] == [("h", b"\xfe"), ("none", None)]
    assert output.timestamp_ms == 1_700_000_000_000


async def test_function_of_a_file_returns_several_outputs_or_fails_with_its_line() -> None:
    source = (
        "def f(record):\n"
        "    if record.json() == 1:\n"
        "        raise ValueError('quotes the record')\n"
        "    return [record, record.replace(topic='other', key=None)]\n"
    )
    bad, good = await of_file(source, record(1), record(2))
    assert bad.error == "mine.py, line 3: ValueError"
    assert bad.contents == "quotes the record"
    assert [(one.topic, bytes_of(one.key)) for one in good.outputs] == [("out", b"k"), ("other", None)]


async def test_outputs_beyond_the_bound_are_counted() -> None:
    (found,) = await of_file("def f(record): return [record] * 5000\n", record(1))
    assert (len(found.outputs), found.output_count) == (MOST_OUTPUTS, 5000)


async def test_answer_of_many_large_outputs_is_bounded_and_complete() -> None:
    source = "def f(record): return [record.replace(value=b'\\xff' * 100_000)] * 10\n"
    found = await of_file(source, *(record(number, number) for number in range(100)))
    assert {one.output_count for one in found} == {10}
    assert 0 < sum(len(one.outputs) for one in found) < 1000


@pytest.mark.parametrize(
    ("source", "field", "part"),
    [
        ("def f(record):\n    while True: pass\n", "transform.function", "still running after 2 s"),
        ("import os\ndef f(record): os._exit(3)\n", "transform.function", "exit code 3"),
        ("def g(record): ...\n", "transform.function", "no function `f`"),
        ("def f(record) return 1\n", "transform.file_name", "line 1"),
    ],
)
async def test_transform_that_cannot_run_is_reported_at_its_field(source: str, field: str, part: str) -> None:
    with pytest.raises(InvalidError, match=part) as caught:
        await of_file(source, record(1), time_limit_s=2.0)
    assert caught.value.field == field


async def test_forged_answer_is_refused() -> None:
    """A file can write to the descriptor of the answer; results of other records than the tried ones are no answer."""
    source = (
        "import os\n"
        "def f(record):\n"
        "    for fd in range(3, 20):\n"
        "        try: os.write(fd, b'{\"results\":[]}\\n')\n"
        "        except OSError: pass\n"
        "    os._exit(0)\n"
    )
    with pytest.raises(InvalidError):
        await of_file(source, record(1))


async def test_file_has_no_network_and_sees_nothing_of_the_server() -> None:
    source = (
        "import os, socket\n"
        "def f(record):\n"
        "    s = socket.socket()\n"
        "    s.settimeout(1)\n"
        f"    return record.with_json([dict(os.environ), os.path.exists({str(Path.cwd() / '.git')!r}), "
        "s.connect_ex(('127.0.0.1', 9))])\n"
    )
    (found,) = await of_file(source, record(1))
    (output,) = found.outputs
    environ, sees_checkout, refused = json.loads(bytes_of(output.value) or b"")
    assert not {name for name in environ if name.startswith(("FENCELINE", "PG", "HOME"))}
    assert not sees_checkout
    assert refused != 0

"""When a process has native records, and what it says when it has not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from app.core.pipelines.pipeline import (
    Condition,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    PythonFunction,
    PythonScope,
    Steps,
)
from tests.support.quiet import QUIET
from workers.native import library
from workers.native.build import TARGETS
from workers.native.taking import source_for


@pytest.fixture(autouse=True)
def fresh() -> Any:
    library.native_library.cache_clear()
    yield
    library.native_library.cache_clear()


def elsewhere() -> Path:
    return Path("/nowhere/librdkafka.so")


WITHOUT: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "another librdkafka": (
        lambda patch: patch.setattr("confluent_kafka.libversion", lambda: ("2.17.0", 0x021100FF)),
        "librdkafka is 2.17.0, and native records were tested with 2.16.0",
    ),
    "another platform": (
        lambda patch: patch.setattr(library, "platform_name", lambda: "linux-riscv64"),
        "there is no file for linux-riscv64",
    ),
    "another Python": (
        lambda patch: patch.setattr("sysconfig.get_config_var", {"Py_GIL_DISABLED": 1}.get),
        "this Python has no global lock, and its objects are laid out differently",
    ),
    "librdkafka of the system": (
        lambda patch: patch.setattr(library, "_bundled", lambda: None),
        "confluent-kafka does not bring its own librdkafka here",
    ),
    "a library that is not loaded": (
        lambda patch: patch.setattr(library, "_bundled", elsewhere),
        "librdkafka lacks the library itself",
    ),
}


@pytest.mark.parametrize("case", WITHOUT)
def test_tasks_work_without_it_and_the_reason_is_named(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    patch, reason = WITHOUT[case]
    patch(monkeypatch)
    assert library.native_library() == reason


def test_a_damaged_file_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / f"{library.platform_name()}.so").write_bytes(b"no library")
    monkeypatch.setattr("importlib.resources.files", {"workers.native": tmp_path}.get)
    found = library.native_library()
    assert isinstance(found, str)
    assert "cannot be loaded" in found


@pytest.mark.parametrize("platform", TARGETS)
def test_there_is_a_file_for_each_platform(platform: str) -> None:
    file = Path(library.__file__).parent / library.BUILT / f"{platform}.so"
    assert file.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")


def test_structures_have_the_sizes_that_c_asserts() -> None:
    """Run, error, batch and record facts and slots on 64 bits; of steps the first fields."""
    structures = (library.RunFacts, library.Trouble, library.BatchFacts, library.RecordFacts, library.Slot)
    assert list(map(ctypes.sizeof, structures)) == [56, 32, 64, 48, 32]
    assert library.StepsFacts.text.offset == 24
    of_arrow = (library.Strings, library.Columns, library.RowFacts)
    assert list(map(ctypes.sizeof, of_arrow)) == [56, 336, 344]


STEPS = Steps(steps=(Project(fields=("a",)),))
CHECKED = Steps(steps=(Condition(expression="true"), *STEPS.steps))
FUNCTION = PythonFunction(function="f", scope=PythonScope.RECORD, file_name="f.py", sha256="0" * 64)
OVER_ARROW = PythonFunction(function="f", scope=PythonScope.ARROW, file_name="f.py", sha256="0" * 64)
SOURCES: list[tuple[dict[str, Any], bool, str]] = [
    ({}, True, "native"),
    ({"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE}, True, "native"),
    ({"transform": STEPS}, True, "native"),
    ({}, False, "python: `native_records` is off"),
    (
        {"processing_guarantee": ProcessingGuarantee.AT_LEAST_ONCE},
        True,
        "python: `at_least_once` needs a report for each record",
    ),
    ({"transform": CHECKED}, True, "python: its first step is a condition"),
    ({"transform": OVER_ARROW}, True, "native"),
    ({"transform": FUNCTION}, True, "python: its function takes Python objects"),
]


@pytest.mark.parametrize(("settings", "may_be_native", "name"), SOURCES)
def test_the_source_of_a_task_says_what_it_is(settings: dict[str, Any], may_be_native: bool, name: str) -> None:
    definition = PipelineDefinition(cluster="c", source_topics=("a",), group_id="g", sink_topic="b", **settings)
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **QUIET})
    source = source_for(consumer, definition, may_be_native=may_be_native)
    assert source.name == name
    source.close()
    consumer.close()

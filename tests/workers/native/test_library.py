"""When a process has the native lane, and what it says when it has not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.native import library
from workers.native.build import TARGETS


@pytest.fixture(autouse=True)
def fresh() -> Any:
    library.native_library.cache_clear()
    yield
    library.native_library.cache_clear()


def test_it_is_used_where_it_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    assert library.why_not() == "FENCELINE_NATIVE is not `on`"
    monkeypatch.setenv(library.SWITCH, "on")
    assert library.why_not() is None


def elsewhere() -> Path:
    return Path("/nowhere/librdkafka.so")


WITHOUT: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "another librdkafka": (
        lambda patch: patch.setattr("confluent_kafka.libversion", lambda: ("2.17.0", 0x021100FF)),
        "librdkafka is 2.17.0, and the lane was tested with 2.16.0",
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
    monkeypatch.setenv(library.SWITCH, "on")
    patch, reason = WITHOUT[case]
    patch(monkeypatch)
    assert library.why_not() == reason


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


def test_structures_have_the_sizes_of_lane_c() -> None:
    """Run, error, batch and record facts on 64 bits."""
    sizes = [ctypes.sizeof(one) for one in (library.RunFacts, library.Trouble, library.BatchFacts, library.RecordFacts)]
    assert sizes == [56, 32, 64, 48]

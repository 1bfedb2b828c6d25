"""The selection of Java, and the error without a suitable one."""

import os
from pathlib import Path

import pytest

from app.edges.embedded.java import REQUIRED_MODULE, SUPPORTED_MAJORS, JavaMissingError, drivers_java, find_java


def fake_java(folder: Path, *, version: str, modules: str) -> Path:
    """A program that answers as a Java of that version and with those modules would."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"""#!/bin/sh
case "$1" in
  -version) echo 'openjdk version "{version}" 2025-01-01' >&2 ;;
  --list-modules) echo '{modules}' ;;
esac
""",
        encoding="utf-8",
    )
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JDK that was downloaded earlier."""
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_machine_has_a_java_that_spark_starts_on() -> None:
    java = find_java()
    assert java.major in SUPPORTED_MAJORS
    assert java.environment({"A": "b"}) == {"A": "b", "JAVA_HOME": str(java.home)}
    assert (java.home / "bin" / "java").exists()


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", version="21.0.4", modules=f"java.base@21\n{REQUIRED_MODULE}@21")
    on_path = fake_java(tmp_path / "path", version="17.0.9", modules=f"{REQUIRED_MODULE}@17")
    found = find_java(environ={"JAVA_HOME": str(at_home), "PATH": str(on_path / "bin")})
    assert (found.major, found.version) == (21, "21.0.4")
    assert found.executable == at_home / "bin" / "java"


def test_unsuitable_java_home_falls_back_to_path(tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", version="11.0.2", modules=f"{REQUIRED_MODULE}@11")
    on_path = fake_java(tmp_path / "path", version="17.0.9", modules=f"{REQUIRED_MODULE}@17")
    assert find_java(environ={"JAVA_HOME": str(at_home), "PATH": str(on_path / "bin")}).major == 17


@pytest.mark.parametrize(
    ("version", "modules", "reason"),
    [
        ("11.0.2", f"{REQUIRED_MODULE}@11", "is Java 11.0.2"),
        ("24", f"{REQUIRED_MODULE}@24", "is Java 24"),
        ("17.0.9", "java.base@17", f"is Java 17.0.9 without the module {REQUIRED_MODULE}"),
        ("17.0.9", f"{REQUIRED_MODULE}s@17", f"is Java 17.0.9 without the module {REQUIRED_MODULE}"),
    ],
)
def test_unsuitable_java_is_named_with_the_reason_and_the_line_to_type(
    tmp_path: Path, version: str, modules: str, reason: str
) -> None:
    home = fake_java(tmp_path / "home", version=version, modules=modules)
    with pytest.raises(JavaMissingError) as raised:
        find_java(environ={"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    assert f"JAVA_HOME ({home}/bin/java) {reason};" in str(raised.value)
    assert "apt-get install openjdk-17-jre-headless" in raised.value.remedy


def test_java_home_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME \(.*/nowhere/bin/java\) does not exist"):
        find_java(environ={"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""})


def test_a_machine_without_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match="JAVA_HOME is not set and there is no java on PATH"):
        find_java(environ={"PATH": str(tmp_path)})


def test_the_folder_that_a_person_named_is_taken(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", version="17.0.9", modules=f"{REQUIRED_MODULE}@17")
    assert drivers_java(home).home == home


def test_nothing_stands_in_for_the_folder_that_a_person_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(tmp_path / "path", version="17.0.9", modules=f"{REQUIRED_MODULE}@17")
    monkeypatch.setenv("PATH", f"{on_path}/bin:{os.environ['PATH']}")
    with pytest.raises(JavaMissingError, match=r"the setting java_home \(.*/nowhere/bin/java\) does not exist"):
        drivers_java(tmp_path / "nowhere")

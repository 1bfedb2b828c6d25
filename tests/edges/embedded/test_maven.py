"""Jars are downloaded once, complete and as pinned, also with a damaged cache or a second process."""

import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from app.edges.embedded import maven
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.maven import (
    ECJ_JARS,
    KAFKA_JARS,
    KAFKA_STREAMS_JARS,
    KAFKA_TOOLS_JARS,
    KAFKA_VERSION,
    OLD_KAFKA_JARS,
    OLD_KAFKA_TOOLS_JARS,
    SPARK_KAFKA_JARS,
    SPARK_KAFKA_VERSION,
    FetchProgress,
    ensure_jars,
    missing_jars,
    parse_line,
    read_manifest,
)
from app.edges.embedded.pyspark_package import spark_home


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own; returns where its jars come to lie."""
    monkeypatch.delenv("FENCELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fenceline" / "jars"


def test_manifests_name_every_file_once_and_the_broker_that_we_say() -> None:
    for name in (
        KAFKA_JARS,
        KAFKA_TOOLS_JARS,
        KAFKA_STREAMS_JARS,
        OLD_KAFKA_JARS,
        OLD_KAFKA_TOOLS_JARS,
        ECJ_JARS,
        SPARK_KAFKA_JARS,
    ):
        files = [jar.file_name for jar in read_manifest(name)]
        assert files == sorted(set(files))
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in [jar.file_name for jar in read_manifest(KAFKA_JARS)]


def test_connector_is_that_of_the_installed_spark_and_its_scala() -> None:
    assert importlib.metadata.version("pyspark") == SPARK_KAFKA_VERSION
    (scala,) = (spark_home() / "jars").glob("scala-library-*.jar")
    binary = scala.stem.removeprefix("scala-library-").rpartition(".")[0]
    of_spark = {jar.artifact: jar.version for jar in read_manifest(SPARK_KAFKA_JARS) if "spark" in jar.artifact}
    parts = ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10")
    assert of_spark == {f"{part}_{binary}": SPARK_KAFKA_VERSION for part in parts}


def test_unknown_manifest_is_named() -> None:
    with pytest.raises(EmbeddedError, match="no jar manifest named nothing-1"):
        read_manifest("nothing-1")


def test_damaged_jar_is_fetched_again_and_the_others_are_left_alone(cache: Path) -> None:
    progress: list[FetchProgress] = []
    jars = ensure_jars(ECJ_JARS, on_progress=progress.append)
    pinned = read_manifest(ECJ_JARS)
    assert [hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars] == [jar.sha256 for jar in pinned]
    assert progress == [FetchProgress(ECJ_JARS, 1, 1, pinned[0].file_name)]

    assert ensure_jars(ECJ_JARS, on_progress=progress.append) == jars
    assert len(progress) == 1

    whole = jars[0].read_bytes()
    jars[0].write_bytes(whole[:-1])
    assert missing_jars(ECJ_JARS) == pinned
    assert ensure_jars(ECJ_JARS, on_progress=progress.append) == jars
    assert jars[0].read_bytes() == whole
    assert len(progress) == 2
    assert sorted(path.name for path in cache.iterdir()) == [ECJ_JARS, f"{ECJ_JARS}.lock"]


def test_two_processes_at_once_download_once(cache: Path) -> None:
    program = f"""
from app.edges.embedded.maven import ensure_jars
fetched = []
ensure_jars({ECJ_JARS!r}, on_progress=fetched.append)
print(len(fetched))
"""
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted(out.strip() for out, _ in outputs) == ["0", "1"]


def test_file_with_another_checksum_is_refused_and_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = read_manifest(ECJ_JARS)[0]
    forged = maven.Jar("0" * 64, real.file_name, real.group, real.artifact, real.version)

    def read(_: str) -> list[maven.Jar]:
        return [forged]

    monkeypatch.setattr(maven, "read_manifest", read)
    with pytest.raises(EmbeddedError, match=f"SHA-256 {real.sha256}, but 0000.* is pinned in jars/{ECJ_JARS}.txt"):
        ensure_jars(ECJ_JARS)
    assert list((cache / ECJ_JARS).iterdir()) == []


def test_jar_that_does_not_exist_is_an_error_with_the_tools_words(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = maven.Jar("0" * 64, "ecj-0.0.0.jar", "org.eclipse.jdt", "ecj", "0.0.0")

    def read(_: str) -> list[maven.Jar]:
        return [absent]

    # A PATH with Java but without mvn, which would be asked next and takes longer to refuse.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(find_java().executable.resolve())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(maven, "read_manifest", read)
    with pytest.raises(EmbeddedError, match=r"(?s)1 jars of .* could not be downloaded .*Ivy ended with exit code"):
        ensure_jars(ECJ_JARS)
    assert list((cache / ECJ_JARS).iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "abc  ecj-1.jar  org.eclipse.jdt:ecj:1",
        f"{'0' * 64} ecj-1.jar org.eclipse.jdt:ecj:1",
        f"{'0' * 64}  ../ecj-1.jar  org.eclipse.jdt:ecj:1",
        f"{'0' * 64}  other-1.jar  org.eclipse.jdt:ecj:1",
    ],
)
def test_line_that_is_not_as_written_is_refused(line: str) -> None:
    with pytest.raises(EmbeddedError, match="jar manifest test: "):
        parse_line("test", line)

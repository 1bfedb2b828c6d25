"""The jar of Spark's data source `fenceline`, compiled once from the Java sources beside `fenceline_spark`.

The compiler is the pinned Eclipse compiler, which needs a Java runtime only. The jar depends on sources, PySpark and
connector alone: the same ones give the same bytes.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.edges.embedded.caches import cache_dir
from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.java import find_java
from app.edges.embedded.maven import ECJ_JARS, SPARK_KAFKA_JARS, ensure_jars
from app.edges.embedded.pyspark_package import spark_home

SOURCES = Path(__file__).parents[3] / "workers" / "dataframes" / "java"
JAR_NAME = "fenceline-spark.jar"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_SOURCE_CLASS = "io.fenceline.spark.ExactlyOnceSource"
_TIMEOUT_S = 120.0
# The first moment that a zip archive can name, so that equal sources give equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def ensure_sink_jar(sources: Path = SOURCES) -> Path:
    """The compiled jar, in the cache folder; compiled if the sources, PySpark or the connector have changed.

    Raises:
        EmbeddedError: no Java, no jars, or the sources do not compile (with the compiler's output).
    """
    jar = cache_dir() / "spark-sink" / _fingerprint(sources) / JAR_NAME
    if not jar.exists():
        compile_jar(sorted(sources.rglob("*.java")), jar, services={_SERVICE: _SOURCE_CLASS})
    return jar


def spark_kafka_jars() -> list[Path]:
    """The jars of Spark's Kafka connector, fetched where they are missing."""
    return ensure_jars(SPARK_KAFKA_JARS)


def _fingerprint(sources: Path) -> str:
    digest = hashlib.sha256(f"{SPARK_KAFKA_JARS} {ECJ_JARS}".encode())
    for file in sorted(sources.rglob("*.java")):
        digest.update(f"\n{file.relative_to(sources)}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def compile_jar(
    sources: Sequence[Path], jar: Path, *, services: Mapping[str, str], class_path: Sequence[Path] = ()
) -> None:
    """Compile Java sources against Spark and its Kafka connector into a jar, which appears when it is complete.

    Args:
        services: files of META-INF/services with the class that each names.
        class_path: further jars.
    """
    jar.parent.mkdir(parents=True, exist_ok=True)
    (compiler,) = ensure_jars(ECJ_JARS)
    spark = sorted((spark_home() / "jars").glob("*.jar"))
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=jar.parent) as scratch:
        classes = Path(scratch) / "classes"
        ended = subprocess.run(
            [
                *(str(find_java(may_fetch=True).executable), "-jar", str(compiler), "-17", "-proc:none"),
                *("-encoding", "UTF-8", "-cp", os.pathsep.join(map(str, [*class_path, *spark_kafka_jars(), *spark]))),
                *("-d", str(classes), *map(str, sources)),
            ],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ended.returncode != 0:
            raise EmbeddedError(f"{jar.name} does not compile:\n{ended.stderr}{ended.stdout}")
        packed = Path(scratch) / jar.name
        _pack(classes, services, packed)
        packed.replace(jar)


def _pack(classes: Path, services: Mapping[str, str], jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {str(path.relative_to(classes)): path.read_bytes() for path in classes.rglob("*.class")}
        files |= {name: f"{service}\n".encode() for name, service in services.items()}
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name], zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / JAR_NAME).write_bytes(ensure_sink_jar().read_bytes())

"""A child process that starts Spark in isolation, to make the plan of a query or to try it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.transforms.asked_process import LONGEST_ANSWER_BYTES, ProcessEnd
from app.core.transforms.check_process import Checker, run_check

START_LIMIT_S = 90.0
TIME_LIMIT_S = 60.0
"""The bound after Spark has started. It ends code that waits: a plan takes some seconds."""
MEMORY_LIMIT_MB = 2_048
NO_JAVA = (
    "The query was not {}: this server has no Java. Install Java 17, or set FENCELINE_JAVA_HOME (fenceline doctor)"
)
NOT_STARTED = (
    "The query was not {}: Spark did not start within {:g} s ({}). Try again, or install bubblewrap if it is "
    "missing (docs/security.md)"
)
_FILES_MB = 64


async def run_spark_check(
    module: str,
    definition: PipelineDefinition,
    *,
    java_home: Path,
    source: str | None,
    secret_paths: Iterable[str],
    accepts_no_isolation: bool,
    start_limit_s: float,
    time_limit_s: float,
    answer_bytes: int = LONGEST_ANSWER_BYTES,
    **more: Any,
) -> ProcessEnd | None:
    """Run a module with a `PlanRequest` of workers/spark/check_plan.py; None: too many others are waiting.

    The process is isolated as for an uploaded file, but has a folder of 64 MB for files, and Java with its threads.

    Args:
        source: the text of the uploaded file; None for SQL.
        secret_paths: files and folders of the server that it must not see.
        accepts_no_isolation: run it as the server's user if isolation is not available.
        start_limit_s, time_limit_s: seconds until Spark has started, and from there to the answer.
        more: further fields of the request.
    """
    request = {
        "definition": definition,
        "source": source,
        "java_home": str(java_home),
        "cpu_s": int(start_limit_s + time_limit_s),
        "memory_mb": MEMORY_LIMIT_MB,
        **more,
    }
    return await run_check(
        Checker(
            module=module,
            start_limit_s=start_limit_s,
            limit_s=time_limit_s,
            writable_mb=_FILES_MB,
            visible=_files_of(java_home),
            answer_bytes=answer_bytes,
        ),
        lambda isolated: msgspec.json.encode(
            {**request, "uid": isolated.uid, "is_isolated": True} if isolated else request
        ),
        secret_paths=secret_paths,
        accepts_no_isolation=accepts_no_isolation,
    )


def find_java_home(named: str | None) -> Path | None:
    """Return the named home of Java, else `JAVA_HOME`, else that of `java` on PATH."""
    home = named or os.environ.get("JAVA_HOME")
    if home:
        return Path(home).resolve()
    found = shutil.which("java", path=os.environ.get("PATH", os.defpath))
    return None if found is None else Path(found).resolve().parent.parent


def _files_of(home: Path) -> tuple[str, ...]:
    """Return the folders that Java reads: its home, and settings that its package keeps elsewhere."""
    settings = (home / "lib" / "jvm.cfg", home / "conf" / "logging.properties", home / "conf/security/java.security")
    return tuple(dict.fromkeys(str(path) for path in (home, *(file.resolve().parent for file in settings))))

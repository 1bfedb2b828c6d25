"""Uploaded Python files, tried in a child process: the verdicts, and that nothing of a file reaches the server."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.domain.pipelines.pipeline import Problem, PythonFunction
from app.services.defining.python_transforms import check_python_transform
from tests.support.waiting import wait_for
from workers.transforms.user_code import sha256_of

SOUND = "def f(record): return record\n"


async def check(source: str, *, function: str = "f", time_limit_s: float = 10.0) -> list[Problem]:
    transform = PythonFunction(function=function, file_name="mine.py", sha256=sha256_of(source))
    return await check_python_transform(transform, source=source, time_limit_s=time_limit_s)


async def only(source: str, *, time_limit_s: float = 10.0) -> Problem:
    (problem,) = await check(source, time_limit_s=time_limit_s)
    return problem


async def answers(expression: str) -> bool:
    """Whether an expression holds in the child."""
    problem = await only(f"import os\nraise (KeyError if ({expression}) else IndexError)")
    return {"KeyError": True, "IndexError": False}[problem.message.rsplit(": ", 1)[1]]


async def test_a_sound_file_has_no_problems() -> None:
    assert await check(SOUND) == []
    assert await check(f"from workers.transforms.record import Record\nprint('x' * 1_000_000)\n{SOUND}") == []


async def test_a_file_is_never_imported_into_the_server() -> None:
    modules = set(sys.modules)
    await check(f"import sys\nsys.modules['smuggled_in'] = sys\n{SOUND}")
    assert "smuggled_in" not in set(sys.modules) - modules


async def test_a_file_that_is_not_the_definitions_is_not_run() -> None:
    transform = PythonFunction(function="f", file_name="mine.py", sha256="0" * 64)
    (problem,) = await check_python_transform(transform, source=SOUND)
    assert problem.field == "transform.sha256"
    assert sha256_of(SOUND) in problem.message


@pytest.mark.parametrize(
    ("source", "field", "part"),
    [
        ("def f(record) return record", "file_name", "mine.py, line 1: expected ':'"),
        ("\n1 / 0", "file_name", "mine.py does not import: line 2: ZeroDivisionError"),
        ("raise SystemExit('bye')", "file_name", "mine.py does not import: line 1: SystemExit"),
        ("def g(record): ...", "function", "mine.py has no function `f`; it has `g`"),
        ("async def f(record): ...", "function", "is an async function"),
        ("(" * 100_000, "file_name", "too many nested parentheses"),
    ],
)
async def test_what_is_wrong_with_a_file_is_told_at_its_field(source: str, field: str, part: str) -> None:
    problem = await only(source)
    assert problem.field == f"transform.{field}"
    assert part in problem.message
    assert not problem.is_warning


async def test_a_module_that_only_the_executors_may_have_is_a_warning() -> None:
    problem = await only(f"import no_such_module_here\n{SOUND}")
    assert problem.is_warning
    assert "imports `no_such_module_here`" in problem.message
    assert "must be installed on the executors" in problem.message


async def test_the_environment_is_empty_and_so_is_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELINE_SECRET_KAFKA", "hunter2")
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    # Python itself sets LC_CTYPE when it finds no locale, bubblewrap the folder that it begins in.
    assert await answers("set(os.environ) <= {'LC_CTYPE', 'PWD'} and os.listdir('.') == []")


async def test_a_file_that_never_ends_is_ended() -> None:
    started = time.monotonic()
    problem = await only("import time\nwhile True: time.sleep(1)", time_limit_s=1)
    assert time.monotonic() - started < 8
    assert "was still running after 1 s when it was imported" in problem.message


async def test_a_file_that_takes_all_memory_is_stopped_short() -> None:
    assert "MemoryError" in (await only("x = bytearray(4 * 1024 ** 3)")).message


@pytest.mark.parametrize("folder", ["/tmp", "/", "/dev/shm"])  # noqa: S108 - of the child's own root
async def test_a_file_cannot_fill_the_disk(folder: str) -> None:
    source = f"open({folder + '/written'!r}, 'wb').write(b'x' * 100)"
    assert (await only(source)).message.endswith(("line 1: OSError", "line 1: PermissionError"))


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("import os; os._exit(3)", "ended the process that imported it, by exit code 3"),
        ("import os; os._exit(0)", "ended the process that imported it, by exit code 0"),
        ("import os; os.kill(os.getpid(), 11)", "by signal 11 (SIGSEGV)"),
        (
            "import os\nfor n in range(3, 20):\n    try: os.write(n, b'{}{}')\n    except OSError: pass\nos._exit(0)",
            "by exit",
        ),
    ],
)
async def test_a_file_that_ends_the_child_is_told_so(source: str, part: str) -> None:
    problem = await only(source)
    assert problem.field == "transform.file_name"
    assert part in problem.message


async def test_what_a_file_starts_ends_with_its_check(tmp_path: Path) -> None:
    marker = f"fenceline-straggler-{os.getpid()}-{tmp_path.name}"
    source = (
        "import subprocess, sys, threading, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}])\n"
        f"threading.Thread(target=time.sleep, args=(600,)).start()\n{SOUND}"
    )
    assert await check(source) == []

    def stragglers() -> list[str]:
        return [
            " ".join(p.info["cmdline"] or [])
            for p in psutil.process_iter(["cmdline"])
            if marker in (p.info["cmdline"] or [])
        ]

    wait_for(lambda: not stragglers(), deadline_s=5, describe=lambda: f"still there: {stragglers()}")


async def test_a_request_larger_than_a_pipe_gets_through() -> None:
    assert await check(f"# {'x' * 500_000}\n{SOUND}") == []

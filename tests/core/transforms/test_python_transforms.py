"""Uploaded Python files, tried in a child process: the verdicts, and that nothing of a file reaches the server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.core.pipelines.pipeline import PythonFunction, PythonScope
from app.core.transforms.python_transforms import check_python_transform
from app.kit.errors import Problem
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
    """Return whether an expression holds in the child."""
    problem = await only(f"import os\nraise (KeyError if ({expression}) else IndexError)")
    return {"KeyError": True, "IndexError": False}[problem.message.rsplit(": ", 1)[1]]


async def test_a_sound_file_has_no_problems() -> None:
    assert await check(SOUND) == []
    assert await check(f"from workers.transforms.record import Record\nprint('x' * 1_000_000)\n{SOUND}") == []


async def test_a_file_over_arrow_batches_is_checked_with_its_libraries() -> None:
    """They start threads and reserve memory."""
    imports = "import polars\nimport pyarrow\nimport pyarrow.compute\n"
    source = f"{imports}def f(batch): return polars.from_arrow(batch).to_arrow()\n"
    transform = PythonFunction(function="f", scope=PythonScope.ARROW, file_name="mine.py", sha256=sha256_of(source))
    assert await check_python_transform(transform, source=source) == []


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
async def test_problem_of_a_file_is_reported_at_its_field(source: str, field: str, part: str) -> None:
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
    # Python itself sets LC_CTYPE when it finds no locale, bubblewrap the folder that it begins in, the checker threads.
    threads = "{name for name, value in os.environ.items() if name.endswith('_NUM_THREADS') and value == '1'}"
    assert await answers(f"set(os.environ) - {threads} <= {{'LC_CTYPE', 'PWD'}} and os.listdir('.') == []")


async def test_a_file_that_never_ends_is_ended() -> None:
    started = time.monotonic()
    problem = await only("import time\nwhile True: time.sleep(1)", time_limit_s=1)
    assert time.monotonic() - started < 8
    assert "was still running after 1 s when it was imported" in problem.message


async def test_a_file_that_takes_all_memory_is_stopped_short() -> None:
    assert "MemoryError" in (await only("x = bytearray(4 * 1024 ** 3)")).message


@pytest.mark.parametrize("folder", ["/tmp", "/", "/dev/shm"])  # noqa: S108 - of the child's own root
async def test_a_file_cannot_fill_the_disk(folder: str) -> None:
    source = f"open({folder + '/written'!r}, 'wb', buffering=0).write(b'x' * 100)"
    assert (await only(source)).message.endswith(("line 1: OSError", "line 1: PermissionError"))


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("import os; os._exit(3)", "ended the process that imported it, by exit code 3"),
        ("import os; os._exit(0)", "ended the process that imported it, by exit code 0"),
        ("import os; os.kill(os.getpid(), 11)", "by signal 11 (SIGSEGV)"),
        ("import os; os._exit(200)", "by exit code 200"),
        ("import os; os._exit(255)", "by exit code 255"),
        ("import os; os.kill(os.getpid(), 40)", "by signal 40;"),
        (
            "import os\nfor n in range(3, 20):\n    try: os.write(n, b'{}{}')\n    except OSError: pass\nos._exit(0)",
            "by exit",
        ),
    ],
)
async def test_file_that_ends_the_child_is_reported(source: str, part: str) -> None:
    problem = await only(source)
    assert problem.field == "transform.file_name"
    assert part in problem.message


WRITES = """import os
def answer(text):
    for n in range(3, 20):
        try: os.write(n, text.encode())
        except OSError: pass
"""
"""The answer has a descriptor of its own, which a file can find."""


async def test_a_line_without_an_end_is_no_answer() -> None:
    started = time.monotonic()
    problem = await only(f"{WRITES}answer('x' * 200_000)\nimport time; time.sleep(60)")
    assert time.monotonic() - started < 8, "the check does not wait for the rest"
    assert "wrote to the descriptor of its validation's answer" in problem.message


async def test_a_pipe_that_the_file_fills_after_an_answer_is_read_to_its_end() -> None:
    """A full pipe of asyncio's streams is read no more, and its process waited for without end."""
    started = time.monotonic()
    problem = await only(f"{WRITES}answer('{{}}\\n' + 'x' * 2_000_000)\nimport time; time.sleep(60)", time_limit_s=2)
    assert time.monotonic() - started < 8
    assert "was still running after 2 s" in problem.message, "with any answer"


@pytest.mark.parametrize(
    "forged",
    [
        {"field": "\x1b[31m", "message": "red"},
        {"field": "file_name", "message": "x" * 2_001},
        {"message": "x", "missing_module": "x y"},
        {"message": "x", "missing_module": "x\n"},
    ],
    ids=["field", "message", "module", "module-with-an-end-of-line"],
)
async def test_an_answer_that_the_checker_would_not_give_is_not_taken(forged: dict[str, str]) -> None:
    problem = await only(f"{WRITES}answer({json.dumps(forged) + chr(10)!r})\nos._exit(7)")
    assert problem.field == "transform.file_name"
    assert "by exit code 7" in problem.message
    assert not problem.is_warning


async def test_a_forged_message_is_one_harmless_line() -> None:
    forged = json.dumps({"field": "function", "message": "\x1b[31mred\nagain"}) + "\n"
    problem = await only(f"{WRITES}answer({forged!r})\nos._exit(0)")
    assert problem.field == "transform.function"
    assert problem.message == "␛[31mred␊again"


async def test_a_long_answer_of_the_checker_is_cut() -> None:
    problem = await only("\n".join(f"def {'g' * 900}{n}(record): ..." for n in range(10)))
    assert problem.field == "transform.function"
    assert len(problem.message) == 2_000


async def test_two_checks_run_and_the_rest_wait_or_are_refused(tmp_path: Path) -> None:
    marker = f"fenceline-at-once-{os.getpid()}-{tmp_path.name}"
    source = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}])\n"
        f"import time; time.sleep(1)\n{SOUND}"
    )

    def running() -> int:
        # One process of each check, although several processes of the sandbox have its arguments.
        return sum(marker in (p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))

    asked = [asyncio.create_task(check(source)) for _ in range(9)]
    most = 0
    while not all(task.done() for task in asked):
        most = max(most, await asyncio.to_thread(running))
    answers = [task.result() for task in asked]
    refused = [answer for answer in answers if answer]
    assert most == 2
    assert len(refused) == 1, "2 ran, 6 waited"
    assert "not validated: others are being validated" in refused[0][0].message


async def test_process_of_a_file_ends_with_its_check(tmp_path: Path) -> None:
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

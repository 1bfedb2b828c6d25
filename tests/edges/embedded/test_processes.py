"""A child ends on request, and after the death of its parent."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.processes import ChildProcess, has_ended
from tests.support.waiting import wait_for

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PARENT = textwrap.dedent("""
    import subprocess, sys, time
    print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    time.sleep(600)
""")


def python(tmp_path: Path, program: str) -> ChildProcess:
    return ChildProcess("the child", [sys.executable, "-c", program], tmp_path / "child.log", env=dict(os.environ))


def printed(child: ChildProcess) -> str:
    return wait_for(lambda: child.log_path.read_text(encoding="utf-8"), 20, "the child's first line")


def test_stop_kills_what_ignores_it(tmp_path: Path) -> None:
    child = python(tmp_path, STUBBORN)
    child.start()
    printed(child)
    child.stop(timeout_s=0.3)
    assert child.exit_code == -signal.SIGKILL
    child.stop()


def test_stop_reaches_a_paused_child(tmp_path: Path) -> None:
    child = python(tmp_path, "import time; print('up', flush=True); time.sleep(600)")
    child.start()
    printed(child)
    child.pause()
    assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
    child.stop(timeout_s=20)
    assert child.exit_code == -signal.SIGTERM


def test_kill_takes_what_the_child_started_with_it(tmp_path: Path) -> None:
    child = python(tmp_path, PARENT)
    child.start()
    grandchild = int(printed(child))
    assert not has_ended(grandchild)
    child.kill()
    assert has_ended(grandchild)


def test_kill_of_the_child_alone_spares_what_it_started(tmp_path: Path) -> None:
    child = python(tmp_path, PARENT)
    child.start()
    grandchild = int(printed(child))
    child.kill(whole_tree=False)
    assert not child.is_running
    assert not has_ended(grandchild)
    child.stop()
    wait_for(lambda: has_ended(grandchild), 10, "the end of the grandchild with its process group")


def test_child_is_started_once(tmp_path: Path) -> None:
    child = python(tmp_path, STUBBORN)
    child.start()
    with pytest.raises(EmbeddedError, match="the child is already running with pid"):
        child.start()
    child.kill()
    with pytest.raises(EmbeddedError, match="the child is not running"):
        _ = child.pid


def test_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    child = ChildProcess("the child", [str(tmp_path / "absent")], tmp_path / "log", env={})
    with pytest.raises(EmbeddedError, match=r"the child could not be started: .*absent"):
        child.start()


def test_tool_that_fails_shows_its_output(tmp_path: Path) -> None:
    child = python(tmp_path, "import sys; sys.exit('cannot do that')")
    with pytest.raises(EmbeddedError, match=r"(?s)the child failed with exit code 1\..*cannot do that"):
        child.run(timeout_s=20)


def test_tool_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    child = python(tmp_path, STUBBORN)
    with pytest.raises(EmbeddedError, match="the child took longer than 1 s"):
        child.run(timeout_s=1)
    assert not child.is_running


def test_wait_that_ends_in_vain_says_what_was_waited_for(tmp_path: Path) -> None:
    child = python(tmp_path, STUBBORN)
    child.start()
    with pytest.raises(EmbeddedError, match="the child: 0 s passed without a miracle"):
        child.wait_until(lambda: False, timeout_s=0.1, what="a miracle")
    child.kill()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_children_die_with_a_parent_that_did_not_end_them(tmp_path: Path, ending: signal.Signals) -> None:
    program = textwrap.dedent("""
        import os, sys, time
        from pathlib import Path
        from app.edges.embedded.processes import ChildProcess
        child = ChildProcess("c", [sys.executable, "-c", sys.argv[2]], Path(sys.argv[1]), env=dict(os.environ))
        child.start()
        # Between start and registration lies no gap that a test could hit: both are done when start returns.
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    argv = [sys.executable, "-c", program, str(tmp_path / "log"), STUBBORN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        assert not has_ended(orphan)
        parent.send_signal(ending)
    wait_for(lambda: has_ended(orphan), 20, f"the end of the orphan, pid {orphan}")


def test_children_survive_the_thread_that_started_them(tmp_path: Path) -> None:
    """The flaw of Linux's parent-death signal: it follows the thread, not the process."""
    from concurrent.futures import ThreadPoolExecutor

    child = python(tmp_path, STUBBORN)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(child.start).result()
    printed(child)
    assert child.is_running
    child.kill()

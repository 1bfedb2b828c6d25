"""The reach of an uploaded file during its validation: nothing of the server, of other users, or of the network.

Each question is asked without isolation too, where it is answered with yes: so it can find what it asks for.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from app.core.pipelines.pipeline import PythonFunction
from app.core.transforms import isolation as isolating
from app.core.transforms.python_transforms import check_python_transform
from app.kit.errors import Problem
from tests.support.waiting import wait_for
from workers.transforms.user_code import sha256_of

ISOLATIONS = pytest.mark.parametrize("is_isolated", [True, False], ids=["isolated", "control"])
ASKING = """
import ctypes, glob, os, socket, subprocess, sys, time

def readable(path):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError:
        return b''

def connects(*address, family=socket.AF_INET):
    asked = socket.socket(family)
    asked.settimeout(2)
    try:
        asked.connect(address if len(address) > 1 else address[0])
    except OSError:
        return False
    return True
"""


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


async def check(source: str, *, secret_paths: tuple[str, ...] = (), accepts: bool = False) -> list[Problem]:
    transform = PythonFunction(function="f", file_name="mine.py", sha256=sha256_of(source))
    return await check_python_transform(
        transform, source=source, secret_paths=secret_paths, accepts_no_isolation=accepts
    )


class Ask:
    """Return whether an expression holds for a file under validation."""

    def __init__(self, *, is_isolated: bool) -> None:
        self._is_isolated = is_isolated

    async def __call__(self, expression: str, *, secret_paths: tuple[str, ...] = ()) -> bool:
        source = f"{ASKING}\nraise (KeyError if ({expression}) else IndexError)\n"
        (problem,) = await check(source, secret_paths=secret_paths, accepts=not self._is_isolated)
        answer = {"KeyError": True, "IndexError": False}
        return answer[problem.message.rsplit(": ", 1)[1]]


@pytest.fixture
def ask(is_isolated: bool, request: pytest.FixtureRequest) -> Ask:
    if not is_isolated:
        request.getfixturevalue("no_bubblewrap")
    return Ask(is_isolated=is_isolated)


@ISOLATIONS
async def test_the_servers_environment_is_out_of_reach(ask: Ask, is_isolated: bool) -> None:
    seen = "any(b'PATH=' in readable(path) for path in glob.glob('/proc/[0-9]*/environ'))"
    assert await ask(seen) is not is_isolated


@pytest.mark.parametrize("is_shown", [True, False], ids=["shown", "control"])
async def test_an_environment_below_the_empty_folder_is_visible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_shown: bool
) -> None:
    """A checkout in `/tmp` has its interpreter and packages there."""
    assert tmp_path.is_relative_to(isolating.EMPTY_FOLDER)
    checkout = tmp_path / "checkout"
    checkout.mkdir(mode=0o755)
    (checkout / "module.py").write_text("here", "utf-8")
    shown = isolating.visible_paths()
    monkeypatch.setattr(isolating, "visible_paths", lambda: [*shown, *([checkout] if is_shown else [])])
    assert await Ask(is_isolated=True)(f"readable('{checkout}/module.py') == b'here'") is is_shown
    assert not await Ask(is_isolated=True)(f"os.access('{checkout}', os.W_OK)")


@ISOLATIONS
async def test_no_other_process_is_in_sight(ask: Ask, is_isolated: bool) -> None:
    assert await ask(f"os.path.exists('/proc/{os.getpid()}/cwd') and os.getppid() > 2") is not is_isolated


@ISOLATIONS
async def test_the_servers_files_are_out_of_reach(ask: Ask, is_isolated: bool, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    assert await ask(f"readable({str(tmp_path / 'token')!r}) == b'secret'") is not is_isolated


@ISOLATIONS
async def test_accounts_and_homes_are_out_of_reach(ask: Ask, is_isolated: bool) -> None:
    assert await ask("bool(readable('/etc/passwd'))") is not is_isolated
    home = Path.home()
    shown = {part for prefix in (sys.prefix, sys.base_prefix) for part in Path(prefix).parts}
    other = [entry for entry in home.iterdir() if entry.name not in shown]
    if other:
        assert await ask(f"os.path.lexists({str(other[0])!r})") is not is_isolated


@pytest.fixture
def secret_in_the_environment() -> Generator[Path]:
    """A folder with a secret in it, in the middle of what the interpreter needs."""
    with tempfile.TemporaryDirectory(prefix="fenceline-secret-", dir=sys.prefix) as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "token").write_text("secret")
        yield Path(folder)


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
@pytest.mark.parametrize("part", ["", "token"])
async def test_secrets_in_the_middle_of_what_is_shown_are_hidden(
    ask: Ask, secret_in_the_environment: Path, part: str
) -> None:
    token = str(secret_in_the_environment / "token")
    assert await ask(f"readable({token!r}) == b'secret'"), "the control: it is not hidden"
    hidden = (str(secret_in_the_environment / part), "/no/such/path")
    assert not await ask(f"readable({token!r}) == b'secret'", secret_paths=hidden)


@pytest.fixture
def link_folder() -> Generator[Path]:
    """Not below /tmp, which is the sandbox's own."""
    with tempfile.TemporaryDirectory(prefix="fenceline-link-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
@pytest.mark.parametrize("part", ["", "token"])
async def test_secrets_are_hidden_by_every_name_of_what_is_shown(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, link_folder: Path, secret_in_the_environment: Path, part: str
) -> None:
    """A place that is a link is bound by its own name, and its target may be another place's."""
    link = link_folder / "link"
    link.symlink_to(secret_in_the_environment)
    monkeypatch.setattr(isolating, "SYSTEM", (*isolating.SYSTEM, str(link)))
    names = [str(link / "token"), str(secret_in_the_environment / "token")]
    for name in names:
        assert await ask(f"readable({name!r}) == b'secret'"), "the control: it is not hidden"
    for hidden in (link / part, secret_in_the_environment / part):
        for name in names:
            assert not await ask(f"readable({name!r}) == b'secret'", secret_paths=(str(hidden),))


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
async def test_a_secret_among_the_systems_libraries_is_hidden(ask: Ask) -> None:
    """/lib is a link to usr/lib on most systems, and a place of its own inside."""
    shown = [name for name in ("/usr/lib/os-release", "/lib/os-release") if await ask(f"bool(readable({name!r}))")]
    assert shown
    for name in shown:
        assert not await ask(f"bool(readable({name!r}))", secret_paths=("/usr/lib/os-release",))


@ISOLATIONS
async def test_there_is_no_network(ask: Ask, is_isolated: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert await ask(f"connects('127.0.0.1', {listening.getsockname()[1]})") is not is_isolated


@ISOLATIONS
async def test_sockets_in_folders_and_abstract_ones_are_out_of_reach(
    ask: Ask, is_isolated: bool, tmp_path: Path
) -> None:
    for address in (str(tmp_path / "s"), f"\0{tmp_path.name}-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            assert await ask(f"connects({address!r}, family=socket.AF_UNIX)") is not is_isolated


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
async def test_its_user_has_no_account_and_does_not_change(ask: Ask) -> None:
    """As root's child another user, without a capability, and without a way back to any."""
    assert await ask(f"os.getuid() == os.geteuid() and (os.getuid() != 0 or {os.geteuid()} != 0)")
    assert not await ask(
        "any(int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm')))"
    )
    assert await ask("b'NoNewPrivs:\\t1' in readable('/proc/self/status')")
    if os.geteuid() == 0:
        assert not await ask("ctypes.CDLL(None).setuid(0) == 0")


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
async def test_nothing_can_be_mounted_over_what_is_shown(ask: Ask) -> None:
    mount = "ctypes.CDLL(None).mount(b'none', b'/usr', b'tmpfs', 0, None) == 0"
    assert not await ask(mount)
    assert not await ask("ctypes.CDLL(None).mount(None, b'/usr', None, 32 | 4096, None) == 0"), "nor made writable"


@pytest.mark.parametrize("is_isolated", [True], ids=["isolated"])
async def test_an_ordinary_users_check_makes_no_user_namespace(ask: Ask) -> None:
    """In one of its own it would have every capability, and so more of the kernel to try."""
    if os.geteuid() == 0:
        pytest.skip("as root there is no user namespace whose limit bubblewrap could lower")
    assert not await ask("ctypes.CDLL(None).unshare(0x10000000) == 0")


@pytest.mark.parametrize(
    ("version", "can"),
    [("bubblewrap 0.8.0", True), ("bubblewrap 0.11.0", True), ("bubblewrap 0.6.1", False), ("", False)],
)
def test_an_older_bubblewrap_is_not_asked_for_what_it_cannot(tmp_path: Path, version: str, can: bool) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    assert isolating.can_disable_userns(str(program)) is can


async def test_process_outside_its_session_ends_with_the_check(tmp_path: Path) -> None:
    """A daemon by the book: two forks, a session of its own, deaf to signals."""
    marker = f"fenceline-daemon-{os.getpid()}-{tmp_path.name}"
    source = (
        f"{ASKING}\nimport signal\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    if os.fork() == 0:\n"
        f"        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}])\n"
        "    os._exit(0)\n"
        "def f(record): return record\n"
    )
    assert await check(source) == []

    def daemons() -> list[int]:
        return [p.pid for p in psutil.process_iter(["cmdline"]) if marker in (p.info["cmdline"] or [])]

    wait_for(lambda: not daemons(), deadline_s=5, describe=lambda: f"still there: {daemons()}")


async def test_processes_and_the_sum_of_their_memory_are_bounded() -> None:
    """Each process may fill its own memory, so that four of them bound the sum; as root and as an ordinary user."""
    bomb = "\n".join(f"subprocess.Popen(['/usr/bin/sleep', '60'])  # {number}" for number in range(5))
    (problem,) = await check(f"{ASKING}\n{bomb}\n")
    assert "BlockingIOError" in problem.message
    first, failed = len(ASKING.splitlines()) + 2, int(problem.message.split("line ")[1].split(":")[0])
    assert failed - first in (2, 3), "after as many as there is room for beside the checker"


@pytest.mark.usefixtures("no_bubblewrap")
async def test_without_isolation_nothing_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    source = f"import os; os.mkdir({str(ran)!r})\ndef f(record): return record\n"
    (problem,) = await check(source)
    assert problem.field == "transform.file_name"
    assert not problem.is_warning
    assert "not validated: no isolation for it here (bubblewrap (`bwrap`) is not installed)" in problem.message
    assert not ran.exists()
    assert await check(source, accepts=True) == []
    assert ran.exists(), "the setting accepts it, and this is what is accepted"


async def test_a_kernel_that_forbids_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (problem,) = await check("def f(record): return record\n")
    assert "No permissions to create new namespace" in problem.message


@pytest.mark.parametrize(
    "raised",
    [
        "ValueError('4111111111111111')",
        "type('4111 1111 1111 1111', (Exception,), {})()",
        "SyntaxError('4111111111111111')",
        "ModuleNotFoundError('no', name='4111111111111111')",
        "SystemExit('4111111111111111')",
        "UnicodeDecodeError('utf-8', b'4111111111111111', 0, 1, '4111111111111111')",
    ],
)
async def test_an_answer_has_type_and_line_of_an_exception_and_no_text(raised: str) -> None:
    (problem,) = await check(f"\n\nraise {raised}\n")
    assert "4111" not in problem.message
    assert "mine.py does not import: line 3: " in problem.message

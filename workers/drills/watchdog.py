"""Freezes the process that started it, and thaws it after a fixed time, even if other processes fail.

Two processes do it, forked from one before anything is stopped. Only the first stops its parent. The second waits until
the first is gone, by its end or by its death, and then thaws once more. So one of the two may be killed or stopped at
any moment: the parent continues. The parent is held by a pidfd, not by its number, which could be another process's by
then. So no other process can be frozen.

Run as a script with the standard library alone, since it must start quickly and depend on nothing:
    stdin   a line of JSON: {"for_s", "urls", "token", "report", "with_parent"}, later `go`; its end before that:
            nothing is done
    stdout  `ready`, as soon as both run
With `with_parent` the parent's own parent is frozen and thawed with it: the JVM of a driver, where Spark's threads are.

`report` is sent to each of `urls` in turn until one answers. It is sent once a second while the parent is frozen, and
at its end; the answer may end the freeze early. A missing answer changes nothing.
"""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATH = "/workers/v1/drill"
ASK_EVERY_S = 0.5
ANSWER_S = 2.0
TELL_THE_END_S = 30.0
"""A server that was frozen too gets the report later; after that, the task's own heartbeat has it."""
DIES_WITHIN_S = 5.0
"""The time to wait for a killed process."""
OVERDUE_S = 3.0
"""The delay after which the second one no longer trusts the first."""


def freeze(frozen: list[int], orders: dict[str, Any], second: socket.socket, go_on: threading.Event) -> None:
    """Stop these processes until their time is over, the server ends it, or the second one is gone; then thaw them."""
    for_s = float(orders["for_s"])
    wake, waker = socket.socketpair()
    second.sendall(b"s")
    deadline = time.monotonic() + for_s
    try:
        for one in frozen:
            signal.pidfd_send_signal(one, signal.SIGSTOP)
        threading.Thread(target=_ask, args=(orders, waker, go_on), daemon=True).start()
        # Readable: a frozen one ended, the second one is gone, the server ended it.
        select.select([*frozen, second, wake], [], [], max(0.0, deadline - time.monotonic()))
    finally:
        _thaw(frozen)
        go_on.clear()


def stand_by(frozen: list[int], first: socket.socket, first_pid: int, for_s: float) -> None:
    """Thaw when the first one is gone; end it when it is overdue."""
    begun = first.recv(1)
    if not begun:
        _thaw(frozen)
        return
    readable, _, _ = select.select([first], [], [], for_s + OVERDUE_S)
    if not readable:
        with contextlib.suppress(ProcessLookupError):
            os.kill(first_pid, signal.SIGKILL)
        # A thaw before it is gone could be undone by a freeze that it was just about to do.
        select.select([first], [], [], DIES_WITHIN_S)
    _thaw(frozen)


def _thaw(frozen: list[int]) -> None:
    for one in frozen:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(one, signal.SIGCONT)


def _ask(orders: dict[str, Any], waker: socket.socket, go_on: threading.Event) -> None:
    """Report that it is frozen until the thaw; wake the first one when the server ends it."""
    while go_on.is_set():
        answer = _post(orders, "frozen")
        if answer is not None and answer.get("goes_on") is False:
            waker.sendall(b"e")
            return
        time.sleep(ASK_EVERY_S)


def tell_the_end(orders: dict[str, Any]) -> None:
    deadline = time.monotonic() + TELL_THE_END_S
    while orders["urls"] and _post(orders, "thawed") is None and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)


def _post(orders: dict[str, Any], step: str) -> dict[str, Any] | None:
    """The answer of the first address that answers; None when none does."""
    body = json.dumps({**orders["report"], "step": step})
    headers = {"Authorization": f"Bearer {orders['token']}", "Content-Type": "application/json"}
    urls: list[str] = orders["urls"]
    for url in urls:
        parts = urlsplit(url)
        host = parts.hostname or "127.0.0.1"
        connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=ANSWER_S, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=ANSWER_S)
        )
        try:
            connection.request("POST", PATH, body=body, headers=headers)
            response = connection.getresponse()
            raw = response.read(65_536)
            if response.status < 500:
                # A server that does not know the drill would end it.
                return json.loads(raw) if response.status < 300 else {"goes_on": False}
        except (OSError, http.client.HTTPException, ValueError):
            continue
        finally:
            connection.close()
    return None


def _parent_of(pid: int) -> int:
    # Field 4 of stat(5), counted behind the command name, which may hold spaces and brackets.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _grandparent(parent_pid: int) -> int:
    """A pidfd of the parent's own parent."""
    pid = _parent_of(parent_pid)
    found = os.pidfd_open(pid)
    if pid == 1 or _parent_of(parent_pid) != pid:
        raise SystemExit("the parent of the process to freeze has ended")
    return found


def main() -> None:
    parent_pid = os.getppid()
    frozen = [os.pidfd_open(parent_pid)]
    if os.getppid() != parent_pid:
        return
    orders: dict[str, Any] = json.loads(sys.stdin.readline())
    if orders.get("with_parent"):
        frozen.append(_grandparent(parent_pid))
    of_first, of_second = socket.socketpair()
    first_pid = os.getpid()
    second_pid = os.fork()
    if second_pid == 0:
        of_first.close()
        # The parent waits only for the end of the first one.
        os.close(0)
        os.close(1)
        stand_by(frozen, of_second, first_pid, float(orders["for_s"]))
        os._exit(0)
    of_second.close()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if sys.stdin.readline().strip() == "go":
        go_on = threading.Event()
        go_on.set()
        freeze(frozen, orders, of_first, go_on)
        of_first.close()
        tell_the_end(orders)
    of_first.close()
    os.waitpid(second_pid, 0)


if __name__ == "__main__":
    main()

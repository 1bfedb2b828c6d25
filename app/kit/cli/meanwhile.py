"""Progress messages while a command waits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

import typer

from app.kit.words import duration_s

SAID_EVERY_S = 3.0


@contextlib.contextmanager
def saying_that_it_waits(for_what: str) -> Generator[None]:
    """Report every few seconds that the block still waits: on standard error, so that --json stays one document."""
    is_done = threading.Event()

    def say() -> None:
        waited_s = 0.0
        while not is_done.wait(SAID_EVERY_S):
            waited_s += SAID_EVERY_S
            typer.echo(f"still waiting for {for_what}, {duration_s(waited_s)}", err=True)

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        is_done.set()

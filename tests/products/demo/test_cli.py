"""`fenceline demo` from the shell: to its end with --once, and interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

KEYS = [
    "records_in",
    "expected",
    "found",
    "lost",
    "duplicated",
    "kills",
    "killed_at_record",
    "transactions_committed",
    "transactions_aborted",
    "records_per_second",
    "seconds",
    "files",
    "dataframe",
]
_MARK = "FENCELINE_TEST_MARK"
ENDS_WITHIN_S = 300
# The whole promise is 90 s on a quiet machine; a loaded one may take longer without anything being wrong.
_START = "import sys; from app.edges.cli import main; sys.argv[0] = 'fenceline'; main()"


@dataclass
class Demo:
    process: subprocess.Popen[str]
    said: Path
    mark: str

    def text(self) -> str:
        # Lines are wrapped at the width of a terminal that is not there.
        return " ".join(self.said.read_text().split())

    def wait_until_it_says(self, words: str) -> None:
        def has_said() -> bool:
            assert self.process.poll() is None, f"it ended with {self.process.poll()}: {self.text()}"
            return words in self.text()

        wait_for(has_said, ENDS_WITHIN_S, lambda: f"{words!r}; it said: {self.text()}")

    def left_behind(self) -> list[str]:
        """Every process that inherited our mark, and that is not the demo itself."""
        found: list[str] = []
        for process in psutil.process_iter():
            try:
                if process.pid != self.process.pid and process.environ().get(_MARK) == self.mark:
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
            except (psutil.Error, OSError):
                continue
        return found


@contextmanager
def started(folder: Path, *arguments: str) -> Generator[Demo]:
    """A demo that is ended in any case."""
    mark = unique_name("mark")
    said = folder / "said.txt"
    with said.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, "demo", *arguments],
            env={**os.environ, _MARK: mark},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
        )
        try:
            yield Demo(process, said, mark)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.mark.core
@pytest.mark.always
def test_once_kills_a_worker_in_an_open_transaction_without_loss_or_duplicates(tmp_path: Path) -> None:
    with started(tmp_path, "--once") as demo:
        output, _ = demo.process.communicate(timeout=ENDS_WITHIN_S)
        assert demo.process.returncode == 0, demo.text()
        assert output.count("\n") == 1, "one line on standard output, and nothing else"
        result = json.loads(output)
        assert list(result) == KEYS
        assert result["records_in"] >= 100_000
        assert result["expected"] == result["found"] > 0
        assert (result["lost"], result["duplicated"], result["kills"]) == (0, 0, 1)
        assert 30_000 <= result["killed_at_record"] <= 60_000
        assert result["transactions_aborted"] >= 1, "the killed worker's transaction"
        assert result["transactions_committed"] > 0
        files = result["files"]
        assert files["expected"] == files["found"] == result["records_in"]
        assert (files["lost"], files["duplicated"]) == (0, 0)
        assert files["written"] > 0
        dataframe = result["dataframe"]
        assert dataframe["windows"] == dataframe["expected"] > 0
        assert dataframe["wrong"] == 0
        assert dataframe["killed_at_batch"] is not None, "its driver was killed after a commit"
        assert not demo.left_behind()


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupt_while_spark_comes_up_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as demo:
        demo.wait_until_it_says("The dashboard; the link logs you in once:")
        wait_for(lambda: len(demo.left_behind()) >= 3, 60, "services in the list of processes")
        demo.process.send_signal(number)
        assert demo.process.wait(60) == 130
        assert not demo.left_behind()


def test_ctrl_c_drains_proves_it_a_last_time_and_leaves_nothing_running(tmp_path: Path) -> None:
    with started(tmp_path) as demo:
        demo.wait_until_it_says("Flights now come at")
        assert re.search(r"http://127\.0\.0\.1:\d+/login/\S+", demo.text())
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(120) == 0, demo.text()
        proofs = re.findall(
            r"(After the \S+)[^:]*: ([\d,]+) flights read .*? lost (\d+) · duplicated (\d+)", demo.text()
        )
        assert [(when, lost, doubled) for when, _, lost, doubled in proofs] == [
            ("After the full-speed", "0", "0"),
            ("After the drain", "0", "0"),
        ]
        assert not demo.left_behind()

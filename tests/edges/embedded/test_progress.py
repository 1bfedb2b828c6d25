"""The progress of a download: a bar on a terminal, a few lines in a log, nothing without a download."""

import io

from rich.console import Console

from app.edges.embedded.maven import FetchProgress
from app.edges.embedded.progress import shown_progress


def shown(*steps: FetchProgress, terminal: bool) -> str:
    output = io.StringIO()
    with shown_progress(Console(file=output, force_terminal=terminal, width=120)) as on_progress:
        for step in steps:
            on_progress(step)
    return output.getvalue()


def test_log_gets_about_ten_lines_and_the_last_one() -> None:
    steps = [FetchProgress("kafka-1", done, 46, f"jar-{done}.jar") for done in range(1, 47)]
    lines = shown(*steps, terminal=False).splitlines()
    assert 10 <= len(lines) <= 13
    assert lines[-1] == "downloading kafka-1: 46 of 46 jars (jar-46.jar)"


def test_small_download_says_each_jar() -> None:
    assert shown(FetchProgress("ecj-1", 1, 1, "ecj.jar"), terminal=False).count("\n") == 1


def test_terminal_gets_a_bar_with_the_name_of_the_file() -> None:
    text = shown(FetchProgress("kafka-1", 3, 46, "jar-3.jar"), terminal=True)
    assert "downloading kafka-1" in text
    assert "3/46" in text


def test_nothing_is_shown_when_nothing_is_downloaded() -> None:
    assert shown(terminal=False) == ""
    assert "downloading" not in shown(terminal=True)

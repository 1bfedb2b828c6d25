"""A driver that ended without a report is explained by its first error, not by a banner or a guess."""

from __future__ import annotations

import pytest

from app.core.runs.last_words import why_it_ended

BANNER = "Picked up JAVA_TOOL_OPTIONS: -Dx=y -XX:+ExitOnOutOfMemoryError -XX:OnError=Exception\n"
NOTES = (
    "NOTE: Picked up JDK_JAVA_OPTIONS: --add-opens=Error\n"
    "WARNING: Using incubator modules: jdk.incubator.vector\n"
    "OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes\n"
)
UMLAUT = (
    'Exception in thread "main" java.nio.file.InvalidPathException: Malformed input or input contains unmappable '
    "characters: /home/j?rgen/state\n"
    "\tat java.base/sun.nio.fs.UnixPath.encode(UnixPath.java:145)\n"
    "Caused by: java.lang.IllegalStateException: later\n\t... 12 more\n"
)


@pytest.mark.parametrize("banner", [BANNER, NOTES, BANNER + NOTES, ""])
@pytest.mark.parametrize(
    ("log", "said"),
    [
        (UMLAUT, "InvalidPathException: Malformed input"),
        (
            (
                "Error: Could not find or load main class org.apache.spark.deploy.SparkSubmit\n"
                "Caused by: java.lang.ClassNotFoundException: org.apache.spark.deploy.SparkSubmit\n"
            ),
            "Could not find or load main class",
        ),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for 99999744KB object heap\n",
            "Could not reserve enough space",
        ),
        (
            (
                "Unrecognized VM option 'UseMagic'\nError: Could not create the Java Virtual Machine.\n"
                "Error: A fatal exception has occurred. Program will exit.\n"
            ),
            "Unrecognized VM option 'UseMagic'",
        ),
        (
            (
                "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n"
                "# Native memory allocation (mmap) failed to map 16384 bytes. Error detail: committing memory\n"
            ),
            "insufficient memory for the Java Runtime",
        ),
        (
            (
                "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n"
                "#  SIGSEGV (0xb) at pc=0x00007f, pid=1, tid=2\n"
            ),
            "SIGSEGV (0xb)",
        ),
        (
            (
                "26/11/25 12:00:00 WARN NativeCodeLoader: Unable to load: java.lang.UnsatisfiedLinkError\n"
                "Traceback (most recent call last):\n"
                '  File "/x/errors/Error.py", line 1, in <module>\n'
                "ModuleNotFoundError: No module named 'msgspec'\n"
                "26/11/25 12:00:01 INFO ShutdownHookManager: Deleting directory\n"
            ),
            "ModuleNotFoundError: No module named 'msgspec'",
        ),
        ("/x/bin/spark-class: line 71: /nowhere/bin/java: No such file or directory\n", "/nowhere/bin/java"),
    ],
)
def test_the_first_line_that_is_an_error_is_quoted(banner: str, log: str, said: str) -> None:
    for exit_code in (1, None, 134):
        sentence = why_it_ended(banner + log, exit_code=exit_code, has_claimed=False)
        assert said in sentence
        assert "Picked up" not in sentence
        assert "by hand" not in sentence


@pytest.mark.parametrize("log", ["", BANNER, BANNER + NOTES, "12:00 INFO all is well\n"])
def test_without_an_error_the_exit_code_says_how_it_ended(log: str) -> None:
    def said(exit_code: int | None) -> str:
        return why_it_ended(log, exit_code=exit_code, has_claimed=False)

    assert said(1) == "its driver ended with exit code 1 and logged no error"
    assert said(-9) == said(137) == "its driver was killed by SIGKILL, by a user or for lack of memory"
    assert said(-11) == said(139) == "its driver was killed by SIGSEGV"
    assert said(None) == "its driver logged no error: it was probably killed (see the kernel's log for memory)"


def test_a_driver_that_had_worked_is_explained_by_its_last_error() -> None:
    log = "10:00 ERROR a task failed\n11:00 INFO going on\n12:00 ERROR the disk is full\n12:00 INFO bye\n"
    assert "the disk is full" in why_it_ended(log, exit_code=1, has_claimed=True)
    assert "a task failed" in why_it_ended(log, exit_code=1, has_claimed=False)

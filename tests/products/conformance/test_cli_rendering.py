"""The output of `fenceline conformance` while it runs, and its selection of checks."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType
from typer.testing import CliRunner

from app.edges.cli import build
from app.kit.cli.errors import CommandError, ExitCode
from app.products.conformance.checking.checks import CHECKS
from app.products.conformance.cli import progress_of
from app.products.conformance.report import CheckResult, ConformanceVerdict


def shown(what: RenderableType) -> str:
    terminal = Console(width=140, file=io.StringIO())
    with terminal.capture() as capture:
        terminal.print(what)
    return capture.get()


def a_result(number: int, verdict: ConformanceVerdict, said: str) -> CheckResult:
    check = CHECKS[number]
    return CheckResult(
        check=check.name, promise=check.promise, claim=check.claim, verdict=verdict, said=said, took_s=1.25
    )


def test_completed_current_and_pending_checks_are_distinguished() -> None:
    results = [
        a_result(0, ConformanceVerdict.KEPT, "seen [bold]so"),
        a_result(1, ConformanceVerdict.NOT_CHECKED, "a right is missing"),
    ]
    text = shown(progress_of(CHECKS[:4], results))
    for words in ("kept", "seen [bold]so", "not checked", "a right is missing", "checking", "pending", "1.2"):
        assert words in text
    done = shown(progress_of(CHECKS[:2], results))
    assert "checking" not in done
    assert "pending" not in done


def test_checks_are_listed_and_have_names_of_their_own() -> None:
    listed = CliRunner().invoke(build("conformance"), ["conformance", "--list", "--json"])
    assert listed.exit_code == 0, listed.output
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert f'"check": "{check.name}"' in listed.output
    of_one = CliRunner().invoke(build("conformance"), ["conformance", "--list", "--json", "--only", "ordering"])
    assert of_one.output.count('"check"') == sum(check.promise == "ordering" for check in CHECKS) > 0


def test_check_that_is_not_there_is_named_with_those_that_are() -> None:
    refused = CliRunner().invoke(build("conformance"), ["conformance", "--only", "speed"])
    assert isinstance(refused.exception, CommandError)
    assert refused.exception.code is ExitCode.USAGE
    assert "--only speed" in refused.exception.message
    assert "ordering" in refused.exception.message

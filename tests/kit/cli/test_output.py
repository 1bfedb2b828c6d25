"""The output for people: a name with any characters is harmless on the terminal."""

from __future__ import annotations

import re
from io import StringIO

import msgspec
import pytest
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.blocked.diagnosis import explain_topic
from app.core.blocked.ending import plan_fence
from app.core.hanging.report import SearchReport
from app.kit.cli import output
from app.kit.cli.errors import CommandError
from app.products.direct import ending, hanging, stuck
from tests.core.blocked.answers import NOW_MS, asked, held, known
from tests.support.hanging_samples import hanging_transaction

REPORT = SearchReport(cluster="c", swept_ms=1_000, partitions=50, held_back=3, asked=2)
EVIL = "id\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Return the output on a terminal of 200 columns without colours."""
    into = StringIO()
    for screen in (output.console, output._errors):  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(screen, "_file", into)
        monkeypatch.setattr(screen, "_width", 200)
    return into


def test_no_name_commands_the_terminal(printed: StringIO) -> None:
    cells = [[EVIL, "2"], ["two\nlines", "3"]]
    output.console.print(Group(output.table(["ID", "NUMBER#"], cells, empty="-"), Text(f"about {EVIL}", style="red")))
    output.say(f"fenced {EVIL}")
    output.say_error(CommandError(f"there is no {EVIL}", lines=(EVIL,)))
    said = printed.getvalue()
    assert not set(said) & set("\x1b\x07\x9b\u202e")
    assert said.count("id␛[2J␛]0;owned") == 5
    assert "two␊lines" in said
    assert len(said.splitlines()) == 7


def test_other_writing_systems_are_left_alone(printed: StringIO) -> None:
    output.say("漢字 заказы 🚀\tand a line\nmore")
    assert printed.getvalue().split() == ["漢字", "заказы", "🚀", "and", "a", "line", "more"]


LONG = "payments-" + "7f3c9b2d" * 30
COMMAND = f"kafka-transactions.sh --bootstrap-server b1:9092,b2:9092 describe --transactional-id {LONG}"


def lines_of(printed: StringIO) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue()).splitlines()


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def all_that_prints_commands() -> list[tuple[RenderableType, str]]:
    """Each view whose lines are pasted, and a line that must stand in it whole."""
    owner = msgspec.structs.replace(known(timeout_ms=900_000), transactional_id=LONG)
    found = explain_topic("orders", [held(owner)], asked())
    plan = plan_fence(LONG, owner, asked())
    hangs = msgspec.structs.replace(REPORT, hanging=(hanging_transaction(seen_ms=1_000),))
    servers = ",".join(f"broker-{number}.kafka.example.com:9092" for number in range(5))
    return [
        (stuck.chain(found, NOW_MS), next(line for one in found.partitions for line in one.commands if LONG in line)),
        (ending._shown(plan), plan.command),  # pyright: ignore[reportPrivateUsage] - what `fence` prints
        (hanging.rendered(hanging.answer_of(hangs, servers)), hangs.hanging[0].commands(servers)[0]),
    ]


@pytest.mark.parametrize("index", range(3), ids=["stuck", "fence", "hanging"])
@pytest.mark.parametrize("file", [StringIO, Terminal])
def test_a_command_to_paste_is_one_whole_line(
    file: type[StringIO], index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    into = file()
    screen = output._Screen(file=into)  # pyright: ignore[reportPrivateUsage]
    shown, command = all_that_prints_commands()[index]
    screen.print(shown)
    assert len(command) > 80
    assert any(line.strip().endswith(command) for line in lines_of(into))


def test_a_table_is_cut_nowhere_when_it_is_piped_and_folded_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    piped, terminal = StringIO(), Terminal()
    for into in (piped, terminal):
        screen = output._Screen(file=into)  # pyright: ignore[reportPrivateUsage]
        screen.print(
            output.table(["GROUP", "ID", "REASON", "LAG#"], [[LONG, COMMAND, "a reason " * 30, "7"]], empty="-")
        )
    head, row = piped.getvalue().splitlines()
    assert head.split() == ["GROUP", "ID", "REASON", "LAG"]
    assert row.split() == [*f"{LONG} {COMMAND} {'a reason ' * 30}7".split()]
    assert max(map(len, lines_of(terminal))) <= 80

"""What is printed for people: whatever a name has in it, it writes nothing but itself on the terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Group
from rich.text import Text

from app.cli import output
from app.cli.errors import CommandError

EVIL = "id\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What a terminal of 200 columns without colours would get."""
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

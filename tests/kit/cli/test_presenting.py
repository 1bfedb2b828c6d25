"""Commands that only read: one answer, as JSON, as text, or as a table of its items."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import msgspec
import pytest
from rich.text import Text

from app.kit.cli import output
from app.kit.cli.listing import show_list
from app.kit.cli.output import present


class Noun(msgspec.Struct):
    name: str
    size: int


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    into = StringIO()
    monkeypatch.setattr(output.console, "_file", into)
    monkeypatch.setattr(output.console, "_width", 200)
    return into


def counted(answer: object) -> tuple[Callable[[], object], list[object]]:
    """Return a read, and the answers that it has given so far."""
    given: list[object] = []

    def read() -> object:
        given.append(answer)
        return answer

    return read, given


def test_text_is_rendered_from_one_read(shown: StringIO) -> None:
    read, given = counted({"a": 1})
    present(read, lambda found: Text(f"it is {found}"), as_json=False)
    assert (shown.getvalue(), len(given)) == ("it is {'a': 1}\n", 1)


def test_json_is_made_from_one_read(capsys: pytest.CaptureFixture[str]) -> None:
    read, given = counted(Noun("x", 3))
    present(read, lambda _: Text("not asked for"), as_json=True, document=msgspec.to_builtins)
    assert msgspec.json.decode(capsys.readouterr().out) == {"name": "x", "size": 3}
    assert len(given) == 1


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], ["nothing yet"]),
        ([{"name": "x", "size": 3}, {"name": "y", "size": 12}], ["NAME  SIZE", "x        3", "y       12"]),
    ],
)
def test_list_is_a_table_of_its_records_or_says_that_it_is_empty(
    shown: StringIO, items: list[object], expected: list[str]
) -> None:
    show_list(
        lambda: items,
        ("NAME", "SIZE#"),
        lambda one: (one.name, str(one.size)),
        record=Noun,
        empty="nothing yet",
        as_json=False,
    )
    assert [line.rstrip() for line in shown.getvalue().splitlines()] == expected


def test_list_as_json_has_the_items_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"name": "x", "size": 3, "also": None}]
    show_list(lambda: iter(items), (), lambda _: (), record=Noun, empty="", as_json=True)
    assert msgspec.json.decode(capsys.readouterr().out) == items

from __future__ import annotations

import pytest

from tests.texts.checking import Finding, check, count_words, judge

LONG = "This sentence has " + "so many words " * 8 + "in it."
ALLOWED = [{"path": "docs/a.md", "rule": "word", "text": "nobody", "why": "a quotation"}]


def found(path: str, source: str) -> list[tuple[int, str]]:
    return [(one.line, one.rule) for one in check(path, source)]


def test_sentence_of_more_than_25_words_is_found_at_its_line() -> None:
    assert found("docs/a.md", f"# Title\n\nShort one.\n{LONG}\n") == [(4, "length")]
    assert found("app/a.py", f'def f() -> None:\n    """Do it.\n\n    {LONG}\n    """\n') == [(4, "length")]
    assert found("app/a.py", f"# Short one.\n# {LONG}\n") == [(2, "length")]
    assert found("docs/a.md", f"- an item\n- {LONG}\n") == [(2, "length")]


def test_code_span_url_and_value_count_as_one_word_each() -> None:
    assert found("docs/a.md", "The call `a b c d e f` " + "is " * 21 + "here.") == []
    assert found("docs/a.md", "See https://example.org/a%20b " + "word " * 22 + "here.") == []
    assert count_words("one — two (three/four), 5 …") == 4


def test_neither_tables_nor_code_nor_drawings_have_a_length() -> None:
    assert found("docs/a.md", f"| case | result |\n|---|---|\n| a | {LONG} |\n\n```\n{LONG}\n```\n") == []
    assert found("app/a.py", f'"""States.\n\n    open ──▶ closed {LONG}\n\nopen ──▶ {LONG}\n"""\n') == []


def test_each_attribute_of_a_docstring_is_a_sentence() -> None:
    meaning = "word " * 15
    assert found("app/a.py", f'"""Hold it.\n\na_ms: {meaning}\nb, c: {meaning}. d: {meaning}\n"""') == []


def test_abbreviations_and_versions_end_no_sentence() -> None:
    assert found("docs/a.md", "Kafka 4.3.1, e.g. with KIP-890, " + "word " * 20 + "here.") == [(1, "length")]


@pytest.mark.parametrize(
    "text", ["It was told.", "Nobody\nreads it.", "The client's word.", "Take a look.", "`x`: told"]
)
def test_banned_word_is_found_in_every_kind_of_text(text: str) -> None:
    assert found("docs/a.md", text) == [(1, "word")]
    assert found("docs/a.md", f"| case |\n|---|\n| {' '.join(text.split())} |") == [(3, "word")]
    assert found("app/a.py", f'"""{text}"""') == [(1, "word")]
    assert found("app/a.py", f"x = {text!r}") == [(1, "word")]
    assert found("app/a.py", f"raise ValueError(f{text!r})") == [(1, "word")]
    assert found("templates/a.html", f"\n<p>{text}</p>") == [(2, "word")]


def test_banned_word_inside_code_is_none() -> None:
    assert found("docs/a.md", "The event `given up` and the field `told_ms`.") == []
    assert found("app/a.py", "told = heard(silent, mend=1)") == []
    assert found("templates/a.html", '<p class="told">{% if told %}{{ it.heard }}{% endif %}</p>') == []


def test_strings_in_the_attributes_and_expressions_of_a_template_are_texts() -> None:
    assert found("templates/a.html", '<a title="Nobody reads">x</a>\n{{ f("Nobody was asked") }}') == [
        (1, "word"),
        (2, "word"),
    ]


def test_sentence_must_not_begin_with_who_or_what_unless_it_asks() -> None:
    assert found("docs/a.md", "Who resets offsets makes a gap. What is that?") == [(1, "opening")]
    assert found("app/a.py", "x = 1  # what the client sent last") == [(1, "opening")]


@pytest.mark.parametrize("heading", ["What is found", "When a task dies", "Is it safe", "The lease is over", "Stuck?"])
def test_heading_that_is_no_noun_is_found(heading: str) -> None:
    assert found("docs/a.md", f"## {heading}") == [(1, "heading")]
    assert found("docs/a.md", f"| cause | {heading} |\n|---|---|\n") == [(1, "heading")]


def test_title_of_a_decision_is_a_sentence() -> None:
    assert found("docs/adr/0001-a.md", "# 0001. Compressed batches are read with cramjam") == []
    assert found("docs/adr/0001-a.md", "# 0001. What killed the worker is kept") == [(1, "opening")]


def test_error_has_at_most_20_words_a_sentence() -> None:
    text = "word " * 21
    assert found("app/a.py", f"raise self._wrong({text!r})") == [(1, "length")]
    assert found("app/a.py", f"x = ConflictError({text!r})") == [(1, "length")]
    assert found("app/a.py", f"x = label({text!r})") == []


def finding(path: str, message: str = "'nobody'") -> Finding:
    return Finding(path, 3, "word", message)


def test_allowed_text_is_passed_over_and_an_entry_without_use_is_a_problem() -> None:
    assert list(judge([finding("docs/a.md")], ALLOWED)) == []
    assert list(judge([finding("docs/a.md", "'told'")], ALLOWED)) == [
        "docs/a.md:3: word: 'told'",
        "allowed.toml: docs/a.md, 'nobody' is not needed any more. Remove it.",
    ]

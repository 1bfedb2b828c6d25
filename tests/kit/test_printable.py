"""Names with any characters, on a terminal, in a shell and in a clipboard."""

from __future__ import annotations

import json
import shlex
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.kit.cli.output import json_text
from app.kit.printable import ascii_escapes, clipboard_text, harmless, is_odd, one_line, shell_word
from tests.support.odd_names import EVIL, in_bash

# The shell's special characters, digits that an escape could swallow, and each kind of odd character.
_CHARS = st.one_of(
    st.sampled_from(
        list("a0719f'\"\\!$`*~-# \t\n\r\x1b\x07\x7f\x85\x9b\xad\u200b\u200d\u202e\u2028\u2029\u2066\ufeff🚀é")
    ),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
)
TEXTS = st.text(_CHARS, max_size=30)
# Signs that are seen, though Unicode calls them format characters: numbers and verses in Arabic and Syriac, in Kaithi.
_SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@given(texts=st.lists(TEXTS, min_size=20, max_size=60))
@example(texts=[EVIL, "", "plain", "two words"])
def test_a_shell_word_is_the_same_bytes_in_a_shell_and_has_no_odd_character(locale: str, texts: list[str]) -> None:
    words = [shell_word(text) for text in texts]
    assert not any(map(is_odd, words))
    assert in_bash(words, locale) == [text.encode() for text in texts]


@given(TEXTS)
def test_a_plain_text_is_quoted_as_usual_and_copied_unchanged(text: str) -> None:
    if not is_odd(text):
        assert shell_word(text) == shlex.quote(text)
        assert clipboard_text(text) == text
    assert not is_odd(clipboard_text(text))


def test_no_text_stands_for_one_with_a_null() -> None:
    with pytest.raises(ValueError, match=r"U\+0000"):
        shell_word("a\0b")
    assert clipboard_text("a\0b\t\x1b\n") == "a␀b␉␛␊"


def test_every_character_that_commands_or_hides_is_odd_and_none_that_is_seen() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        category = unicodedata.category(char)
        if category in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in _SEEN:
            assert is_odd(char), f"U+{code:04X}"
            assert one_line(char) in "�␡" or code < 0x20
        elif category[0] in "PS" or category in ("Lu", "Ll", "Nd") or code in _SEEN:
            assert not is_odd(char), f"U+{code:04X}"
    assert harmless("a\tb\nc") == "a\tb\nc"
    assert one_line("a\tb\nc\u2028d") == "a␉b␊c�d"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES, st.booleans())
@example({EVIL: [EVIL, "\U000e0041"]}, True)
def test_json_has_the_same_value_and_no_odd_character(value: object, is_indented: bool) -> None:
    text = json_text(value, is_indented=is_indented)
    assert json.loads(text) == value
    assert not is_odd(text.replace("\n", "") if is_indented else text)


def test_json_names_the_characters_that_it_hides_and_leaves_the_others() -> None:
    assert json_text("\u202e\x85\x7f\U000e0041 й🚀") == '"\\u202e\\u0085\\u007f\\udb40\\udc41 й🚀"'
    assert ascii_escapes("\ud800") == "\\ud800"

from __future__ import annotations

import re

import pytest

from tests.texts.checking import ROOT, count_words

GROUPS = dict(re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", (ROOT / "docs/glossary.md").read_text("utf-8"), re.S | re.M))


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_is_alphabetical_with_one_sentence_for_each_term(group: str) -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|(?: .+? \|| \|)$", GROUPS[group], re.MULTILINE)[1:]
    terms = [re.sub(r"[^a-z ]", "", term.lower()).strip() for term, _ in rows]
    assert terms == sorted(set(terms))
    assert len(terms) > 5
    for term, meaning in rows:
        assert re.fullmatch(r"[^.]+(?:\.(?! )[^.]+)*\.", meaning), f"{term}: not one sentence"
        assert count_words(meaning) <= 25, term

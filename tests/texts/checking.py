"""Check the texts of the project: docs, docstrings, comments, errors, strings and templates.

| kind of block | where | rules |
|---|---|---|
| paragraph | docs, docstrings, comments | at most 25 words a sentence, openings, words |
| heading | docs: headings, table heads | headings, words |
| error | arguments of exceptions | at most 20 words a sentence, words |
| text | other strings, table cells, templates | words |

`rules.toml` has the words, `allowed.toml` the exceptions with their reasons. No package does this: Vale's fetches a
binary from elsewhere when it first runs, textlint counts characters and does not read Python, proselint and
write-good have fixed rules, and nabokov needs a language model.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.texts.blocks import VALUE, Block, blocks_of

ROOT = Path(__file__).parent.parent.parent
PLACES = ("README.md", "docs/**/*.md", "app/**/*.py", "workers/**/*.py", "templates/**/*.html")
MOST_WORDS = {"paragraph": 25, "error": 20}
NAMED = r"\w+(?:, \w+)*: "  # "name: its meaning", an item of its own in a docstring
SENTENCE_END = re.compile(
    rf"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[\"')\]]*\s+(?=[A-Z0-9\"'(\[{VALUE}]|{NAMED})|\n(?={NAMED})"
)
URL = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class Pattern:
    """The expressions of one table of `rules.toml`, tried as one. The name of a group has the index of its rule."""

    def __init__(self, rules: dict[str, str]) -> None:
        self._advice = list(rules.values())
        parts = ("(?P<r{}>{})".format(i, rule.replace(" ", r"\s+")) for i, rule in enumerate(rules))
        self.expression = re.compile(rf"(?<![\w.-])(?:{'|'.join(parts)})(?![\w-])", re.IGNORECASE)

    def advice(self, match: re.Match[str]) -> str:
        return self._advice[int((match.lastgroup or "r0")[1:])]


RULES = tomllib.loads((Path(__file__).parent / "rules.toml").read_text("utf-8"))
WORDS, OPENINGS, HEADINGS = (Pattern(RULES[name]) for name in ("words", "openings", "headings"))


def sentences(block: Block) -> Iterator[tuple[int, str]]:
    """Each sentence with its line. Rows of a drawing or a table without bars are left out."""
    line, text = block.line, URL.sub(VALUE, block.text)
    start = 0
    for end in [*SENTENCE_END.finditer(text), None]:
        sentence = text[start : end.start() if end else len(text)]
        if not re.search(r"\S {3}|[│─▶┌└├]", sentence):
            yield line + text.count("\n", 0, start), " ".join(sentence.split())
        start = end.end() if end else start


def count_words(sentence: str) -> int:
    return sum(any(char.isalnum() or char == VALUE for char in word) for word in sentence.split())


def check(path: str, source: str) -> Iterator[Finding]:
    for block in blocks_of(path, source):
        for match in WORDS.expression.finditer(URL.sub(VALUE, block.text)):
            line = block.line + block.text.count("\n", 0, match.start())
            yield Finding(path, line, "word", f"{' '.join(match[0].split())!r}: {WORDS.advice(match)}")
        if block.kind == "heading" and (heading := HEADINGS.expression.match(block.text)):
            yield Finding(path, block.line, "heading", f"{block.text!r}: {HEADINGS.advice(heading)}")
        for line, sentence in sentences(block) if block.kind in MOST_WORDS else ():
            if (words := count_words(sentence)) > MOST_WORDS[block.kind]:
                yield Finding(
                    path, line, "length", f"{words} words, at most {MOST_WORDS[block.kind]}: {sentence[:60]}…"
                )
            opening = OPENINGS.expression.match(sentence)
            if block.kind == "paragraph" and opening and not sentence.endswith("?"):
                yield Finding(path, line, "opening", f"{sentence[:60]!r}: {OPENINGS.advice(opening)}")


def all_paths(root: Path = ROOT) -> list[str]:
    found = {path.relative_to(root).as_posix() for place in PLACES for path in root.glob(place)}
    return sorted(path for path in found if "/static/vendor/" not in path)


def judge(findings: Iterable[Finding], allowed: list[dict[str, str]]) -> Iterator[str]:
    """Yield the findings that are not allowed, then each exception that allows none."""
    used: set[int] = set()
    for finding in findings:
        reasons = {
            index
            for index, one in enumerate(allowed)
            if fnmatchcase(finding.path, one["path"]) and finding.rule == one["rule"] and one["text"] in finding.message
        }
        used |= reasons
        if not reasons:
            yield str(finding)
    for index in set(range(len(allowed))) - used:
        yield f"allowed.toml: {allowed[index]['path']}, {allowed[index]['text']!r} is not needed any more. Remove it."

"""Split files into blocks of text, as people read them: Markdown pages, Python modules and templates."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

VALUE = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands for a code span, a URL or a value, and counts as one word
MARKDOWN = MarkdownIt("commonmark").enable("table")
CODE = re.compile(r"`[^`]+`")
ADR_TITLE = re.compile(r"\d{4}\. ")
PRAGMA = re.compile(r"#\s*(?:noqa|type:|pyright:|pragma|ruff:|!)")
READ_BY_PEOPLE = re.compile(r"\b(?:title|aria-label|placeholder|alt)=\"([^\"]*)\"")
PHRASE = re.compile(r"\"([^\"]* [^\"]*)\"")


@dataclass(frozen=True)
class Block:
    """`kind` is paragraph, heading, error or text; `line` is the line in its file, from 1."""

    line: int
    kind: str
    text: str


def plain(children: Iterable[Token]) -> str:
    """The text of a Markdown line: a code span is one word, the address of a link is none."""
    ends = {"softbreak": "\n", "hardbreak": "\n", "code_inline": VALUE}
    return "".join(ends.get(one.type, one.content if one.type == "text" else "") for one in children)


def in_markdown(source: str, first: int = 1, *, is_page: bool = True) -> Iterator[Block]:
    inside = ""
    for token in MARKDOWN.parse(source):
        if token.type.endswith("_open"):
            inside = token.type
        if token.type == "inline":
            kind = {"heading_open": "heading", "th_open": "heading", "td_open": "text"}.get(inside, "paragraph")
            line = first + (token.map[0] if token.map else 0)
            text = plain(token.children or ())
            is_sentence = (not is_page and kind == "heading") or ADR_TITLE.match(text)  # an ADR's title is a decision
            yield Block(line, "paragraph" if is_sentence else kind, ADR_TITLE.sub("", text))


def in_comments(source: str) -> Iterator[Block]:
    """Whole-line comments below each other are one text; a comment behind code is a text of its own."""
    gathered: list[str] = []
    first = last = 0
    for token in [*tokenize.generate_tokens(io.StringIO(source).readline), None]:
        if token and (token.type != tokenize.COMMENT or PRAGMA.match(token.string)):
            continue
        is_alone = token is not None and token.line.lstrip().startswith("#")
        if gathered and not (token and is_alone and token.start[0] == last + 1):
            yield Block(first, "paragraph", CODE.sub(VALUE, "\n".join(gathered)))
            gathered = []
        if token:
            first = first if gathered else token.start[0]
            last = token.start[0] if is_alone else -1
            gathered.append(token.string.lstrip("#: "))


def in_strings(node: ast.AST, *, is_error: bool = False) -> Iterator[Block]:
    """Docstrings as Markdown, then the other strings: an error's if an exception is made or raised with it."""
    kind, children = "error" if is_error else "text", list(ast.iter_child_nodes(node))
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            yield from in_markdown(inspect.cleandoc(text), node.lineno, is_page=False)
            return
        case ast.Constant(value=str(text)) if " " in text:
            yield Block(node.lineno, kind, text)
        case ast.JoinedStr():
            pieces = (str(one.value) if isinstance(one, ast.Constant) else VALUE for one in node.values)
            yield Block(node.lineno, kind, "".join(pieces))
            children, is_error = [one for one in children if isinstance(one, ast.FormattedValue)], False
        case ast.Call():
            is_error |= getattr(node.func, "attr", getattr(node.func, "id", "")).endswith("Error")
        case ast.Raise(exc=ast.Call()):
            is_error = True
        case _:
            pass
    for child in children:
        yield from in_strings(child, is_error=is_error)


def in_template(source: str) -> Iterator[Block]:
    """What a person can read: text, some attributes, and strings with a space inside of expressions."""

    def kept(pieces: Iterable[str], match: re.Match[str]) -> str:
        return f" {' | '.join(pieces)} " + "\n" * match[0].count("\n")

    source = re.sub(r"<(script|style)\b.*?</\1>", lambda it: kept((), it), source, flags=re.DOTALL)
    source = re.sub(r"\{[{%].*?[%}]\}", lambda it: kept(PHRASE.findall(it[0]), it), source, flags=re.DOTALL)
    source = re.sub(r"<[^>]*>", lambda it: kept(READ_BY_PEOPLE.findall(it[0]), it), source)
    yield Block(1, "text", source)


def blocks_of(path: str, source: str) -> Iterator[Block]:
    if path.endswith(".md"):
        yield from in_markdown(source)
    elif path.endswith(".html"):
        yield from in_template(source)
    else:
        yield from in_strings(ast.parse(source))
        yield from in_comments(source)

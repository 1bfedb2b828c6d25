"""Pipeline files: read by `fenceline apply -f`, written by `fenceline pipelines export`.

A file is one YAML document, or JSON if it begins with `{`. It has the pipeline's `name` beside the fields of its
definition, or beside a `definition` with them, as the API answers.
Only the part of YAML that JSON has too is read, without surprises: `yes`, `12:30` and dates are text. There are no
aliases and no tags.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import yaml

from app.core.pipelines.definition import decode_definition, with_group
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_checks import name_problem
from app.core.pipelines.uploaded_file_checks import file_name_problem
from app.kit.errors import InvalidError, Problem

MAX_CHARACTERS = 1_000_000


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file: a pipeline's name and its definition."""

    name: str
    definition: PipelineDefinition


class PipelineFileError(InvalidError):
    """A file that cannot be read as a pipeline; each problem's message begins with its line if that is known."""


def read(text: str, *, sha256_of: Callable[[str], str] | None = None) -> PipelineFile:
    """Return the pipeline in `text`. Raises PipelineFileError with all of its problems.

    sha256_of: returns the hash of the file of this name, for a transform whose Python file is named without its
    SHA-256. Its errors pass through.
    """
    if len(text) > MAX_CHARACTERS:
        raise _error([Problem(field="", message=f"the file has more than {MAX_CHARACTERS} characters")])
    text = text.removeprefix("\ufeff")
    data, lines = _read_json(text) if text.lstrip().startswith("{") else _read_yaml(text)
    if not isinstance(data, dict):
        raise _error(
            [Problem(field="", message="a pipeline file has names and values, such as `name: delayed-flights`")]
        )
    fields = cast("dict[str, object]", data)
    problems: list[Problem] = []
    name = fields.pop("name", None)
    if not isinstance(name, str):
        message = "`name` is missing: the pipeline's name" if name is None else "`name` must be text; put it in quotes"
        problems.append(Problem(field="name", message=message))
    elif (message := name_problem(name)) is not None:
        problems.append(Problem(field="name", message=message))
    if fields.keys() == {"definition"} and isinstance(fields["definition"], dict):
        fields = cast("dict[str, object]", fields["definition"])
        lines = {path.removeprefix("definition."): line for path, line in lines.items()}
    problems += _complete_python(fields, sha256_of)
    definition = decode_definition(fields)
    if isinstance(definition, list):
        problems += definition
    if problems:
        raise _error([_with_line(problem, lines) for problem in problems])
    return PipelineFile(
        name=cast(str, name), definition=with_group(cast(PipelineDefinition, definition), name=cast(str, name))
    )


def write(name: str, definition: PipelineDefinition) -> str:
    """Return the YAML file that `read` reads as this pipeline; defaults are written, since a release may change
    them.
    """
    data = {"name": name, **cast("dict[str, Any]", msgspec.to_builtins(definition))}
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _complete_python(fields: dict[str, object], sha256_of: Callable[[str], str] | None) -> list[Problem]:
    """Add the hash of a transform's Python file if it is missing. The file's name is checked first: the author of the
    pipeline file must not choose which of the reader's files is read and uploaded."""
    match fields.get("transform"):
        case {"kind": "python" | "dataframe", "file_name": str() as file_name}:
            transform = cast("dict[str, object]", fields["transform"])
            if (message := file_name_problem(file_name)) is not None:
                return [Problem(field="transform.file_name", message=message)]
            if sha256_of is not None and "sha256" not in transform:
                fields["transform"] = {**transform, "sha256": sha256_of(file_name)}
        case _:
            pass
    return []


def _error(problems: Sequence[Problem]) -> PipelineFileError:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return PipelineFileError(f"{problems[0].message}{more}", problems=problems)


def _with_line(problem: Problem, lines: dict[str, int]) -> Problem:
    """Add the line of the field, or of the object in which it is missing."""
    field = problem.field
    while field and field not in lines:
        field = field.rpartition(".")[0]
    # A missing field at the top has no line.
    line = lines.get(field) if field else None
    return problem if line is None else msgspec.structs.replace(problem, message=f"line {line}: {problem.message}")


def _read_json(text: str) -> tuple[object, dict[str, int]]:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant), {}
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}"
    except (ValueError, RecursionError) as error:
        message = f"this is not JSON that can be used: {error}"
    raise _error([Problem(field="", message=message)])


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = (name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"`{min(twice)}` occurs twice in one object")
    return found


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON value")


class _Loader(yaml.SafeLoader):
    """Composes nodes only; aliases are refused, as they can blow a small file up to any size."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark: yaml.Mark = cast(Any, self).peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases are not read; write it out", problem_mark=mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_Loader`, or another reader of YAML, would not read as the same text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - always written out
        return True


_NULL, _BOOL, _INT, _FLOAT, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str"))
_PLAIN_WORDS = (
    (_NULL, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    (_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    # A leading zero makes text: it is an id, not a number.
    (_INT, re.compile(r"-?(?:0|[1-9][0-9]*)$", re.ASCII), list("-0123456789")),
    (
        _FLOAT,
        re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$", re.ASCII),
        list("-0123456789"),
    ),
)
_TAGS = {_NULL, _BOOL, _INT, _FLOAT, _TEXT, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_PATTERNS = {tag: pattern for tag, pattern, _ in _PLAIN_WORDS}
_SCALARS: dict[str, Callable[[str], object]] = {
    _NULL: lambda _: None,
    _BOOL: lambda text: text.lower() == "true",
    _INT: int,
    _FLOAT: float,
}
_Loader.yaml_implicit_resolvers = {}
for _class in (_Loader, _Dumper):
    for _tag, _pattern, _first in _PLAIN_WORDS:
        cast(Any, _class).add_implicit_resolver(_tag, _pattern, _first)


_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # By default PyYAML writes the other line breaks of Unicode as they are, and then reads them as blanks.
    style = '"' if _OTHER_BREAKS.search(text) else "|" if "\n" in text else None
    node: yaml.ScalarNode = cast(Any, dumper).represent_scalar(_TEXT, text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)


def _read_yaml(text: str) -> tuple[object, dict[str, int]]:
    lines: dict[str, int] = {}
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return (None if node is None else _value(node, "", lines)), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        message = f"{where}{error.problem or error.context or 'this is not YAML'}"
    except yaml.YAMLError as error:  # a character that YAML does not allow, which has no line
        message = f"this is not YAML: {' '.join(str(error).split())}"
    except RecursionError:
        message = "the file is nested too deeply"
    raise _error([Problem(field="", message=message)])


def _value(node: yaml.Node, path: str, lines: dict[str, int]) -> object:
    lines[path] = node.start_mark.line + 1
    if node.tag not in _TAGS:
        raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not read", problem_mark=node.start_mark)
    match node:
        case yaml.MappingNode():
            return _mapping(node, path, lines)
        case yaml.SequenceNode():
            items = cast("list[yaml.Node]", node.value)
            return [_value(item, f"{path}.{index}", lines) for index, item in enumerate(items)]
        case _:
            return _scalar(node)


def _mapping(node: yaml.MappingNode, path: str, lines: dict[str, int]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a name must be text", problem_mark=key.start_mark)
        name = cast(str, key.value)
        if name in found:
            raise yaml.MarkedYAMLError(problem=f"`{name}` occurs twice", problem_mark=key.start_mark)
        inner = f"{path}.{name}" if path else name
        found[name] = _value(value, inner, lines)
        lines[inner] = key.start_mark.line + 1
    return found


def _scalar(node: yaml.Node) -> object:
    text = cast(str, node.value)
    if node.tag == _TEXT:
        return text
    # A tag in the file, such as `!!int`, may precede any text.
    if not _PATTERNS[node.tag].match(text):
        raise yaml.MarkedYAMLError(
            problem=f"`{text[:40]}` with the tag {node.tag} is not read", problem_mark=node.start_mark
        )
    return _SCALARS[node.tag](text)

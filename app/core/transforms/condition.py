"""Conditions over a record in CEL, the Common Expression Language, by Google's C++ implementation.

An expression has one variable, `record`, and must be true or false. It cannot loop for ever or reach outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cel_expr_python import cel

MAX_LENGTH = 10_000
_POSITION = re.compile(r"ERROR: <input>:(?P<line>-?\d+):(?P<column>-?\d+): (?P<message>[^\n]*)")
_CODE = re.compile(r"\s*\[[A-Z_]+\]\s*$")
_STATUS = re.compile(r"^[A-Z_]+: ")
_MISSING_KEY = re.compile(r'Key not found in map : "(?P<key>.*)"', re.DOTALL)
_QUOTING = re.compile(r"^(Key not found in map|invalid regular expression)\b.*", re.DOTALL)
_WITHOUT_VALUES = re.compile(
    r"cannot convert string to \w+|String to \w+ conversion failed|Type conversion error from '\w+' to '\w+'"
    r"|No matching overloads found : [\w.@_?!<>=+*/%&|\[\]:{}-]+\([\w.<>, *()]*\)|Index error: index=-?\d+ size=\d+"
    r"|Applying SELECT to non-message type|Key not found in map|invalid regular expression|[a-z]+ by zero"
    r"|[a-z]+ overflow|(int|uint|integer|double)\w* (overflow|underflow|out of range)",
    re.IGNORECASE,
)


class ConditionError(Exception):
    """The expression does not compile; the message begins with the position if there is one."""


class EvaluationError(Exception):
    """The expression has no result for this record. The message quotes nothing of the record."""


def compile_condition(expression: str) -> Callable[[Any], bool]:
    """Return a function from a decoded JSON value to the expression's result; it raises EvaluationError.

    Raises ConditionError.
    """
    if not expression.strip():
        raise ConditionError("the expression is empty; write a condition such as `record.delay >= 15`")
    if len(expression) > MAX_LENGTH:
        raise ConditionError(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are accepted")
    environment = cel.NewEnv(variables={"record": cel.Type.DYN})
    try:
        compiled = environment.compile(expression)
    except RuntimeError as error:  # the library's error for every invalid expression
        raise ConditionError(_sentence(str(error))) from error
    result = compiled.return_type()
    if result not in (cel.Type.BOOL, cel.Type.DYN):
        raise ConditionError(f"the expression gives {result.name().lower()}; a condition must be true or false")

    def holds(record: Any) -> bool:
        answer = compiled.eval(data={"record": record})
        value = answer.value()
        if value is True or value is False:
            return value
        if answer.type() == cel.Type.ERROR:
            raise EvaluationError(_reason(str(value), expression))
        raise EvaluationError(f"the expression gave {answer.type().name().lower()}, not true or false")

    return holds


def _reason(message: str, expression: str) -> str:
    """Return the library's message if it certainly quotes no value, since viewers may read it."""
    message = _STATUS.sub("", message)
    missing = _MISSING_KEY.fullmatch(message)
    if missing is not None and missing["key"] in expression:
        return message
    reason = _QUOTING.sub(r"\1", message)
    return reason if _WITHOUT_VALUES.fullmatch(reason) else "it has no value for this record"


def _sentence(message: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return _STATUS.sub("", _CODE.sub("", message))
    text = _CODE.sub("", match["message"])
    if int(match["line"]) < 1:
        return text
    return f"line {match['line']}, column {match['column']}: {text}"

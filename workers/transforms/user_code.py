"""Loading an uploaded Python file: on an executor, and in the child process that checks it; never in the server."""

from __future__ import annotations

import hashlib
import inspect
import linecache
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from workers.transforms import TransformError

_MAX_TEXT = 500
_MAX_NAME = 100
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}", re.ASCII)


class UserCodeError(TransformError):
    """The file cannot be used; `field` is the field of the transform to change.

    missing_module: a module that the file imports and this Python does not have; another machine may.
    """

    def __init__(self, message: str, *, field: str, missing_module: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.missing_module = missing_module


def sha256_of(source: str) -> str:
    """The hash by which a revision names a file: SHA-256 of its text in UTF-8, in lower-case hex."""
    return hashlib.sha256(source.encode("utf-8")).hexdigest()


def load_function(source: str, *, function: str, file_name: str, arguments: int = 1) -> Callable[..., Any]:
    """Run the file and return its function of so many arguments. Raises UserCodeError, also when the file raises."""
    module_name = f"fenceline_transform_{sha256_of(source)[:16]}"
    origin = f"<{file_name}>"
    module = types.ModuleType(module_name)
    module.__file__ = origin
    # Python shows a file's lines in tracebacks only where it can find them.
    linecache.cache[origin] = (len(source), None, source.splitlines(keepends=True), origin)
    sys.modules[module_name] = module
    try:
        code = compile(source, origin, "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.modules.pop(module_name, None)
        raise UserCodeError(f"{file_name}, line {error.lineno}: {error.msg}", field="file_name") from error
    try:
        exec(code, module.__dict__)  # noqa: S102 - what a python transform is; allowed by the administrator alone
    except (Exception, SystemExit) as error:
        sys.modules.pop(module_name, None)
        raise UserCodeError(
            f"{file_name} does not import: {place_of(error, file_name)}",
            field="file_name",
            missing_module=_missing_module(error),
        ) from error
    return _function(module, function, file_name, arguments)


def place_of(error: BaseException, file_name: str) -> str:
    """The type of an exception of user code, and the line of the file that it comes from.

    Without its text: at a record it may quote the record, and while the file is loaded all that the file could read.
    """
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"<{file_name}>"]
    name = type(error).__name__
    kind = name if name.isidentifier() and len(name) <= _MAX_NAME else "an exception"
    return f"line {lines[-1]}: {kind}" if lines else kind


def text_of(error: BaseException) -> str:
    """The text of an exception of user code, in one line."""
    return " ".join(str(error)[:_MAX_TEXT].split())


def _missing_module(error: BaseException) -> str | None:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return name if name is not None and _MODULE.fullmatch(name) else None


def _function(module: types.ModuleType, name: str, file_name: str, arguments: int) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if found is None:
        defined = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        there = (
            f"it has {', '.join(f'`{key}`' for key in defined[:10])}" if defined else "it defines no function at all"
        )
        raise UserCodeError(f"{file_name} has no function `{name}`; {there}", field="function")
    if not callable(found):
        raise UserCodeError(f"`{name}` in {file_name} is not a function", field="function")
    for is_kind, kind in (
        (inspect.iscoroutinefunction, "an async function"),
        (inspect.isasyncgenfunction, "an async generator"),
        (inspect.isgeneratorfunction, "a generator (it uses `yield`)"),
        (inspect.isclass, "a class"),
    ):
        if is_kind(found):
            raise UserCodeError(
                f"`{name}` in {file_name} is {kind}; a transform is a plain function that returns its outputs",
                field="function",
            )
    try:
        inspect.signature(found).bind(*(None,) * arguments)
    except (TypeError, ValueError) as error:
        count = "one argument" if arguments == 1 else f"{arguments} arguments"
        raise UserCodeError(
            f"`{name}` in {file_name} must be callable with {count}: {error}", field="function"
        ) from error
    return found

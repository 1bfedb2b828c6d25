"""Checks of the uploaded Python file that a transform names; its content is checked in a child process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.core.allow_lists.options import AllowedOptions
from app.kit.errors import Problem

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}\.py", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_uploaded_file(
    *, function: str, file_name: str, sha256: str, allowed: AllowedOptions, permission_at: str
) -> Iterator[Problem]:
    """Yield the problems of a function, its file and the file's hash. permission_at: field of a missing permission."""
    if not allowed.python_transforms:
        message = (
            "Python transforms run uploaded code on the executors and are switched off; "
            "an administrator allows them with FENCELINE_PYTHON_TRANSFORMS=true"
        )
        yield Problem(field=permission_at, message=message)
    if not function.isidentifier():
        message = f"`{function[:80]}` is not a function's name; write one such as `transform`"
        yield Problem(field="transform.function", message=message)
    if (message := file_name_problem(file_name)) is not None:
        yield Problem(field="transform.file_name", message=message)
    if not _SHA256.fullmatch(sha256):
        message = "This is not a SHA-256 (64 digits 0-9 and a-f); it comes from uploading the file"
        yield Problem(field="transform.sha256", message=message)


def file_name_problem(file_name: str) -> str | None:
    """Return why this is not the name of a transform's file; None if it is. A folder in it could lead anywhere."""
    if not _FILE_NAME.fullmatch(file_name):
        return f"`{file_name[:80]}` is not a Python file's name; one is `flights.py`, without a folder"
    return None

"""References to secrets: `env:FENCELINE_SECRET_X`, or `file:NAME` in one configured folder.

The process that uses a secret resolves it; definitions, database, arguments, logs and pages only have the reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from app.kit.errors import InvalidError

ENVIRONMENT_PREFIX = "FENCELINE_SECRET_"
_ENVIRONMENT = re.compile(r"env:(FENCELINE_SECRET_[A-Z0-9_]+)")
_FILE = re.compile(r"file:([A-Za-z0-9][A-Za-z0-9._-]*)")


def is_reference(value: str) -> bool:
    """Return whether `value` is a well-formed reference; a file's name has no folder in it."""
    return _ENVIRONMENT.fullmatch(value) is not None or _FILE.fullmatch(value) is not None


def resolve(
    config: Mapping[str, str], *, environment: Mapping[str, str], read_file: Callable[[str], str]
) -> dict[str, str]:
    """Return `config` with every reference replaced by its secret.

    read_file: returns the text of a file by its name inside the configured folder; may raise OSError.
    Raises InvalidError naming the option and the reference, never the secret.
    """
    return {option: _resolve(option, value, environment, read_file) for option, value in config.items()}


def _resolve(option: str, value: str, environment: Mapping[str, str], read_file: Callable[[str], str]) -> str:
    if not value.startswith(("env:", "file:")):
        return value
    named = _ENVIRONMENT.fullmatch(value)
    if named is not None:
        secret = environment.get(named[1])
        if secret is None:
            raise InvalidError(f"{option} refers to {value}, but {named[1]} is not in this process's environment")
        return secret
    file = _FILE.fullmatch(value)
    if file is None:
        raise InvalidError(
            f"{option} refers to {value}, which is neither env:{ENVIRONMENT_PREFIX}NAME nor file:NAME without a folder"
        )
    try:
        return read_file(file[1]).rstrip("\r\n")
    except OSError as error:
        raise InvalidError(
            f"{option} refers to {value}, which cannot be read from the folder of secrets: {error.strerror or error}"
        ) from error

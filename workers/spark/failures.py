"""Permanent errors of an attempt, for which Spark's retry is useless."""

from __future__ import annotations

import msgspec

from app.core.wire.protocol import UnsupportedProtocolError
from app.kit.errors import InvalidError
from workers.loop.errors import PipelineStopError
from workers.transforms import TransformError
from workers.transforms.user_code import UserCodeError
from workers.versions import VersionMismatchError

HOPELESS: tuple[type[Exception], ...] = (
    VersionMismatchError,
    UnsupportedProtocolError,
    InvalidError,
    msgspec.MsgspecError,
    ImportError,
    PipelineStopError,
    TransformError,
)


def is_hopeless(error: Exception) -> bool:
    """True when the next attempt would meet the same error: a wrong version, a missing secret, a record refused by the
    policy `fail`.

    A shared library that cannot be loaded is not permanent: memory, a mount or the host may be the reason. The same
    holds for errors of an uploaded file while it is imported: it was imported once, when it was uploaded.
    """
    if isinstance(error, UserCodeError) and error.field == "file_name":
        cause = error.__cause__
        return isinstance(cause, SyntaxError) or (isinstance(cause, ImportError) and is_hopeless(cause))
    if isinstance(error, ImportError) and _is_shared_library(error):
        return False
    return isinstance(error, HOPELESS)


def _is_shared_library(error: ImportError) -> bool:
    """True if the loader of shared libraries has refused it; a module that is missing has no file."""
    return error.path is not None and not isinstance(error, ModuleNotFoundError) and not error.path.endswith(".py")

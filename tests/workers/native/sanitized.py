"""A pytest plugin: the C part as gcc built it with its sanitizers. `make sanitized` runs the tests of this folder so.

The sanitizers' runtime must be in the process from its start (LD_PRELOAD). Children of the tests do not get it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.native import library

VARIABLE = "FENCELINE_TEST_SANITIZED"


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError where the run would show nothing."""
    file = Path(os.environ[VARIABLE])
    if "asan" not in os.environ.pop("LD_PRELOAD", ""):
        raise pytest.UsageError("the address sanitizer is not preloaded: use `make sanitized`")
    library.__dict__["_file"] = lambda: file
    found = library.native_library()
    if isinstance(found, str):
        raise pytest.UsageError(found)
    config.addinivalue_line("markers", f"sanitized: {file}")

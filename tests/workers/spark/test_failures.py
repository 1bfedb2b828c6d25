"""Which errors end a run, and which the next attempt may not meet again."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path

import pytest

from workers.spark.failures import is_hopeless
from workers.transforms.user_code import UserCodeError, load_function

FUNCTION = "def f(record): return record"


def error_of_file(source: str) -> UserCodeError:
    with pytest.raises(UserCodeError) as caught:
        load_function(source, function="f", file_name="rules.py")
    return caught.value


@pytest.mark.parametrize(
    "source",
    [
        f"import broken_native\n{FUNCTION}",
        f"raise MemoryError\n{FUNCTION}",
        f"open('/no/such/mount/model')\n{FUNCTION}",
        f"import os\nos.environ['NOT_SET_ON_THIS_HOST']\n{FUNCTION}",
    ],
    ids=["library", "memory", "mount", "variable"],
)
def test_file_that_the_environment_keeps_from_importing_is_tried_again(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    (tmp_path / f"broken_native{suffix}").write_bytes(b"not a library")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert not is_hopeless(error_of_file(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f(:",
        f"import no_such_module\n{FUNCTION}",
        f"from json import no_such_name\n{FUNCTION}",
        "def g(record): return record",
        "def f(): return None",
    ],
    ids=["syntax", "module", "name", "function", "arguments"],
)
def test_file_that_is_wrong_itself_is_not_tried_again(source: str) -> None:
    assert is_hopeless(error_of_file(source))

"""Every JVM starts with a locale for all file names."""

from __future__ import annotations

import pytest

from app.kit.utf8_locale import with_utf8_locale


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LANG": "C"},
        {"LC_ALL": "C", "LANG": "de_DE.UTF-8"},
        {"LC_ALL": "POSIX"},
        {"LC_CTYPE": "C", "LANG": "en_US.UTF-8"},
        {"LANG": "de_DE@euro"},
        {"LANG": "de_DE.ISO-8859-15"},
        {"LC_ALL": "", "LANG": "en_US"},
    ],
)
def test_another_encoding_is_replaced(environment: dict[str, str]) -> None:
    made = with_utf8_locale({**environment, "HOME": "/h"})
    assert made["LC_ALL"] == "C.UTF-8"
    assert made["HOME"] == "/h"


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "de_DE.UTF-8"},
        {"LC_ALL": "C.utf8"},
        {"LC_ALL": "", "LC_CTYPE": "en_US.utf-8", "LANG": "C"},
        {"LANG": "sr_RS.UTF-8@latin"},
    ],
)
def test_a_locale_of_utf8_is_left_as_it_is(environment: dict[str, str]) -> None:
    assert with_utf8_locale(environment) == environment

"""The locale for a process that opens files by their names: one of UTF-8, so that every name can be said."""

from __future__ import annotations

from collections.abc import Mapping

UTF8_LOCALE = "C.UTF-8"


def with_utf8_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with a locale of UTF-8: its own if it is one, else C.UTF-8.

    Under another one a JVM cannot open a path with characters outside of ASCII (`sun.jnu.encoding`).
    """
    effective = next((word for name in ("LC_ALL", "LC_CTYPE", "LANG") if (word := environment.get(name))), "")
    codeset = effective.partition(".")[2].partition("@")[0]
    if codeset.lower().replace("-", "") == "utf8":
        return dict(environment)
    return {**environment, "LC_ALL": UTF8_LOCALE}

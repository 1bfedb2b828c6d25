"""The locale for a process that opens files by name: UTF-8, for names with any character."""

from __future__ import annotations

from collections.abc import Mapping

UTF8_LOCALE = "C.UTF-8"


def with_utf8_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with a UTF-8 locale: its own if it has one, else C.UTF-8.

    Under any other a JVM cannot open a path with characters outside of ASCII (`sun.jnu.encoding`).
    """
    effective = next((word for name in ("LC_ALL", "LC_CTYPE", "LANG") if (word := environment.get(name))), "")
    codeset = effective.partition(".")[2].partition("@")[0]
    if codeset.lower().replace("-", "") == "utf8":
        return dict(environment)
    return {**environment, "LC_ALL": UTF8_LOCALE}

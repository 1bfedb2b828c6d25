"""A name that acts as a command where it is shown raw, and the shell's view of words that contain it."""

from __future__ import annotations

import subprocess

EVIL = "id\n\x1b[2J\r\x07\x7f\x85\x9b31m\u200b\u2028\u202e\u2066\ufeff'\\!`id`$(id)7"


def in_bash(words: list[str], locale: str) -> list[bytes]:
    """The words of a command line, as bash parses them."""
    line = "".join(f"printf '%s\\0' {word}\n" for word in words)
    ended = subprocess.run(
        ["bash", "--norc", "-c", line], env={"LC_ALL": locale}, capture_output=True, check=True, timeout=60
    )
    return ended.stdout.split(b"\0")[:-1]

"""A name that commands whatever shows it raw, and what a shell makes of the words that are pasted into it."""

from __future__ import annotations

import subprocess

EVIL = "id\n\x1b[2J\r\x07\x7f\x85\x9b31m\u200b\u2028\u202e\u2066\ufeff'\\!`id`$(id)7"


def in_bash(words: list[str], locale: str) -> list[bytes]:
    """What bash makes of each word of a command line."""
    line = "".join(f"printf '%s\\0' {word}\n" for word in words)
    ended = subprocess.run(
        ["bash", "--norc", "-c", line], env={"LC_ALL": locale}, capture_output=True, check=True, timeout=60
    )
    return ended.stdout.split(b"\0")[:-1]

"""Make text from outside safe for a terminal, a log file, a shell or a clipboard.

Kafka accepts every character in the name of a client, a group or a transactional id, and any client may choose names.
"""

from __future__ import annotations

import re
import shlex

_C0 = (0x00, 0x1F)
_OTHERS = (
    (0x7F, 0x9F),  # DEL and the control characters of C1
    (0xAD, 0xAD),  # soft hyphen
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),  # fillers of Hangul, as are U+3164 and U+FFA0
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),  # zero width, and the marks of direction
    (0x2028, 0x202E),  # separators of lines and paragraphs; overrides of direction
    (0x2060, 0x206F),  # zero width, and isolates of direction
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # halves of a pair
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""Unicode's categories Cc, Cf, Cs, Zl and Zp without their visible characters, and other invisible ones."""


def _any_of(*ranges: tuple[int, int]) -> re.Pattern[str]:
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "]")


_ODD = _any_of(_C0, *_OTHERS)
_ODD_IN_JSON = _any_of(*_OTHERS)

_COMMANDS = {
    **{code: 0xFFFD for first, last in _OTHERS for code in range(first, last + 1)},
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
}
_AND_LAYOUT = _COMMANDS | {0x09: 0x2409, 0x0A: 0x240A}


def harmless(text: str) -> str:
    """Replace each control or invisible character by a picture; lines and tabs are kept."""
    return text.translate(_COMMANDS)


def one_line(text: str) -> str:
    """Do as `harmless`, and replace tabs and ends of lines as well."""
    return text.translate(_AND_LAYOUT)


def is_odd(text: str) -> bool:
    """Return whether it has a character that controls a terminal, changes the text direction or is invisible."""
    return _ODD.search(text) is not None


def shell_word(text: str) -> str:
    r"""Quote a text as one argument of bash, zsh and ksh; one with odd characters as `$'…'`, without any of them.

    Octal escapes of the UTF-8 bytes have three digits in every shell, and hold in every locale.
    Raises ValueError for U+0000, which no argument of a command can hold.
    """
    if not is_odd(text):
        return shlex.quote(text)
    if "\0" in text:
        raise ValueError("no argument of a command holds U+0000")
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(char: str) -> str:
    # An interactive shell expands `!` from its history, and a quote in $'…' needs its backslash.
    if char in "'\\!" or is_odd(char):
        return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))
    return char


def clipboard_text(text: str) -> str:
    """Return the text of a copy button for a name or command: itself, or one shell argument if it has odd characters.

    A text with U+0000 has no such argument: a picture replaces each of its odd characters.
    """
    if not is_odd(text):
        return text
    return one_line(text) if "\0" in text else shell_word(text)


def ascii_escapes(document: str) -> str:
    r"""Return a JSON document of the same value, with `\uXXXX` in place of each odd character.

    Those below U+0020 stay: inside a string JSON escapes them itself, and outside they are its white space.
    """
    return _ODD_IN_JSON.sub(lambda found: _unit_escapes(found[0]), document)


def _unit_escapes(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

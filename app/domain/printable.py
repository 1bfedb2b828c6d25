"""What came from outside, as a terminal or a log file may have it: text that commands nothing and ends no line.

Kafka takes every character in the name of a client, a group or a transactional id, and who named them need not be who
looks at them.
"""

from __future__ import annotations

# Whatever moves a terminal's cursor, changes its colours or title, or turns the direction of writing.
_COMMANDS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
_AND_ENDS_OF_LINES = _COMMANDS | {0x0A: 0x240A, 0x2028: 0xFFFD, 0x2029: 0xFFFD}


def harmless(text: str) -> str:
    """The same text, lines and tabs kept, with a picture in the place of each character that commands."""
    return text.translate(_COMMANDS)


def one_line(text: str) -> str:
    """As `harmless`, and a picture in the place of each end of a line, too."""
    return text.translate(_AND_ENDS_OF_LINES)

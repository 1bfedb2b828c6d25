"""The error of a failed start."""

from __future__ import annotations


class StartError(Exception):
    """The server or a command cannot start; the message has the reason and the next step."""

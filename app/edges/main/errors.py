"""Why something cannot start."""

from __future__ import annotations


class StartError(Exception):
    """The server or a command cannot start; the message names the thing and the way out."""

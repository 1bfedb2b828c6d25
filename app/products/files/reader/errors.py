"""What can go wrong between references and files."""

from __future__ import annotations

from app.kit.errors import ConflictError, InvalidError, UnavailableError


class StoreUnavailableError(UnavailableError):
    """The store does not answer, or refuses."""

    title = "The store does not answer"


class ReferencesUnreadableError(UnavailableError):
    """The references of a topic cannot be read to their end."""

    title = "The references cannot be read"


class FileDamagedError(ConflictError):
    """A file that a committed reference names is not there, or is not what was referenced."""

    title = "A referenced file is missing or damaged"


class NoStoreError(InvalidError):
    """The root names no store that can be opened here."""

    title = "That is no store"

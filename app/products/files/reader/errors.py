"""Errors of references and files."""

from __future__ import annotations

from app.kit.errors import ConflictError, InvalidError, UnavailableError


class StoreUnavailableError(UnavailableError):
    """The store does not answer, or refuses a request."""

    title = "The store does not answer"


class ReferencesUnreadableError(UnavailableError):
    """The references of a topic cannot be read to their end."""

    title = "The references cannot be read"


class FileDamagedError(ConflictError):
    """The file of a committed reference is missing or differs."""

    title = "A referenced file is missing or damaged"


class NoStoreError(InvalidError):
    """The root is not the address of a supported store."""

    title = "Not a supported store"

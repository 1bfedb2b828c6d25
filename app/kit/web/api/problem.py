"""A mistake in a request, as answers show it."""

from __future__ import annotations

from app.kit import errors
from app.kit.web.api.shown import Shown, shows


@shows(errors.Problem)
class Problem:
    """One thing that is wrong (or, as a warning, unwise), at the field that a person would change."""


ShownProblem = Shown[errors.Problem]

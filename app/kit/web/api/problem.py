"""A mistake in a request, in answers."""

from __future__ import annotations

from app.kit import errors
from app.kit.web.api.shown import Shown, shows


@shows(errors.Problem)
class Problem:
    """One problem (or, as a warning, a doubtful choice), at the field that a user would change."""


ShownProblem = Shown[errors.Problem]

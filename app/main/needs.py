"""The functions of products that the overview asks about pipelines, in the order of its pages."""

from __future__ import annotations

from app.services.auditing.needs import audit_needs
from app.services.files.needs import repeated_file_needs
from app.services.needs import NeedsOf
from app.services.offset_log import contradiction_needs

NEEDS: tuple[NeedsOf, ...] = (contradiction_needs, audit_needs, repeated_file_needs)

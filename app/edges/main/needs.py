"""The functions of products that find issues of pipelines for the overview, in the order of its pages."""

from __future__ import annotations

from app.core.overview.needs import NeedsOf
from app.products.audits.service.needs import audit_needs
from app.products.files.service.needs import repeated_file_needs
from app.products.offset_log.service import contradiction_needs

NEEDS: tuple[NeedsOf, ...] = (contradiction_needs, audit_needs, repeated_file_needs)

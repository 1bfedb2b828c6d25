"""The chain of reasons as text: a clause for each link, and the whole for an incident channel."""

from __future__ import annotations

from app.domain.printable import one_line
from app.domain.stuck.diagnosis import Diagnosis, Link
from app.domain.stuck.wording import clock


def clause(link: Link) -> str:
    """The link's sentence as it follows from the one before it."""
    return link.sentence if link.sentence.startswith(("which ", "whose ")) else f"because {link.sentence}"


def as_text(found: Diagnosis) -> str:
    """All of it, to be pasted where nobody sees our page: no name in it begins a line or commands a terminal."""
    links = [f"  {clause(link)} ({link.source}, {clock(link.seen_ms)})" for link in found.links]
    lines = [found.headline, *links, f"{found.verdict}: {found.advice}", *found.commands]
    return "\n".join(map(one_line, lines))

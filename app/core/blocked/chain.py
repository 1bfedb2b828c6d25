"""The chain of reasons as text: a clause for each link, and the whole for an incident channel."""

from __future__ import annotations

from app.core.blocked.diagnosis import Diagnosis, Link
from app.core.blocked.wording import clock
from app.kit.printable import one_line


def clause(link: Link) -> str:
    """The link's sentence as it follows from the one before it."""
    return link.sentence if link.sentence.startswith(("which ", "whose ")) else f"because {link.sentence}"


def as_text(found: Diagnosis) -> str:
    """All of it, to be pasted where nobody sees our page: no name in it begins a line or commands a terminal."""
    links = [f"  {clause(link)} ({link.source}, {clock(link.seen_ms)})" for link in found.links]
    lines = [found.headline, *links, f"{found.verdict}: {found.advice}", *found.commands]
    return "\n".join(map(one_line, lines))

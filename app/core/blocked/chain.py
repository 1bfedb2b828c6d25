"""The chain of reasons as text: one part of a sentence for each link, and the whole chain for an incident channel."""

from __future__ import annotations

from app.core.blocked.diagnosis import ChainLink, Diagnosis
from app.core.blocked.wording import clock
from app.kit.printable import one_line


def clause(link: ChainLink) -> str:
    """Return the link's sentence as a continuation of the previous link."""
    return link.sentence if link.sentence.startswith(("which ", "whose ")) else f"because {link.sentence}"


def as_text(found: Diagnosis) -> str:
    """Return the whole chain for use outside the page. Control characters in names are escaped: no name starts a
    line.
    """
    links = [f"  {clause(link)} ({link.source}, {clock(link.seen_ms)})" for link in found.links]
    lines = [found.headline, *links, f"{found.verdict}: {found.advice}", *found.commands]
    return "\n".join(map(one_line, lines))

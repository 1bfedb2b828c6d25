"""Orphans at the edge: looks and collections, what they found, and what was deleted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.files import orphan_findings, orphan_look
from app.products.files.service import orphans


class CollectGiven(Body):
    """Which look is to be collected: no more is deleted than it found."""

    look: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            description="The id of `judged`, the newest look that judged files.",
        ),
    ]
    why: Why = None


@shows(orphan_findings.OrphanFile)
class OrphanFile:
    path = "Below `root`."
    uploaded_at = "By the store’s clock."


@shows(orphan_findings.DanglingReference)
class DanglingReference:
    """A committed reference whose file is not in the store. That must never be; unless somebody deleted it."""

    place = "Where the reference lies: topic-partition@offset."


@shows(orphan_findings.OpenTransaction)
class OpenTransaction:
    """It was not decided when somebody looked, so nothing was judged."""

    offset = "Where it begins."
    since = "When its first record was written; null: not known."
    transactional_id = "By the reference that this record is; null: it is none."


@shows(orphan_findings.RootFindings)
class RootFindings:
    """Below one root that the pipeline writes to, or wrote to."""

    listed_at = "The moment that ages are counted at, by the store’s clock."
    skew_ms = "How far the store’s clock is ahead of the server’s; null: it does not tell."
    margin_ms = "A file is judged so long after its upload."
    margin = "What that is made of."
    known_since = "Files from before are unknown: their references may be gone; null: all files are."
    referenced = "Named by a committed reference."
    too_young = "Their transaction may be still to come."
    orphans = "No committed reference names them, and none ever will."
    unknown = "Never deleted."
    not_ours = "Of other names than a sink gives; left alone."
    open_uploads = "Uploads in parts that nobody will complete."
    missing = "Committed references, old enough, whose file is not there."
    unchecked = "So many more were not in the listing, and not looked for."
    others = "Committed records of the sink topics that are no references."


@shows(orphan_findings.OrphanFindings)
class OrphanFindings:
    """What a look came to. While a transaction is open in a sink topic nothing is judged: `roots` is empty then."""

    oldest = "The oldest 25 orphans."
    dangling = "25 at most."
    blocked = "25 at most."
    orphans = "Below all roots."


@shows(orphan_findings.Collected)
class Collected:
    aborted_uploads = "Null: it ended before it told."
    kept_files = "Orphans of the look right before that were none any more."
    kept = "25 of them at most, each with the reason."


@shows(orphan_findings.ConfirmedRoot)
class ConfirmedRoot:
    judged_until = "What was uploaded later stays."


@shows(orphan_findings.Confirmed)
class Confirmed:
    """What was found when somebody had it collected: no more is deleted."""


@shows(orphan_look.OrphanLook)
class OrphanLook:
    """A look, or a collection, which looks anew and then deletes."""

    state = "`asked` and `running` until it is over."
    attempt = "How often it was begun: a look that a server died in is begun anew."
    told = "How far it is."
    deleted = "So far, as was told."
    reason = "Why it failed; null: it did not."
    findings = "Of a collection: what is left after it. Null: it has not come so far."
    confirmed = "Of a collection."
    collected = "What a collection came to."


@shows(orphans.Orphans)
class Orphans:
    newest = "What was asked for last; null: nobody has ever looked."
    judged = "The newest that judged files; what `collect` may name."
    collected = "The newest collection that is over."

"""REST schemas of orphans: scans and collections, with findings and deletions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why
from app.products.files import orphan_findings, orphan_look
from app.products.files.service import orphans


class CollectGiven(Body):
    """The scan whose findings are to be collected; no more is deleted than it found."""

    look: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            description="The id of `judged`, the newest scan that judged files.",
        ),
    ]
    why: Why = None


@shows(orphan_findings.OrphanFile)
class OrphanFile:
    path = "Below `root`."
    uploaded_at = "Time of the upload by the store’s clock."


@shows(orphan_findings.DanglingReference)
class DanglingReference:
    """A committed reference whose file is not in the store. Only a deletion by another client can cause one."""

    place = "Place of the reference: topic-partition@offset."


@shows(orphan_findings.UndecidedTransaction)
class UndecidedTransaction:
    """A transaction that was open during the scan, so nothing was judged."""

    offset = "Its first offset."
    since = "Time of its first record; null: not known."
    transactional_id = "From its first record; null: that is no reference."


@shows(orphan_findings.RootFindings)
class RootFindings:
    """The findings below one root that the pipeline writes to, or has written to."""

    listed_at = "Time at which ages count, by the store’s clock."
    skew_ms = "Lead of the store’s clock over the server’s; null: not known."
    margin_ms = "Age from which a file is judged."
    margin = "The parts of the margin."
    known_since = "Older files are unknown, since their references may be deleted; null: all files are."
    referenced = "Files that a committed reference names."
    too_young = "Files whose transaction may follow."
    orphans = "Files that no committed reference names, nor ever will."
    unknown = "Files that cannot be judged; never deleted."
    not_ours = "Files with other names than a sink's; never deleted."
    open_uploads = "Multipart uploads that no client will complete."
    missing = "Committed references, old enough, whose file is missing."
    unchecked = "Further references outside the listing, which were not checked."
    others = "Committed records of the sink topics that are no references."


@shows(orphan_findings.OrphanFindings)
class OrphanFindings:
    """The findings of a scan. `roots` is empty while a transaction is open in a sink topic, as nothing is judged."""

    oldest = "The oldest 25 orphans."
    dangling = "At most 25."
    blocked = "At most 25."
    orphans = "Total of all roots."


@shows(orphan_findings.Collected)
class Collected:
    aborted_uploads = "Null: it ended before they were reported."
    kept_files = "Number of orphans that were none any more before their deletion."
    kept = "At most 25 of them, each with the reason."


@shows(orphan_findings.ConfirmedRoot)
class ConfirmedRoot:
    judged_until = "Files that were uploaded later are kept."


@shows(orphan_findings.ConfirmedOrphans)
class Confirmed:
    """The findings that a user confirmed; no more is deleted."""


@shows(orphan_look.OrphanLook)
class OrphanLook:
    """A scan, or a collection, which scans again and then deletes."""

    state = "`asked` and `running` until it has ended."
    attempt = "Number of attempts; a scan is repeated if its server dies."
    told = "Progress as a text."
    deleted = "Reported deletions so far."
    reason = "Reason of a failure; null: none."
    findings = "Of a collection: the remaining files. Null: not yet known."
    confirmed = "Of a collection: the confirmed findings."
    collected = "Of a collection: its result."


@shows(orphans.Orphans)
class Orphans:
    newest = "The newest scan or collection; null: none yet."
    judged = "The newest one that judged files, which `collect` may name."
    collected = "The newest collection that has ended."

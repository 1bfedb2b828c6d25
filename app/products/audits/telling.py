"""An audit's result in sentences: what is proven, what is not, and nothing beyond that."""

from __future__ import annotations

from app.products.audits.audit import Audit, AuditState
from app.products.audits.result import AuditCounts, AuditResult, Tally, Verdict, verdict


def verdict_sentence(result: AuditResult) -> str:
    """The verdict in one sentence, with the figures that it stands on."""
    counts = result.counts
    match verdict(result):
        case Verdict.BROKEN:
            return f"{_capitalised(_wrong(counts))}.{_not_all(result)}"
        case Verdict.NOT_SHOWN:
            return f"Not shown: {_why_not(result)}. {_unproven(counts)}"
        case Verdict.EMPTY:
            pending = f": {counts.pending:,} record{_s(counts.pending)} wait to be" if counts.pending else ""
            return f"Nothing was {'processed' if pending else 'read'} or written in the window{pending}."
        case Verdict.CLEAN:
            late = f", {counts.late.records:,} of them late" if counts.late.records else ""
            where = "" if counts.files is None else ", in files that are as their references say"
            return f"Every output is there, once{where}: {counts.expected:,} expected and found{late}, {_read(counts)}."


def audit_sentence(audit: Audit) -> str:
    """What there is to say of an audit in any state, in one sentence."""
    if audit.result is not None:
        return verdict_sentence(audit.result)
    reason = f": {audit.reason}" if audit.reason else ""
    match audit.state:
        case AuditState.PENDING:
            return f"It waits{reason}."
        case AuditState.SUBMITTING:
            return "Its Spark application is being started."
        case AuditState.RUNNING:
            return "It is running."
        case AuditState.STOPPING:
            return f"It is being stopped{reason}."
        case AuditState.SKIPPED:
            return f"The window was skipped, so nothing is shown of it{reason}."
        case AuditState.STOPPED:
            return f"It was stopped, so nothing is shown of the window{reason}."
        case AuditState.FAILED | AuditState.DONE:
            return f"It failed, so nothing is shown of the window{reason}."


def figure(result: AuditResult, tally: Tally) -> int | None:
    """How many outputs, to be shown as a number; None: none was found, where not all could be compared."""
    is_all = verdict(result) is not Verdict.NOT_SHOWN and not _why_not(result)
    return tally.records if tally.records or is_all else None


def tally_words(tally: Tally, noun: str) -> str:
    """`3 outputs lost (of 2 ids)`."""
    of_ids = f" (of {tally.ids:,} id{_s(tally.ids)})" if tally.ids != tally.records else ""
    return f"{tally.records:,} output{_s(tally.records)} {noun}{of_ids}"


def _wrong(counts: AuditCounts) -> str:
    found = [
        tally_words(tally, noun)
        for tally, noun in ((counts.lost, "lost"), (counts.duplicated, "duplicated"), (counts.unexpected, "unexpected"))
        if tally.ids
    ]
    if counts.dangling.ids:
        found.append(dangling_words(counts.dangling))
    return f"{_joined(found)}, of {counts.expected:,} expected"


def dangling_words(dangling: Tally) -> str:
    """`2 references to files that are missing or other ones (of 40 records)`."""
    files = "a file that is missing or another one" if dangling.ids == 1 else "files that are missing or other ones"
    records = f"{dangling.records:,} record{_s(dangling.records)}"
    return f"{dangling.ids:,} reference{_s(dangling.ids)} to {files} (of {records})"


def _not_all(result: AuditResult) -> str:
    reasons = _why_not(result)
    return f" Not all could be compared, so there may be more: {reasons}." if reasons else ""


def _unproven(counts: AuditCounts) -> str:
    """What was read, and what is not found in it: that may lie in what was not read."""
    unproven = [
        tally_words(tally, noun)
        for tally, noun in ((counts.missing, "missing"), (counts.unexplained, "unexplained"))
        if tally.ids
    ]
    if not unproven:
        return f"What was read holds {_read(counts)}, and proves nothing wrong."
    return f"What was read holds {_read(counts)}, with {_joined(unproven)}, which may be only what was not read."


def _why_not(result: AuditResult) -> str:
    counts = result.counts
    reasons = [gap.sentence.rstrip(".") for gap in result.gaps[:2]]
    if len(result.gaps) > 2:
        reasons.append(f"{len(result.gaps) - 2} more gaps")
    if counts.unreadable_input:
        reasons.append(f"{counts.unreadable_input:,} expected output{_s(counts.unreadable_input)} without an id")
    if counts.unreadable_output:
        no_reference = "" if counts.files is None else ", or of the sink topic and no reference"
        reasons.append(f"{counts.unreadable_output:,} output{_s(counts.unreadable_output)} without an id{no_reference}")
    if counts.elsewhere:
        reasons.append(f"{counts.elsewhere:,} output{_s(counts.elsewhere)} in topics that were not read")
    if counts.stopping:
        reasons.append(
            f"the transform fails for {counts.stopping:,} record{_s(counts.stopping)} that the pipeline has passed"
        )
    return "; ".join(reasons)


def _read(counts: AuditCounts) -> str:
    dropped = f", {counts.dropped:,} dropped on purpose" if counts.dropped else ""
    pending = f", {counts.pending:,} more not processed yet" if counts.pending else ""
    files = "" if counts.files is None else f" in {counts.files:,} file{_s(counts.files)}"
    return f"{counts.inputs:,} record{_s(counts.inputs)} in, {counts.outputs:,} out{files}{dropped}{pending}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _s(number: int) -> str:
    return "" if number == 1 else "s"

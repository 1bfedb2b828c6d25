"""An audit's result in sentences."""

from __future__ import annotations

from app.products.audits.audit import Audit, AuditState
from app.products.audits.result import AuditResult, AuditVerdict, FindingTally, verdict


def verdict_sentence(result: AuditResult) -> str:
    """Return the verdict with its figures."""
    counts = result.counts
    match verdict(result):
        case AuditVerdict.BROKEN:
            return f"{_capitalised(_wrong(result))}.{_not_all(result)}"
        case AuditVerdict.NOT_SHOWN:
            reasons = _why_not(result)
            return f"Not shown: {reasons}. {_unproven(result)}" if reasons else f"Not shown. {_unproven(result)}"
        case AuditVerdict.EMPTY if result.baseline is not None:
            return f"Neither {result.baseline} nor the output has a record in the window."
        case AuditVerdict.EMPTY:
            pending = f": {counts.pending:,} record{_s(counts.pending)} not processed yet" if counts.pending else ""
            return f"Nothing was {'processed' if pending else 'read'} or written in the window{pending}."
        case AuditVerdict.CLEAN if result.baseline is not None:
            late = f", {counts.late.records:,} within the padding" if counts.late.records else ""
            return f"Both sides are equal: {_read(result)}{late}{_not_comparable(result)}."
        case AuditVerdict.CLEAN:
            late = f", {counts.late.records:,} of them late" if counts.late.records else ""
            where = "" if counts.files is None else ", in files that match their references"
            return f"Every output exists once{where}: {counts.expected:,} expected and found{late}, {_read(result)}."


def audit_sentence(audit: Audit) -> str:
    """Return the state or the result of an audit."""
    if audit.result is not None:
        return verdict_sentence(audit.result)
    reason = f": {audit.reason}" if audit.reason else ""
    match audit.state:
        case AuditState.PENDING:
            return f"Waiting{reason}."
        case AuditState.SUBMITTING:
            return "Starting the Spark application."
        case AuditState.RUNNING:
            return "Running."
        case AuditState.STOPPING:
            return f"Stopping{reason}."
        case AuditState.SKIPPED:
            return f"Skipped, so the window has no verdict{reason}."
        case AuditState.STOPPED:
            return f"Stopped, so the window has no verdict{reason}."
        case AuditState.FAILED | AuditState.DONE:
            return f"Failed, so the window has no verdict{reason}."


def figure(result: AuditResult, tally: FindingTally) -> int | None:
    """Return the number of outputs to show; None if it is zero and not all could be compared."""
    is_all = verdict(result) is not AuditVerdict.NOT_SHOWN and not _why_not(result)
    return tally.records if tally.records or is_all else None


def tally_words(tally: FindingTally, noun: str) -> str:
    """Return a text such as `3 outputs lost (of 2 ids)`."""
    of_ids = f" (of {tally.ids:,} id{_s(tally.ids)})" if tally.ids != tally.records else ""
    return f"{tally.records:,} output{_s(tally.records)} {noun}{of_ids}"


def _wrong(result: AuditResult) -> str:
    counts = result.counts
    found = [
        tally_words(tally, noun)
        for tally, noun in (
            (counts.lost, "lost"),
            (counts.duplicated, "duplicated"),
            (counts.unexpected, "unexpected"),
            (counts.different, "different"),
        )
        if tally.ids
    ]
    if counts.dangling.ids:
        found.append(dangling_words(counts.dangling))
    if result.baseline is None:
        return f"{_joined(found)}, of {counts.expected:,} expected"
    return f"{_joined(found)}: {_read(result)}{_not_comparable(result)}"


def _not_comparable(result: AuditResult) -> str:
    number = result.counts.not_comparable
    return f"; {number:,} more row{_s(number)} not comparable" if number else ""


def dangling_words(dangling: FindingTally) -> str:
    """Return a text such as `2 references to files that are missing or differ (of 40 records)`."""
    files = "a file that is missing or differs" if dangling.ids == 1 else "files that are missing or differ"
    records = f"{dangling.records:,} record{_s(dangling.records)}"
    return f"{dangling.ids:,} reference{_s(dangling.ids)} to {files} (of {records})"


def _not_all(result: AuditResult) -> str:
    reasons = _why_not(result)
    return f" Not all could be compared, so there may be more: {reasons}." if reasons else ""


def _unproven(result: AuditResult) -> str:
    """Describe the records read, and unproven findings, which unread records may explain."""
    counts = result.counts
    unproven = [
        tally_words(tally, noun)
        for tally, noun in ((counts.missing, "missing"), (counts.unexplained, "unexplained"))
        if tally.ids
    ]
    if not counts.inputs and not counts.outputs and counts.not_comparable:
        return f"No row is comparable: {counts.not_comparable:,} may depend on records beyond the range."
    if not unproven:
        return f"No violation in the records read: {_read(result)}."
    return f"Read: {_read(result)}, with {_joined(unproven)}, which unread records may explain."


def _why_not(result: AuditResult) -> str:
    counts = result.counts
    reasons = [gap.sentence.rstrip(".") for gap in result.gaps[:2]]
    if len(result.gaps) > 2:
        reasons.append(f"{len(result.gaps) - 2} more gaps")
    if result.baseline is not None:
        for number, where in ((counts.unreadable_input, result.baseline), (counts.unreadable_output, "the output")):
            if number:
                reasons.append(f"{number:,} record{_s(number)} of {where} without an id, a time or fields")
        if repeated := counts.duplicated_in_baseline.records:
            reasons.append(f"{repeated:,} record{_s(repeated)} repeated in {result.baseline}, or lost in the output")
        return "; ".join(reasons)
    if counts.unreadable_input:
        reasons.append(f"{counts.unreadable_input:,} expected output{_s(counts.unreadable_input)} without an id")
    if counts.unreadable_output:
        no_reference = "" if counts.files is None else ", or records of the sink topic that are no references"
        reasons.append(f"{counts.unreadable_output:,} output{_s(counts.unreadable_output)} without an id{no_reference}")
    if counts.elsewhere:
        reasons.append(f"{counts.elsewhere:,} output{_s(counts.elsewhere)} in topics that were not read")
    if counts.stopping:
        reasons.append(
            f"the transform fails for {counts.stopping:,} record{_s(counts.stopping)} that the pipeline has passed"
        )
    return "; ".join(reasons)


def _read(result: AuditResult) -> str:
    counts = result.counts
    if result.baseline is not None:
        files = "" if counts.files is None else f" in {counts.files:,} file{_s(counts.files)}"
        here = f"{counts.outputs:,} in the output{files}"
        return f"{counts.expected:,} record{_s(counts.expected)} in {result.baseline}, {here}"
    dropped = f", {counts.dropped:,} filtered out" if counts.dropped else ""
    pending = f", {counts.pending:,} more not processed yet" if counts.pending else ""
    files = "" if counts.files is None else f" in {counts.files:,} file{_s(counts.files)}"
    return f"{counts.inputs:,} record{_s(counts.inputs)} in, {counts.outputs:,} out{files}{dropped}{pending}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _s(number: int) -> str:
    return "" if number == 1 else "s"

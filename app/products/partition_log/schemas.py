"""REST shapes of a partition's log."""

from __future__ import annotations

from app.core.journals import log_content as content
from app.core.journals import log_entries as entries
from app.core.journals import log_look as look
from app.kit.web.api.shown import shows
from app.products.partition_log import service as partition_log


@shows(content.Content, optional=True)
class Content:
    """Bytes of a record, as text if they are UTF-8; long ones are cut."""


@shows(content.RecordHeader)
class RecordHeader:
    pass


@shows(entries.LogRecord, optional=True)
class LogRecord:
    """One record; null stands for null, and for fields that were not requested."""


@shows(entries.Decided)
class Decided:
    """The transaction that a marker ends, as far as this answer has its records."""

    is_whole = "False when records before this answer may belong to it."


@shows(entries.LogEntry, optional=True)
class LogEntry:
    """One batch of the log. null stands for "none", or for "not known" if the batch is unreadable."""

    state = "`unknown`: its marker, if there is one, is beyond the end of this answer."
    marker = "COMMIT or ABORT, of a control batch."
    decided_at = "The offset of the marker that decided it."
    note = "A remark about the batch."


@shows(look.LogBounds)
class LogBounds:
    """`read_committed` consumers get records below the last stable offset; the high watermark is the end."""


@shows(partition_log.PartitionLog, optional=True)
class PartitionLog:
    next_offset = "The start of the next page."
    ids_note = "Why transactional ids are unknown or incomplete."

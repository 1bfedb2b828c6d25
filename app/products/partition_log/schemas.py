"""A partition's log at the edge."""

from __future__ import annotations

from app.core.journals import log_content as content
from app.core.journals import log_entries as entries
from app.core.journals import log_look as look
from app.kit.web.api.shown import shows
from app.products.partition_log import service as partition_log


@shows(content.Content, optional=True)
class Content:
    """Bytes of a record, as text where they are UTF-8; long ones are cut."""


@shows(content.Header)
class Header:
    pass


@shows(content.LogRecord, optional=True)
class LogRecord:
    """One record; null stands for null, and for what was not asked for."""


@shows(entries.Decided)
class Decided:
    """What a marker decides, as far as this answer has it."""

    is_whole = "False when records before this answer may belong to it."


@shows(entries.LogEntry, optional=True)
class LogEntry:
    """One batch as it lies in the log. null stands for "none", or "not known" of a batch that cannot be read."""

    state = "`unknown`: its marker, if there is one, lies beyond where this answer ends."
    marker = "COMMIT or ABORT, of a control batch."
    decided_at = "The offset of the marker that decided it."
    note = "What a reader should know of it, in words."


@shows(look.LogBounds)
class LogBounds:
    """Readers of committed data get what is before the last stable offset; the high watermark is the end."""


@shows(partition_log.PartitionLog, optional=True)
class PartitionLog:
    next_offset = "Where the next look goes on."
    ids_note = "Why transactional ids are not known, or may be fewer."

"""Names at the end of an address that may have anything in them: slashes, as of a path, and ends of lines, too."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor

ANY_NAME = "any_name"
"""`{transactional_id:any_name}`: what Kafka takes as a name, percent-encoded."""


class _AnyName(PathConvertor):
    # A dot is every character but the end of a line.
    regex = r"[\s\S]*"


register_url_convertor(ANY_NAME, _AnyName())

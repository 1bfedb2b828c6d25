"""Names at the end of an address with any character: slashes, as of a path, and ends of lines, too."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor

ANY_NAME = "any_name"
"""`{transactional_id:any_name}`: a name as Kafka accepts it, percent-encoded."""


class _AnyName(PathConvertor):
    # A dot is every character but the end of a line.
    regex = r"[\s\S]*"


register_url_convertor(ANY_NAME, _AnyName())

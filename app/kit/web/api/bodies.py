"""The base models: requests are strict and closed, answers are built from a record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, model_validator


class Given(BaseModel):
    """A part of a request body: unknown fields are refused, and a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Body(Given):
    """A complete request body: it also refuses texts and numbers that Postgres or JSON cannot hold."""

    @model_validator(mode="before")
    @classmethod
    def _can_be_kept(cls, data: Any) -> Any:
        for scalar in _scalars(data):
            if isinstance(scalar, str):
                if "\x00" in scalar or any("\ud800" <= char <= "\udfff" for char in scalar):
                    raise ValueError("a text contains U+0000 or half a surrogate pair, which cannot be stored")
            elif isinstance(scalar, int):
                if not -(2**63) <= scalar < 2**63:
                    raise ValueError("a number does not fit into 64 bits")
            elif isinstance(scalar, float) and not math.isfinite(scalar):
                raise ValueError("a number is not finite")
        return data


def _scalars(data: object) -> Iterator[object]:
    """Yield every key and value of decoded JSON; without recursion, as the sender chooses the depth."""
    waiting: list[object] = [data]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            mapping = cast("dict[object, object]", item)
            waiting.extend(mapping.keys())
            waiting.extend(mapping.values())
        elif isinstance(item, list):
            waiting.extend(cast("list[object]", item))
        else:
            yield item


class Answer(BaseModel):
    """A response body. Most are built from a struct (shown.py); the others are written by hand."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)

    @classmethod
    def of(cls, record: object, **more: Any) -> Self:
        """Build it from the attributes of `record`, and from `more` fields that it lacks or has in another form."""
        wanted = cls.model_fields.keys() - more.keys()
        return cls.model_validate({name: getattr(record, name) for name in wanted if hasattr(record, name)} | more)

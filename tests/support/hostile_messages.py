"""Messages of a worker that lies: of the right types, with any values, drawn by a seed."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

NUMBERS = (0, 1, 2, 3, 7, -1, -2, 100, 2**15, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30))
FLOATS = (0.0, 1.5, -1.0, 1e12, 1e308, -1e308, 5e-324)
NASTY = (
    "",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\ud83d",
    "\u202e\u2066",
    '"><script>xss</script><img onerror=xss>',
    "a\nb\r\nc",
    "x" * 5_000,
    "../../etc/passwd",
    "{{7*7}}",
)
MOST_ITEMS = 4


class Liar:
    """Draws values for the fields of a message.

    names: what others own, and what the liar itself does: ids, topics, runs, applications.
    """

    def __init__(self, draw: random.Random, names: Sequence[str]) -> None:
        self._draw = draw
        self._names = names

    def message(self, kind: type[msgspec.Struct], **fixed: Any) -> bytes:
        """JSON of a message of this kind; `fixed` are the fields that have these values."""
        told = self._struct(inspect.type_info(kind))
        return msgspec.json.encode({**told, **fixed}).replace(b'"\\u0000lone"', b'"\\ud83d"')

    def _struct(self, info: Any) -> dict[str, Any]:
        told: dict[str, Any] = {} if info.tag is None else {info.tag_field: info.tag}
        for field in info.fields:
            # A missing field has its default, as a worker of an older release leaves it out.
            if field.required or self._draw.random() < 0.7:
                told[field.encode_name] = self._value(field.type)
        return told

    def _value(self, info: Any) -> Any:
        draw = self._draw
        match info:
            case inspect.IntType():
                return draw.choice(NUMBERS) if draw.random() < 0.4 else draw.randrange(12)
            case inspect.FloatType():
                return draw.choice(FLOATS)
            case inspect.BoolType():
                return draw.random() < 0.5
            case inspect.StrType():
                return draw.choice(self._names if draw.random() < 0.7 else NASTY).replace("\ud83d", "\x00lone")
            case inspect.EnumType():
                kinds: type[enum.Enum] = info.cls
                return draw.choice(list(kinds)).value
            case inspect.UnionType():
                return self._value(draw.choice(info.types))
            case inspect.NoneType():
                return None
            case inspect.VarTupleType():
                return [self._value(info.item_type) for _ in range(draw.randrange(MOST_ITEMS))]
            case inspect.NamedTupleType():
                return [self._value(field.type) for field in info.fields]
            case inspect.StructType():
                return self._struct(info)
            case inspect.DictType():
                return {
                    self._value(info.key_type): self._value(info.value_type) for _ in range(draw.randrange(MOST_ITEMS))
                }
            case _:
                raise TypeError(f"no value is drawn for {info}")

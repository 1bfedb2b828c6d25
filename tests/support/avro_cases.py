"""Avro schemas and JSON values for them at random, fitting or not, for a comparison of two encoders."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from app.core.avro_schemas.fitting import branches_of, integer_range, type_of
from app.core.avro_schemas.names import json_name
from tests.support.json_cases import JsonCases

_NAMES = ["a", "b", "c", "dd", "é", "x-y", "type", "", "a.b", "f"]
_ODD_NAMES = ['q"', "b\\", "\n"]
_LOGICAL = [("int", "date"), ("long", "timestamp-millis"), ("long", "timestamp-micros")]
_KINDS = ["null", "boolean", "integer", "double", "text", "array", "object"]
_INTEGERS = [
    *(0, 1, -1, 63, 64, -64, -65, 255, 4095, 4096, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1),
    *((1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53), -(1 << 53) - 1, (1 << 63) - 1, 1 << 63, -(1 << 63)),
    *(-(1 << 63) - 1, (1 << 64) - 1, 1 << 64, 10**30, -719_162, -719_163, 2_932_896, 2_932_897),
]
_ODD_NUMBERS = [
    "-0",
    "-0.0",
    "0.0",
    "1.0",
    "1e2",
    "1E+2",
    "1e-400",
    "1e400",
    "-1e400",
    "0e5",
    "-0e-5",
    "01",
    "1.",
    ".5",
]
_ODD_TEXTS = ['"\\u0061"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\/"', '"\\x"', '"a\x01"', '"A\\u0000"', '"x']
_DEEPEST = 3


class AvroCases:
    """The same cases for the same `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._any = JsonCases(rng)
        self._number = 0
        self._symbols: list[str] = []

    def schema(self) -> dict[str, Any]:
        """Return a record schema, mostly one that C takes; `problems` (given.py) may still find some."""
        self._number = 0
        return self._record(0)

    def value(self, schema: dict[str, Any]) -> bytes:
        """Return the JSON of a value of this schema, which is expanded. Few do not fit, or are damaged or cut."""
        rng = self._rng
        made = self._value(schema).encode(errors="surrogatepass")
        if rng.random() < 0.02 and made:
            at = rng.randrange(len(made))
            made = made[:at] + bytes([rng.randrange(256)]) + made[at + 1 :]
        return made[: rng.randint(0, len(made))] if rng.random() < 0.005 else made

    def double(self) -> str:
        """Return the text of a number with a fraction or an exponent, hard to convert as often as not."""
        rng = self._rng
        number = abs(struct.unpack("<d", rng.randbytes(8))[0])
        if not number < float("inf"):
            return "0.5"
        share = rng.random()
        if share < 0.3:
            return f"{rng.uniform(-200, 200):.{rng.randint(1, 17)}f}"
        if share < 0.5:
            return repr(number)
        if share < 0.6:
            return f"{number:.{rng.randint(1, 30)}e}"
        if share < 0.7:
            return repr(number * 10 ** rng.randint(-300, 10) if number < 1e290 else number)
        # Exactly between two doubles, or next to there.
        above = struct.unpack("<d", struct.pack("<q", struct.unpack("<q", struct.pack("<d", number))[0] + 1))[0]
        if not above < float("inf"):
            return repr(number)
        middle = format((Decimal(number) + Decimal(above)) / 2, "e")
        digits, _, exponent = middle.partition("e")
        return f"{digits}{rng.choice(['', '', '0' * 20, '0' * 30 + '1', '1'])}e{exponent}" if "." in digits else middle

    def _new_name(self) -> str:
        self._number += 1
        return f"N{self._number}"

    def _record(self, depth: int) -> dict[str, Any]:
        rng = self._rng
        pool = _NAMES + _ODD_NAMES if rng.random() < 0.05 else _NAMES
        names = rng.sample(pool, rng.randint(0 if depth else 1, min(6, len(pool))))
        if rng.random() < 0.02:
            names = [f"field{number}" for number in range(rng.randint(20, 60))]
        fields = [
            {"name": f"f{number}", "type": self._union(depth + 1), **({} if name == f"f{number}" else {"json": name})}
            for number, name in enumerate(names)
        ]
        return {"type": "record", "name": self._new_name(), "fields": fields}

    def _union(self, depth: int) -> Any:
        rng = self._rng
        share = rng.random()
        if share < 0.5:
            return self._of_kind(rng.choice(_KINDS), depth)
        is_nullable = share < 0.75
        kinds = ["null", rng.choice(_KINDS[1:])] if is_nullable else rng.sample(_KINDS, rng.randint(1, len(_KINDS)))
        rng.shuffle(kinds)
        return [self._of_kind(kind, depth) for kind in kinds]

    def _of_kind(self, kind: str, depth: int) -> Any:
        rng = self._rng
        match kind:
            case "integer":
                if rng.random() < 0.2:
                    type_, logical = rng.choice(_LOGICAL)
                    return {"type": type_, "logicalType": logical}
                return rng.choice(["int", "long", "long"])
            case "text":
                if rng.random() < 0.3:
                    symbols = rng.sample(["A", "AA", "B", "late", "x1"], rng.randint(1, 5))
                    return {"type": "enum", "name": self._new_name(), "symbols": symbols}
                return "string"
            case "array" if depth < _DEEPEST:
                return {"type": "array", "items": self._union(depth + 1)}
            case "object" if depth < _DEEPEST:
                return self._record(depth) if rng.random() < 0.7 else {"type": "map", "values": self._union(depth + 1)}
            case "array":
                return {"type": "array", "items": "long"}
            case "object":
                return {"type": "map", "values": "string"}
            case _:
                return kind

    def _value(self, schema: Any) -> str:
        rng = self._rng
        if rng.random() < 0.01:
            return self._any.value().decode(errors="replace")
        branch = rng.choice(branches_of(schema))
        kind: Callable[[Any], str] = getattr(self, f"_{type_of(branch)}_value")
        return kind(branch)

    def _null_value(self, _: Any) -> str:
        return "null"

    def _boolean_value(self, _: Any) -> str:
        return self._rng.choice(["true", "false"])

    def _int_value(self, schema: Any) -> str:
        rng = self._rng
        share = rng.random()
        if share < 0.02:
            return rng.choice(_ODD_NUMBERS)
        if share < 0.1:
            return str(rng.choice(_INTEGERS))
        lowest, highest = integer_range(schema)
        return str(rng.randint(lowest, highest) if share < 0.4 else rng.randint(-300, 5000))

    _long_value = _int_value

    def _double_value(self, schema: Any) -> str:
        share = self._rng.random()
        if share < 0.02:
            return self._rng.choice(_ODD_NUMBERS)
        return self._int_value(schema) if share < 0.2 else self.double()

    def _string_value(self, _: Any) -> str:
        rng = self._rng
        if rng.random() < 0.02:
            return rng.choice(_ODD_TEXTS)
        characters = rng.choice(["abcdefgh xyz", 'aé€😀\n"\\/\x7f\x01'])
        return json.dumps(
            "".join(rng.choice(characters) for _ in range(rng.choice([0, 1, 5, 70]))), ensure_ascii=rng.random() < 0.5
        )

    def _enum_value(self, schema: Any) -> str:
        rng = self._rng
        return (
            rng.choice(['"C"', '"\\u0041"', '""']) if rng.random() < 0.05 else json.dumps(rng.choice(schema["symbols"]))
        )

    def _array_value(self, schema: Any) -> str:
        return f"[{','.join(self._value(schema['items']) for _ in range(self._rng.choice([0, 1, 2, 5])))}]"

    def _map_value(self, schema: Any) -> str:
        rng = self._rng
        names = [rng.choice([*_NAMES, "k\n", "\x00"]) for _ in range(rng.choice([0, 1, 2, 3, 15]))]
        if rng.random() < 0.9:
            names = list(dict.fromkeys(names))
        return self._object([(name, self._value(schema["values"])) for name in names])

    def _record_value(self, schema: Any) -> str:
        rng = self._rng
        made: list[tuple[str, str]] = []
        for field in schema["fields"]:
            can_be_missing = "null" in branches_of(field["type"])
            if rng.random() < (0.3 if can_be_missing else 0.005):
                continue
            made.append((json_name(field), self._value(field["type"])))
            if rng.random() < 0.005:
                made.append((json_name(field), self._value(field["type"])))
        if rng.random() < 0.01:
            made.append(("unknown", "1"))
        if rng.random() < 0.3:
            rng.shuffle(made)
        return self._object(made)

    def _object(self, members: list[tuple[str, str]]) -> str:
        space = self._rng.choice(["", "", "", " ", "\n  "])
        return "{" + ",".join(f"{space}{self._name(name)}:{space}{value}" for name, value in members) + space + "}"

    def _name(self, name: str) -> str:
        if name and self._rng.random() < 0.005:
            return f'"\\u{ord(name[0]):04x}{json.dumps(name[1:], ensure_ascii=False)[1:]}'
        return json.dumps(name, ensure_ascii=self._rng.random() < 0.1)

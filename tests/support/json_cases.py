"""Steps and JSON values at random, valid or not, for a comparison of two implementations."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step, StepOperator
from app.core.transforms import field_path

SINK = "sink"
_NAMES = ["a", "b", "c", "d", "e", "f", "g", "h", "a.b", "é", "", "delay", "\x00x", 'a"q']
_USUAL_NUMBERS = ["0", "0", "1", "2", "3.5", "15", "15.0", "17"]
_ODD_NUMBERS = [
    *("-0", "0.0", "-0.0", "1.0", "1e5", "1E400", "0.0001", "0.00001", "1.50", "100.0", "01", "1.", "-", "0.00"),
    *("123456789012345.6", "999999999999999999", "1000000000000000000", "9007199254740993", "9007199254740992.0"),
    *("0.000123456789012345", "1e-400", "-15.5", "123456789012345"),
]
_ODD_TEXTS = ['"\\ud800"', '"\\ud83d\\ude00"', '"\\u0041"', '"\\/"', '"a\x01"', '"\\x"', '"AA"', '"late"']
_CHARACTERS = [9, 10, 34, 92, 47, 65, 0x7F, 0x20, 233, 0x20AC, 0x1F600, 1, 31]
_ORDERED = [15, 0, 1.5, "late", "abc", -3, 10**20, 1e300, 1e-7]
_DEEPEST = 4


class JsonCases:
    """The same cases for the same `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def value(self) -> bytes:
        """Return the value of a record: mostly an object, sometimes damaged or cut."""
        rng = self._rng
        made = (self._object(0) if rng.random() < 0.97 else self._json(0)).encode()
        if rng.random() < 0.05 and made:
            at = rng.randrange(len(made))
            made = made[:at] + bytes([rng.randrange(256)]) + made[at + 1 :]
        return made[: rng.randint(0, len(made))] if rng.random() < 0.01 else made

    def steps(self) -> list[Step]:
        return [self._step() for _ in range(self._rng.randint(1, 5))]

    def _step(self) -> Step:
        rng = self._rng
        match rng.choice(["filter", "filter", "filter", "route", "project", "rename", "set", "condition"]):
            case "filter":
                return Filter(field=self._path(), **self._comparison())
            case "route":
                return Route(field=self._path(), topic=rng.choice(["one", "two", SINK]), **self._comparison())
            case "project":
                return Project(fields=tuple(self._path() for _ in range(rng.randint(1, 4))))
            case "rename":
                return Rename(field=self._path(), to=self._path())
            case "set":
                return SetField(field=self._path(), value=self._constant())
            case _:
                return Condition(expression="has(record.a)")

    def _comparison(self) -> dict[str, Any]:
        rng = self._rng
        operator = rng.choice(list(StepOperator))
        match operator:
            case StepOperator.EXISTS | StepOperator.MISSING:
                return {"operator": operator}
            case StepOperator.IN:
                return {"operator": operator, "value": [self._constant() for _ in range(rng.randint(1, 3))]}
            case StepOperator.EQ | StepOperator.NE:
                return {"operator": operator, "value": self._constant()}
            case _:
                return {"operator": operator, "value": rng.choice(_ORDERED)}

    def _path(self) -> str:
        names = (self._rng.choice(_NAMES) or "a" for _ in range(self._rng.choice([1, 1, 1, 2, 2, 3])))
        return field_path.render(tuple(names))

    def _constant(self) -> Any:
        while True:
            try:
                return msgspec.json.decode(self._json(2).encode())
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue

    def _json(self, depth: int) -> str:
        rng = self._rng
        share = rng.random()
        if depth >= _DEEPEST or share < 0.3:
            return self._number()
        if share < 0.55:
            return self._text()
        if share < 0.65:
            return rng.choice(["null", "true", "false"]) if rng.random() < 0.95 else "nul"
        if share < 0.75:
            return "[" + self._space() + ",".join(self._json(depth + 1) for _ in range(rng.randint(0, 3))) + "]"
        return self._object(depth + 1)

    def _object(self, depth: int) -> str:
        rng = self._rng
        is_small = rng.random() < 0.95
        names = rng.sample(_NAMES, rng.randint(0, 5)) if is_small else [f"f{n}" for n in range(rng.randint(10, 60))]
        if rng.random() < 0.05:
            names += names[:1]
        fields = (
            json.dumps(name, ensure_ascii=rng.random() < 0.5) + self._space() + ":" + self._json(depth + 1)
            for name in names
        )
        return "{" + self._space() + ("," + self._space()).join(fields) + "}"

    def _number(self) -> str:
        rng = self._rng
        share = rng.random()
        if share < 0.3:
            return str(rng.randint(-30, 70))
        if share < 0.31:
            return str(rng.randint(-(10**20), 10**20))
        if share < 0.6:
            return f"{rng.uniform(-100, 100):.{rng.randint(1, 8)}f}"
        if share < 0.61:
            return repr(rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30))
        return rng.choice(_USUAL_NUMBERS if share < 0.97 else _ODD_NUMBERS)

    def _text(self) -> str:
        rng = self._rng
        share = rng.random()
        if share < 0.5:
            text = "".join(rng.choice("abc xyz") for _ in range(rng.randint(0, 6)))
        elif share < 0.98:
            text = "".join(chr(rng.choice(_CHARACTERS)) for _ in range(rng.randint(0, 5)))
        else:
            return rng.choice(_ODD_TEXTS)
        return json.dumps(text, ensure_ascii=rng.random() < 0.5)

    def _space(self) -> str:
        return self._rng.choice(["", "", "", " ", "\n\t "])

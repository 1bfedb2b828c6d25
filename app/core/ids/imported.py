"""Read the ids of an application that moves to Fenceline, from CSV or by a formula, and check them.

An import is atomic. It replaces no id, and takes none from another owner.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from app.core.clusters.partition import Partition
from app.core.ids.formulas import FORMULAS, IdFormula
from app.core.mappings.mapping import IdKind, TransactionalIdOwner
from app.kit.errors import InvalidError, Problem
from app.kit.storable import storable_text

COLUMNS = ("topic", "partition", "transactional_id")
MAX_LINES = 10_000
MAX_CSV_CHARACTERS = 1_000_000
LONGEST_ID_BYTES = 2_000
"""An id is a part of an index, whose entries Postgres bounds at 2,704 bytes."""


class ImportWish(msgspec.Struct, frozen=True, kw_only=True):
    """The requested import: `csv`, the ids of a formula, or a CSV whose missing ids the formula adds.

    csv: columns COLUMNS; a first line with their names may change their order. A line without topic and partition is an
    id alone.
    formula: the name of one of FORMULAS, with its `values`. count: the number of ids of a numbering formula.
    """

    csv: str = ""
    formula: str | None = None
    values: dict[str, str] = {}
    count: int = 0


class ImportLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. number: in the CSV, from 1; else in the formula's order.

    topic, partition: None for an id alone. is_known: imported before, and unchanged. problems: any of them refuses the
    whole import. warnings: to review.
    """

    number: int
    topic: str | None
    partition: int | None
    transactional_id: str
    is_known: bool = False
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[ImportLine, ...]
    warnings: tuple[str, ...] = ()

    @property
    def problems(self) -> list[Problem]:
        return [
            Problem(field=f"lines.{line.number}", message=problem) for line in self.lines for problem in line.problems
        ]


class ImportFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The data for the checks of the lines.

    partitions: of each source topic, by the brokers; None: no answer.
    assigned: the ids of partitions of the group. owners: of the ids, on this Kafka cluster.
    of_tasks: by id, the pipeline whose tasks would use it, started or not.
    in_use: ids with recent records in the journal, with a sentence about them.
    """

    pipeline: str
    group: str
    partitions: Mapping[str, int | None]
    assigned: Mapping[Partition, str]
    owners: Mapping[str, TransactionalIdOwner]
    of_tasks: Mapping[str, str]
    in_use: Mapping[str, str]


def formula_of(wish: ImportWish, *, group: str) -> tuple[IdFormula, dict[str, str]] | None:
    """Return the formula with its values; the group defaults to the pipeline's. Raises InvalidError."""
    if wish.formula is None:
        return None
    formula = FORMULAS.get(wish.formula)
    if formula is None:
        raise InvalidError(f"there is no formula {wish.formula}; there are: {', '.join(FORMULAS)}", field="formula")
    values = {name: value for name, value in wish.values.items() if value}
    if "group" in formula.meanings:
        values.setdefault("group", group)
    missing = [
        Problem(field=f"values.{name}", message=f"{formula.title} needs {name}: {meaning}")
        for name, meaning in formula.meanings.items()
        if name not in values
    ]
    unknown = [
        Problem(field=f"values.{name}", message=f"{formula.title} knows no {name}")
        for name in values
        if name not in formula.meanings
    ]
    if missing or unknown:
        raise InvalidError((missing + unknown)[0].message, problems=missing + unknown)
    if formula.counts and not 1 <= wish.count <= MAX_LINES:
        raise InvalidError(f"{formula.title} numbers its ids: enter how many, 1 to {MAX_LINES:,}", field="count")
    return formula, values


def lines_of(wish: ImportWish, *, group: str, partitions: Mapping[str, int | None]) -> list[ImportLine]:
    """Return the lines, checked for their form only. Raises InvalidError if there are none."""
    made = formula_of(wish, group=group)
    if not wish.csv.strip():
        if made is None:
            raise InvalidError("give a CSV, a formula, or both", field="csv")
        return _made_lines(*made, count=wish.count, partitions=partitions)
    if len(wish.csv) > MAX_CSV_CHARACTERS:
        raise InvalidError(f"a CSV may have {MAX_CSV_CHARACTERS:,} characters at most", field="csv")
    if made is not None and made[0].counts:
        raise InvalidError(
            f"{made[0].title} has no ids of partitions, so it cannot complete lines: omit the CSV", field="formula"
        )
    lines = list(_read_lines(wish.csv, made))
    if not lines:
        raise InvalidError("the CSV has no lines after its header", field="csv")
    if len(lines) > MAX_LINES:
        raise InvalidError(f"an import may have {MAX_LINES:,} lines at most, and this has {len(lines):,}", field="csv")
    return lines


def plan_of(lines: Sequence[ImportLine], facts: ImportFacts) -> ImportPlan:
    """Add problems and warnings to the lines."""
    by_place = Counter(place for line in lines if (place := _place(line)) is not None)
    by_id = Counter(line.transactional_id for line in lines)
    checked = [
        msgspec.structs.replace(
            line,
            is_known=_is_known(line, facts),
            problems=(*line.problems, *_problems(line, facts, by_place, by_id)),
            warnings=tuple(_warnings(line, facts)),
        )
        for line in lines
    ]
    shared = sorted({line.transactional_id for line in lines if line.topic and by_id[line.transactional_id] > 1})
    warnings: list[str] = []
    if shared:
        warnings.append(
            f"`{shared[0]}`{_and_more(shared)} is the id of several partitions. In exactly_once each partition has a "
            "producer of its own, and producers of one id fence each other: assign such partitions ids of their own "
            "before the pipeline runs with that guarantee"
        )
    if None in facts.partitions.values():
        warnings.append("The brokers did not report the numbers of partitions of the topics, so they were not checked")
    return ImportPlan(lines=tuple(checked), warnings=tuple(warnings))


def _made_lines(
    formula: IdFormula, values: Mapping[str, str], *, count: int, partitions: Mapping[str, int | None]
) -> list[ImportLine]:
    if formula.counts:
        ids = [formula.id_of(values, number=formula.first + index) for index in range(count)]
        return [
            ImportLine(number=number, topic=None, partition=None, transactional_id=name)
            for number, name in enumerate(ids, start=1)
        ]
    unknown = [topic for topic, known in partitions.items() if known is None]
    if unknown:
        raise InvalidError(
            f"the number of partitions of {unknown[0]} is not known now. Try again later, or give a CSV with a line "
            "for each partition",
            field="csv",
        )
    places = [(topic, partition) for topic, known in partitions.items() for partition in range(known or 0)]
    if len(places) > MAX_LINES:
        raise InvalidError(f"an import may have {MAX_LINES:,} lines at most: give a CSV with a part of them")
    return [
        ImportLine(
            number=number,
            topic=topic,
            partition=partition,
            transactional_id=formula.id_of(values, topic=topic, partition=partition),
        )
        for number, (topic, partition) in enumerate(places, start=1)
    ]


def _read_lines(text: str, made: tuple[IdFormula, Mapping[str, str]] | None) -> Iterator[ImportLine]:
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff")), strict=True)
    columns = COLUMNS
    try:
        for index, cells in enumerate(reader):
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if index == 0 and cells[0].lower() in COLUMNS and all(cell.lower() in COLUMNS for cell in cells):
                columns = tuple(cell.lower() for cell in cells)
                continue
            yield _read_line(reader.line_num, dict(zip(columns, cells, strict=False)), len(cells), len(columns), made)
    except csv.Error as error:
        raise InvalidError(f"line {reader.line_num} is not CSV: {error}", field="csv") from error


def _read_line(
    number: int,
    cells: Mapping[str, str],
    found: int,
    expected: int,
    made: tuple[IdFormula, Mapping[str, str]] | None,
) -> ImportLine:
    problems: list[str] = []
    if found > expected:
        problems.append(f"It has {found} columns, and there are {expected}: {', '.join(COLUMNS)}")
    topic, number_text = cells.get("topic") or None, cells.get("partition", "")
    partition: int | None = None
    if number_text.isascii() and number_text.isdecimal() and int(number_text[:12]) < 2**31:
        partition = int(number_text)
    elif number_text:
        problems.append(f"`{number_text}` is not a partition: expected a number from 0")
    if (topic is None) != (not number_text):
        problems.append("A partition has a topic and a number; an id alone has neither")
    name = cells.get("transactional_id", "")
    if not name and made is not None and topic is not None and partition is not None:
        formula, values = made
        name = formula.id_of(values, topic=topic, partition=partition)
    if not name:
        problems.append("It has no transactional id" + ("" if made else ", and there is no formula for it"))
    return ImportLine(number=number, topic=topic, partition=partition, transactional_id=name, problems=tuple(problems))


def _problems(
    line: ImportLine, facts: ImportFacts, by_place: Mapping[Partition, int], by_id: Mapping[str, int]
) -> Iterator[str]:
    place = _place(line)
    if place is not None:
        yield from _problems_of_place(line, place, facts, by_place)
    name = line.transactional_id
    if not name:
        return
    if storable_text(name) != name or len(name.encode()) > LONGEST_ID_BYTES:
        yield f"An id may have {LONGEST_ID_BYTES:,} bytes at most, and no character that cannot be stored"
    if line.topic is None and by_id[name] > 1:
        yield f"`{name}` occurs more than once"
    owner = facts.owners.get(name)
    if owner is not None and owner.pipeline != facts.pipeline:
        yield f"`{name}` belongs to the pipeline {owner.pipeline}: two producers with it would fence each other"
    elif owner is not None and owner.kind is not IdKind.IMPORTED:
        yield f"`{name}` is already the id of a {owner.kind} of this pipeline"
    elif (user := facts.of_tasks.get(name)) is not None:
        yield f"`{name}` would be used by a task of the pipeline {user}: the two would fence each other"


def _problems_of_place(
    line: ImportLine, place: Partition, facts: ImportFacts, by_place: Mapping[Partition, int]
) -> Iterator[str]:
    topic, partition = place
    if by_place[place] > 1:
        yield f"{topic}-{partition} occurs more than once"
    if topic not in facts.partitions:
        yield f"The pipeline {facts.pipeline} does not read {topic}; it reads {', '.join(facts.partitions)}"
        return
    known = facts.partitions[topic]
    if known is not None and partition >= known:
        yield f"{topic} has {known} partition{'' if known == 1 else 's'}, so {partition} does not exist"
    has = facts.assigned.get(place)
    if has is not None and has != line.transactional_id:
        yield f"{topic}-{partition} is assigned `{has}` already; an import replaces nothing"


def _warnings(line: ImportLine, facts: ImportFacts) -> Iterator[str]:
    if (sentence := facts.in_use.get(line.transactional_id)) is not None:
        yield sentence


def _is_known(line: ImportLine, facts: ImportFacts) -> bool:
    owner = facts.owners.get(line.transactional_id)
    if owner is None or owner.pipeline != facts.pipeline or owner.kind is not IdKind.IMPORTED:
        return False
    place = _place(line)
    return place is None or facts.assigned.get(place) == line.transactional_id


def _place(line: ImportLine) -> Partition | None:
    return None if line.topic is None or line.partition is None else Partition(line.topic, line.partition)


def _and_more(items: Sequence[str]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""

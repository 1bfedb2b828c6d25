"""The judge of a run: records lost, duplicated, torn or reordered, from source, sink and the group's journal.

Pure: `reading` brings the facts. It shares no code with the loop. For pipelines that write each input once (identity).

The logs already have all that makes a transaction visible from outside. An output carries the id of its input, nothing
else. Its batch carries producer id and epoch, and the next marker of that producer has the end of the transaction. The
same producer sends the input offsets, in the same transaction, to the group's one partition of `__consumer_offsets`.
There the transaction has its consumed inputs. So for every committed transaction of the group it must be true
that each input between the offset before and the one that it commits is
  in the sink under read_committed         else the offsets came without an output
  written by that producer and epoch       else the output came with another transaction
  in one transaction of a sink partition   else a marker separates outputs of one transaction
and that no transaction of the sink has outputs of two commits, or of none. A transaction that breaks it is *torn*.

The logs of two partitions do not relate a producer's transactions in the one to those in the other. The coordinators'
journal does: it names the partitions of each. The n-th commit of offsets of a producer is the n-th of its transactions,
under one epoch, in which the group's journal is named. Outputs in a partition that it does not name are another's.

About 13 bytes an id: 10 million take 130 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from tests.fault_suite.coordinated import Coordinated
from tests.fault_suite.decided import DecidedLog, Writer

_EXAMPLES = 20
_NONE = -1


class Input(NamedTuple):
    """A record of the source by its id: the `sequence`-th of its partition."""

    partition: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.sequence:08d}"


def identity_of(value: bytes | None) -> Input | None:
    """The id that a value begins with, up to the first space; None if it has none."""
    partition, _, sequence = (value or b"").partition(b" ")[0].partition(b":")
    return Input(int(partition), int(sequence)) if partition.isdigit() and sequence.isdigit() else None


class Segment(NamedTuple):
    """The outputs of one committed transaction in one partition of the sink."""

    partition: int
    number: int
    writer: Writer


class Consumed(NamedTuple):
    """A committed transaction as the group's journal has it: by source partition, the next offset to read."""

    writer: Writer
    next_offsets: Mapping[int, int]


class Where(NamedTuple):
    """In the logs: a partition and an offset each of source and sink, and who wrote; None for what is not known."""

    source: tuple[int, int] | None = None
    sink: tuple[int, int] | None = None
    writer: Writer | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """One kind of finding: how many there are, and the first of them. first: where the first example lies, if any."""

    count: int = 0
    examples: tuple[str, ...] = ()
    first: Where | None = None

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        return f"{self.count}" + (f" (such as {'; '.join(self.examples[:3])})" if self.examples else "")


@dataclass(slots=True)
class _Counted:
    count: int = 0
    examples: list[str] = field(default_factory=list[str])
    first: Where | None = None

    def add(self, example: object, where: Where, *, explains_others: bool = False) -> None:
        self.first = self.first or where
        self.count += 1
        if explains_others:
            self.examples.insert(0, str(example))
        elif len(self.examples) < _EXAMPLES:
            self.examples.append(str(example))

    def told(self) -> Wrong:
        return Wrong(self.count, tuple(self.examples), self.first)


@dataclass(frozen=True, slots=True)
class Verdict:
    """lost, duplicated, torn, out_of_order: as README and the ledger have it.

    expected, found: ids in the source, records in the sink. transactions: committed ones of the group. aborted: those
    that had sent its offsets already.
    unexpected: outputs that are no id of the source. altered: outputs whose bytes are not those of their input.
    uncommitted: returned under read_committed from transactions that were not committed. went_back: commits of an
    offset before one that was committed already.
    shown_aborted: returned under read_committed by a broker whose own index proves that it cannot distinguish them from
    committed ones (docs/client-facts.md). No client can prevent it, and it is no failure. They count as nothing else,
    and a record that came only so is lost.
    """

    expected: int
    found: int
    transactions: int
    aborted: int
    lost: Wrong | None
    duplicated: Wrong
    torn: Wrong
    out_of_order: Wrong
    unexpected: Wrong
    altered: Wrong
    uncommitted: Wrong
    went_back: Wrong
    shown_aborted: Wrong = Wrong()

    @property
    def is_exact(self) -> bool:
        return self.lost is not None and not any(self.wrong().values())

    def wrong(self) -> dict[str, Wrong]:
        """The judged object, by its name."""
        names = ("lost", "duplicated", "torn", "out_of_order", "unexpected", "altered", "uncommitted", "went_back")
        found: dict[str, Wrong | None] = {name: getattr(self, name) for name in names}
        return {name: what for name, what in found.items() if what is not None}

    def __str__(self) -> str:
        found = f"expected {self.expected}, found {self.found} in {self.transactions} transactions"
        told = {**self.wrong(), "shown though aborted, by brokers,": self.shown_aborted}
        return "; ".join([found, *(f"{name} {what}" for name, what in told.items() if what)])


class _Partition:
    """The known facts about each id of one partition of the source, by sequence."""

    def __init__(self) -> None:
        self.offsets = array("I")
        self.checksums = array("I")
        self.times = bytearray()
        self.segments = array("i")

    def sequences(self, begin: int, end: int) -> slice:
        """The facts about ids whose offsets lie in [begin, end)."""
        return slice(bisect_left(self.offsets, begin), bisect_left(self.offsets, end))


class Judge:
    """Gets every input in order, then every output of each sink partition in order, then gives the verdict."""

    def __init__(self) -> None:
        self._partitions: defaultdict[int, _Partition] = defaultdict(_Partition)
        self._segments: list[Segment] = []
        self._segment_numbers: dict[tuple[int, int], int] = {}
        self._highest: dict[tuple[int, int], int] = {}
        self._found = 0
        self._duplicated = _Counted()
        self._out_of_order = _Counted()
        self._unexpected = _Counted()
        self._altered = _Counted()
        self._uncommitted = _Counted()
        self._shown_aborted = _Counted()

    def input(self, identity: Input, offset: int, value: bytes) -> None:
        """The next record of a source partition. Ids must count from 0: else the source itself is wrong."""
        known = self._partitions[identity.partition]
        if identity.sequence != len(known.offsets):
            raise ValueError(f"the source has {identity} at offset {offset}, where {len(known.offsets)} should follow")
        known.offsets.append(offset)
        known.checksums.append(crc32(value))
        known.times.append(0)
        known.segments.append(_NONE)

    def output(self, partition: int, offset: int, value: bytes | None, log: DecidedLog) -> None:
        """The next record that a sink partition shows under read_committed, and that partition's whole log."""
        self._found += 1
        identity, committed = identity_of(value), log.committed_at(offset)
        segment = Segment(partition, *committed) if committed is not None else None
        place = f"offset {offset} of partition {partition}"
        known = self._partitions.get(identity.partition) if identity is not None else None
        if identity is None or known is None or not 0 <= identity.sequence < len(known.times):
            self._unexpected.add(f"{(value or b'')[:40]!r} at {place}", Where(sink=(partition, offset)))
            return
        where = Where(
            source=(identity.partition, known.offsets[identity.sequence]),
            sink=(partition, offset),
            writer=None if segment is None else segment.writer,
        )
        if crc32(value or b"") != known.checksums[identity.sequence]:
            self._altered.add(f"{identity} at {place}", where)
        if segment is None and log.is_aborted_and_hidden(offset):
            self._shown_aborted.add(f"{identity} at {place}", where)
            return
        if segment is None:
            self._uncommitted.add(f"{identity} at {place}", where)
        times = known.times[identity.sequence]
        # 255 stands for any larger number.
        known.times[identity.sequence] = min(255, times + 1)
        if times:
            if times == 1:
                self._duplicated.add(f"{identity} again at {place}", where)
            return
        stream = partition, identity.partition
        highest = self._highest.get(stream, -1)
        if identity.sequence < highest:
            self._out_of_order.add(f"{identity} after {Input(identity.partition, highest)} at {place}", where)
        else:
            self._highest[stream] = identity.sequence
        if segment is not None:
            known.segments[identity.sequence] = self._number(segment)

    def shown_to_another(self, partition: int, offset: int) -> None:
        """A record that is aborted and hidden, and was returned to another consumer than the judged one."""
        self._shown_aborted.add(
            f"offset {offset} of partition {partition}, to another reader", Where(sink=(partition, offset))
        )

    def verdict(
        self,
        consumed: Sequence[Consumed],
        coordinated: Mapping[int, Sequence[Coordinated]],
        *,
        aborted: int = 0,
        is_through: bool = True,
        is_decided: bool = True,
    ) -> Verdict:
        """consumed: the group's committed transactions, in the order of their markers. coordinated: those that any
        coordinator has committed, by producer id in their order. aborted: the number of others that the group has.
        is_through: whether all should have come out. is_decided: whether all records are visible; an open transaction
        hides later committed records.
        """
        torn, went_back = self._torn(consumed, coordinated, is_decided=is_decided)
        return Verdict(
            expected=sum(len(known.times) for known in self._partitions.values()),
            found=self._found,
            transactions=len(consumed),
            aborted=aborted,
            lost=self._never_seen() if is_through and is_decided else None,
            duplicated=self._duplicated.told(),
            torn=torn,
            out_of_order=self._out_of_order.told(),
            unexpected=self._unexpected.told(),
            altered=self._altered.told(),
            uncommitted=self._uncommitted.told(),
            went_back=went_back,
            shown_aborted=self._shown_aborted.told(),
        )

    def _number(self, segment: Segment) -> int:
        at = segment.partition, segment.number
        number = self._segment_numbers.get(at)
        if number is None:
            number = self._segment_numbers[at] = len(self._segments)
            self._segments.append(segment)
        return number

    def _never_seen(self) -> Wrong:
        found = _Counted()
        for partition, known in sorted(self._partitions.items()):
            if 0 not in known.times:
                continue
            for sequence, times in enumerate(known.times):
                if times == 0:
                    offset = known.offsets[sequence]
                    found.add(
                        f"{Input(partition, sequence)}, offset {offset} of the source",
                        Where(source=(partition, offset)),
                    )
        return found.told()

    def _torn(
        self, consumed: Sequence[Consumed], coordinated: Mapping[int, Sequence[Coordinated]], *, is_decided: bool
    ) -> tuple[Wrong, Wrong]:
        torn, went_back = _Counted(), _Counted()
        reached: defaultdict[int, int] = defaultdict(int)
        owners: dict[int, int] = {}
        known_by = _Coordination(consumed, coordinated)
        for number, transaction in enumerate(consumed):
            numbers: set[int] = set()
            where = Where(writer=transaction.writer)
            for partition, next_offset in sorted(transaction.next_offsets.items()):
                if where.source is None or next_offset > reached[partition]:
                    where = where._replace(source=(partition, min(next_offset, reached[partition])))
                if next_offset < reached[partition]:
                    went_back.add(
                        f"partition {partition} from {reached[partition]} to {next_offset}: {transaction}", where
                    )
                if partition in self._partitions:
                    known = self._partitions[partition]
                    numbers.update(known.segments[known.sequences(reached[partition], next_offset)])
                reached[partition] = max(reached[partition], next_offset)
            if not is_decided:
                numbers.discard(_NONE)
            allowed = known_by.sink_of_next(transaction.writer)
            reason = self._why_torn(transaction, numbers, owners, allowed)
            owners.update(dict.fromkeys(numbers, number))
            if reason:
                torn.add(f"{reason}: {transaction}", where)
        for number, segment in enumerate(self._segments):
            if number not in owners:
                torn.add(f"outputs without their offsets: {segment}", Where(writer=segment.writer))
        for writer, found in known_by.contradictions():
            # The order that distinguishes this writer's transactions may be shifted from there on.
            torn.add(found, Where(writer=writer), explains_others=True)
        return torn.told(), went_back.told()

    def _why_torn(
        self, transaction: Consumed, numbers: set[int], owners: Mapping[int, int], allowed: frozenset[int]
    ) -> str | None:
        written = [self._segments[number] for number in numbers if number != _NONE]
        if _NONE in numbers:
            return "offsets without all of their outputs"
        if any(segment.writer != transaction.writer for segment in written):
            return "outputs of another producer than the offsets"
        if len({segment.partition for segment in written}) < len(written):
            return "outputs in two transactions of one partition"
        if not owners.keys().isdisjoint(numbers):
            return "outputs in one transaction with those of another commit"
        if not allowed.issuperset(segment.partition for segment in written):
            return f"outputs in partitions that are not those of its transaction, which are {sorted(allowed)}"
        return None


class _Coordination:
    """The transactions of the group's producers as their coordinators have them, beside the group's commits."""

    def __init__(self, consumed: Sequence[Consumed], coordinated: Mapping[int, Sequence[Coordinated]]) -> None:
        self._consumed = Counter(transaction.writer for transaction in consumed)
        self._coordinated = {writer.producer_id: coordinated.get(writer.producer_id, ()) for writer in self._consumed}
        self._with_offsets: defaultdict[Writer, list[Coordinated]] = defaultdict(list)
        for producer_id, transactions in self._coordinated.items():
            for one in transactions:
                if one.has_offsets:
                    self._with_offsets[Writer(producer_id, one.producer_epoch)].append(one)
        self._next = {writer: iter(transactions) for writer, transactions in self._with_offsets.items()}

    def sink_of_next(self, writer: Writer) -> frozenset[int]:
        """The sink's partitions of the transaction of this writer's next commit."""
        found = next(self._next.get(writer, iter(())), None)
        return frozenset() if found is None else found.sink

    def contradictions(self) -> Iterator[tuple[Writer, str]]:
        """The writer and a sentence for each committed transaction that has only one of outputs and offsets. Also for
        more or fewer commits of offsets than transactions that have them."""
        for producer_id, transactions in self._coordinated.items():
            for number, one in enumerate(transactions):
                if one.sink and not one.has_offsets:
                    yield (
                        Writer(producer_id, one.producer_epoch),
                        f"committed without offsets: transaction {number} of producer {producer_id}, {one}",
                    )
        for writer in sorted(self._consumed.keys() | self._with_offsets.keys()):
            found, had = self._consumed[writer], self._with_offsets.get(writer, [])
            if not sum(one.is_complete for one in had) <= found <= len(had):
                told = f"{found} commits of offsets in {len(had)} transactions of {writer} that have them"
                yield writer, told

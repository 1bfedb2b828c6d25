"""The states of a lane and their transitions. Pure: `settling.py` does the work of each state."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

import msgspec


class LaneStep(StrEnum):
    """The current work of a lane. Its records are read and processed in READING only.

                    producer lost, fenced                                  initialised
         READING ──────────────────────────▶ ASKING ──────▶ INITIALISING ──────────────▶ READING
            │  ▲                              ▲  ▲  allowed    │      │
            │  │                              │  └── fenced ───┘      │ initialised, and a rewind is due
     rewind │  │ rewound                      │                       ▼
            │  └─────────────────────────  REWINDING ◀────────────────┤
            └─────────────────────────────▶   │  ▲                    │
                                  uncommitted │  │                    │ initialised, and a restart is due
                                              ▼                       ▼
                              READING ◀──  RESTARTING ◀───────────────┘
                                restarted

    ASKING        May this attempt initialise its id? A superseded attempt would fence its successor (rule 5). The first
                  init of an attempt needs no answer, unless the attempt was away for a session.
    INITIALISING  A new producer asks its coordinator for its epoch. Its init decides what the old one left open.
    REWINDING     The consumer seeks the committed offsets (rule 3). They are asked for after the init only: before it,
                  the answer could be that of an open transaction.
    RESTARTING    The partition is assigned again, since its committed offset was looked up before the init.

    A producer that is lost in REWINDING or RESTARTING leads to ASKING, and the rewind or the restart stays due.
    """

    READING = "reading"
    ASKING = "asking"
    INITIALISING = "initialising"
    REWINDING = "rewinding"
    RESTARTING = "restarting"


class LaneEvent(StrEnum):
    """
    PRODUCER_LOST  the producer is discarded: its state, or the outcome of its transaction, is not known
    FENCED         the same, and the coordinator reported that a newer producer has the id, or ended the transaction
    REWIND         a checkpoint was not committed, or records were dropped: they must be read again
    RESTART        the committed offset was looked up too early: the partition must be assigned again
    ALLOWED        the attempt may initialise its id
    INITIALISED    the init was answered
    REWOUND        the consumer is at the committed offsets
    UNCOMMITTED    there is no committed offset to seek to, or the consumer does not seek yet
    RESTARTED      the partition was assigned again
    """

    PRODUCER_LOST = "producer_lost"
    FENCED = "fenced"
    REWIND = "rewind"
    RESTART = "restart"
    ALLOWED = "allowed"
    INITIALISED = "initialised"
    REWOUND = "rewound"
    UNCOMMITTED = "uncommitted"
    RESTARTED = "restarted"


_WITHOUT_PRODUCER = frozenset({LaneStep.ASKING, LaneStep.INITIALISING})
_TO_ASKING = {LaneEvent.PRODUCER_LOST: LaneStep.ASKING, LaneEvent.FENCED: LaneStep.ASKING}

TRANSITIONS = MappingProxyType(
    {
        LaneStep.READING: _TO_ASKING | {LaneEvent.REWIND: LaneStep.REWINDING, LaneEvent.RESTART: LaneStep.RESTARTING},
        LaneStep.ASKING: _TO_ASKING
        | {
            LaneEvent.REWIND: LaneStep.ASKING,
            LaneEvent.RESTART: LaneStep.ASKING,
            LaneEvent.ALLOWED: LaneStep.INITIALISING,
        },
        # INITIALISED leads to the step that is due then: `LaneState.due`.
        LaneStep.INITIALISING: {
            LaneEvent.PRODUCER_LOST: LaneStep.INITIALISING,
            LaneEvent.FENCED: LaneStep.ASKING,
            LaneEvent.REWIND: LaneStep.INITIALISING,
            LaneEvent.RESTART: LaneStep.INITIALISING,
            LaneEvent.INITIALISED: LaneStep.READING,
        },
        LaneStep.REWINDING: _TO_ASKING
        | {
            LaneEvent.REWIND: LaneStep.REWINDING,
            LaneEvent.RESTART: LaneStep.RESTARTING,
            LaneEvent.REWOUND: LaneStep.READING,
            LaneEvent.UNCOMMITTED: LaneStep.RESTARTING,
        },
        LaneStep.RESTARTING: _TO_ASKING
        | {
            LaneEvent.REWIND: LaneStep.RESTARTING,
            LaneEvent.RESTART: LaneStep.RESTARTING,
            LaneEvent.RESTARTED: LaneStep.READING,
        },
    }
)


class IllegalLaneTransitionError(Exception):
    """An event has no transition in the current step: a bug, never ignored."""


class LaneState(msgspec.Struct, frozen=True, kw_only=True):
    """
    due: the step after the init: READING, REWINDING or RESTARTING.
    has_held_id: a producer of this attempt was initialised under the id.
    is_fenced: the last producer was fenced, and no other was initialised since.
    was_away: the attempt may have been replaced while it did not poll, and no producer was initialised since.
    """

    step: LaneStep = LaneStep.READING
    due: LaneStep = LaneStep.READING
    has_held_id: bool = False
    is_fenced: bool = False
    was_away: bool = False

    @property
    def needs_producer(self) -> bool:
        return self.step in _WITHOUT_PRODUCER

    @property
    def must_ask(self) -> bool:
        """True if the next init needs an answer to the question of ASKING."""
        return self.has_held_id or self.is_fenced or self.was_away

    def after(self, event: LaneEvent) -> LaneState:
        """The state after the event. Raises IllegalLaneTransitionError."""
        step = TRANSITIONS[self.step].get(event)
        if step is None:
            raise IllegalLaneTransitionError(f"a lane that is {self.step} has no transition for the event {event}")
        if event is LaneEvent.INITIALISED:
            return LaneState(step=self.due, has_held_id=True)
        return msgspec.structs.replace(
            self, step=step, due=self._due_after(step, event), is_fenced=self.is_fenced or event is LaneEvent.FENCED
        )

    def _due_after(self, step: LaneStep, event: LaneEvent) -> LaneStep:
        """Keep a rewind or a restart that is due until it is done. A restart does all that a rewind does."""
        if step not in _WITHOUT_PRODUCER:
            return LaneStep.READING
        due = self.due if self.needs_producer else self.step
        if event is LaneEvent.RESTART:
            return LaneStep.RESTARTING
        if event is LaneEvent.REWIND and due is LaneStep.READING:
            return LaneStep.REWINDING
        return due

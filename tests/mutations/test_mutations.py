"""Each protection of the loop is missed when it is gone, and the suite says so."""

from __future__ import annotations

import inspect
from pathlib import Path

import msgspec
import pytest

from app.core.pipelines.pipeline import GroupProtocol
from app.edges.embedded.kafka import KafkaCluster
from tests.mutations import results
from tests.mutations.mutations import MUTATIONS, Mutation
from tests.mutations.playing import Found, Played, contradiction, play
from tests.mutations.seams import seam_of, switched_off
from tests.mutations.switches import VARIABLE, Switch, environment_of, makers


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.protection for mutation in MUTATIONS])
def test_without_a_protection_records_are_lost_or_duplicated(
    kafka: KafkaCluster, tmp_path: Path, mutation: Mutation, protocol: GroupProtocol
) -> None:
    played = play(mutation, bootstrap_servers=kafka.bootstrap_servers, folder=tmp_path, protocol=protocol, say=print)
    assert contradiction(mutation, played) is None


@pytest.mark.parametrize("switch", Switch)
def test_every_switched_off_method_exists_with_the_same_arguments(switch: Switch) -> None:
    seam = seam_of(switch)
    original = inspect.signature(getattr(seam.owner, seam.name)).parameters.values()
    instead = inspect.signature(seam.value).parameters.values()
    assert [(it.name.lstrip("_"), it.kind) for it in instead] == [(it.name.lstrip("_"), it.kind) for it in original]


@pytest.mark.parametrize("switch", Switch)
def test_every_protection_is_on_again_afterwards(switch: Switch) -> None:
    seam = seam_of(switch)
    before = getattr(seam.owner, seam.name)
    with switched_off([switch]):
        assert getattr(seam.owner, seam.name) is not before
    assert getattr(seam.owner, seam.name) is before


def test_a_missing_seam_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    seam = seam_of(Switch.REWIND)
    monkeypatch.delattr(seam.owner, seam.name)
    with pytest.raises(AttributeError, match=seam.name):
        seam_of(Switch.REWIND)


def test_a_worker_gets_its_switches_from_its_environment() -> None:
    (make,) = makers(environment_of([Switch.REWIND, Switch.CONFIRMED]))
    wanted = [seam_of(Switch.REWIND), seam_of(Switch.CONFIRMED)]
    assert [(seam.owner, seam.name) for seam in make()] == [(seam.owner, seam.name) for seam in wanted]
    assert makers({}) == makers(environment_of([])) == []
    with pytest.raises(ValueError, match="no switch"):
        makers({VARIABLE: "no switch"})


def test_every_switch_is_a_protection_or_a_guard() -> None:
    protections = [mutation.protection for mutation in MUTATIONS]
    guards = {guard.switch for mutation in MUTATIONS for guard in mutation.guards}
    assert len(set(protections)) == len(protections)
    assert {*protections, *guards} == set(Switch)


def test_the_page_has_the_results_of_every_mutation() -> None:
    found = results.read()
    assert results.missing_scenes(found) == []
    assert results.PAGE.read_text("utf-8") == results.page(found), "make it again: make mutations"
    for mutation in MUTATIONS:
        for protocol, result in found.scenes[mutation.protection].items():
            assert contradiction(mutation, result.played) is None, f"{mutation.protection}, {protocol}"
        if mutation.protection in found.runs:
            run = found.runs[mutation.protection]
            assert run.as_it_is.is_exact, mutation.protection
            assert getattr(run.neither, mutation.sees), mutation.protection


def test_an_unnoticed_mutation_is_a_contradiction() -> None:
    mutation = MUTATIONS[0]
    exact, doubled = Found(expected=9, lost=0, duplicated=0), Found(expected=9, lost=0, duplicated=3)
    seen = Played(as_it_is=exact, guards_alone=exact, protection_alone=exact, neither=doubled)
    assert contradiction(mutation, seen) is None
    for name in ("as_it_is", "guards_alone", "protection_alone"):
        assert contradiction(mutation, msgspec.structs.replace(seen, **{name: doubled})) is not None
    assert "nothing was duplicated" in (contradiction(mutation, msgspec.structs.replace(seen, neither=exact)) or "")

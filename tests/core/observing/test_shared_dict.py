"""Views of a shared dict never change, and hold what the dict held."""

from collections.abc import Mapping
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from app.core.observing.shared_dict import SharedDict

NAMES = st.sampled_from([f"id-{number}" for number in range(40)])
STEPS = st.lists(st.one_of(st.tuples(NAMES, st.integers()), st.tuples(NAMES, st.none()), st.just("view")), max_size=80)


def shared_parts(view: Mapping[str, int]) -> tuple[dict[str, int], ...]:
    return cast(Any, view).parts


@given(STEPS)
def test_every_view_holds_what_the_dict_held_when_it_was_taken(steps: list[tuple[str, int | None] | str]) -> None:
    shared, plain = SharedDict[int](), dict[str, int]()
    views: list[tuple[Mapping[str, int], dict[str, int]]] = []
    for step in [*steps, "view"]:
        if isinstance(step, str):
            views.append((shared.view(), plain.copy()))
            continue
        name, value = step
        if value is None:
            assert shared.discard(name) == (plain.pop(name, None) is not None)
        else:
            shared[name] = plain[name] = value
        assert len(shared) == len(plain)
        assert (name in shared) == (name in plain)
    assert sorted(shared) == sorted(plain)
    for view, held in views:
        assert view == held
        assert len(view) == len(held)
        assert sorted(view) == sorted(held)
        assert sorted(view.values()) == sorted(held.values())
        assert sorted(view.items()) == sorted(held.items())
        assert len(view.values()) == len(view.items()) == len(held)
        assert [view.get(name) for name in held] == [held[name] for name in held]
        assert view.get("id-absent") is None


def test_views_share_what_has_not_changed() -> None:
    """Else each of twenty views a second would copy 50,000 values."""
    shared = SharedDict[int]()
    for number in range(10_000):
        shared[f"id-{number}"] = number
    first = shared.view()
    shared["id-7"] = -7
    shared.discard("id-8")
    second = shared.view()
    assert (first["id-7"], first["id-8"], second["id-7"]) == (7, 8, -7)
    parts = set(map(id, shared_parts(first)))
    assert 254 <= len(parts & set(map(id, shared_parts(second)))) < len(parts)

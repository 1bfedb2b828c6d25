"""Roles include those below them, and every verb has its role."""

from __future__ import annotations

import pytest

from app.kit.access import NEEDED_ROLE, Principal, Role, Verb, allows, require
from app.kit.errors import ForbiddenError


def test_every_verb_has_a_role() -> None:
    assert NEEDED_ROLE.keys() == set(Verb)


@pytest.mark.parametrize("role", Role)
def test_a_role_may_what_those_below_it_may(role: Role) -> None:
    allowed = {verb for verb in Verb if allows(role, verb)}
    for lower in Role:
        if lower.rank < role.rank:
            assert {verb for verb in Verb if allows(lower, verb)} < allowed


@pytest.mark.parametrize(
    ("role", "verb"),
    [
        (Role.VIEWER, Verb.READ_LOG),
        (Role.VIEWER, Verb.START_RUN),
        (Role.OPERATOR, Verb.CHANGE_PIPELINE),
        (Role.OPERATOR, Verb.STORE_TRANSFORM_SOURCE),
        (Role.AUTHOR, Verb.REGISTER_CLUSTER),
        (Role.AUTHOR, Verb.CREATE_TOKEN),
    ],
)
def test_an_action_without_permission_is_refused_with_the_next_step(role: Role, verb: Verb) -> None:
    with pytest.raises(ForbiddenError) as refused:
        require(Principal(name="eve", role=role), verb)
    assert f"eve is {role}" in refused.value.message
    assert f"--role {NEEDED_ROLE[verb]}" in refused.value.message

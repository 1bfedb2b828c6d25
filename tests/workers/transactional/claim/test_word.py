"""What the server says of an attempt is asked for once for all its partitions."""

from __future__ import annotations

import pytest

from workers.transactional.claim.word import SharedWord


@pytest.mark.parametrize(("word", "holds_s"), [(True, 1.0), (False, 1.0), (None, 5.0)])
def test_word_is_asked_for_once_by_all_who_want_it_and_again_after_a_while(word: bool | None, holds_s: float) -> None:
    clock = [0.0]
    asked: list[float] = []

    def ask(timeout_s: float) -> bool | None:
        asked.append(timeout_s)
        clock[0] += timeout_s
        return word

    shared = SharedWord(ask, clock=lambda: clock[0])
    assert [shared(3.0) for _ in range(30)] == [word] * 30
    clock[0] += holds_s - 0.01
    assert shared(3.0) is word
    assert (asked, clock[0]) == ([3.0], 3.0 + holds_s - 0.01)
    clock[0] += 0.02
    assert shared(3.0) is word
    assert asked == [3.0, 3.0]

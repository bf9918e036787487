"""Turns: what one user asks for takes nobody else's."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from xscl.service.accounts import Account
from xscl.service.turns import TooMany, Turns

ALICE, BOB, CAROL = (Account(number, name) for number, name in enumerate(("a", "b", "c"), 1))


def test_one_user_does_not_take_all_places() -> None:
    turns = Turns(2, patience=0.01)
    with turns.turn(BOB):
        with pytest.raises(TooMany), turns.turn(BOB):
            pass
        with turns.turn(ALICE), pytest.raises(TooMany), turns.turn(CAROL):
            pass
        with turns.turn(CAROL):
            pass
    with turns.turn(BOB):
        pass


def test_who_may_not_wait_is_refused_at_once() -> None:
    turns = Turns(4, waiting=0, patience=1e9)
    with turns.turn(BOB), pytest.raises(TooMany, match="asked before"), turns.turn(BOB):
        pass
    with ExitStack() as taken:
        for number in range(4):
            taken.enter_context(turns.turn(Account(number, "")))
        with pytest.raises(TooMany, match="others"), turns.turn(Account(9, "")):
            pass

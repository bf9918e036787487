"""A failed change leaves the old state to the garbage collector."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

import pytest

import xscl


def test_the_state_before_a_failed_change_is_not_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.engine.transactions.FROZEN_AFTER", 1)
    with xscl.Engine(owns_process=True) as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y")
        assert gc.get_freeze_count()
        old = weakref.ref(engine.state.dataflow)
        with suppress(ZeroDivisionError), engine.transactions.change():
            raise ZeroDivisionError
        assert not gc.get_freeze_count()
        found = engine.push([xscl.Document("S", f"d{n}", n, b"<a>k</a>") for n in (1, 2)])
        assert len(found) == 1
        assert gc.get_freeze_count()
        assert old() is None

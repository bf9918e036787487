"""The garbage collector rests during a push, and is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

import xscl
from xscl.errors import XsclError
from xscl.gc_control import paused


def test_it_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with paused():
        assert not gc.isenabled()
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_runs_again_after_a_push_that_failed() -> None:
    engine = xscl.Engine(owns_process=True)
    engine.close()
    with pytest.raises(XsclError, match="closed"):
        engine.push(xscl.Document("S", "d", 1, b"<a/>"))
    assert gc.isenabled()

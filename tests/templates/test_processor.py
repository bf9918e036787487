"""The state of a processor beside another thread."""

from __future__ import annotations

from unittest.mock import Mock, PropertyMock, patch

from templates.state.stored_state import StoredState


def test_bytes_are_counted_while_the_state_is_dropped() -> None:
    reads = PropertyMock(side_effect=[Mock(nbytes=7), None])
    with patch.object(StoredState, "_memory", reads, create=True):
        state = object.__new__(StoredState)
        state._texts = None
        assert state.nbytes == 7
        assert state.nbytes == 0

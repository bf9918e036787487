"""The AN-index: which states that have instances may be concerned by a right row.

One for each right stream and lane.  It is a predicate index of what the states' filter predicates
ask of the right row alone, and lists active states only (Hong 2009, section 4.5.3).  States of any
depth may share it: a row that is made in an epoch never meets a right row of that epoch.
"""

from __future__ import annotations

from typing import Any

from cep_core.algebra.expressions import TRUE
from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.clock import Lane
from cep_core.dataflow.mop import Operator, Wire
from cep_core.dataflow.predicate_index import IndexPlace, PredicateIndex, places_of
from cep_core.dataflow.predicates import BoundPredicate, BoundShape, PredicateShape
from cep_core.events import Row

_EACH_ROW = BoundShape(PredicateShape(TRUE, False, {}), ())


class ActiveIndex:
    """The active states on a right stream.

    ``indexed`` and ``instance_index`` switch the AN-index and, for its states, the AI-index.
    """

    def __init__(self, lane: Lane, indexed: bool, instance_index: bool) -> None:
        self.indexed = indexed
        self.instance_index = instance_index
        self.wire = Wire(Port(self, self.receive), lane)
        self.states: dict[Any, None] = {}
        self._right: Operator | None = None
        self._active: dict[Any, None] = {}
        self._index: PredicateIndex[Any] = PredicateIndex()

    @property
    def right(self) -> Operator:
        """The right stream."""
        assert self._right is not None
        return self._right

    @property
    def label(self) -> str:
        """The name for messages: that of the states."""
        return ", ".join(state.label for state in list(self.states)[:3])

    def places(self, state: Any, filter: BoundPredicate | None) -> list[IndexPlace]:
        """Return where a state with a filter predicate lies; None: each row concerns it."""
        if filter is None or not self.indexed:
            return places_of(_EACH_ROW, state)
        return places_of(BoundShape(filter.shape.static, filter.constants), state)

    def attend(self, state: Any, right: Operator) -> None:
        """Attach a state to the right stream."""
        if self._right is None:
            self._right = right
            self.wire.connect(right)
        self.states[state] = None

    def leave(self, state: Any) -> None:
        """Detach a state; without states the index stops listening."""
        self.deactivate(state)
        del self.states[state]
        if not self.states and self._right is not None:
            self.wire.disconnect(self._right)
            self._right = None

    def activate(self, state: Any) -> None:
        """Enter a state that has got instances."""
        if state not in self._active:
            self._active[state] = None
            self._index.enter(state.places)

    def deactivate(self, state: Any) -> None:
        """Remove a state without instances."""
        if state in self._active:
            del self._active[state]
            self._index.drop(state.places)

    def receive(self, row: Row, members: Members) -> None:
        """Pass a right row to the states that it may concern."""
        for state in self._index.find(None, row):
            state.match(row)

    def entries(self) -> int:
        """Count the states that it lists."""
        return len(self._active)

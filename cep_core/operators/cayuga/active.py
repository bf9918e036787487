"""The AN-index: which states that have instances may be concerned by a right row.

One for each right stream and lane.  It hashes the static equalities of the states' filter
predicates and lists active states only (Hong 2009, section 4.5.3).  States of any depth may share
it: a row that is made in an epoch never meets a right row of that epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.clock import Lane
from cep_core.dataflow.mop import Operator, Wire
from cep_core.dataflow.predicates import BoundPredicate, is_proper, values_of
from cep_core.events import Row


class IndexPlace(NamedTuple):
    """The position of a state in the AN-index: columns of the right row, and their values."""

    columns: tuple[int, ...]
    key: Hashable


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
        self._tables: dict[tuple[int, ...], tuple[Callable[[Row], Any], dict[Any, Any]]] = {}
        self._always: dict[Any, None] = {}

    @property
    def right(self) -> Operator:
        """The right stream."""
        assert self._right is not None
        return self._right

    @property
    def label(self) -> str:
        """The name for messages: that of the states."""
        return ", ".join(state.label for state in list(self.states)[:3])

    def place(self, filter: BoundPredicate) -> IndexPlace | None:
        """Return where a state with a filter predicate lies; None: it is concerned by each row."""
        shape, constants = filter
        if not self.indexed or len(shape.disjuncts) != 1:
            return None
        equalities = shape.disjuncts[0].equalities
        if not equalities:
            return None
        values = tuple(constants[slot] for _, slot, _ in equalities)
        columns = tuple(column for column, _, _ in equalities)
        return IndexPlace(columns, values if len(values) > 1 else values[0])

    def attend(self, state: Any, right: Operator) -> None:
        """Attach a state to the right stream."""
        if self._right is None:
            self._right = right
            self.wire.connect(right)
        self.states[state] = None

    def leave(self, state: Any) -> None:
        """Detach a state; without states the index stops listening."""
        del self.states[state]
        if not self.states and self._right is not None:
            self.wire.disconnect(self._right)
            self._right = None

    def activate(self, state: Any) -> None:
        """Enter a state that has got instances."""
        if state.place is None:
            self._always[state] = None
            return
        columns, key = state.place
        if not is_proper(key, len(columns) > 1):
            return  # nothing equals a null or NaN: no row concerns the state
        if columns not in self._tables:
            self._tables[columns] = (values_of(columns), {})
        self._tables[columns][1].setdefault(key, {})[state] = None

    def deactivate(self, state: Any) -> None:
        """Remove a state without instances; it may have been removed before."""
        if state.place is None:
            self._always.pop(state, None)
            return
        columns, key = state.place
        if columns not in self._tables:
            return
        table = self._tables[columns][1]
        states = table.get(key, {})
        states.pop(state, None)
        if not states and key in table:
            del table[key]
        if not table:
            del self._tables[columns]

    def receive(self, row: Row, members: Members) -> None:
        """Pass a right row to the states that it may concern."""
        for value_of, table in self._tables.values():
            states = table.get(value_of(row))
            if states is not None:
                for state in states:
                    state.match(row)
        for state in self._always:
            state.match(row)

    def entries(self) -> int:
        """Count the states that it lists."""
        tables = sum(len(states) for _, table in self._tables.values() for states in table.values())
        return tables + len(self._always)

"""The AN-index: the active states, those with instances, that a right row may concern.

Each right stream and lane has one.  It hashes the static equalities of the states' filter
predicates and lists active states only (Hong 2009, section 4.5.3).  States of any depth may share
it: a row that is made in an epoch never meets a right row of that epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.clock import Lane
from cep_core.dataflow.mop import Operator, Wire
from cep_core.dataflow.options import Options
from cep_core.dataflow.predicates import BoundPredicate, is_proper, values_of
from cep_core.events import Row


class IndexPlace(NamedTuple):
    """The position of a state in the AN-index: columns of the right row, and their values.

    Without columns each right row concerns the state.
    """

    columns: tuple[int, ...]
    key: Hashable


EACH_ROW = IndexPlace((), ())


class ActiveIndex:
    """The states that read one right stream; finds the active ones that a right row concerns.

    A state is active while it has instances.  The options switch the AN-index on and, for the
    states, the AI-index.
    """

    def __init__(self, lane: Lane, options: Options) -> None:
        self.indexed = options.active_node_index
        self.instance_index = options.active_instance_index
        self.wire = Wire(Port(self, self.receive, self.concerned), lane)
        self.states: dict[Any, None] = {}
        self._right: Operator | None = None
        # by columns: the function from a row to its value in them, and the active states by value
        self._tables: dict[tuple[int, ...], tuple[Callable[[Row], Any], dict[Any, Any]]] = {}

    @property
    def right(self) -> Operator:
        """The operator that the states read on their right side."""
        assert self._right is not None
        return self._right

    @property
    def label(self) -> str:
        """The name for messages: the labels of up to three states."""
        return ", ".join(state.label for state in list(self.states)[:3])

    def place(self, filter: BoundPredicate) -> IndexPlace:
        """Return the position in the index for a state whose filter predicate is `filter`."""
        shape, constants = filter
        if not self.indexed or len(shape.disjuncts) != 1 or not shape.disjuncts[0].equalities:
            return EACH_ROW
        columns, slots, _ = zip(*shape.disjuncts[0].equalities, strict=True)
        values = tuple([constants[slot] for slot in slots])
        return IndexPlace(columns, values if len(values) > 1 else values[0])

    def attend(self, state: Any, right: Operator) -> None:
        """Add a state whose right input is ``right``, the same operator for all states."""
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
        """Enter a state that has instances; it may have been entered before."""
        columns, key = state.place
        if not is_proper(key, len(columns) != 1):
            return  # nothing equals a null or NaN: no row concerns the state
        if columns not in self._tables:
            self._tables[columns] = (values_of(columns), {})
        self._tables[columns][1].setdefault(key, {})[state] = None

    def deactivate(self, state: Any) -> None:
        """Remove a state without instances; it may have been removed before."""
        columns, key = state.place
        table = self._tables[columns][1] if columns in self._tables else {}
        states = table.get(key)
        if states is not None:
            states.pop(state, None)
            if not states:
                del table[key]
            if not table:
                del self._tables[columns]

    def receive(self, row: Row, members: Members) -> None:
        """Pass a right row to the states that it may concern."""
        for state in self.concerned(row):
            state.match(row)

    def concerned(self, row: Row) -> list[Any]:
        """Return the active states that a right row may concern."""
        found: list[Any] = []
        for value_of, table in self._tables.values():
            found += table.get(value_of(row), ())
        return found

    def entries(self) -> int:
        """Return the number of active states in the index."""
        return sum(len(states) for _, table in self._tables.values() for states in table.values())

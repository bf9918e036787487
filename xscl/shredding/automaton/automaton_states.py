"""States and places of the automaton, and the entries at them.

States know structure only.  Chains that differ in their conditions share their
states, and are different `PatternPlace`s there; which of the places of a state match
a node is found by an index of their conditions (`xscl.shredding.conditions.index`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, cast

from xscl.language.constants import Constant
from xscl.language.syntax import Condition, Operand, Step
from xscl.shredding.automaton.pattern import StepForm
from xscl.shredding.conditions.atoms import Lookups
from xscl.shredding.conditions.index import ConditionIndex
from xscl.shredding.nodes.names import Key, key_of

_NONE: dict[AutomatonState, PatternPlace] = {}  # of all places without children


class AutomatonState:
    """A state: the end of a chain of axes and name tests, with its places.

    `plain` is the place without conditions there and above, `spot` the places
    that have conditions of their own, but none above.
    """

    __slots__ = ("below", "children", "parent", "places", "plain", "spot", "step")

    def __init__(self, parent: AutomatonState | None, step: Step) -> None:
        self.parent = parent
        self.step = step
        self.children: dict[Key, AutomatonState] = {}
        self.below: dict[Key, AutomatonState] = {}  # the same behind `//`
        self.plain: PatternPlace | None = None
        self.spot: IndexedPlaces | None = None
        self.places = 0

    def edge(self, step: Step, key: Key) -> tuple[AutomatonState, bool]:
        """Return the state that a step of this key leads to, and whether it is new."""
        edges = self.below if step.descendant else self.children
        known = edges.get(key)
        if known is not None:
            return known, False
        target = edges[key] = AutomatonState(self, step)
        return target, True

    def unlink(self) -> None:
        """Remove the state from the one that leads to it."""
        assert self.parent is not None, "no place of a stream's own state is ever left"
        edges = self.parent.below if self.step.descendant else self.parent.children
        del edges[key_of(self.step.attribute, self.step.test)]


class PatternPlace:
    """One step of a pattern: a state, the conditions there, and the place of the step before.

    `plain` is True without conditions from here up, `structural` if these test
    the document's structure only.  The places
    below a plain one are found by their states; those below another are here.
    The conditions have a `form` with `constants`; `text` is the definition up to them.
    """

    __slots__ = (
        *("changes", "children", "constants", "deeper", "entries", "form", "parent", "plain"),
        *("spots", "state", "structural", "text", "uses"),
    )

    def __init__(
        self,
        state: AutomatonState,
        parent: PatternPlace | None,
        form: StepForm | None = None,
        constants: Sequence[Constant] = (),
        text: str = "",
    ) -> None:
        self.state = state
        self.parent = parent
        self.form = form
        self.constants = constants
        self.text = text
        self.plain: bool = form is None and (parent is None or parent.plain)
        self.structural: bool = (parent is None or parent.structural) and (
            form is None or form.structural
        )
        self.entries: tuple[PairEntry, ...] = ()
        self.children = _NONE  # those without own conditions; most places have none
        self.spots: tuple[IndexedPlaces, ...] = ()
        self.deeper = 0  # spots here and below
        self.uses = 0
        self.changes = 0  # of a stream's own place: of what follows from structure alone

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions at the place; equal ones are not one object."""
        return (
            ()
            if self.form is None
            else cast("tuple[Condition, ...]", self.form.conditions(self.constants))
        )

    @property
    def count(self) -> int:
        """The number of conditions."""
        return 0 if self.form is None else self.form.count

    @property
    def plan(self) -> Lookups:
        """The lookups of the conditions."""
        assert self.form is not None, "only places with conditions are looked up"
        return cast(Lookups, self.form.plan(self.constants))

    def upward(self) -> Iterator[PatternPlace]:
        """Yield this place and those above it, the place of the stream last."""
        place: PatternPlace | None = self
        while place is not None:
            yield place
            place = place.parent

    def deepen(self, by: int) -> None:
        """Add `by` to the number of spots from here down, here and at all places above."""
        for place in self.upward():
            place.deeper += by

    def change(self) -> None:
        """Count a change of what structures match, at the place of the stream."""
        *_, root = self.upward()
        root.changes += 1

    def children_at(self, states: Mapping[AutomatonState, object]) -> Iterable[PatternPlace]:
        """Return the children of some states."""
        children = self.children
        return [children[state] for state in children.keys() & states.keys()] if children else ()

    def path_from(self, ancestor: PatternPlace) -> tuple[PatternPlace, ...]:
        """Return the places from this one up to, and without, an ancestor."""
        return tuple(takewhile(lambda place: place is not ancestor, self.upward()))


class IndexedPlaces:
    """The places with conditions of one state below one place, indexed by their demands."""

    __slots__ = ("parent", "state", "structural", "valued")

    def __init__(self, parent: PatternPlace, state: AutomatonState) -> None:
        self.parent = parent
        self.state = state
        self.structural: ConditionIndex[PatternPlace] | None = None
        self.valued: ConditionIndex[PatternPlace] | None = None


class PairEntry(NamedTuple):
    """A registered pair of variables, whose bindings are computed.

    `distance` is the number of steps between the two where none is `//`, so
    that the upper node is known at once.  With `derived` the second variable
    stands for the values of that operand at the node, and so does the first,
    if `alone`.
    """

    pair: int
    first: PatternPlace
    second: PatternPlace
    distance: int | None
    valued: bool
    derived: Operand | None = None
    alone: bool = False

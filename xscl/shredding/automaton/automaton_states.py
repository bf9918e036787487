"""States and places of the automaton, and the entries at them.

States know structure only.  Chains that differ in their conditions share their
states, and are different `PatternPlace`s there.

Which of the places of a state match a node is found by an index of their conditions, without
testing each.  The index is a tree.  A node asks some questions, and the constants that satisfy the
answers lead to its children.  A set of conditions is found by its most selective atom, and where
many share that one by the next (`xscl.shredding.conditions.atoms`).  Up to `FEW` places are a
list, since a question would cost more.  Conditions that the atoms on the path have not proved are
returned with a place, and have to be tested.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias, cast

from xscl.language.constants import Constant as FormConstant
from xscl.language.syntax import Condition, Operand, Step
from xscl.shredding.automaton.pattern import StepForm
from xscl.shredding.conditions.atoms import Constant, IntervalIndex, Lookups, QuestionKind
from xscl.shredding.conditions.constants import ConstantSet, QuestionRegistry
from xscl.shredding.nodes import Key

_NONE: dict[AutomatonState, PatternPlace] = {}  # the `children` of places without any


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
        self.below: dict[Key, AutomatonState] = {}  # by key: where a step with `//` leads
        self.plain: PatternPlace | None = None
        self.spot: IndexedPlaces | None = None
        self.places = 0

    def edge(self, step: Step) -> tuple[AutomatonState, bool]:
        """Return the state that a step leads to, and True if it is new."""
        edges, key = self.below if step.descendant else self.children, step.key
        known = edges.get(key)
        if known is not None:
            return known, False
        target = edges[key] = AutomatonState(self, step)
        return target, True

    def unlink(self) -> None:
        """Remove the state from the one that leads to it."""
        assert self.parent is not None, "no place of a stream's own state is ever left"
        edges = self.parent.below if self.step.descendant else self.parent.children
        del edges[self.step.key]


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
        constants: Sequence[FormConstant] = (),
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
        # by state: the places below without own conditions; most places have none
        self.children = _NONE
        self.spots: tuple[IndexedPlaces, ...] = ()
        self.deeper = 0  # spots here and below
        self.uses = 0
        # at the root place of a stream: the number of changes that concern structure alone
        self.changes = 0

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions at the place, made at each call: equal ones may be different objects."""
        return (
            ()
            if self.form is None
            else cast("tuple[Condition, ...]", self.form.conditions(self.constants))
        )

    @property
    def count(self) -> int:
        """The number of conditions at this place."""
        return 0 if self.form is None else self.form.count

    @property
    def plan(self) -> Lookups:
        """The lookups of the place's conditions, by which an index finds it."""
        assert self.form is not None, "only places with conditions are looked up"
        return cast(Lookups, self.form.plan(self.constants))

    def upward(self) -> Iterator[PatternPlace]:
        """Yield this place and those above it, the place of the stream last."""
        place: PatternPlace | None = self
        while place is not None:
            yield place
            place = place.parent

    def deepen(self, by: int) -> None:
        """Add `by` to `deeper`, the number of spots at a place and below, here and above."""
        for place in self.upward():
            place.deeper += by

    def change(self) -> None:
        """Count a change in matches by structure alone, at the root place of the stream."""
        *_, root = self.upward()
        root.changes += 1

    def children_at(self, states: Mapping[AutomatonState, object]) -> Iterable[PatternPlace]:
        """Return the places below, without own conditions, whose states are among `states`.

        Of a plain place there are none.
        """
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
        self.structural = ConditionIndex()  # of places whose conditions test the structure only
        self.valued = ConditionIndex()  # of the other places

    def index_of(self, place: PatternPlace) -> ConditionIndex:
        """Return the index that has a place: `structural` or `valued`, as its conditions are."""
        return self.structural if place.structural else self.valued


class PairEntry(NamedTuple):
    """A registered pair of variables, whose bindings are computed.

    `distance` is the number of steps from the first node to the second, None if
    one of them is `//`.  With `valued` the value of the second node is needed.
    With `derived` the second variable stands for the values of that operand at
    the node, and so does the first, if `alone`.
    """

    pair: int
    first: PatternPlace
    second: PatternPlace
    distance: int | None
    valued: bool
    derived: Operand | None = None
    alone: bool = False


# -- The index of conditions ------------------------------------------------------------------

FEW = 8

Candidate: TypeAlias = tuple[PatternPlace, tuple[Condition, ...]]
"""A place, and the conditions that have not been proved of it."""
Branch: TypeAlias = "PatternPlace | list[Candidate] | ConditionIndex"
"""The child of the index behind a constant; a place without conditions to test stands alone."""


class SortedBounds:
    """Sorted bounds of one kind, all texts or all numbers; it finds those that values satisfy."""

    __slots__ = ("_bounds", "_kind")

    def __init__(self, kind: QuestionKind) -> None:
        self._kind = kind
        self._bounds: list[Any] = []

    def add(self, bound: Any) -> None:
        """Insert a new bound."""
        insort(self._bounds, bound)

    def remove(self, bound: Any) -> None:
        """Remove a bound."""
        del self._bounds[bisect_left(self._bounds, bound)]

    def kept_by(self, least: Any, greatest: Any) -> Sequence[Any]:
        """Return the bounds that some values satisfy, given the least and the greatest value."""
        bounds = self._bounds
        match self._kind:
            case "<":
                return bounds[bisect_right(bounds, least) :]
            case "<=":
                return bounds[bisect_left(bounds, least) :]
            case ">":
                return bounds[: bisect_left(bounds, greatest)]
            case _:
                return bounds[: bisect_right(bounds, greatest)]


class BoundLevel(dict[Constant, Branch]):
    """Branches by bound; `bounds` finds the bounds that values satisfy."""

    __slots__ = ("bounds",)

    def __init__(self, kind: QuestionKind) -> None:
        self.bounds: Any = IntervalIndex() if kind == "interval" else SortedBounds(kind)

    def __setitem__(self, bound: Constant, branch: Branch) -> None:
        if bound not in self:
            self.bounds.add(bound)
        super().__setitem__(bound, branch)

    def __delitem__(self, bound: Constant) -> None:
        self.bounds.remove(bound)
        super().__delitem__(bound)


Level: TypeAlias = dict[Constant, Branch]


class ConditionIndex:
    """A node of an index of conditions: the places found there, and the questions to ask next."""

    __slots__ = ("here", "levels")

    def __init__(self) -> None:
        self.here: list[Candidate] = []
        self.levels: dict[ConstantSet, Level] = {}

    def __bool__(self) -> bool:
        return bool(self.here or self.levels)

    def find(self, names: Callable[[QuestionKind], Set[Constant]]) -> Iterator[Candidate]:
        """Yield the places that may match at a node, each with the conditions left to test.

        Only questions for names are answered, by `names`.  A place comes twice if two alternatives
        of an OR find it.  `xscl.shredding.batch.shred` answers questions for values.
        """
        yield from self.here
        for constants, level in self.levels.items():
            for name in level.keys() & names(constants.question.kind):
                branch = level[name]
                if isinstance(branch, ConditionIndex):
                    yield from branch.find(names)
                elif isinstance(branch, list):
                    yield from branch
                else:
                    yield branch, ()

    def add(self, questions: QuestionRegistry, place: PatternPlace, depth: int = 0) -> None:
        """Insert a place, by the lookups of its plan from the index `depth` on."""
        planned = place.plan
        if depth == len(planned):
            self.here.append((place, _left(place, planned, depth)))
            return
        for atom in planned[depth].atoms:
            constants = questions[atom.question]
            level = self.levels.get(constants)
            if level is None:
                kind = atom.question.kind
                level = self.levels[constants] = BoundLevel(kind) if constants.ordered else {}
            branch = level.get(atom.constant)
            if isinstance(branch, ConditionIndex):
                branch.add(questions, place, depth + 1)
                continue
            todo = _left(place, planned, depth + 1)
            if branch is None:
                level[constants.learn(atom.constant)] = [(place, todo)] if todo else place
                continue
            if not isinstance(branch, list):
                branch = level[atom.constant] = [(branch, ())]
            branch.append((place, todo))
            if len(branch) > FEW:
                grown = level[atom.constant] = ConditionIndex()
                for one, _ in branch:
                    grown.add(questions, one, depth + 1)

    def remove(self, questions: QuestionRegistry, place: PatternPlace, depth: int = 0) -> None:
        """Remove a place, found by the lookups of its plan from the index `depth` on."""
        planned = place.plan
        if depth == len(planned):
            _drop(self.here, place)
            return
        for atom in planned[depth].atoms:
            constants = questions[atom.question]
            level = self.levels[constants]
            branch = level[atom.constant]
            if isinstance(branch, ConditionIndex):
                branch.remove(questions, place, depth + 1)
            elif isinstance(branch, list):
                _drop(branch, place)
            if branch is place or not branch:
                del level[atom.constant]
                constants.forget(atom.constant)
                if not level:
                    del self.levels[constants]


def _left(place: PatternPlace, planned: Lookups, depth: int) -> tuple[Condition, ...]:
    """Return the conditions of a place that the first `depth` lookups of its plan do not prove."""
    proved = {number for lookup in planned[:depth] for number in lookup.proves}
    if len(proved) == place.count:
        return ()
    left = (c for number, c in enumerate(place.conditions) if number not in proved)
    return tuple(map(_shared, left))


@lru_cache(maxsize=20_000)
def _shared(condition: Condition) -> Condition:
    """Return the one object of all equal conditions: an object is tested once at a node."""
    return condition


def _drop(candidates: list[Candidate], place: PatternPlace) -> None:
    for at, (other, _) in enumerate(candidates):
        if other is place:
            del candidates[at]
            return
    raise AssertionError("what is taken out is there")

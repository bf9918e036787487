"""An index of sets of conditions: those that hold at a node, without testing each.

The index is a tree.  A node asks some questions, and the constants that satisfy the answers lead to
its children.  A set of conditions is found by its most selective atom, and where many share that
one by the next (`xscl.shredding.conditions.atoms`).  Up to `FEW` sets are a list, since a question
would cost more.  Conditions that the atoms on the path have not proved are returned with a set, and
have to be tested.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from xscl.language.syntax import Condition
from xscl.shredding.conditions.atoms import Constant, Lookups, QuestionKind
from xscl.shredding.conditions.constants import ConstantSet, QuestionRegistry
from xscl.shredding.conditions.intervals import Interval, IntervalIndex

FEW = 8


class Owner(Protocol):
    """An owner of conditions, which a look-up finds; no list and no index, which hold owners."""

    @property
    def conditions(self) -> tuple[Condition, ...]: ...

    @property
    def count(self) -> int: ...

    @property
    def plan(self) -> Lookups: ...


O = TypeVar("O", bound=Owner)  # noqa: E741
Candidate: TypeAlias = tuple[O, tuple[Condition, ...]]  # and what has not been proved of it
Branch: TypeAlias = "O | list[Candidate[O]] | ConditionIndex[O]"  # alone, it is proved


class BoundIndex(Generic[O]):
    """Owners by the bounds that they need: lower ones or upper ones, sorted, or intervals."""

    __slots__ = ("_bounds", "_branches", "_intervals", "_kind")

    def __init__(self, kind: QuestionKind) -> None:
        self._kind = kind
        self._bounds: list[Any] = []  # all texts, or all numbers
        self._intervals = IntervalIndex() if kind == "interval" else None
        self._branches: dict[Constant, Branch[O]] = {}

    def __bool__(self) -> bool:
        return bool(self._branches)

    def get(self, bound: Constant) -> Branch[O] | None:
        return self._branches.get(bound)

    def __setitem__(self, bound: Constant, branch: Branch[O]) -> None:
        if bound not in self._branches:
            if isinstance(bound, Interval):
                assert self._intervals is not None
                self._intervals.add(bound)
            else:
                insort(self._bounds, bound)
        self._branches[bound] = branch

    def __delitem__(self, bound: Constant) -> None:
        if isinstance(bound, Interval):
            assert self._intervals is not None
            self._intervals.remove(bound)
        else:
            del self._bounds[bisect_left(self._bounds, bound)]
        del self._branches[bound]

    def suiting(self, least: Any, greatest: Any) -> Sequence[Constant]:
        """Return the bounds that values satisfy, given their extremes."""
        bounds = self._bounds
        match self._kind:
            case "<":
                return bounds[bisect_right(bounds, least) :]
            case "<=":
                return bounds[bisect_left(bounds, least) :]
            case ">":
                return bounds[: bisect_left(bounds, greatest)]
            case ">=":
                return bounds[: bisect_right(bounds, greatest)]
            case _:
                assert self._intervals is not None
                return self._intervals.kept_by(least, greatest)


Level: TypeAlias = "dict[Constant, Branch[O]] | BoundIndex[O]"


class ConditionIndex(Generic[O]):
    """A node of the tree: the owners that ask no more questions, and the next questions."""

    __slots__ = ("here", "levels")

    def __init__(self) -> None:
        self.here: list[Candidate[O]] = []
        self.levels: dict[ConstantSet, Level[O]] = {}

    def __bool__(self) -> bool:
        return bool(self.here or self.levels)

    def add(self, questions: QuestionRegistry, owner: O) -> None:
        """Insert an owner."""
        self._insert(questions, owner, owner.plan, 0)

    def remove(self, questions: QuestionRegistry, owner: O) -> None:
        """Remove an owner."""
        self._delete(questions, owner, owner.plan, 0)

    def find(self, names: Callable[[QuestionKind], Set[Constant]]) -> Iterator[Candidate[O]]:
        """Yield the owners that may hold at a node, each with the conditions that are not tested
        yet.

        Only questions for names are answered, by `names`.  An owner comes twice if two alternatives
        of an OR find it.  `xscl.shredding.batch.shape_batch` answers questions for values.
        """
        yield from self.here
        for constants, level in self.levels.items():
            assert isinstance(level, dict), "names have no bounds"
            for name in level.keys() & names(constants.question.kind):
                branch = level[name]
                if isinstance(branch, ConditionIndex):
                    yield from branch.find(names)
                elif isinstance(branch, list):
                    yield from branch
                else:
                    yield branch, ()

    def _insert(self, questions: QuestionRegistry, owner: O, planned: Lookups, depth: int) -> None:
        if depth == len(planned):
            self.here.append((owner, _left(owner, planned, depth)))
            return
        for atom in planned[depth].atoms:
            constants = questions[atom.question]
            level = self.levels.get(constants)
            if level is None:
                kind = atom.question.kind
                level = self.levels[constants] = BoundIndex(kind) if constants.ordered else {}
            branch = level.get(atom.constant)
            if isinstance(branch, ConditionIndex):
                branch._insert(questions, owner, planned, depth + 1)
                continue
            todo = _left(owner, planned, depth + 1)
            if branch is None:
                level[constants.learn(atom.constant)] = [(owner, todo)] if todo else owner
                continue
            if not isinstance(branch, list):
                branch = level[atom.constant] = [(branch, ())]
            branch.append((owner, todo))
            if len(branch) > FEW:
                level[atom.constant] = _grown(questions, branch, depth + 1)

    def _delete(self, questions: QuestionRegistry, owner: O, planned: Lookups, depth: int) -> None:
        if depth == len(planned):
            _drop(self.here, owner)
            return
        for atom in planned[depth].atoms:
            constants = questions[atom.question]
            level = self.levels[constants]
            branch = level.get(atom.constant)
            assert branch is not None, "what is taken out is there"
            if isinstance(branch, ConditionIndex):
                branch._delete(questions, owner, planned, depth + 1)
            elif isinstance(branch, list):
                _drop(branch, owner)
            if branch is owner or not branch:
                del level[atom.constant]
                constants.forget(atom.constant)
                if not level:
                    del self.levels[constants]


def _grown(questions: QuestionRegistry, many: list[Candidate[O]], depth: int) -> ConditionIndex[O]:
    """Return an index of owners that have become too many for a list."""
    index: ConditionIndex[O] = ConditionIndex()
    for owner, _ in many:
        index._insert(questions, owner, owner.plan, depth)
    return index


def _left(owner: Owner, planned: Lookups, depth: int) -> tuple[Condition, ...]:
    """Return the conditions that the first atoms of a plan do not prove."""
    proved = {number for lookup in planned[:depth] for number in lookup.proves}
    if len(proved) == owner.count:
        return ()
    left = (c for number, c in enumerate(owner.conditions) if number not in proved)
    return tuple(map(_shared, left))


@lru_cache(maxsize=20_000)
def _shared(condition: Condition) -> Condition:
    """Return a condition that is equal, the same object: each is tested once at a node."""
    return condition


def _drop(candidates: list[Candidate[O]], owner: O) -> None:
    for at, (other, _) in enumerate(candidates):
        if other is owner:
            del candidates[at]
            return
    raise AssertionError("what is taken out is there")

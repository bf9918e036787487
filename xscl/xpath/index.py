"""Which of many sets of conditions hold at a node, without trying each.

The index is a tree.  A node of it asks some questions, and the constants that
suit the answers lead on: a set of conditions is found by its sharpest atom, and
where many share that one by the next (`xscl.xpath.atoms`).  Few are not worth
a question: up to `FEW` are kept as a list.  What the atoms on the way have not
proved comes with what is found, and has to be tried; what they have proved is
mostly alone, and stands for itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Set
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from xscl.language.syntax import Condition
from xscl.xpath.atoms import Atom, Plan, plan
from xscl.xpath.constants import Constants, Questions

FEW = 8


class Owner(Protocol):
    """What conditions belong to, and is found by them; it is neither a list nor an index."""

    @property
    def conditions(self) -> tuple[Condition, ...]: ...


class Probe(Protocol):
    """A node that answers questions."""

    def suitable(self, constants: Constants) -> Set[str | float]:
        """Return the constants that suit the answer."""

    def extreme(self, constants: Constants) -> str | float | None:
        """Return the value of an answer that suits the most bounds, if it has any."""


O = TypeVar("O", bound=Owner)  # noqa: E741
Candidate: TypeAlias = tuple[O, tuple[Condition, ...]]  # and what has not been proved of it
Branch: TypeAlias = "O | list[Candidate[O]] | Index[O]"  # alone, it is proved


class Ordered(Generic[O]):
    """What is found by bounds, in their order."""

    __slots__ = ("bounds", "branches")

    def __init__(self) -> None:
        self.bounds: list[Any] = []  # all texts, or all numbers
        self.branches: list[Branch[O]] = []

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def get(self, bound: str | float) -> Branch[O] | None:
        at = bisect_left(self.bounds, bound)
        return self.branches[at] if self.bounds[at : at + 1] == [bound] else None

    def __setitem__(self, bound: str | float, branch: Branch[O]) -> None:
        at = bisect_left(self.bounds, bound)
        if self.bounds[at : at + 1] == [bound]:
            self.branches[at] = branch
        else:
            self.bounds.insert(at, bound)
            self.branches.insert(at, branch)

    def __delitem__(self, bound: str | float) -> None:
        at = bisect_left(self.bounds, bound)
        del self.bounds[at], self.branches[at]

    def suiting(self, constants: Constants, value: str | float) -> list[Branch[O]]:
        """Return what is found by the bounds that a value keeps."""
        match constants.question.kind:
            case "<":
                return self.branches[bisect_right(self.bounds, value) :]
            case "<=":
                return self.branches[bisect_left(self.bounds, value) :]
            case ">":
                return self.branches[: bisect_left(self.bounds, value)]
            case _:
                return self.branches[: bisect_right(self.bounds, value)]


Level: TypeAlias = "dict[str | float, Branch[O]] | Ordered[O]"


class Index(Generic[O]):
    """A node of the tree: what needs no more questions here, and the next ones to ask."""

    __slots__ = ("here", "levels")

    def __init__(self) -> None:
        self.here: list[Candidate[O]] = []
        self.levels: dict[Constants, Level[O]] = {}

    def __bool__(self) -> bool:
        return bool(self.here or self.levels)

    def add(self, questions: Questions, owner: O) -> None:
        """Put in an owner."""
        planned = plan(owner.conditions)
        for way in _ways(planned):
            self._into(questions, owner, planned, way, 0)

    def remove(self, questions: Questions, owner: O) -> None:
        """Take out an owner."""
        for way in _ways(plan(owner.conditions)):
            self._out(questions, owner, way, 0)

    def find(self, probe: Probe, proved: list[O], found: list[Candidate[O]]) -> None:
        """Append what holds at a node, and what holds if the rest of its conditions does.

        An owner may come again, found by another alternative of an OR.
        """
        if self.here:
            found += self.here
        branch: Branch[O]
        for constants, level in self.levels.items():
            if isinstance(level, Ordered):
                value = probe.extreme(constants)
                branches = [] if value is None else level.suiting(constants, value)
            else:
                branches = [level[one] for one in level.keys() & probe.suitable(constants)]
            for branch in branches:
                if isinstance(branch, list):
                    found += branch
                elif isinstance(branch, Index):
                    branch.find(probe, proved, found)
                else:
                    proved.append(branch)

    def _into(
        self, questions: Questions, owner: O, planned: Plan, way: tuple[Atom, ...], depth: int
    ) -> None:
        if depth == len(way):
            self.here.append((owner, _left(owner, planned, depth)))
            return
        atom = way[depth]
        constants = questions[atom.question]
        level = self.levels.get(constants)
        if level is None:
            level = self.levels[constants] = Ordered() if constants.ordered else {}
        branch = level.get(atom.constant)
        if isinstance(branch, Index):
            branch._into(questions, owner, planned, way, depth + 1)
            return
        todo = _left(owner, planned, depth + 1)
        if branch is None:
            level[constants.learn(atom.constant)] = [(owner, todo)] if todo else owner
            return
        if not isinstance(branch, list):
            branch = level[atom.constant] = [(branch, ())]
        if len(branch) < FEW:
            branch.append((owner, todo))
        else:
            grown = level[atom.constant] = _grown(questions, branch, depth + 1)
            grown._into(questions, owner, planned, way, depth + 1)

    def _out(self, questions: Questions, owner: O, way: tuple[Atom, ...], depth: int) -> None:
        if depth == len(way):
            _drop(self.here, owner)
            return
        atom = way[depth]
        constants = questions[atom.question]
        level = self.levels[constants]
        branch = level.get(atom.constant)
        assert branch is not None, "what is taken out is there"
        if isinstance(branch, Index):
            branch._out(questions, owner, way, depth + 1)
        elif isinstance(branch, list):
            _drop(branch, owner)
        if branch is owner or not branch:
            del level[atom.constant]
            constants.forget(atom.constant)
            if not level:
                del self.levels[constants]


def _ways(planned: Plan) -> list[tuple[Atom, ...]]:
    """Return the paths through the tree that lead to a set of conditions."""
    if planned.either:
        return [(atom,) for atom in planned.either]
    return [tuple(atom for atom, _ in planned.atoms)]


def _grown(questions: Questions, many: list[Candidate[O]], depth: int) -> Index[O]:
    """Return an index of what has become too many for a list."""
    index: Index[O] = Index()
    for owner, todo in many:
        planned = plan(owner.conditions)
        if len(planned.atoms) > depth:
            index._into(questions, owner, planned, _ways(planned)[0], depth)
        else:
            index.here.append((owner, todo))
    return index


def _left(owner: Owner, planned: Plan, depth: int) -> tuple[Condition, ...]:
    """Return the conditions that the first atoms of a plan do not prove."""
    proved = {number for _, number in planned.atoms[:depth]}
    return tuple(c for number, c in enumerate(owner.conditions) if number not in proved)


def _drop(candidates: list[Candidate[O]], owner: O) -> None:
    for at, (other, _) in enumerate(candidates):
        if other is owner:
            del candidates[at]
            return
    raise AssertionError("what is taken out is there")

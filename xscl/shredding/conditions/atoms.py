"""Conditions as atoms that an index can look up.

An *atom* asks one *question* of a node, such as "which values has ./price?",
and holds if the answer contains, exceeds or otherwise suits its constant.  A
condition *demands* atoms: it cannot hold unless they all do.  Where the
converse is true as well the atoms are its proof, and it need not be tried.

    ./a/b = 'x'                   equality: by hash
    ./price > 10                  order: among sorted bounds
    ./price > 10 and ./price < 20 among intervals (`xscl.shredding.conditions.atoms`)
    contains(./t, 'w')            by an automaton of all the words
    starts-with(./t, 'w')         by hash, for each length of prefix; ends-with of suffix
    matches(./t, 'w+')            by an automaton of literals that the expressions contain
    lower-case(./t) = 'x'         likewise, of what functions make of the answer
    count(./a) > 2                order: of the number of nodes
    ./a                           by the names of the nodes below
    ./a[./b = 'x'][./c]           ./a/b = 'x' and ./a, which is no proof

`!=` and NOT nearly always hold, so no index uses them; residual conditions are tested last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, assert_never, get_args

from cep_core.algebra import DecimalOrDouble
from xscl.language import syntax
from xscl.language.scope import below, walk
from xscl.language.unparse import unparse

# -- Intervals: an index by cells of those that contain some numbers ---------------------------

# A number is in one *cell* of each width, a power of two.  An interval is in at
# most two cells of the width next to its own, and at least a third of such a
# pair.  So for each width in use there is one look-up by hash, which yields few
# more intervals than those that contain the number.

NARROWEST = -40  # the least width of cells, as a power of two
# An interval with a bound of this size is not indexed as one; a number of this size is tested with
# all intervals.
FARTHEST = 1e200


class Interval(NamedTuple):
    """A condition on the numbers of a node: one is above `low` and one is below `high`.

    An open bound is itself excluded.  One number may do both; if `low` is above `high`, it takes
    two.
    """

    low: float
    low_open: bool
    high: float
    high_open: bool

    def kept_by(self, least: float, greatest: float) -> bool:
        """Return True if numbers satisfy the condition, given the least and the greatest one."""
        return (greatest > self.low or (greatest == self.low and not self.low_open)) and (
            least < self.high or (least == self.high and not self.high_open)
        )


Cell = tuple[int, int]  # (w, n): the numbers from n * 2^w up to (n + 1) * 2^w


class IntervalIndex:
    """A set of intervals; it finds those that some numbers satisfy."""

    __slots__ = ("_cells", "_known", "_widths")

    def __init__(self) -> None:
        self._known: set[Interval] = set()
        self._cells: dict[Cell, list[Interval]] = {}
        self._widths: Counter[int] = Counter()

    def add(self, interval: Interval) -> None:
        """Insert a new interval."""
        self._known.add(interval)
        for cell in _cells(interval):
            self._cells.setdefault(cell, []).append(interval)
            self._widths[cell[0]] += 1

    def remove(self, interval: Interval) -> None:
        """Remove an interval."""
        self._known.remove(interval)
        for cell in _cells(interval):
            self._cells[cell].remove(interval)
            if not self._cells[cell]:
                del self._cells[cell]
            self._widths[cell[0]] -= 1
        self._widths = +self._widths

    def kept_by(self, least: float, greatest: float) -> list[Interval]:
        """Return the intervals that some numbers satisfy, given their least and greatest one."""
        candidates: set[Interval] | list[Interval] = self._known
        if least == greatest and abs(least) < FARTHEST:
            candidates = [
                interval
                for width in self._widths
                for interval in self._cells.get((width, _place(least, width)), ())
            ]
        return [
            interval
            for interval in candidates
            if (interval[0] < greatest and least < interval[2])
            or (
                interval[0] <= greatest
                and least <= interval[2]
                and interval.kept_by(least, greatest)
            )
        ]


def _cells(interval: Interval) -> list[Cell]:
    """Return the cells that an interval is in, one or two; none if no number alone satisfies it."""
    low, _, high, _ = interval
    if low > high:
        return []
    width = max(math.frexp(high - low)[1], NARROWEST)
    return [(width, n) for n in range(_place(low, width), _place(high, width) + 1)]


def _place(number: float, width: int) -> int:
    """Return n of the cell (`width`, n) that contains a number."""
    return math.floor(math.ldexp(number, -width))


# -- Atoms -------------------------------------------------------------------------------------

QuestionKind: TypeAlias = Literal[
    "=",
    "number",
    "starts-with",
    "ends-with",
    "contains",
    "matches",
    "interval",
    "child",
    "below",
    "<",
    "<=",
    ">",
    ">=",
]
Constant: TypeAlias = str | DecimalOrDouble | Interval
Rank: TypeAlias = tuple[int, str, str, bool, bool]
_BOUND = 9
_RANKS = {kind: min(rank, _BOUND) for rank, kind in enumerate(get_args(QuestionKind))}
"""The ranks of kinds of questions: those that choose more sharply come first in `QuestionKind`."""
_LAST = 10  # the rank of a question for a child or descendant of any name
_HERE = syntax.Path()
_ALTERNATIVES = 16  # the most alternatives of an OR that is looked up


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """A question that an index asks a node: the values of a path from it, or the names below it.

    With `first` only the first node of the path counts, with `numeric` values count as numbers.
    `through` are functions that are applied to the values, `flags` those of regular expressions.
    Questions are ordered by `rank`.
    """

    kind: QuestionKind
    path: syntax.Path = _HERE
    first: bool = False
    numeric: bool = False
    through: syntax.Through | None = None
    flags: str = ""
    rank: Rank = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        text = unparse(syntax.ValueTest(self.path, "=", self.flags, self.through))
        rank = _RANKS[self.kind], self.kind, text, self.first, self.numeric
        object.__setattr__(self, "rank", rank)

    def __hash__(self) -> int:
        return hash(self.rank)  # texts cache their hashes; that of a path is slow

    @property
    def ordered(self) -> bool:
        """True if the answers are compared by `<`, `<=`, `>` or `>=`, alone or as an interval."""
        return self.kind in ("<", "<=", ">", ">=", "interval")


class Atom(NamedTuple):
    """A question, and the constant that its answer must satisfy."""

    question: NodeQuestion
    constant: Constant


class Demand(NamedTuple):
    """Atoms that all hold if a condition does; with `proof`, it holds if all of them do."""

    atoms: tuple[Atom, ...]
    proof: bool


class Lookup(NamedTuple):
    """Atoms of which at least one holds wherever all of some conditions hold.

    `proves` are the indexes of those conditions that hold wherever one of the atoms does.
    """

    atoms: tuple[Atom, ...]
    proves: tuple[int, ...] = ()


Order: TypeAlias = tuple[*Rank, Constant]
"""The order of lookups; atoms that differ differ in it, too."""
Lookups: TypeAlias = tuple[Lookup, ...]
"""The lookups of conditions that must all hold, the sharpest first."""


def is_plain(path: syntax.Path) -> bool:
    """Return True if the structure alone determines the nodes that a path selects."""
    return path.text is None and not any(step.conditions for step in path.steps)


_question = lru_cache(maxsize=4096)(NodeQuestion)
"""The constructor of questions: equal ones are one object."""


def _order(atom: Atom) -> Order:
    rank = atom.question.rank
    if atom.constant in ("*", "@*"):
        return _LAST, *rank[1:], atom.constant
    return *rank, atom.constant


def _blunt(lookup: Lookup) -> Order:
    """Return the rank of a lookup, that of its least selective atom."""
    return max(map(_order, lookup.atoms))


def plan(conditions: tuple[syntax.Condition, ...]) -> Lookups:
    """Return the lookups, by which an index finds a set of conditions that must all hold.

    The most selective one is first.  Conditions that no atom answers have no lookup.
    """
    single: dict[Atom, tuple[int, ...]] = {}
    alternatives: list[Lookup] = []
    for number, condition in enumerate(conditions):
        if isinstance(condition, syntax.Or):
            alternatives += _alternatives(number, condition)
            continue
        demand = demanded(condition)
        proves = (number,) if demand.proof and len(demand.atoms) == 1 else ()
        for atom in demand.atoms:
            single[atom] = proves + single.get(atom, ())
    intervals = _intervals(single)
    lookups = [Lookup((atom,), proves) for atom, proves in single.items()]
    return tuple(sorted((*lookups, *alternatives[:1], *intervals), key=_blunt))


def _alternatives(number: int, condition: syntax.Or[syntax.Condition]) -> Iterator[Lookup]:
    """Yield one lookup of an OR if each of its alternatives has an atom; else nothing.

    `number` is the index of the OR among the conditions of its step.
    """
    demands = [demanded(part) for part in condition.parts]
    if len(demands) <= _ALTERNATIVES and all(demand.atoms for demand in demands):
        proved = all(demand.proof and len(demand.atoms) == 1 for demand in demands)
        atoms = dict.fromkeys(min(demand.atoms, key=_order) for demand in demands)
        yield Lookup(tuple(atoms), (number,) if proved else ())


def _intervals(single: dict[Atom, tuple[int, ...]]) -> list[Lookup]:
    """Return the lookups of values with a lower and an upper bound, as intervals.

    `single` has, by atom, the indexes of the conditions that the atom proves.  The atoms of both
    bounds are removed from it.
    """
    sides: dict[tuple[syntax.Path, syntax.Through | None], tuple[list[Atom], list[Atom]]] = {}
    for atom in single:
        if atom.question.numeric:
            lower, upper = sides.setdefault((atom.question.path, atom.question.through), ([], []))
            (upper if atom.question.kind in ("<", "<=") else lower).append(atom)
    made: list[Lookup] = []
    for (path, through), (lower, upper) in sides.items():
        if lower and upper:
            low, low_open = max((_number(a), a.question.kind == ">") for a in lower)
            high, high_closed = min((_number(a), a.question.kind == "<=") for a in upper)
            if abs(low) < FARTHEST and abs(high) < FARTHEST:
                interval = Interval(low, low_open, high, not high_closed)
                proves = tuple(n for atom in (*lower, *upper) for n in single.pop(atom))
                question = _question("interval", path, through=through)
                made.append(Lookup((Atom(question, interval),), proves))
    return made


def _number(atom: Atom) -> float:
    assert isinstance(atom.constant, float), "bounds of numbers are numbers"
    return atom.constant


def demanded(condition: syntax.Condition) -> Demand:
    """Return the demands of a condition: the atoms that it needs, and if they prove it."""
    match condition:
        case syntax.ValueTest(path, through=through) if (
            through is not None or not condition.is_comparison
        ) and _is_partial(path):
            return Demand((), proof=False)
        case syntax.ValueTest(path, "=", value, through):
            kind: QuestionKind = "=" if isinstance(value, str) else "number"
            return Demand((Atom(_question(kind, path, through=through), value),), proof=True)
        case syntax.ValueTest(path, ("<" | "<=" | ">" | ">=") as operator, value, through):
            numeric = not isinstance(value, str)
            asked = _question(operator, path, numeric=numeric, through=through)
            return Demand((Atom(asked, value),), proof=True)
        case syntax.ValueTest(path, "!=", _, through):
            atoms = demanded(syntax.Exists(path)).atoms if through is None else ()
            return Demand(atoms, proof=False)
        case syntax.ValueTest(_, "contains" | "starts-with" | "ends-with", ""):
            return Demand((), proof=True)
        case syntax.ValueTest(path, function, value, through, flags):
            asked = _question(function, path, first=True, through=through, flags=flags)
            return Demand((Atom(asked, value),), proof=True)
        case syntax.Exists(path):
            return _exists(path)
        case syntax.And(parts):
            return Demand(tuple(a for part in parts for a in demanded(part).atoms), proof=False)
        case syntax.Residual():
            return Demand(_required(condition), proof=False)
        case syntax.Or() | syntax.Not():
            return Demand((), proof=False)
        case _:
            assert_never(condition)


def _is_partial(path: syntax.Path) -> bool:
    """Return True if nodes of a path may be missing: XPath in a condition may have no value."""
    conditional = any(step.conditions for step in path.steps)
    return conditional and any(isinstance(node, syntax.Residual) for node in walk(path))


def _required(condition: syntax.Residual) -> tuple[Atom, ...]:
    """Return the demands of a residual condition: names of children."""
    if condition.selects:
        return ()
    from xscl.language.xpath import parsed  # loads elementpath
    from xscl.language.xpath_tree import required

    tests = dict.fromkeys(required(parsed(condition.text)))
    return tuple(Atom(_question("child"), test.key) for test in tests)


def _exists(path: syntax.Path) -> Demand:
    if not path.steps:
        return Demand((), proof=path.text is None)
    first = path.steps[0]
    kind: QuestionKind = "below" if first.descendant else "child"
    name = Atom(_question(kind), first.key)
    further = (step.key for step in path.steps[1:])
    names = name, *(Atom(_question("below"), key) for key in further)
    inner = tuple(_inner(path.steps))
    given = [step.conditions for step in path.steps if step.conditions]
    if not given:
        return Demand(names, proof=len(path.steps) == 1 and path.text is None)
    only = given == [path.steps[-1].conditions] and len(given[0]) == 1 and path.text is None
    if only and len(inner) == 1 and demanded(given[0][0]).proof:
        return Demand(inner, proof=True)
    return Demand((*inner, *names), proof=False)


def _inner(steps: tuple[syntax.Step, ...]) -> Iterator[Atom]:
    """Yield the demands of the conditions of steps, as questions to the node where the path begins.

    A demand that cannot be asked from there, such as that of a count, is left out.
    """
    bare = tuple(replace(step, conditions=()) for step in steps)
    for number, step in enumerate(steps, 1):
        for condition in step.conditions:
            yield from _lifted(bare[:number], demanded(condition).atoms)


def _lifted(steps: tuple[syntax.Step, ...], atoms: Iterable[Atom]) -> Iterator[Atom]:
    for atom in atoms:
        question, through = atom.question, atom.question.through
        alone = question.first or (through is not None and through.mode != "each")
        if question.kind in ("child", "below") or (alone and question.path != _HERE):
            continue
        if through is not None:
            if through.mode == "count":
                continue
            through = syntax.Through("each", through.operand)
        path, flags = below(steps, question.path), question.flags
        longer = _question(
            question.kind, path, numeric=question.numeric, through=through, flags=flags
        )
        yield Atom(longer, atom.constant)

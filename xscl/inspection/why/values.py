"""Choices of nodes for variables, the predicates over them, and the values that come nearest.

A choice has a node for each variable, consistent within each document's tree pattern.  A predicate
is split into conjuncts, and each is decided by enumerating the choices for its variables with the
test that stage 2 evaluates (`residual.compiled`), so that the failing ones can be named.
Aggregates of FOLD over earlier rows (`$.x`) are unknown here: the trial of the whole query decides
conjuncts with them.

Every node that a pattern can bind at all (`bind`) is part of a binding of the whole pattern, so
only the nodes between a variable and the pattern's root are chosen, too.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, product
from typing import Any, NamedTuple, TypeAlias, assert_never

from cep_core.algebra import number_of
from xscl.errors import TooLong
from xscl.inspection.reasons import Edge
from xscl.language import syntax
from xscl.language.functions import number
from xscl.language.scope import here, leaves, rewritten, variables
from xscl.language.unparse import unparse
from xscl.language.valuejoin import is_numeric, is_untyped
from xscl.shredding.automaton.pattern import Pattern
from xscl.shredding.batch.bind import above, bind
from xscl.shredding.conditions.residual import CompiledOperand, compiled, texts_of, texts_over
from xscl.shredding.nodes import DocumentTree, Item

CHOICES = 100
"""Maximum number of choices of nodes among which the nearest values are looked for."""
CHOICES_MADE = 200_000
"""Maximum number of choices, whole or in part, for one question: some seconds."""
CHOICES_ALONE = 20_000
"""Maximum number of them that show if a condition that fails holds without the others."""
PAIRS = 1_600
"""Maximum number of pairs of values that are compared."""
PlacedNode: TypeAlias = tuple[int, int]
"""A component, and the number of a node of its pattern."""
NodeChoice: TypeAlias = Mapping[PlacedNode, int]
"""For each placed node of the patterns, the number of the chosen node in its document."""


_Step: TypeAlias = "Callable[[NodeChoice], Iterable[NodeChoice]]"
"""A function from a choice to the nodes that extend it; it has none for a choice that fails."""


@dataclass(frozen=True)
class OperandValues:
    """An operand, its variables, and its values over nodes of these."""

    operand: syntax.Operand

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(variables(self.operand))

    @cached_property
    def texts(self) -> Callable[[Mapping[str, Item | None]], list[str]]:
        return texts_over(self.operand)


@dataclass(frozen=True)
class TestedConjunct:
    """A part of a conjunction: a predicate, and the variables that occur in it."""

    predicate: syntax.Predicate

    @cached_property
    def equality(self) -> tuple[OperandValues, OperandValues] | None:
        """The operands whose equal texts are its only solutions; None if there are others."""
        match self.predicate:
            case syntax.Comparison("=", left, right) if not (is_numeric(left) or is_numeric(right)):
                return OperandValues(left), OperandValues(right)
            case _:
                return None

    @cached_property
    def test(self) -> CompiledOperand:
        return compiled(self.predicate)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(variables(self.predicate))


class Choices:
    """The choices of nodes for variables, in one document for each component.

    The variables of a component without a document are bound to nothing.
    """

    def __init__(self, patterns: Sequence[Pattern], trees: Mapping[int, DocumentTree]) -> None:
        self._patterns = patterns
        self._trees = trees
        self._bound = {place: bind(patterns[place], tree, {}) for place, tree in trees.items()}
        self._made = 0
        self._inside: dict[PlacedNode, dict[int, list[int]]] = {}
        self._indexes: dict[object, dict[str, list[NodeChoice]]] = {}
        self._places: dict[str, PlacedNode] = {
            node.variable: (component, number)
            for component, pattern in enumerate(patterns)
            for number, node in enumerate(pattern.nodes)
            if node.variable is not None
        }

    def matched(self, component: int) -> bool:
        """Return True if the document of a component matches its pattern."""
        return bool(self._bound[component][self._patterns[component].main])

    def items(self, variable: str) -> list[Item]:
        """Return the nodes that a variable can be bound to."""
        component, number = self._places[variable]
        if component not in self._trees:
            return []
        return [self._trees[component].items[n] for n in self._bound[component][number]]

    def item(self, choice: NodeChoice, variable: str) -> Item | None:
        """Return the node of a variable in a choice; None if it is bound to nothing."""
        place = self._places[variable]
        return None if place not in choice else self._trees[place[0]].items[choice[place]]

    def numbers(self, choice: NodeChoice, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of the nodes of variables in a choice that has them."""
        return tuple(choice[self._places[name]] for name in names)

    def of(
        self,
        conjuncts: Sequence[TestedConjunct],
        chosen: NodeChoice | None = None,
        names: Sequence[str] = (),
    ) -> Iterator[NodeChoice]:
        """Yield the choices of nodes, for the variables of conjuncts and for `names`, that satisfy
        all conjuncts.

        Each choice extends `chosen`, whose nodes stay.  Raises TooLong.
        """
        yield from self._complete(chosen or {}, self._steps(conjuncts, chosen or {}, names), 0)

    def _steps(
        self, conjuncts: Sequence[TestedConjunct], chosen: NodeChoice, names: Sequence[str]
    ) -> list[_Step]:
        """Return the steps from a choice to those of `of`: equalities come first, `names` last."""
        steps: list[_Step] = []
        known = set(chosen)
        for conjunct in _equalities_first(conjuncts):
            if conjunct.equality is None:
                steps += self._nodes(conjunct.variables, known)
            else:
                # The operand with known nodes comes first, the other one is looked up.
                first, second = sorted(conjunct.equality, key=lambda one: self._is_new(one, known))
                steps += self._nodes(first.names, known)
                places = list(self._chains(second.names))
                shared = tuple(place for place in places if place in known)
                steps.append(partial(self._partners, first, second, shared))
                known.update(places)
            steps.append(partial(self._tested, conjunct))
        return [*steps, *self._nodes(names, known)]

    def _is_new(self, operand: OperandValues, known: set[PlacedNode]) -> bool:
        return known.isdisjoint(self._chains(operand.names))

    def _nodes(self, names: Sequence[str], known: set[PlacedNode]) -> Iterator[_Step]:
        """Yield a step for each pattern node of variables that is not in `known`, and add it."""
        for place in self._chains(names):
            if place not in known:
                known.add(place)
                yield partial(self._bindings, place)

    def _chains(self, names: Sequence[str]) -> Iterator[PlacedNode]:
        """Yield the pattern nodes from the root to each of some variables, upper ones first."""
        for name in names:
            component, number = self._places[name]
            if component in self._trees:
                for node in self._patterns[component].chain(number):
                    yield component, node

    def _complete(
        self, choice: NodeChoice, steps: Sequence[_Step], done: int
    ) -> Iterator[NodeChoice]:
        if done == len(steps):
            yield choice
            return
        for more in steps[done](choice):
            self._made += 1
            if self._made > CHOICES_MADE:
                raise TooLong(
                    f"the documents have over {CHOICES_MADE:,} choices of nodes to test",
                    hint="ask about documents with fewer records",
                )
            yield from self._complete({**choice, **more}, steps, done + 1)

    def _tested(self, conjunct: TestedConjunct, choice: NodeChoice) -> Sequence[NodeChoice]:
        """Return a choice unchanged if it satisfies a conjunct."""
        return [{}] if conjunct.test.holds(self._chosen(choice, conjunct.variables)) else []

    def _bindings(self, place: PlacedNode, choice: NodeChoice) -> Iterator[NodeChoice]:
        """Yield each node to which a node of a pattern can be bound."""
        return ({place: node} for node in self._below(choice, place))

    def _partners(
        self,
        first: OperandValues,
        second: OperandValues,
        shared: tuple[PlacedNode, ...],
        choice: NodeChoice,
    ) -> Iterator[NodeChoice]:
        """Yield the nodes for which the second operand has a value that the first one has.

        They lie below those that `choice` has for `shared`.
        """
        fixed = {place: choice[place] for place in shared}
        key = second, tuple(fixed.items())
        index = self._indexes.get(key)
        if index is None:
            index = {}
            for row in self.of((), fixed, second.names):
                for text in second.texts(self._chosen(row, second.names)):
                    index.setdefault(text, []).append(row)
            self._indexes[key] = index  # a whole one only: `_holds_alone` goes on after TooLong
        for text in dict.fromkeys(first.texts(self._chosen(choice, first.names))):
            yield from index.get(text, ())

    def _chosen(self, choice: NodeChoice, names: Sequence[str]) -> dict[str, Item | None]:
        """Return the nodes of variables in a choice."""
        return {name: self.item(choice, name) for name in names}

    def _below(self, choice: NodeChoice, place: PlacedNode) -> Sequence[int]:
        """Return the numbers of the nodes that a node of a pattern, `place`, can be bound to.

        They lie below the node that `choice` has for the parent of `place`.
        """
        component, number = place
        node, bound = self._patterns[component].nodes[number], self._bound[component]
        if node.parent is None:
            return bound[number]
        inside = self._inside.get(place)
        if inside is None:  # one pass for all parents
            inside = self._inside[place] = {parent: [] for parent in bound[node.parent]}
            for lower in bound[number]:
                for parent in inside.keys() & above(self._trees[component], node.step, (lower,)):
                    inside[parent].append(lower)
        return inside[choice[component, node.parent]]

    # -- Predicates ------------------------------------------------------------------------

    def conjuncts(self, predicate: syntax.Predicate | None) -> tuple[TestedConjunct, ...]:
        """Return the parts of a predicate whose variables all belong to documents."""
        if predicate is None:
            return ()
        found = rewritten(predicate, _plain)
        return tuple(TestedConjunct(part) for part in _parts(found) if self._is_decided(part))

    def _is_decided(self, predicate: syntax.Predicate) -> bool:
        return all(
            isinstance(leaf, syntax.VariablePath) and leaf.variable in self._places
            for leaf in leaves(predicate)
            if isinstance(leaf, syntax.VariablePath | syntax.DecoratedName)
        )

    def edges(
        self, conjuncts: Sequence[TestedConjunct], given: Sequence[TestedConjunct] = ()
    ) -> Iterator[Edge]:
        """Yield an edge for each conjunct, with the values of one choice of nodes for all of them.

        It holds if some choice satisfies the conjunct, all before it that hold, and those of
        `given` that do; equalities come first.  The values of the first that fails are the nearest
        of `CHOICES` choices.
        """
        held: list[TestedConjunct] = []
        failing: list[TestedConjunct] = []
        for conjunct in (*given, *_equalities_first(conjuncts)):
            # An equality that fails alone needs no choices for the others.
            can_hold = conjunct.equality is None or self._hold([conjunct])
            holds = can_hold and self._hold([*held, conjunct])
            (held if holds else failing).append(conjunct)
        choices = list(islice(self.of(held), CHOICES))
        most = PAIRS // len(choices)
        chosen = choices[0]
        if failing:
            first = failing[0].predicate
            chosen = min(
                choices, key=lambda one: closest_values(first, self._at(one, most), most).distance
            )
        for conjunct in conjuncts:
            holds = conjunct in held
            near = closest_values(conjunct.predicate, self._at(chosen)).text
            if not holds and held and self._holds_alone(conjunct):
                near = f"{near} where the others hold"
            yield Edge("value", unparse(conjunct.predicate), holds, near)

    def _hold(self, conjuncts: Sequence[TestedConjunct]) -> bool:
        """Return True if some choice of nodes satisfies all conjuncts."""
        return next(self.of(conjuncts), None) is not None

    def _holds_alone(self, conjunct: TestedConjunct) -> bool:
        """Return True if one of the first choices of nodes satisfies a conjunct."""
        made, self._made = self._made, CHOICES_MADE - CHOICES_ALONE
        try:
            return self._hold([conjunct])
        except TooLong:
            return False
        finally:
            self._made = made

    def _at(
        self, chosen: NodeChoice, most: int = PAIRS
    ) -> Callable[[syntax.Operand], Sequence[str]]:
        """Return the function of an operand that returns its values in extensions of a choice.

        At most `most` extensions count, of several variables at most `CHOICES`.
        """
        parts = {component for component, _ in chosen}

        def values(operand: syntax.Operand) -> Sequence[str]:
            names = variables(operand)
            if len(names) > 1:
                texts = texts_over(operand)
                rows = islice(self.of((), chosen, names), CHOICES)
                return [text for row in rows for text in texts(self._chosen(row, names))]
            read = texts_of(rewritten(operand, here))
            if not names:
                return read("")
            if self._places[names[0]][0] not in parts:
                return [text for item in self.items(names[0]) for text in read(item)]
            rows = islice(self.of((), chosen, names), most)
            found = dict.fromkeys(self.item(row, names[0]) for row in rows)
            return [text for item in found if item is not None for text in read(item)]

        return values


def _equalities_first(conjuncts: Sequence[TestedConjunct]) -> Sequence[TestedConjunct]:
    return sorted(conjuncts, key=lambda one: one.equality is None)


def _parts(predicate: syntax.Predicate) -> Iterator[syntax.Predicate]:
    """Yield the conjuncts of a predicate."""
    match predicate:
        case syntax.And(parts):
            for part in parts:
                yield from _parts(part)
        case syntax.Not(syntax.Or(parts)):
            for part in parts:
                yield from _parts(syntax.Not(part))
        case syntax.Not(syntax.Not(part)):
            yield from _parts(part)
        case _:
            yield predicate


def _plain(leaf: Any) -> Any:
    """Return `$1.x` or `$2.x` as the variable x; any other leaf, such as `$.x`, stays the same."""
    if isinstance(leaf, syntax.DecoratedName) and leaf.input:
        return syntax.VariablePath(leaf.name)
    return leaf


# -- The nearest miss ------------------------------------------------------------------------

# Texts that differ only in case are closest, then those that differ only in white space.
# Other texts are compared by similarity (Ratcliff and Obershelp), numbers by their difference.
WIDTH = 60
"""Characters of a value that are shown and compared by their common parts."""


class NearValues(NamedTuple):
    """Values of the operands of comparisons: how far they are from satisfying them, and a text."""

    distance: tuple[int, float]
    text: str


def closest_values(
    predicate: syntax.Predicate,
    values: Callable[[syntax.Operand], Sequence[str]],
    most: int = PAIRS,
) -> NearValues:
    """Return the values that come closest to satisfying a predicate's comparisons.

    `values` returns those of an operand.  At most `most` pairs of them are compared.
    """
    match predicate:
        case syntax.And(parts) | syntax.Or(parts):
            found = [closest_values(part, values, most) for part in parts]
            texts = (
                f"{unparse(part)}: {near.text}" for part, near in zip(parts, found, strict=True)
            )
            return NearValues(min(near.distance for near in found), "; ".join(texts))
        case syntax.Not(part):
            return closest_values(part, values, most)
        case syntax.Comparison(operator, left, right) | syntax.Call(operator, (left, right)):
            lefts, rights = values(left), values(right)
            for operand, side in ((left, lefts), (right, rights)):
                if not side:
                    return NearValues(_INCOMPARABLE, f"{unparse(operand)} has no value")
            if is_numeric(left) or is_numeric(right):
                return _numbers(operator, lefts, rights, most)
            if operator in _SIGNS and is_untyped(left) and is_untyped(right):
                return _untyped(operator, lefts, rights, most)
            return _texts(operator, lefts, rights, most)
        case syntax.Call():
            raise AssertionError("a function in a predicate has two operands")
        case _:
            assert_never(predicate)


def nearest_to(texts: Sequence[str], value: str | float) -> str:
    """Return in words the one of `texts` that is closest to the constant `value`."""
    if not texts:
        return "there is nothing to compare"
    if isinstance(value, str):
        return _texts("=", texts, [value], PAIRS).text
    return _numbers("=", texts, [f"{value:g}"], PAIRS).text


def shown(text: str) -> str:
    """Return a value in quotes, cut to `WIDTH` characters."""
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return f"'{cut}'"


def _texts(operator: str, lefts: Sequence[str], rights: Sequence[str], most: int) -> NearValues:
    def distance(pair: tuple[str, str]) -> tuple[int, float]:
        return (int(pair[0] == pair[1]), 0.0) if operator in ("!=", "<", ">") else _far(*pair)

    left, right = nearest = min(_pairs(lefts, rights, most), key=distance)
    return NearValues(distance(nearest), f"{shown(left)} and {shown(right)}{_but(left, right)}")


def _pairs(lefts: Sequence[str], rights: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of a value of each side, each pair once, at most `most`."""
    ones, others = list(dict.fromkeys(lefts)), list(dict.fromkeys(rights))
    few = math.isqrt(most)
    ends = max(few, most // len(others)), max(few, most // len(ones))
    return product(ones[: ends[0]], others[: ends[1]])


def _spaced(text: str) -> str:
    return " ".join(text.split())


_ALIKE: tuple[tuple[Callable[[str], str], str], ...] = (
    (str.lower, "case"),
    (_spaced, "white space"),
    (lambda text: _spaced(text).lower(), "case and white space"),
)
"""Small differences, the smallest first: what removes them, and their names."""


def _far(left: str, right: str) -> tuple[int, float]:
    """Return a sort key by which nearer texts come first: the kind of difference, -similarity."""
    if left == right:
        return (0, 0.0)
    for level, (change, _) in enumerate(_ALIKE, 1):
        if change(left) == change(right):
            return (level, 0.0)
    matcher = difflib.SequenceMatcher(None, left[:WIDTH], right[:WIDTH], autojunk=False)
    return (1 + len(_ALIKE), -matcher.ratio())


def _but(left: str, right: str) -> str:
    """Return the difference of two unequal texts, if it is only case or white space; else ''."""
    level, _ = _far(left, right)
    return f", equal but for {_ALIKE[level - 1][1]}" if 1 <= level <= len(_ALIKE) else ""


def _untyped(operator: str, lefts: Sequence[str], rights: Sequence[str], most: int) -> NearValues:
    """Return the pair of untyped values that comes closest to satisfying an order."""
    ones, others = ([text for text in side if _is_number(text)] for side in (lefts, rights))
    if ones and others:
        return _numbers(operator, ones, others, most)
    if ones or others:
        value, text = (ones[0], rights[0]) if ones else (others[0], lefts[0])
        return NearValues(_INCOMPARABLE, f"{shown(value)} is a number and {shown(text)} is none")
    return _texts(operator, lefts, rights, most)


def _is_number(text: str) -> bool:
    return number_of(text) is not None


def _numbers(operator: str, lefts: Sequence[str], rights: Sequence[str], most: int) -> NearValues:
    for side in (lefts, rights):
        if all(math.isnan(number(text)) for text in side):
            return NearValues(_INCOMPARABLE, f"{shown(side[0])} is no number")
    sign = _SIGNS.get(operator, 0)

    def distance(pair: tuple[str, str]) -> tuple[int, float]:
        return 0, _gap(number(pair[0]), number(pair[1]), sign)

    left, right = nearest = min(_pairs(lefts, rights, most), key=distance)
    return NearValues(distance(nearest), f"{shown(left)} and {shown(right)}")


_INCOMPARABLE = (9, 0.0)
"""The distance of values that cannot be compared; that of texts has a kind below it (`_far`)."""
_SIGNS = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def _gap(left: float, right: float, sign: int) -> float:
    """Return the amount by which two numbers miss an order, or equality.

    `sign` is 1 for `<` and `<=`, -1 for `>` and `>=`, and 0 for equality.
    """
    gap = left - right
    if math.isnan(gap):
        return 0.0 if left == right else math.inf
    return gap * sign if sign else abs(gap)

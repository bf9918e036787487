"""Patterns of single events as Cayuga's sequences.

A pattern of single events, each the next that it could take, is a union of sequences, one for each
way through its alternatives.  A sequence is a chain of `;`, whose states have the indexes of
Cayuga: filters are the predicates of `;`, tests are selections above it.  An event that fails a
test is the next one all the same, and ends the match.

Parentheses to the right, ``a ; (b ; c)``, are a plan and no other meaning: of the pairs that end
together those are taken whose b ended first, the `rank` of the `;`.  So a takes the next b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Literal, TypeAlias

from cep_core.algebra import Chain, Choice, Node, One, Part, PatternMatch, Project, Select
from cep_core.algebra import Sequence as Sequenced
from cep_core.algebra import expressions as ex
from cep_core.algebra.pattern_tree import PatternTree, trees_in
from cep_core.algebra.patterns import Conjunct, conjunction, conjuncts_in
from cep_core.events import Schema

_ROLES = {"value": "value", "start": "start", "first_end": "end", "end": "end"}
_MOST_WAYS = 64  # ways through alternatives, each a sequence of its own
PartKey: TypeAlias = tuple[int, str, int | None]  # component, role, attribute


def as_sequences(pattern: PatternMatch) -> list[tuple[PatternTree, Node]] | None:
    """Return the sequences whose union is a pattern, as (tree, algebra); None if there are none."""
    trees = ways(pattern.tree, pattern.rules.mark)
    plain = pattern.rules.policy == "none" and not pattern.rules.simultaneous
    plain = plain and all(part.role in _ROLES and not part.before for part in pattern.parts)
    if not trees or not plain or any(component.repeated for component in pattern.components):
        return None
    found: list[tuple[PatternTree, Node]] = []
    for tree in trees:
        order = components_of(tree)
        own = set(order)
        for one in _conjuncts(pattern):
            read = one.components
            if read and max(read) in own and not read <= own:
                return None  # it reads what does not occur here
        if order != sorted(order):
            return None
        found.append((tree, _Sequence(pattern, tree).node()))
    return found


def bound_of(pattern: PatternMatch) -> ex.Expression | None:
    """Return the condition of a pattern that says the same as its window; None without one.

    It is last.end - first.start <= T in a window of T.
    """
    rules, edges = pattern.rules, (0, len(pattern.components) - 1)
    for one in _conjuncts(pattern):
        if one.lasting is not None and rules.inclusive:
            first, last, time = one.lasting
            if (first.component, last.component) == edges and time == rules.window:
                return one.node
    return None


def ways(tree: PatternTree, mark: str) -> list[PatternTree]:
    """Return the chains of single events that are the ways through a pattern.

    The result is empty if the tree has loops, absences, UNTIL or unordered parts, if a step has
    another mark than next (``mark`` is that of steps without one), or if the ways are too many.
    """
    match tree:
        case One(component, own, ()):
            return [One(component)] if (own or mark) == "next" else []
        case Chain(parts):
            below = [ways(part, mark) for part in parts]
            many = prod(map(len, below)) > _MOST_WAYS
            return [] if many else [Chain(way) for way in product(*below)]
        case Choice(parts):
            each = [ways(part, mark) for part in parts]
            return [way for found in each for way in found] if all(each) else []
        case _:
            return []


def components_of(tree: PatternTree) -> list[int]:
    """Return the components of the single events (`One`) in a tree, in the order of the text."""
    return [one.component for one in trees_in(tree) if isinstance(one, One)]


def _conjuncts(pattern: PatternMatch) -> list[Conjunct]:
    """Return the filters of a pattern, then its tests."""
    parts = pattern.parts
    tests = conjuncts_in(pattern.rules.tests, parts, test=True)
    return [*conjuncts_in(pattern.predicate, parts), *tests]


@dataclass(frozen=True, slots=True)
class _Made:
    """A part of a sequence: its node, its components in order, and the columns of its rows.

    ``columns`` has the index of a column by `PartKey`, ``names`` the names of all for `explain`.
    """

    node: Node
    order: tuple[int, ...]
    columns: Mapping[PartKey, int]
    names: tuple[str, ...]


class _Sequence:
    """The chain of `;` that one way through a pattern, ``tree``, becomes.

    The way has some of the components of the pattern.
    """

    def __init__(self, pattern: PatternMatch, tree: PatternTree) -> None:
        self.pattern, self.tree = pattern, tree
        self.bound = bound_of(pattern)
        own = set(components_of(tree))
        conjuncts = [one for one in _conjuncts(pattern) if one.components <= own]
        self.conjuncts = [one for one in conjuncts if one.node != self.bound]
        self.kept = self._kept_times()  # times that become columns

    def _kept_times(self) -> set[PartKey]:
        """Return the times of events that have to become columns, as the rows of pairs lack them.

        The row of a pair has the begin of its first event and the end of its last one.  Parentheses
        to the right need all times, and the ends of their first events as ranks.
        """
        order, firsts = components_of(self.tree), set(_firsts(self.tree))
        read = {(_key(part), order[-1]) for part in self.pattern.parts[: len(self.pattern.schema)]}
        for one in self.conjuncts:
            if len(one.components) > 1:
                latest = max(one.components)
                read |= {(_key(part), latest) for part in one.parts}
        kept: set[PartKey] = {(first, "end", None) for first in firsts}
        for key, latest in read:
            begins, ends = key == (order[0], "start", None), key == (latest, "end", None)
            if key[1] != "value" and not begins and (firsts or not ends):
                kept.add(key)
        if self.pattern.rules.window is not None and self.bound is None:
            kept.add((order[0], "end", None))  # a window counts from the end of the first event
        return kept

    def node(self) -> Node:
        """Return the results of the pattern as algebra."""
        made = self._made(self.tree, True)
        schema = self.pattern.schema
        columns = [
            self._over(ex.Column(2, at), {2: made})
            if part.component in made.order
            else ex.Constant(None)
            for at, part in enumerate(self.pattern.parts[: len(schema)])
        ]
        return Project(made.node, tuple(columns), schema)

    def _made(self, tree: PatternTree, leading: bool) -> _Made:
        """Return a part of the chain as algebra; ``leading``: it is the begin of the chain."""
        if isinstance(tree, One):
            return self._source(tree.component, leading)
        assert isinstance(tree, Chain)
        made = self._made(tree.parts[0], leading)
        for part in tree.parts[1:]:
            made = self._pair(made, self._made(part, False), leading)
        return made

    def _source(self, component: int, leading: bool) -> _Made:
        """Return the events of a component that pass its filters, with columns of their times.

        The columns are those of the times in `kept`.  For the ``leading`` component its tests are
        filters as well, and so are conditions that read no component.
        """
        node = self.pattern.inputs[self.pattern.components[component].input]
        schema = node.schema
        columns: dict[PartKey, int] = {(component, "value", at): at for at in range(len(schema))}
        conditions = [
            conjunct.node
            for conjunct in self.conjuncts
            if (conjunct.components == {component} and (leading or not conjunct.test))
            or (leading and not conjunct.components)
        ]
        names = tuple([f"{component + 1}.{name}" for name in schema.names])
        node = self._selected(_Made(node, (component,), columns, names), conditions)
        times = sorted(key for key in self.kept if key[0] == component)
        if times:
            named = [ex.Column(2, at) for at in range(len(schema))]
            labels = [f"#{role}" for _, role, _ in times]
            kinds = (*schema.types, *[int] * len(times))
            columns |= {key: len(schema) + at for at, key in enumerate(times)}
            made = Schema((*schema.names, *labels), kinds)
            node = Project(node, (*named, *[_TIMES[role] for _, role, _ in times]), made)
            names += tuple([f"{component + 1}{label}" for label in labels])
        return _Made(node, (component,), columns, names)

    def _pair(self, left: _Made, right: _Made, leading: bool) -> _Made:
        """Return the sequence `left ; right`, with the conditions that need both.

        ``leading``: ``left`` is the begin of the chain.
        """
        before, both = set(left.order), {*left.order, *right.order}
        new = [conjunct for conjunct in self.conjuncts if conjunct.components <= both]
        new = [one for one in new if not one.components <= before]
        filters = [
            one
            for one in new
            if (not one.test and not one.components <= set(right.order))
            or (len(right.order) == 1 and _is_time(one, right.order[0]))
        ]
        conditions = [self._over(one.node, {1: left, 2: right}) for one in filters]
        rules, window = self.pattern.rules, self.pattern.rules.window
        if self.bound is not None and window is not None:
            conditions.append(ex.Compare("<=", ex.Duration(), window))
        elif window is not None:
            lasted = ex.Arithmetic(
                "-", ex.Time(2, "end"), ex.Column(1, left.columns[left.order[0], "end", None])
            )
            conditions.append(ex.Compare("<=" if rules.inclusive else "<", lasted, window))
        rank = right.columns[right.order[0], "end", None] if len(right.order) > 1 else None
        names = (*left.names, *right.names)
        kinds = (*left.node.schema.types, *right.node.schema.types)
        predicate = conjunction(conditions)
        node: Node = Sequenced(left.node, right.node, predicate, Schema(names, kinds), rank)
        width = len(left.node.schema)
        columns = {**left.columns, **{key: width + at for key, at in right.columns.items()}}
        made = _Made(node, (*left.order, *right.order), columns, names)
        tests = [one.node for one in new if one.test and one not in filters] if leading else []
        return replace(made, node=self._selected(made, tests))

    def _selected(self, made: _Made, conditions: Sequence[ex.Expression]) -> Node:
        predicate = conjunction(self._over(condition, {2: made}) for condition in conditions)
        node = made.node
        return node if predicate == ex.TRUE else Select(node, predicate, node.schema)

    def _over(
        self, condition: ex.Expression, sides: Mapping[Literal[1, 2], _Made]
    ) -> ex.Expression:
        """Return a condition on the pattern's parts as one on a pair of rows.

        ``sides`` say what the rows of sides 1 and 2 have.
        """

        def placed(node: ex.Expression) -> ex.Expression:
            match node:
                case ex.Arithmetic("-", ex.Time(2, "end"), ex.Time(1, "begin")):
                    return ex.Duration()
                case ex.Column(_, index):
                    return self._value(_key(self.pattern.parts[index]), sides)
                case _:
                    return node

        return ex.rewrite(condition, placed)

    def _value(self, key: PartKey, sides: Mapping[Literal[1, 2], _Made]) -> ex.Expression:
        component, role, _ = key
        side, made = next(item for item in sides.items() if component in item[1].order)
        if key in made.columns:
            return ex.Column(side, made.columns[key])
        return ex.Time(side, "begin" if role == "start" else "end")


def _is_time(one: Conjunct, component: int) -> bool:
    """Return True if a condition bounds the time from another component's event to this one's.

    If an event of ``component`` fails it, so do all later events.
    """
    if one.lasting is None:
        return False
    first, last, time = one.lasting
    constant = isinstance(time, ex.Constant | ex.Parameter)
    return constant and last.component == component != first.component


def _firsts(tree: PatternTree, leading: bool = True) -> Iterator[int]:
    """Yield the first component of each nested chain, apart from one that begins the pattern."""
    if isinstance(tree, Chain):
        if not leading:
            yield components_of(tree)[0]
        for at, part in enumerate(tree.parts):
            yield from _firsts(part, leading and not at)


def _key(part: Part) -> PartKey:
    return part.component, _ROLES[part.role], part.index


_TIMES: Mapping[str, ex.Time] = {"start": ex.Time(2, "begin"), "end": ex.Time(2, "end")}

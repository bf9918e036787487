r"""The scopes of a query of EQL: its pattern, and the groups that are lowered by themselves.

A condition belongs to the innermost group that has all it reads.  To the pattern around it a group
is a component whose attributes are what is read of it further out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain

from cep_core import algebra
from cep_core.algebra import Node, Part, Rules
from cep_core.algebra import expressions as ex
from cep_core.algebra.pattern_tree import Chain, Choice, Loop, One, PatternTree, components_aside
from cep_core.algebra.patterns import conjunction, conjuncts_in
from cep_core.errors import AlgebraError, Extent
from cep_core.languages.eql.operands import PatternGroup
from cep_core.languages.names import ResultItem
from cep_core.languages.sase.components import ReadPattern
from cep_core.languages.sase.lowering import PatternLowering
from cep_core.languages.sase.scope import Variables


@dataclass(slots=True)
class Scopes:
    """The variables, conditions and result items of a query, and their translation to algebra."""

    variables: Variables
    functions: ex.Functions
    pattern: ReadPattern
    filters: list[ex.Expression]
    tests: list[ex.Expression]
    items: list[ResultItem]
    span: Extent
    partition: tuple[str, ...]
    rules: Rules
    _kept: list[Part] = field(default_factory=list)

    def lowered(self, groups: Iterable[PatternGroup]) -> Node:
        """Return the query as algebra; ``groups`` are in order, the inner ones first."""
        for group in groups:
            node = self._group(group)
            variables = list(self.variables.all)
            variables[group.number] = replace(variables[group.number], node=node)
            self.variables.all = variables
            self.variables.references = [
                self._outside(group, reference) if reference in self._kept else reference
                for reference in self.variables.references
            ]
        return self._lowered(self.pattern.tree, self.filters, self.tests, self.items, self.rules)

    def _outside(self, group: PatternGroup, reference: Part) -> Part:
        """Return the part of a group's row that stands for a part inside the group.

        A moment has times of its own.
        """
        if group.time is not None and reference.index is None:
            return Part(group.number, reference.role)
        return Part(group.number, "value", self._kept.index(reference))

    def _group(self, group: PatternGroup) -> Node:
        """Return a group as algebra; its columns are the parts that are read outside."""
        members, guards = group.members, group.guards
        own: tuple[list[ex.Expression], list[ex.Expression]] = ([], [])
        guarding: dict[int, list[ex.Expression]] = {one: [] for one in guards}
        for kind, conditions in enumerate((self.filters, self.tests)):
            for one in list(conditions):
                read = self._read_by(one)
                ends = next((guard for guard in guards if guard in read), None)
                if ends is not None:
                    guarding[ends].append(one)
                elif read and read <= set(members):
                    own[kind].append(one)
                else:
                    continue
                conditions.remove(one)
        shown = [expression for _, expression, _ in self.items]
        outside = [*self.filters, *self.tests, *chain.from_iterable(guarding.values()), *shown]
        read_outside = self.variables.read_in(*outside)
        self._kept = [part for part in read_outside if part.component in members]
        items = [
            ResultItem(self.variables.text(one), self.variables.column(one), self.span)
            for one in self._kept
        ]
        bare = replace(self.rules, window=None, inclusive=False, policy="none", target=None)
        node = self._lowered(group.tree, *own, items, bare)
        if group.time is None:
            return node
        other: Node = algebra.select(_first_stream(node), ex.FALSE, self.functions)
        predicate: ex.Expression = ex.FALSE
        if guards:
            kinds = [kind for one in guards for kind in self.variables.all[one].node.schema.types]
            made = [self._guarding(one, guarding[one], kinds, guards) for one in guards]
            other = reduce(algebra.union, [row for row, _ in made])
            found = [condition for _, condition in made]
            predicate = found[0] if len(found) == 1 else ex.Or(tuple(found))
        return algebra.outer_join(
            node,
            other,
            predicate,
            bounds=(None, group.time),
            functions=self.functions,
            paired=False,
            moment=True,
        )

    def _guarding(
        self, guard: int, conditions: Sequence[ex.Expression], kinds: list[type], guards: list[int]
    ) -> tuple[Node, ex.Expression]:
        """Return the rows of a ``guard``, and the condition under which a row ends the moment.

        The condition reads the row of the group as side 1.  Several ``guards`` are one input: its
        rows have the columns of all, of the types ``kinds``, and the number of the guard.
        """
        node = self.variables.all[guard].node
        width, first = len(node.schema), 0
        if len(guards) > 1:
            before = guards[: guards.index(guard)]
            first = sum(len(self.variables.all[one].node.schema) for one in before)
            values: list[ex.Expression] = [ex.Constant(None)] * len(kinds)
            values[first : first + width] = [ex.Column(2, at) for at in range(width)]
            named = [(f"#{at}", value) for at, value in enumerate([*values, ex.Constant(guard)])]
            node = algebra.project(node, named, self.functions, nulls=[*kinds, int])
            own = ex.Compare("=", ex.Column(2, len(kinds)), ex.Constant(guard))
        places: dict[tuple[int, int], ex.Expression] = {}
        for at, one in enumerate(self.variables.references):
            if one in self._kept:
                places[2, at] = ex.Column(1, self._kept.index(one))
            elif one.component == guard:
                time = ex.Time(2, "begin" if one.role == "start" else "end")
                places[2, at] = time if one.index is None else ex.Column(2, first + one.index)
        found = [ex.moved(condition, places) for condition in conditions]
        return node, conjunction([own, *found] if len(guards) > 1 else found)

    def _read_by(self, condition: ex.Expression) -> set[int]:
        """Return the components that a condition reads."""
        return {part.component for part in self.variables.read_in(condition)}

    # -- one scope -------------------------------------------------------------------------

    def _lowered(
        self,
        tree: PatternTree,
        filters: Sequence[ex.Expression],
        tests: Sequence[ex.Expression],
        items: list[ResultItem],
        rules: Rules,
    ) -> Node:
        """Return a pattern with conditions as algebra, projected to ``items``.

        ``filters`` are the conditions that filter, ``tests`` those that end a match.
        """
        absent = components_aside(tree)
        aside = [test for test in tests if self._read_by(test) & absent]
        filters = [*filters, *aside]
        for one in filters:
            self._require_before(one, dict(_waiting(tree)))
        tests = [test for test in tests if test not in aside]
        if rules.window is None and not isinstance(tree, One):
            window = _window(tree, self.variables, (*filters, *tests))
            rules = replace(rules, window=window, inclusive=window is not None)
        found = PatternLowering(
            variables=self.variables,
            functions=self.functions,
            tree=tree,
            rules=rules,
            span=self.span,
            partition=self.partition,
            tests=conjunction(tests),
        )
        return found.lowered(conjunction(filters), items)

    def _require_before(self, condition: ex.Expression, latest: Mapping[int, int]) -> None:
        """Raise AlgebraError if a component that ends a match is compared with a later one.

        ``latest`` has for each component that ends a match the last that it may be compared with.
        """
        read = self._read_by(condition)
        for stop in read & latest.keys():
            later = [one for one in read if one != stop and one > latest[stop]]
            if later:
                raise AlgebraError(
                    f"{self.variables.all[later[0]].name} has not occurred yet when this ends the"
                    " match",
                    hint="compare with what stands before the last ;",
                    span=condition.span,
                )


def _first_stream(node: Node) -> algebra.Stream:
    return next(iter(algebra.streams_of(node).values()))


def _waiting(tree: PatternTree, looped: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (component that ends a match, last component that its conditions may read).

    In a loop (``looped``) they may read the earlier events of the loop, too.
    """
    match tree:
        case One(component, until=stops):
            yield from ((stop, component - (not looped)) for stop in stops)
        case Loop(inner, until=stop):
            if stop is not None:
                yield stop, stop - 1
            yield from _waiting(inner, True)
        case Chain(parts) | Choice(parts):
            for part in parts:
                yield from _waiting(part, looped)
        case _:
            return


def _window(
    tree: PatternTree, variables: Variables, conditions: Sequence[ex.Expression]
) -> ex.Expression | None:
    """Return the window that a time constraint on the first and the last event implies, or None."""
    parts = tree.parts if isinstance(tree, Chain) else (tree,)
    edges = [_occurring(parts[0]), _occurring(parts[-1])]
    for one in conjuncts_in(conjunction(conditions), variables.references):
        if one.lasting is not None:
            start, end, time = one.lasting
            if [start.component, end.component] == edges:
                return time
    return None


def _occurring(tree: PatternTree) -> int | None:
    """Return the component of a part that is one event, or a run, of it; None for other parts."""
    match tree:
        case One(component):
            return component
        case Loop(One(component), least) if least > 0:
            return component
        case _:
            return None

"""From SASE's variables and conditions to algebra.

A query is a sequence of the components that have to occur, without what is negated, and a
projection; one event alone is a selection.  Conditions are sorted by what they read: P+, of
components that have to occur, belongs to the sequence, P- to the negated component that it reads
(Wu, Diao and Rizvi 2006, section 2.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from cep_core import algebra
from cep_core.algebra import Component, NegativeComponent, Node, Part, Rules, Strategy, patterns
from cep_core.algebra.expressions import TRUE, Column, Expression, Function, moved, walk
from cep_core.algebra.pattern_tree import Tree
from cep_core.errors import AlgebraError, Span
from cep_core.languages.names import repeated
from cep_core.languages.sase.scope import RUN_VALUES, Reference, Variable, Variables

WHOLE = ("last", "end", *RUN_VALUES)  # roles of a whole run
Item: TypeAlias = tuple[str, Expression, Span]  # of RETURN: a name, and where it stands


@dataclass(slots=True)
class SequenceLowering:
    """From variables and conditions to algebra."""

    variables: Variables
    functions: Mapping[str, Function]
    window: Expression | None
    strategy: Strategy
    span: Span
    partition: tuple[str, ...] = ()
    tree: Tree | None = None  # of a pattern that is no plain sequence
    rules: Rules = field(default_factory=Rules)
    tests: Expression = TRUE  # what ends a match of the pattern

    def lowered(self, condition: Expression, items: list[Item] | None) -> Node:
        """Return the query as algebra."""
        columns = self._all() if items is None else items
        if self.tree is not None:
            return self._matched(self.tree, condition, columns)
        positive, negative = self._parted(condition)
        if not negative and len(self.variables.all) == 1 and not self.variables.all[0].repeated:
            return self._single(positive, columns)
        shown = [expression for _, expression, _ in columns]
        plain = all(isinstance(one, Column) for one in shown) and len(set(shown)) == len(shown)
        if plain and not negative:
            names = [name for name, _, _ in columns]
            return self._scan(self._references(shown), positive, names, _repeated(columns))
        shown += [one for found in negative.values() for one in found]
        references = self._references(shown)
        times = self._times(negative)
        read = [one for one in (*references, *times) if not one.variable.negated]
        outputs = list(dict.fromkeys(read))
        scan = self._scan(outputs, positive, [one.text for one in outputs])
        node: Node = scan if not negative else self._without(scan, negative, outputs)
        return self._projected(node, columns, self._places(outputs))

    def _matched(self, tree: Tree, condition: Expression, columns: list[Item]) -> Node:
        """Return a pattern, and above it the items of RETURN."""
        conjuncts, tests = (patterns.conjuncts_of(one) for one in (condition, self.tests))
        for one in (*conjuncts, *tests):
            self._require_read(one)
        shown = [expression for _, expression, _ in columns]
        plain = all(isinstance(one, Column) for one in shown) and len(set(shown)) == len(shown)
        outputs = self._references(shown)
        names = [name for name, _, _ in columns] if plain else [one.text for one in outputs]
        parts = list(dict.fromkeys([*outputs, *self._references([*conjuncts, *tests])]))
        nodes = list(dict.fromkeys(one.node for one in self.variables.all))
        places = self._places(parts)
        found = algebra.pattern_match(
            nodes,
            [Component(nodes.index(one.node), one.repeated) for one in self.variables.all],
            tree,
            [
                Part(one.variable.position, one.role, one.place, one.before, one.offset)
                for one in parts
            ],
            names,
            patterns.conjunction(moved(one, places) for one in conjuncts),
            replace(
                self.rules,
                partition=tuple([self._partition_of(node) for node in nodes]),
                tests=patterns.conjunction(moved(one, places) for one in tests),
            ),
            self.functions,
            _repeated(columns) or self.span,
        )
        return found if plain else self._projected(found, columns, self._places(outputs))

    def _require_read(self, conjunct: Expression) -> None:
        """Raise AlgebraError unless there is a moment at which a condition can be tested."""
        found = self._references([conjunct])
        aside = list(dict.fromkeys(one.variable.name for one in found if one.variable.negated))
        if len(aside) > 1:
            raise AlgebraError(
                f"a condition reads {' and '.join(aside)}, which do not occur",
                hint="each of them has conditions of its own",
                span=conjunct.span,
            )
        if aside:
            self._require_whole(conjunct)
        latest = max((one.variable.position for one in found), default=0)
        for each in (one for one in found if one.role in ("previous", "previous_end")):
            if each.variable.position != latest:
                name = next(one.variable.name for one in found if one.variable.position == latest)
                raise AlgebraError(
                    f"a condition on {name} reads the event before {each.variable.name}[i]",
                    hint=f"only the event before {name}[i] is known then",
                    span=conjunct.span,
                )
        for each in (one for one in found if one.each):
            whole = any(
                one.variable is each.variable and one.role in WHOLE and not one.before
                for one in found
            )
            together = latest in self.variables.beside(each.variable)
            if whole or not (each.variable.position == latest or together):
                raise AlgebraError(
                    "a condition on each row of a run reads only what comes before it",
                    hint="compare a whole run, such as b[last].x or MAX(b[].x), with what comes"
                    " later",
                    span=conjunct.span,
                )

    def _projected(
        self, node: Node, columns: list[Item], places: Mapping[tuple[int, int], Column]
    ) -> Node:
        """Return the items of RETURN over the columns of a node."""
        made = [(name, moved(expression, places)) for name, expression, _ in columns]
        return algebra.project(node, made, self.functions, _repeated(columns))

    def _places(
        self, references: Iterable[Reference], side: Literal[1, 2] = 2
    ) -> dict[tuple[int, int], Column]:
        """Return the columns of references that stand one after the other on a side."""
        columns = [(2, self.variables.column(one).index) for one in references]
        return {column: Column(side, place) for place, column in enumerate(columns)}

    def _single(self, conjuncts: list[Expression], columns: list[Item]) -> Node:
        """Return a query of one event as selection and projection."""
        (variable,) = self.variables.all
        places = {
            (2, at): Column(2, one.place or 0) for at, one in enumerate(self.variables.references)
        }
        node = variable.node
        if conjuncts:
            predicate = patterns.conjunction(moved(one, places) for one in conjuncts)
            node = algebra.select(node, predicate, self.functions)
        return self._projected(node, columns, places)

    def _all(self) -> list[Item]:
        """Return the attributes of all components that have to occur."""
        found: list[tuple[Variable, str, Expression]] = []
        for one in self.variables.positive():
            role: Any = "last" if one.repeated else "value"
            for name in one.attributes:
                found.append((one, name, self.variables.column(Reference(one, role, name))))
            if one.repeated:
                count = self.variables.column(Reference(one, "COUNT", None))
                found.append((one, "count", count))
        names = [name for _, name, _ in found]
        return [
            (
                f"{one.name}_{name}" if names.count(name) > 1 or name == "count" else name,
                expression,
                one.span,
            )
            for one, name, expression in found
        ]

    def _parted(
        self, condition: Expression
    ) -> tuple[list[Expression], dict[Variable, list[Expression]]]:
        """Return the conditions on what has to occur, and those on each negated component."""
        positive: list[Expression] = []
        negative: dict[Variable, list[Expression]] = {
            one: [] for one in self.variables.all if one.negated
        }
        for conjunct in patterns.conjuncts_of(condition):
            found = {one.variable: None for one in self._references([conjunct])}
            negated = [one for one in found if one.negated]
            if not negated:
                positive.append(conjunct)
            elif len(negated) == 1:
                self._require_whole(conjunct)
                negative[negated[0]].append(conjunct)
            else:
                names = " and ".join(one.name for one in negated)
                raise AlgebraError(
                    f"a condition reads {names}, which are negated both",
                    hint="each negated component has conditions of its own",
                    span=conjunct.span,
                )
        return positive, negative

    def _require_whole(self, conjunct: Expression) -> None:
        for one in self._references([conjunct]):
            if one.each:
                raise AlgebraError(
                    f"a condition on what is negated reads {one.text}",
                    hint=f"write {one.variable.name}[1], {one.variable.name}[last] or an aggregate",
                    span=conjunct.span,
                )

    def _references(self, expressions: list[Expression]) -> list[Reference]:
        """Return the references of expressions, negated components included, each once."""
        indexes = [
            part.index for one in expressions for part in walk(one) if isinstance(part, Column)
        ]
        return [self.variables.references[index] for index in dict.fromkeys(indexes)]

    def _times(self, negative: Mapping[Variable, object]) -> list[Reference]:
        """Return the times between which nothing negated may happen."""
        found: list[Reference] = []
        for one in negative:
            found += [time for time in self._around(one) if time is not None]
        if negative:
            found.append(Reference(self.variables.positive()[0], "first_end", None))
        return found

    def _around(self, variable: Variable) -> tuple[Reference | None, Reference | None]:
        """Return the end of the component before a negated one, and the start of the next."""
        positive = self.variables.positive()
        before = [one for one in positive if one.position < variable.position]
        after = [one for one in positive if one.position > variable.position]
        return (
            Reference(before[-1], "end", None) if before else None,
            Reference(after[0], "start", None) if after else None,
        )

    def _scan(
        self,
        outputs: list[Reference],
        conjuncts: list[Expression],
        names: list[str],
        repeated: Span | None = None,
    ) -> algebra.SequenceScan:
        """Return the sequence, with the outputs under some names."""
        positive = self.variables.positive()
        read = self._references(conjuncts)
        parts = list(dict.fromkeys([*outputs, *read]))
        nodes = list(dict.fromkeys(one.node for one in self._inputs()))
        components = [Component(nodes.index(one.node), one.repeated) for one in positive]
        order = {one: place for place, one in enumerate(positive)}
        places = self._places(parts)
        return patterns.sequence_scan(
            nodes,
            components,
            [Part(order[one.variable], one.role, one.place, one.before) for one in parts],
            names,
            patterns.conjunction(moved(one, places) for one in conjuncts),
            self.window,
            self.strategy,
            [self._partition_of(node) for node in nodes],
            self.functions,
            repeated or self.span,
        )

    def _inputs(self) -> list[Variable]:
        """Return the components whose events the strategy looks at."""
        if self.strategy in ("strict", "partition"):
            return [*self.variables.positive(), *[v for v in self.variables.all if v.negated]]
        return self.variables.positive()

    def _partition_of(self, node: Node) -> tuple[int, ...] | None:
        names = node.schema.names
        if not self.partition or not all(name in names for name in self.partition):
            return None
        return tuple([names.index(name) for name in self.partition])

    def _without(
        self,
        scan: algebra.SequenceScan,
        negative: Mapping[Variable, list[Expression]],
        outputs: list[Reference],
    ) -> Node:
        position: dict[Reference | None, int] = {one: at for at, one in enumerate(outputs)}
        components: list[NegativeComponent] = []
        for variable, conjuncts in negative.items():
            places = self._places(outputs, 1)
            for at, one in enumerate(self.variables.references):
                if one.variable is variable:
                    places[2, at] = Column(2, one.place or 0)
            predicate = patterns.conjunction(moved(one, places) for one in conjuncts)
            after, before = self._around(variable)
            if (after is None or before is None) and self.window is None:
                raise AlgebraError(
                    "what is negated at the start or end of a sequence needs a window",
                    hint="add WITHIN and a duration",
                    span=variable.span,
                )
            times = position.get(after), position.get(before)
            components.append(NegativeComponent(predicate, *times))
        first = position[Reference(self.variables.positive()[0], "first_end", None)]
        inputs = [one.node for one in negative]
        return patterns.negation(scan, inputs, components, first, self.functions, self.span)


def _repeated(columns: list[Item]) -> Span | None:
    return repeated((name, span) for name, _, span in columns)

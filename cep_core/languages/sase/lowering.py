"""From SASE's variables, conditions and clauses to algebra.

A query is a pattern of its components and a projection; one event alone is a selection.  The
clauses WITHIN and AFTER MATCH stand behind the conditions of a pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep_core import algebra
from cep_core.algebra import Component, Loop, Node, One, Part, Rules, pattern_tree, patterns
from cep_core.algebra.expressions import TRUE, Column, Expression, Functions, moved
from cep_core.errors import AlgebraError, Extent
from cep_core.languages.names import ResultItem, repeated
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.components import ReadPattern
from cep_core.languages.sase.scope import RUN_VALUES, PatternVariable, Variables, is_each

WHOLE = ("last", "end", *RUN_VALUES)  # roles of a whole run


@dataclass(slots=True)
class PatternLowering:
    """A pattern that has been read; `lowered` makes a node of the algebra from it."""

    variables: Variables
    functions: Functions
    tree: pattern_tree.PatternTree
    rules: Rules
    span: Extent
    partition: tuple[str, ...] = ()
    tests: Expression = TRUE  # conditions that end a match when they fail

    def lowered(self, condition: Expression, items: list[ResultItem] | None) -> Node:
        """Return the pattern, with the conditions of WHERE, as algebra.

        It is projected to ``items``; None: to all attributes.
        """
        columns = self._all() if items is None else items
        numbers = sorted(
            pattern_tree.components_in(self.tree) | pattern_tree.components_aside(self.tree)
        )
        components = {number: place for place, number in enumerate(numbers)}
        conjuncts, tests = patterns.conjuncts_of(condition), patterns.conjuncts_of(self.tests)
        if self._is_selection():
            return self._single(conjuncts, columns)
        for one in (*conjuncts, *tests):
            self._require_read(one)
        shown = [expression for _, expression, _ in columns]
        plain = all(isinstance(one, Column) for one in shown) and len(set(shown)) == len(shown)
        outputs = self.variables.read_in(*shown)
        names = (
            [name for name, _, _ in columns] if plain else list(map(self.variables.text, outputs))
        )
        parts = list(dict.fromkeys([*outputs, *self.variables.read_in(*conjuncts, *tests)]))
        variables = [self.variables.all[number] for number in numbers]
        sources = [variable.source(self.functions) for variable in variables]
        nodes = list(dict.fromkeys(sources))
        places = self._places(parts)
        target = self.rules.target
        found = algebra.pattern_match(
            nodes,
            [
                Component(nodes.index(source), one.repeated)
                for source, one in zip(sources, variables, strict=True)
            ],
            pattern_tree.renumbered(self.tree, components),
            [replace(part, component=components[part.component]) for part in parts],
            names,
            patterns.conjunction(moved(conjunct, places) for conjunct in conjuncts),
            replace(
                self.rules,
                target=None if target is None else components[target],
                partition=tuple([self._partition_of(node) for node in nodes]),
                tests=patterns.conjunction(moved(test, places) for test in tests),
            ),
            self.functions,
            repeated(columns) or self.span,
        )
        return found if plain else self._projected(found, columns, self._places(outputs))

    def _is_selection(self) -> bool:
        """Return True if a match is one event, tested alone, of which only attributes are read."""
        rules = self.rules
        return (
            isinstance(self.tree, One)
            and self.tree == One(self.tree.component)
            and rules.policy == "none"
            and not rules.simultaneous
            and self.tests == TRUE
            and all(reference.role == "value" for reference in self.variables.references)
        )

    def _require_read(self, conjunct: Expression) -> None:
        """Raise AlgebraError unless there is a moment at which a condition can be tested."""
        found, of = self.variables.read_in(conjunct), self.variables.of
        absent = pattern_tree.components_aside(self.tree)
        aside = list(dict.fromkeys(of(one).name for one in found if one.component in absent))
        if len(aside) > 1:
            raise AlgebraError(
                f"a condition reads {' and '.join(aside)}, which do not occur",
                hint="each of them has conditions of its own",
                span=conjunct.span,
            )
        if aside:
            self._require_whole(conjunct)
        latest = max((one.component for one in found), default=0)
        for each in (one for one in found if one.role in ("previous", "previous_end")):
            if each.component != latest:
                name = self.variables.all[latest].name
                raise AlgebraError(
                    f"a condition on {name} reads the event before {of(each).name}[i]",
                    hint=f"only the event before {name}[i] is known then",
                    span=conjunct.span,
                )
        for each in filter(is_each, found):
            whole = any(
                one.component == each.component and one.role in WHOLE and not one.before
                for one in found
            )
            together = latest in self.variables.beside(of(each))
            if whole or not (each.component == latest or together):
                raise AlgebraError(
                    "a condition on each row of a run reads only what comes before it",
                    hint="compare a whole run, such as b[last].x or MAX(b[].x), with what comes"
                    " later",
                    span=conjunct.span,
                )

    def _projected(
        self, node: Node, columns: list[ResultItem], places: Mapping[tuple[int, int], Column]
    ) -> Node:
        """Return the projection of a node to the items of RETURN.

        ``places`` has, by (side, index) of a column in an item, the column of the node.
        """
        made = [(name, moved(expression, places)) for name, expression, _ in columns]
        return algebra.project(node, made, self.functions, repeated(columns))

    def _places(self, references: Iterable[Part]) -> dict[tuple[int, int], Column]:
        """Return a mapping for `moved`: the column of ``references[j]`` becomes column j."""
        columns = [(2, self.variables.column(reference).index) for reference in references]
        return {column: Column(2, place) for place, column in enumerate(columns)}

    def _single(self, conjuncts: list[Expression], columns: list[ResultItem]) -> Node:
        """Return a query of one event as selection and projection."""
        (number,) = pattern_tree.components_in(self.tree)
        places = {
            (2, at): Column(2, one.index or 0) for at, one in enumerate(self.variables.references)
        }
        node = self.variables.all[number].node
        if conjuncts:
            predicate = patterns.conjunction(moved(conjunct, places) for conjunct in conjuncts)
            node = algebra.select(node, predicate, self.functions)
        return self._projected(node, columns, places)

    def _all(self) -> list[ResultItem]:
        """Return the attributes of all components that are not negated.

        For a run they are those of its last event, and the number of its events.
        """
        found: list[tuple[PatternVariable, str, Expression]] = []
        for one in self.variables.positive():
            role: Any = "last" if one.repeated else "value"
            for name in one.attributes:
                found.append((one, name, self.variables.column(one.part(role, name))))
            if one.repeated:
                count = self.variables.column(one.part("COUNT"))
                found.append((one, "count", count))
        names = [name for _, name, _ in found]
        return [
            ResultItem(
                f"{one.name}_{name}" if names.count(name) > 1 or name == "count" else name,
                expression,
                one.span,
            )
            for one, name, expression in found
        ]

    def _require_whole(self, conjunct: Expression) -> None:
        for reference in self.variables.read_in(conjunct):
            if is_each(reference):
                name = self.variables.of(reference).name
                raise AlgebraError(
                    f"a condition on what is negated reads {self.variables.text(reference)}",
                    hint=f"write {name}[1], {name}[last] or an aggregate",
                    span=conjunct.span,
                )

    def _partition_of(self, node: Node) -> tuple[int, ...] | None:
        names = node.schema.names
        if not self.partition or not all(name in names for name in self.partition):
            return None
        return tuple([names.index(name) for name in self.partition])


_POLICIES: dict[tuple[str, ...], pattern_tree.Policy] = {
    ("SKIP", "TO", "NEXT"): "to next",
    ("SKIP", "PAST", "LAST"): "past last",
    ("FIRST", "ONLY"): "first only",
    ("RESTART",): "restart",
    ("NEWEST",): "newest",
    ("SKIP", "TO", "FIRST"): "to first",
    ("SKIP", "TO", "LAST"): "to last",
}


def clauses(reader: TokenReader, variables: Variables) -> Rules:
    """Read WITHIN and AFTER MATCH, if they are there; return rules with only their options."""
    inclusive, window = _within(reader)
    policy, target = _after_match(reader, variables)
    return Rules(window, inclusive, policy=policy, target=target)


def require_partition(
    pattern: ReadPattern, partition: Collection[str], span: Extent, strategy: Extent | None = None
) -> None:
    """Raise AlgebraError if the mark `partition` or a strategy of partitions has no partition.

    ``partition`` has the attributes of the equivalence tests over all components, ``strategy`` is
    the span of such a strategy, None without one.
    """
    marks = [
        tree.mark for tree in pattern_tree.trees_in(pattern.tree) if isinstance(tree, One | Loop)
    ]
    if not partition and (strategy is not None or "partition" in marks):
        what = "the mark partition" if strategy is None else "partition_contiguity"
        message = f"{what} needs an equivalence test over all components"
        hint = "add one to the condition, such as [id]"
        raise AlgebraError(message, hint=hint, span=strategy or span)


def _within(reader: TokenReader) -> tuple[bool, Expression | None]:
    """Read WITHIN; return True if the window is inclusive, and its length, None without one."""
    if not reader.take_word("WITHIN"):
        return False, None
    hint = "leave WITHIN out if there is no window"
    inclusive = reader.take_sign("<=")
    zero = None if inclusive else hint
    return inclusive, parameter(reader.duration("12 hours", zero=zero))


def _after_match(
    reader: TokenReader, variables: Variables
) -> tuple[pattern_tree.Policy, int | None]:
    """Read AFTER MATCH; return its policy, and the component to which matching skips or None."""
    if not reader.take_word("AFTER"):
        return "none", None
    reader.expect_word("MATCH")
    start = reader.at
    words = [reader.next().word for _ in range(_longest(reader))]
    policy = _POLICIES.get(tuple(words))
    if policy is None:
        to = ("to first", "to last")
        known = ", ".join(" ".join(words) + " x" * (one in to) for words, one in _POLICIES.items())
        message = "this is no policy after a match"
        raise reader.fault(message, reader.tokens[start].span, f"policies are {known}")
    if policy not in ("to first", "to last"):
        return policy, None
    token = reader.expect_name("a component")
    variable = variables.named(token.text)
    if variable is None or variable.negated:
        known = ", ".join(one.name for one in variables.positive())
        message = f"there is no component {token.text} that occurs"
        raise reader.fault(message, token.span, f"components are {known}")
    return policy, variable.position


def _longest(reader: TokenReader) -> int:
    """Return the number of words of the policy that the next word begins; 0 if it begins none."""
    sizes = {words[0]: len(words) for words in _POLICIES}
    return sizes.get(reader.token.word, 0)

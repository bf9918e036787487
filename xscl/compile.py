"""From a query in normal form to what the two stages register.

The blocks' tree patterns become the join graph, its minor says which nodes
stage 2 sees, and those nodes get their canonical definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from templates.joingraph import LEFT, Edge, JoinGraph, Node, minor
from xscl.errors import QueryError
from xscl.language.normalform import NormalQuery, normalise
from xscl.language.parser import parse
from xscl.language.syntax import Exists, Step
from xscl.language.unparse import unparse
from xscl.xpath.pattern import Pattern, pattern


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query, its tree patterns, its join graph and the graph's minor.

    `kept` gives for each node of the minor its number in the graph, and
    `definitions` its canonical definition.
    """

    source: str
    normal: NormalQuery
    patterns: tuple[Pattern, ...]
    graph: JoinGraph
    reduced: JoinGraph
    kept: tuple[int, ...]
    definitions: tuple[str, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(block.stream for block in self.normal.blocks))

    @property
    def apart(self) -> bool:
        """Whether no two value joins can hold between the same two nodes (by their names)."""
        edges = [edge for edge in self.graph.edges if edge.operator == "="]
        return not any(
            self._may_coincide(one.left, two.left) and self._may_coincide(one.right, two.right)
            for one, two in combinations(edges, 2)
        )

    def _may_coincide(self, one: int, two: int) -> bool:
        """Whether two nodes of a side may be bound to the same node of a document."""
        (pattern, a), (_, b) = self._node(one), self._node(two)
        first, second = pattern.nodes[a].step, pattern.nodes[b].step
        names = ((first.test.local, second.test.local), (first.test.uri, second.test.uri))
        same_name = all(x is None or y is None or x == y for x, y in names)
        return one == two or (first.attribute == second.attribute and same_name)

    def variable(self, number: int) -> str | None:
        """Return the variable of a node of the join graph."""
        return self._node(number)[0].nodes[self._node(number)[1]].variable

    def label(self, number: int) -> str:
        """Return what people call a node of the join graph: its variable, or its step."""
        found, local = self._node(number)
        node = found.nodes[local]
        if node.variable is not None and not node.variable.startswith("$"):
            return node.variable
        return ("@" if node.step.attribute else "") + (node.step.test.local or "*")

    def _node(self, number: int) -> tuple[Pattern, int]:
        for each in self.patterns:
            if number < len(each.nodes):
                return each, number
            number -= len(each.nodes)
        raise IndexError(number)


def compile_query(source: str) -> CompiledQuery:
    """Return a query ready to be registered; raises QueryError."""
    normal = normalise(parse(source), source)
    for block in normal.blocks:
        _refuse_impossible(block.steps, source)
    patterns = tuple(pattern(block) for block in normal.blocks)
    graph = _join_graph(patterns, normal)
    reduced, kept = minor(graph) if len(patterns) > 1 else _filter(patterns[0])
    return CompiledQuery(
        source, normal, patterns, graph, reduced, kept, _definitions(patterns, kept)
    )


def _join_graph(patterns: tuple[Pattern, ...], normal: NormalQuery) -> JoinGraph:
    nodes: list[Node] = []
    numbers: dict[str, int] = {}
    for side, each in enumerate(patterns):
        first = len(nodes)
        for number, node in enumerate(each.nodes):
            if node.variable is not None:
                numbers[node.variable] = first + number
            parent = None if node.parent is None else first + node.parent
            nodes.append(Node(side, parent, node.variable in normal.outputs))
    edges = [Edge(numbers[a], numbers[b]) for a, b in normal.equalities]
    edges.extend(Edge(numbers[a], numbers[b], operator) for a, operator, b in normal.residuals)
    return JoinGraph(tuple(nodes), tuple(edges))


def _filter(only: Pattern) -> tuple[JoinGraph, tuple[int, ...]]:
    """Return the minor of a query with one block: all that counts is whether its path matches."""
    return JoinGraph((Node(LEFT, None),)), (only.main,)


def _definitions(patterns: tuple[Pattern, ...], kept: tuple[int, ...]) -> tuple[str, ...]:
    definitions: list[str] = []
    first = 0
    for each in patterns:
        local = frozenset(n - first for n in kept if first <= n < first + len(each.nodes))
        definitions.extend(unparse(each.definition(n, local)) for n in sorted(local))
        first += len(each.nodes)
    return tuple(definitions)


def _refuse_impossible(steps: tuple[Step, ...], source: str) -> None:
    """Raise for a pattern that no document can match: anything below an attribute."""
    for index, step in enumerate(steps):
        below = [c.path.steps[0] for c in step.conditions if isinstance(c, Exists) and c.path.steps]
        if step.attribute and (steps[index + 1 :] or below):
            raise _impossible((steps[index + 1 :] or tuple(below))[0], source)
        for condition in step.conditions:
            if isinstance(condition, Exists):
                _refuse_impossible(condition.path.steps, source)


def _impossible(step: Step, source: str) -> QueryError:
    before = source[: step.span.start]
    return QueryError(
        "this step can never match: an attribute has no children and no attributes",
        source=source,
        line=before.count("\n") + 1,
        column=step.span.start - (before.rfind("\n") + 1) + 1,
        hint="put the attribute at the end of the path",
    )

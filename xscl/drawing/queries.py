"""The picture of a query: for each join the trees of its sides, and the comparisons.

Each operator is a band, the inner ones above.  A side is a block's tree pattern
or, right of an inner operator, the values of its results that are compared.
Stage 2 sees the nodes of the minor, drawn with full lines (Hong 2009, section
6.4.2); nodes that only stage 1 sees are dashed.  Filled nodes belong to the match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from lxml import etree

from templates.model.join_graph import EXCHANGED, LEFT, RIGHT, Edge
from xscl.drawing.svg import LINE, Picture, box, curve, length, line, shortened, text
from xscl.language import normalform as nf
from xscl.language.calendars import calendar_words
from xscl.language.syntax import Block, Predicate
from xscl.language.unparse import unparse
from xscl.planning.compile import CompiledJoin, CompiledQuery
from xscl.time_format import window

MARGIN = 12.0
ROW = 34.0
"""The distance from one node of a tree to the next, downwards."""
INDENT = 20.0
HEADING = 30.0
GAP = 116.0
"""The distance between the two sides of a join."""
LONGEST = 34
"""Most characters of a label."""
WIDEST = 96
"""Most characters of a line below a join."""


@dataclass(frozen=True, slots=True)
class _Label:
    """A drawn node of a tree, placed by its left edge and its middle."""

    words: str
    kind: str
    x: float
    y: float
    parent: int | None

    @property
    def width(self) -> float:
        return length(self.words) + 20


@dataclass(frozen=True, slots=True)
class _Side:
    heading: str
    labels: dict[int, _Label]
    """By the node's number in the join graph."""
    width: float
    height: float


def draw_query(compiled: CompiledQuery) -> Picture:
    """Return the picture of a query's join graphs and operators."""
    elements: list[etree._Element] = []
    y, width = MARGIN, 0.0
    for band in _bands(compiled.normal.form, compiled):
        drawn, band_width, band_height = band
        for each in drawn:
            each.set("transform", f"translate(0 {y:.1f})")
        elements.extend(drawn)
        y += band_height + MARGIN
        width = max(width, band_width)
    described = " ".join(compiled.source.split())
    return Picture(f"Join graph of {described}", width + MARGIN, y, tuple(elements))


_Band: TypeAlias = "tuple[list[etree._Element], float, float]"
"""Elements, and the width and height of what they draw."""


def _bands(part: nf.NormalForm, compiled: CompiledQuery) -> Iterator[_Band]:
    """Yield the drawing of a part of a query, with its width and height."""
    match part:
        case nf.Scan(_, number):
            if number is not None:
                yield _filter(compiled.joins[number])
        case nf.CalendarForm(component):
            block = compiled.normal.blocks[component]
            yield _alone(unparse(block), shortened(calendar_words(block.stream), WIDEST))
        case nf.JoinForm(left, right, joins=numbers):
            yield from _bands(left, compiled)
            yield from _bands(right, compiled)
            for number in numbers:
                yield _join(compiled.joins[number], "or " if number > numbers[0] else "")
        case nf.NextForm(left, right) | nf.FoldForm(left, right) | nf.AbsenceForm(left, right):
            both = [one.join for one in (left, right) if isinstance(one, nf.Scan)]
            joins = [compiled.joins[number] for number in both if number is not None]
            if len(joins) == 2:
                yield _beside(part, *joins)
            else:
                yield from _bands(left, compiled)
                yield from _bands(right, compiled)
                yield _timed(part)
        case _:
            assert_never(part)


# -- A join ----------------------------------------------------------------------------------


def _filter(join: CompiledJoin) -> _Band:
    side = _side(join, LEFT, MARGIN)
    return _drawn(side), MARGIN + side.width, side.height


def _join(join: CompiledJoin, before: str) -> _Band:
    left = _side(join, LEFT, MARGIN)
    right = _side(join, RIGHT, MARGIN + left.width + GAP)
    assert join.relation is not None
    relation = join.relation
    heading = before + relation.operator.name, window(relation.least, relation.window)
    return _two_sides(left, right, heading, join.graph.edges, list(_conditions(join)))


def _two_sides(
    left: _Side,
    right: _Side,
    heading: tuple[str, str],
    edges: Iterable[Edge],
    conditions: Sequence[str],
) -> _Band:
    """Return two sides with an operator and its window between them, and conditions below."""
    middle, height = MARGIN + left.width + GAP / 2, max(left.height, right.height)
    elements = [*_drawn(left), *_drawn(right)]
    elements.append(text(middle, 20.0, heading[0], "strong", "middle"))
    elements.append(text(middle, 20.0 + LINE, heading[1], "soft", "middle"))
    for edge in edges:
        elements.extend(_comparison(left, right, edge))
    for words in conditions:
        height += LINE
        elements.append(text(MARGIN, height, words, "soft"))
    width = max([left.width + GAP + right.width, *map(length, conditions)])
    return elements, MARGIN + width, height


def _conditions(join: CompiledJoin) -> Iterator[str]:
    """Yield the lines below a join: the conditions without an edge in the graph."""
    if join.residual is not None:
        yield shortened(f"tested on each candidate: {unparse(join.residual)}", WIDEST)
    if join.never:
        yield "the predicate contradicts itself: nothing will ever match"


def _side(join: CompiledJoin, which: int, left: float) -> _Side:
    """Return the tree of one side (`LEFT` or `RIGHT`), laid out from its left edge."""
    depths: dict[int, int] = {}
    labels: dict[int, _Label] = {}
    for number, node in enumerate(join.graph.nodes):
        if node.side != which:
            continue
        depths[number] = 0 if node.parent is None else depths[node.parent] + 1
        kind = "output" if node.output else "node" if number in join.kept else "faint"
        x = left + 12 + depths[number] * INDENT
        y = HEADING + 20 + len(labels) * ROW
        labels[number] = _Label(_words(join, number), kind, x, y, node.parent)
    heading = shortened(_heading(join, which), LONGEST)
    widest = max((label.x + label.width for label in labels.values()), default=left)
    width = max(widest - left + 12, length(heading) + 24)
    return _Side(heading, labels, width, HEADING + 20 + len(labels) * ROW - 8)


def _words(join: CompiledJoin, number: int) -> str:
    """Return the step of a node with its conditions, and the variable that it binds."""
    where, local, _ = join.nodes[number]
    pattern = join.sides[where].pattern
    if pattern is None:
        return shortened(join.label(number), LONGEST)
    node = pattern.nodes[local]
    step = unparse(Block("", (node.step,))).lstrip("/| ")
    if node.step.derived is not None:
        step = join.label(number)
    name = node.variable
    if name is None or name.startswith("$"):
        return shortened(step, LONGEST)
    return f"{shortened(step, LONGEST - len(name))} → {name}"


def _heading(join: CompiledJoin, which: int) -> str:
    pattern = join.sides[which].pattern
    return "what came before" if pattern is None else f"stream {pattern.stream}"


def _drawn(side: _Side) -> list[etree._Element]:
    first = next(iter(side.labels.values()))
    left = first.x - 12
    elements = [
        box(left, 0, side.width, side.height, "side", 10),
        text(left + 12, 20.0, side.heading, "strong"),
    ]
    for label in side.labels.values():
        if label.parent is not None:
            above = side.labels[label.parent]
            x = above.x + 10
            elements.append(line([(x, above.y + 12), (x, label.y), (label.x, label.y)], "tree"))
    for label in side.labels.values():
        elements.append(box(label.x, label.y - 12, label.width, 24, label.kind, 12))
        elements.append(text(label.x + 10, label.y + 4, label.words))
    return elements


def _comparison(left: _Side, right: _Side, edge: Edge) -> Iterator[etree._Element]:
    one, other = left.labels[edge.left], right.labels[edge.right]
    start, end = (one.x + one.width, one.y), (other.x, other.y)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    yield curve(start, end, "edge")
    sign = edge.operator
    if sign.startswith(EXCHANGED):
        sign = f"in: {sign.removeprefix(EXCHANGED)}"
    half = max(13.0, 4.0 * len(sign))
    yield box(x - half, y - 10, 2 * half, 20, "sign", 10)
    yield text(x, y + 4, sign, "text", "middle")


# -- An operator over time -------------------------------------------------------------------


def _beside(form: nf.OverTime, left: CompiledJoin, right: CompiledJoin) -> _Band:
    """Return a temporal operator between two blocks."""
    one = _side(left, LEFT, MARGIN)
    other = _side(right, LEFT, MARGIN + one.width + GAP)
    name, window, words = _operator(form)
    return _two_sides(one, other, (name, window), (), [words])


def _timed(form: nf.OverTime) -> _Band:
    """Return a temporal operator alone, below its inputs."""
    name, window, words = _operator(form)
    return _alone(f"{name} {window}", words)


def _alone(title: str, words: str) -> _Band:
    """Return a box with a title and words."""
    width = max(length(title), length(words)) + 24
    elements = [
        box(MARGIN, 0, width, 50, "side", 10),
        text(MARGIN + 12, 20.0, title, "strong"),
        text(MARGIN + 12, 20.0 + LINE, words, "soft"),
    ]
    return elements, MARGIN + width, 50


def _operator(form: nf.OverTime) -> tuple[str, str, str]:
    """Return the name of a temporal operator, its window and its predicates, as texts."""
    match form:
        case nf.NextForm(predicate=predicate):
            return "NEXT", "", _predicate(predicate)
        case nf.FoldForm():
            name = "LONGEST FOLD" if form.longest else "FOLD"
            return name, "", shortened("; ".join(_folded(form)), WIDEST)
        case nf.AbsenceForm():
            relation = form.relation
            name = f"NOT {relation.operator.name}"
            if form.otherwise:
                name = "... ELSE" if relation.operator.follows else "JOIN ... ELSE"
            return name, window(relation.least, relation.window), _predicate(form.predicate)
        case _:
            assert_never(form)


def _folded(form: nf.FoldForm) -> Iterator[str]:
    for predicate in (form.predicate, form.again):
        if predicate is not None:
            yield unparse(predicate)
    for name, operand in form.aggregates:
        yield f"{unparse(operand)} AS {name}"


def _predicate(predicate: Predicate | None) -> str:
    return "any" if predicate is None else shortened(unparse(predicate), WIDEST)

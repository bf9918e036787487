"""Queries of the whole XSCL, and histories.

They are drawn from documents of their case (`predicates`), and windows are about as wide as these
are apart.  So most queries have matches; what the other documents do is left to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.oracle.composites import Arrived
from tests.oracle.evaluation import appeared
from tests.oracle.numbers import Number
from tests.oracle.queries import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Constant,
    Copy,
    Decorated,
    Doc,
    Element,
    Event,
    Expression,
    Fold,
    FollowedBy,
    Formula,
    Join,
    Next,
    Not,
    Or,
    Otherwise,
    Push,
    Query,
    Subscribe,
    Subscription,
    Unit,
    Unsubscribe,
    Var,
    subscribed_first,
)
from tests.oracle.steps import Block, Step
from tests.oracle.trees import Node, string_value
from tests.strategies.patterns import Draw, below, rich_bodies
from tests.strategies.predicates import (
    OPERATORS,
    SIGNS,
    Names,
    Operands,
    Part,
    Sides,
    all_of,
    atom,
    block,
    derivation,
    documents,
    equates,
    formula_of,
    rich_block,
    sides_of,
    time_scope,
)

# -- Operators -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """The atoms of predicates, the unit of windows, and the operators of a query."""

    kinds: tuple[str, ...] = ("equal",)
    logic: bool = False
    scale: int = 1
    infinite: bool = True

    @property
    def unit(self) -> Unit:
        return "ms" if self.scale == 1000 else ""


def _predicate(draw: Draw, style: _Style, sides: Sides) -> Formula:
    return formula_of(draw, sides, style.kinds, style.logic)


def _window(draw: Draw, style: _Style, distance: int, least: int) -> int:
    near = (distance, distance, distance, distance + style.scale, distance - style.scale)
    return max(least, draw(st.sampled_from(near)))


def two_bounds(
    draw: Draw, distance: int, upper: int | None, scale: int, *, follows: bool
) -> tuple[int | None, int | None]:
    """Return the bounds of an operator between two times: mostly the upper one alone."""
    if draw(st.sampled_from((True, True, False))):
        return None, upper
    near = (distance, distance, distance - scale, distance + scale, 0, -scale)
    lower = max(draw(st.sampled_from(near)), scale if follows else -(1 << 40))
    if upper is not None and not follows:
        upper = draw(st.sampled_from((upper, distance, distance - scale)))
    return lower, None if upper is None else max(lower, upper)


def _monotone(draw: Draw, style: _Style, left: Part, right: Part) -> Part:
    """Return JOIN or FOLLOWED BY of two parts."""
    sides = sides_of(draw, left, right, paths=True)
    predicate = _predicate(draw, style, sides)
    follows = left.t1 < right.t0 and draw(st.sampled_from((True, True, False)))
    t0, t1 = min(left.t0, right.t0), max(left.t1, right.t1)
    distance, least = abs(right.t1 - left.t1), style.scale if follows else 0
    window: int | None = _window(draw, style, distance, least)
    unit = style.unit
    if style.infinite and equates(predicate, sides) and draw(st.integers(0, 3)) == 3:
        window, unit = None, draw(st.sampled_from(("", "omitted")))
    gap = right.t0 - left.t1 if follows else right.t1 - left.t1
    lower, window = two_bounds(draw, gap, window, style.scale, follows=follows)
    made: Expression
    if follows:
        made = FollowedBy(
            left.expression, right.expression, predicate, window, unit=unit, lower=lower
        )
    else:
        made = Join(left.expression, right.expression, predicate, window, unit, lower)
    return Part(made, left.nodes | right.nodes, t0, t1, left.times | right.times)


def _exchanged(node: Any) -> Any:
    """Return a pattern, an operand or a formula with the variables x1 as y1 and y1 as x1."""
    if isinstance(node, tuple):
        return tuple(map(_exchanged, node))
    if not is_dataclass(node) or isinstance(node, type):
        return node
    made = replace(node, **{one.name: _exchanged(getattr(node, one.name)) for one in fields(node)})
    letters = str.maketrans("xy", "yx")
    match made:
        case Step(variable=str(name)):
            return replace(made, variable=name.translate(letters))
        case Var(name):
            return replace(made, name=name.translate(letters))
        case _:
            return made


def _symmetric(draw: Draw, style: _Style, chosen: Sequence[Arrived]) -> Join:
    """Return a symmetric join, whose predicate is the same of either order."""
    left = block(draw, chosen[0], Names().block())
    assert isinstance(left.expression, Block)
    variables = [Var(name) for name in left.nodes]
    one, other = (draw(st.sampled_from(variables)) for _ in range(2))
    derived = derivation(draw, one)
    apart = Arithmetic("-", Call("number", (one,)), Call("number", (_exchanged(one),)))
    near, cross = Comparison("<", apart, Constant(2)), Comparison("=", one, _exchanged(other))
    forms: tuple[tuple[Formula, ...], ...] = (
        (Comparison("=", one, _exchanged(one)),),
        (Comparison("=", _exchanged(one), one), Comparison("!=", other, _exchanged(other))),
        (Comparison("=", derived, _exchanged(derived)),),
        (cross, _exchanged(cross)),
        (cross, _exchanged(cross), near, _exchanged(near)),
    )
    distance = abs(chosen[-1].timestamp - chosen[0].timestamp)
    window = _window(draw, style, distance, 0)
    lower = draw(st.sampled_from((None, None, 0, min(window, distance))))
    predicate = all_of(draw(st.sampled_from(forms)))
    sides = left.expression, _exchanged(left.expression)
    return Join(*sides, predicate, window, style.unit, lower, symmetric=True)


def _chain(draw: Draw, style: _Style, witnesses: Sequence[Arrived], names: Names) -> Part:
    """Return joins of one block for each witness, with parentheses anywhere."""
    if len(witnesses) == 1:
        return block(draw, witnesses[0], names.block())
    most = len(witnesses) - 1
    place = draw(st.sampled_from((most, most, *range(1, most + 1))))
    left = _chain(draw, style, witnesses[:place], names)
    right = _chain(draw, style, witnesses[place:], names)
    if draw(st.integers(0, 5)) == 5:
        left, right = right, left
    return _monotone(draw, style, left, right)


def _witnesses(draw: Draw, seen: Sequence[Arrived], size: int) -> list[Arrived]:
    """Return some documents in order of time, if possible not simultaneous."""
    order = draw(st.permutations(seen))
    times = [document.timestamp for document in order]
    again = [time in times[:place] for place, time in enumerate(times)]
    apart = sorted(range(len(order)), key=lambda place: again[place])
    chosen = [order[place] for place in apart[: min(size, len(order))]]
    return sorted(chosen, key=lambda document: document.timestamp)


def _query(draw: Draw, expression: Expression) -> Query:
    return Query(expression, distinct=draw(st.integers(0, 9)) == 9)


Side: TypeAlias = tuple[bytes, dict[str, Node]]
"""A document, and the nodes of variables in it."""


def _varied(draw: Draw, atom: Formula) -> Formula:
    """Return an atom with any operator and sign, whether it is true or not."""
    if not isinstance(atom, Comparison):
        return atom
    left = atom.left
    if isinstance(left, Arithmetic):
        left = replace(left, sign=draw(st.sampled_from(SIGNS)))
    return replace(atom, operator=draw(st.sampled_from(OPERATORS)), left=left)


@st.composite
def predicates(draw: Draw) -> tuple[Formula, list[Side]]:
    """Return a strategy of predicates between two documents."""
    arrived = draw(documents((2, 2)))
    names = Names()
    left, right = (block(draw, witness, names.block()) for witness in _seen(arrived))
    sides = sides_of(draw, left, right, paths=True)
    kinds = ("equal", "derived", "derived", "residual", "residual")
    a, b, c = (_varied(draw, atom(draw, sides, kinds)) for _ in range(3))
    shapes = (a, a, a, a, Not(a), And((a, b)), Or((a, b)), Or((Not(a), And((b, c)))))
    drawn = zip(arrived, (left, right), strict=True)
    return draw(st.sampled_from(shapes)), [(doc.xml, part.nodes) for doc, part in drawn]


# -- Ordered operators ---------------------------------------------------------------------

PATHS_OVER_TIME = False  # whether the language takes `x1/author` in the predicate of one


def _ordered(draw: Draw, style: _Style, left: Part, right: Part) -> Part:
    """Return NEXT, NOT FOLLOWED BY, or FOLLOWED BY or JOIN with ELSE."""
    predicate = _predicate(draw, style, sides_of(draw, left, right, paths=PATHS_OVER_TIME))
    kind = draw(st.sampled_from(("next", "not", "else", "outer", "outer")))
    both, times = left.nodes | right.nodes, left.times | right.times
    if kind == "next":
        bare = draw(st.integers(0, 7)) == 7
        made = Next(left.expression, right.expression, None if bare else predicate)
        return Part(made, both, left.t0, max(left.t1, right.t1), times)
    if kind == "outer":
        return _outer(draw, style, left, right, predicate)
    window = _window(draw, style, max(right.t1 - left.t1, 0), style.scale)
    if kind == "not" and draw(st.booleans()):
        window = max(style.scale, window - 2 * style.scale)
    lower, upper = two_bounds(draw, right.t0 - left.t1, window, style.scale, follows=True)
    window = upper or window
    sides = left.expression, right.expression
    if kind == "not":
        absent = FollowedBy(*sides, predicate, window, True, unit=style.unit, lower=lower)
        return Part(absent, left.nodes, left.t0, left.t1 + window, left.times)
    either = FollowedBy(*sides, predicate, window, otherwise=True, unit=style.unit, lower=lower)
    return Part(either, both, left.t0, max(left.t1, right.t1), times)


def _outer(draw: Draw, style: _Style, left: Part, right: Part, predicate: Formula) -> Part:
    """Return JOIN with ELSE, whose predicate or window the witnesses often miss."""
    distance = right.t1 - left.t1
    window = _window(draw, style, abs(distance), 0)
    lower, upper = two_bounds(draw, distance, window, style.scale, follows=False)
    window = window if upper is None else upper
    otherwise: Otherwise = draw(st.sampled_from(("both", "both", "left", "right")))
    if draw(st.integers(0, 2)) == 2:
        predicate = Not(predicate)
    sides = left.expression, right.expression
    made = Join(*sides, predicate, window, style.unit, lower, otherwise)
    both, times = left.nodes | right.nodes, left.times | right.times
    return Part(made, both, min(left.t0, right.t0), max(left.t1, right.t1), times)


def _fold(draw: Draw, style: _Style, first: Arrived, new: Arrived, names: Names) -> Part:
    """Return a FOLD of two blocks, whose last row begins with the left side's `k_1`."""
    left = block(draw, first, names.block(), "k_1")
    right = block(draw, new, names.block(), "k")
    last = Decorated(0, "k")
    firsts = [Decorated(1, name) for name in left.nodes]
    news: Operands = [
        *(Decorated(2, name) for name in right.nodes),
        *(Var(name) for name in right.nodes if name != "k"),
    ]
    scope: dict[str, Node | Number] = {
        last.text(): left.nodes["k_1"],
        "$.n": Fraction(0),
        "$.m": Fraction(0),
    }
    scope |= {f"$1.{name}": node for name, node in left.nodes.items()}
    scope |= time_scope({f"$1.{name}": left.t0 for name in left.nodes})
    scope |= time_scope({f"$2.{name}": right.t0 for name in right.nodes})
    scope |= time_scope({last.text(): left.t0, **right.times})
    scope |= {f"$2.{name}": node for name, node in right.nodes.items()} | right.nodes
    kinds = ("equal", "residual", "residual", "derived", "time")
    begins = Sides([Decorated(1, "k_1")], [Decorated(2, "k")], scope)
    sides = Sides([last, last, *firsts], news, scope)
    meets = [formula_of(draw, begins, kinds, logic=True)]
    if draw(st.booleans()):
        meets.append(formula_of(draw, sides, kinds, logic=True))
    aggregates = (
        ("n", Arithmetic("+", Decorated(0, "n"), Constant(1))),
        ("m", Arithmetic("+", Decorated(0, "m"), Decorated(2, "k"))),
    )[: draw(st.integers(0, 2))]
    again = [formula_of(draw, sides, kinds, logic=True)]
    if aggregates:
        name = draw(st.sampled_from(aggregates))[0]
        limit = Comparison("<", Decorated(0, name), Constant(draw(st.sampled_from((1, 2, 3)))))
        draw(st.sampled_from((meets, again))).append(limit)
    meet, goes_on = all_of(meets), all_of(again)
    longest = meet.text() != goes_on.text() and draw(st.booleans())
    made = Fold(left.expression, right.expression, meet, goes_on, aggregates, longest)
    both = left.times | right.times
    return Part(made, left.nodes | right.nodes, left.t0, right.t1, both)


# -- Cases ---------------------------------------------------------------------------------


def _seen(arrived: Sequence[Doc]) -> list[Arrived]:
    return appeared([Push(document) for document in arrived], {})


def _lateness(draw: Draw, scale: int) -> dict[str, int]:
    late = draw(st.sampled_from((0, 0, 1, 2))) * scale
    return {"S": late, "R": draw(st.sampled_from((late, late, 3 * scale)))}


def _scale(draw: Draw) -> int:
    return draw(st.sampled_from((1, 1, 1000)))


def _history(
    draw: Draw, queries: Sequence[Query], arrived: Sequence[Doc], versions: int
) -> tuple[Event, ...]:
    """Return a history in which most subscribe first, and some come later or go, or come back.

    In so many of four a document comes again, most often as another version.
    """
    events: list[Event] = [Push(document) for document in arrived]
    updates = draw(st.integers(0, 3)) >= 4 - versions
    if updates:
        again = changed = draw(st.sampled_from(arrived))
        if draw(st.integers(0, 3)) < 3:
            xml = draw(st.sampled_from((again, again, again, *arrived))).xml + b"<!--2-->"
            time = again.timestamp + draw(st.integers(0, 2))
            changed = replace(again, xml=xml, timestamp=time)
        streams = draw(
            st.sampled_from((again.streams, again.streams, *(d.streams for d in arrived)))
        )
        changed = replace(changed, streams=streams)
        events.insert(draw(st.integers(arrived.index(again) + 1, len(events))), Push(changed))
    for number, query in enumerate(queries, start=1):
        subscription = Subscription(f"Q{number}", query, updates and draw(st.booleans()))
        place = draw(st.sampled_from((0, 0, 0, 0, 0, 1, 2)))
        events.insert(place, Subscribe(subscription))
        if draw(st.integers(0, 5)) == 5:
            stop = draw(st.integers((place + 1 + len(events)) // 2 + 1, len(events)))
            events.insert(stop, Unsubscribe(subscription.name))
            if draw(st.booleans()):
                events.insert(draw(st.integers(stop + 1, len(events))), Subscribe(subscription))
    return tuple(events)


def _case(draw: Draw, style: _Style, sizes: Sequence[int]) -> Case:
    """Return a case of chains of some of these sizes."""
    arrived = draw(documents(scale=style.scale))
    seen = _seen(arrived)
    queries = list[Query]()
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        chosen = _witnesses(draw, seen, draw(st.sampled_from(sizes)))
        if draw(st.integers(0, 3)) == 3:
            expression: Expression = _symmetric(draw, style, chosen)
        else:
            expression = _chain(draw, style, chosen, Names()).expression
        queries.append(_query(draw, expression))
    events = _history(draw, queries, arrived, versions=1)
    return Case(events, _lateness(draw, style.scale))


def _joins(draw: Draw, arrived: Sequence[Doc], scale: int) -> list[Query]:
    """Return joins of two rich patterns, some of which differ in the window only."""
    style, seen, queries = _Style(scale=scale), _seen(arrived), list[Query]()
    for _ in range(draw(st.integers(1, 3))):
        first, second = _witnesses(draw, seen, 2)
        values = list(map(string_value, (second.tree, *below(second.tree))))
        left = rich_block(draw, first, map("x{}".format, count(1)), values)
        if draw(st.integers(0, 9)) == 9:
            queries.append(Query(left.expression))
            continue
        names = map(draw(st.sampled_from(("y{}", "x{}'"))).format, count(1))
        right = rich_block(draw, second, names, [*map(string_value, left.nodes.values())])
        queries.append(Query(_monotone(draw, style, left, right).expression))
    made = queries[0].expression
    if isinstance(made, Join | FollowedBy) and draw(st.booleans()):
        apart = abs(seen[-1].timestamp - seen[0].timestamp)
        follows = isinstance(made, FollowedBy)
        window = _window(draw, style, apart, scale)
        lower, upper = two_bounds(draw, scale, window, scale, follows=follows)
        queries.append(Query(replace(made, window=upper, lower=lower, unit=style.unit)))
    return queries


@st.composite
def joins(draw: Draw) -> Case:
    """Return a strategy of joins of two rich patterns; everyone subscribes first."""
    scale = _scale(draw)
    arrived = draw(documents(scale=scale, of=rich_bodies()))
    queries = _joins(draw, arrived, scale)
    subscriptions = [Subscription(f"Q{n}", query) for n, query in enumerate(queries, start=1)]
    return Case(subscribed_first(subscriptions, arrived), _lateness(draw, scale))


@st.composite
def histories(draw: Draw) -> Case:
    """Return a strategy of such joins, in which people come and go and documents come again."""
    arrived = draw(documents(of=rich_bodies()))
    return Case(_history(draw, _joins(draw, arrived, 1), arrived, versions=3), _lateness(draw, 1))


@st.composite
def chains(draw: Draw) -> Case:
    """Return a strategy of value joins of up to four blocks."""
    return _case(draw, _Style(scale=_scale(draw)), (2, 3, 3, 3, 4))


@st.composite
def residuals(draw: Draw) -> Case:
    """Return a strategy of comparisons of all kinds, with AND, OR and NOT."""
    kinds = ("equal", *("residual",) * 4, "time")
    return _case(draw, _Style(kinds, logic=True, scale=_scale(draw)), (2, 2, 2, 3))


@st.composite
def functions(draw: Draw) -> Case:
    """Return a strategy of joins by functions of values."""
    kinds = ("derived", "derived", "derived", "equal", "residual")
    style = _Style(kinds, logic=draw(st.booleans()), scale=_scale(draw))
    return _case(draw, style, (2, 2, 2, 3))


@st.composite
def ordered(draw: Draw) -> Case:
    """Return a strategy of NEXT, NOT FOLLOWED BY, ELSE and FOLD over blocks and short chains."""
    style = _ordered_style(draw)
    arrived = draw(documents(scale=style.scale))
    seen, queries = _seen(arrived), list[Query]()
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        names = Names()
        sizes = draw(st.sampled_from(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2))))
        chosen = _witnesses(draw, seen, sum(sizes))
        if draw(st.integers(0, 3)) == 3:
            part = _fold(draw, style, chosen[0], chosen[-1], names)
        else:
            left, right = _halves(draw, style, chosen, sizes[0], names)
            part = _ordered(draw, style, left, right)
        queries.append(_query(draw, part.expression))
    return Case(_history(draw, queries, arrived, versions=0), _lateness(draw, style.scale))


@st.composite
def mixes(draw: Draw) -> Case:
    """Return a strategy of ordered operators below and above joins and one another."""
    style = _ordered_style(draw)
    arrived = draw(documents(scale=style.scale))
    queries = list[Query]()
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        shape = draw(st.sampled_from(("below", "below", "right", "above", "over", "twice", "long")))
        if shape == "long":
            arrived = tuple(sorted(arrived, key=lambda document: document.timestamp))
        chosen = _witnesses(draw, _seen(arrived), 4 if shape == "long" else 3)
        queries.append(_query(draw, _mixed(draw, style, shape, chosen).expression))
    return Case(_history(draw, queries, arrived, versions=0), _lateness(draw, style.scale))


def _mixed(draw: Draw, style: _Style, shape: str, chosen: Sequence[Arrived]) -> Part:
    """Return an ordered operator of two blocks, and others above or below it."""
    names = Names()
    one, two, *rest = [block(draw, witness, names.block()) for witness in chosen]
    match shape:
        case "above":
            return _ordered(draw, style, one, _monotone(draw, style, two, rest[0]))
        case "over":
            return _ordered(draw, style, _monotone(draw, style, one, two), rest[0])
        case "right":
            return _monotone(draw, style, one, _wrapped(draw, _ordered(draw, style, two, rest[0])))
        case _:
            part = _wrapped(draw, _ordered(draw, style, one, two))
            above = _ordered if shape == "twice" else _monotone
            for other in rest:
                part = above(draw, style, part, other)
            return part


def _ordered_style(draw: Draw) -> _Style:
    kinds = ("equal", "equal", "derived", "residual", "time")
    return _Style(kinds, logic=draw(st.booleans()), scale=_scale(draw))


def _halves(
    draw: Draw, style: _Style, chosen: Sequence[Arrived], size: int, names: Names
) -> tuple[Part, Part]:
    size = min(size, len(chosen) - 1)
    left = _chain(draw, style, chosen[:size], names)
    return left, _chain(draw, style, chosen[size:], names)


def _wrapped(draw: Draw, part: Part) -> Part:
    """Return a part as it is, or as a sub-query."""
    if draw(st.integers(0, 3)) < 3:
        return part
    select = _constructor(draw, part) if draw(st.booleans()) else None
    return replace(part, expression=Query(part.expression, select=select))


def _constructor(draw: Draw, part: Part) -> Element:
    """Return a constructor with some of the variables; there is always an element in it."""
    names = draw(st.lists(st.sampled_from(sorted(part.nodes)), min_size=1, max_size=3))
    copies = [Copy(name, draw(st.booleans())) for name in names]
    return Element("hit", (Element("a", (copies[0],)), *copies[1:]))


# -- Publishing ----------------------------------------------------------------------------

MANY = 12  # published documents that are too many to join again


@st.composite
def published(draw: Draw, waiting: bool = False) -> Case:
    """Return a strategy of queries that read what others publish, up to two levels deep.

    The first publisher joins; if it is `waiting`, it is NEXT, NOT FOLLOWED BY or ELSE.
    """
    style = _ordered_style(draw)
    arrived = draw(documents((3, 5), scale=style.scale))
    lateness = _lateness(draw, style.scale)
    chosen = _witnesses(draw, _seen(arrived), 2)
    if waiting:
        part = _ordered(draw, style, *_halves(draw, style, chosen, 1, Names()))
    else:
        part = _chain(draw, style, chosen, Names())
    subscribed = [_publisher(draw, part, 1)]
    for level in range(2, 2 + draw(st.sampled_from((1, 1, 2)))):
        seen = appeared((*map(Subscribe, subscribed), *map(Push, arrived)), lateness)
        new = [document for document in seen if f"P{level - 1}" in document.streams]
        if 0 < len(new) <= MANY:
            witnesses = _witnesses(draw, seen, draw(st.sampled_from((1, 1, 2))))
            witnesses = [one for one in witnesses if one not in new]
            witnesses = sorted([draw(st.sampled_from(new)), *witnesses], key=lambda d: d.timestamp)
            part = _chain(draw, style, witnesses, Names())
        else:
            part = Part(Block(f"P{level - 1}", Step("descendant", "a", "x1")), {}, 0, 0)
        subscribed.append(_publisher(draw, part, level))
    return Case(_published_history(draw, subscribed, arrived), lateness)


def _publisher(draw: Draw, part: Part, level: int) -> Subscription:
    select = _constructor(draw, part) if bool(part.nodes) and draw(st.booleans()) else None
    return Subscription(f"Q{level}", Query(part.expression, f"P{level}", select=select))


def _published_history(
    draw: Draw, subscribed: Sequence[Subscription], arrived: Sequence[Doc]
) -> tuple[Event, ...]:
    """Return a history in which readers come after their publishers, some of them later."""
    events: list[Event] = [Push(document) for document in arrived]
    place = 0
    for subscription in subscribed:
        events.insert(place, Subscribe(subscription))
        place += 1 + draw(st.sampled_from((0, 0, 0, 0, 1)))
    return tuple(events)


KINDS = {
    "chains": chains(),
    "residuals": residuals(),
    "functions": functions(),
    "ordered": ordered(),
    "mixes": mixes(),
    "published": published(),
    "published in time": published(waiting=True),
}
"""Cases by the construct of which they have most."""

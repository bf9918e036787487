"""Queries of the whole XSCL with small documents, and histories.

Documents are few, small and made of few values: words in mixed case and with blanks, numbers in
several spellings.  A query is drawn *from documents of its case*, the witnesses, one for each
block: patterns match them, windows are about as wide as they are apart, and predicates are true of
them (what is drawn and false of them is negated, or stands in a disjunction).  So most queries
have matches; what the other documents do is left to chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from itertools import count
from operator import add
from typing import Any, TypeAlias, get_args

from hypothesis import strategies as st

from tests.oracle.composites import Arrived
from tests.oracle.evaluation import appeared
from tests.oracle.formulas import Scope, choices, holds
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
    Function,
    Join,
    Next,
    Not,
    Operand,
    Or,
    Otherwise,
    Push,
    Query,
    Sign,
    Subscribe,
    Subscription,
    TextTest,
    Unit,
    Unsubscribe,
    Var,
    leaves,
    subscribed_first,
)
from tests.oracle.steps import Axis, Block, Comparator, Compare, Condition, Exists, Path, Step
from tests.oracle.trees import Node, string_value
from tests.strategies.patterns import Draw, below, names_of, pattern, rich_bodies

# -- Documents -----------------------------------------------------------------------------

_WORDS = (*"uuuuvvw", "U", "U", "V", " u", "u  ", "u:v", "v:u", "U:w", "")
_NUMBERS = ("3", "3", "3", "3.0", "2", "2", "10", " 3", "1.5", "-1", "03", "1E1", "0.3e1", "INF")
_AMOUNTS = (
    *("0.30", "0.3", "0.2", "0.10", "-0.1", "3", "1E-1", "0.00", "1.30", "12345678901234567.01"),
    *(
        "12345678901234567.02",
        "12345678901234567.010",
        "99999999999999999999",
        "0.30000000000000004",
    ),
)
_DATES = (
    *("2026-01-02", "2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00Z"),
    *("Thu, 01 Jan 2026 22:00:00 GMT", "Fri, 02 Jan 2026 23:00:00 GMT"),
)
_TEXTS = st.tuples(st.sampled_from("aaaab"), st.sampled_from(_WORDS))
_NUMBERED = st.one_of(_TEXTS, st.tuples(st.sampled_from("nnna"), st.sampled_from(_NUMBERS)))
_PRICED = st.one_of(_TEXTS, st.tuples(st.sampled_from("nnna"), st.sampled_from(_AMOUNTS)))
_DATED = st.one_of(_TEXTS, st.tuples(st.sampled_from("nnna"), st.sampled_from(_DATES)))
_FIELDS = st.sampled_from((_NUMBERED, _NUMBERED, _PRICED, _PRICED, _DATED, _DATED))
_TIMES = st.sampled_from((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 6))
_NONE, _NOISE = st.just(0), st.sampled_from((0, 0, 0, 2, 5))
_STREAMS = (("S",), ("S",), ("S",), ("R",), ("R",), ("S", "R"))


@st.composite
def _bodies(draw: Draw, of: st.SearchStrategy[tuple[str, str]]) -> bytes:
    """Return a strategy of roots with some fields, some of them in a group."""
    fields = [f"<{n}>{v}</{n}>" for n, v in draw(st.lists(of, min_size=3, max_size=5))]
    place = draw(st.integers(0, 2 * len(fields)))
    if place < len(fields) - 1:
        fields[place:] = ["<g>", *fields[place:], "</g>"]
    root = draw(st.sampled_from("rrrrs"))
    key = draw(st.sampled_from(("", "", ' i="u"', ' i="3"')))
    return f"<{root}{key}>{''.join(fields)}</{root}>".encode()


_KINDS = _FIELDS.flatmap(lambda of: st.lists(_bodies(of), min_size=2, max_size=3))


@st.composite
def documents(
    draw: Draw,
    sizes: tuple[int, int] = (3, 7),
    scale: int = 1,
    of: st.SearchStrategy[Sequence[bytes]] = _KINDS,
) -> tuple[Doc, ...]:
    """Return a strategy of documents in order of arrival: that of time, or some of them later."""
    size = draw(st.integers(*sizes))
    kinds = draw(of)
    bodies = draw(st.lists(st.sampled_from(kinds), min_size=size, max_size=size))
    times = draw(st.lists(_TIMES, min_size=size, max_size=size))
    noise = draw(st.sampled_from((_NONE, _NONE, _NOISE, _NOISE)))
    late = draw(st.lists(noise, min_size=size, max_size=size))
    times = [time for _, time in sorted(zip(map(add, times, late), times, strict=True))]
    streams = draw(st.lists(st.sampled_from(_STREAMS), min_size=size, max_size=size))
    rows = zip(streams, times, bodies, strict=True)
    return tuple(Doc(s, f"d{n}", t * scale, xml) for n, (s, t, xml) in enumerate(rows, start=1))


# -- Patterns ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """An expression, its variables' nodes in the witnesses, and the interval of these."""

    expression: Expression
    nodes: dict[str, Node]
    t0: int
    t1: int
    times: dict[str, int] = field(default_factory=dict)
    """The times of the documents of the variables."""


def _step(node: Node, near: bool, variable: str | None = None) -> Step:
    axis: Axis = "child" if near else "descendant"
    if node.attribute:
        axis = "attribute" if near else "descendant-attribute"
    return Step(axis, names_of(node)[0], variable)


def _path(draw: Draw, origin: Node, target: Node, variable: str | None = None) -> Step:
    near = target in (*origin.content, *origin.attributes) and draw(st.booleans())
    return _step(target, near, variable)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of variables: a letter for each block, then numbers."""

    letters: Iterator[str] = field(default_factory=lambda: iter("xyzwvuts"))

    def block(self) -> Iterator[str]:
        letter = next(self.letters)
        return (f"{letter}{number}" for number in range(1, 99))


def _block(draw: Draw, witness: Arrived, names: Iterator[str], wanted: str | None = None) -> _Part:
    """Return a pattern that a document matches; it binds `wanted`, if that is given."""
    (root,) = [part for part in witness.tree.content if isinstance(part, Node)]
    groups = [node for node in below(root) if node.name == "g" and below(node)]
    anchor = draw(st.sampled_from([root, root, *groups]))
    nodes = dict[str, Node]()
    conditions = list[Condition]()
    own = None
    if draw(st.booleans()):
        own = next(names)
        nodes[own] = anchor
    fields = [node for node in below(anchor) if not below(node)]
    numbers = [node for node in fields if node.name == "n"]
    size = draw(st.sampled_from((1, 2, 2, 3)))
    for position in range(size):
        field_ = draw(st.sampled_from(fields + numbers))
        name = next(names) if wanted is None or position else wanted
        nodes[name] = field_
        conditions.append(Exists(_path(draw, anchor, field_, name)))
    if draw(st.integers(0, 4)) == 4:
        field_ = draw(st.sampled_from(fields))
        path = _path(draw, anchor, field_)
        tests: tuple[Condition, ...] = (
            Exists(path),
            Compare(Path(path), "=", string_value(field_)),
            Compare(Path(path), "!=", "z"),
        )
        conditions.append(draw(st.sampled_from(tests)))
    name = "*" if draw(st.integers(0, 7)) == 7 else anchor.name
    near: Axis = "child" if anchor is root and draw(st.booleans()) else "descendant"
    step = Step(near, name, own, tuple(draw(st.permutations(conditions))))
    block = Block(draw(st.sampled_from(witness.streams)), step)
    time = witness.timestamp
    return _Part(block, nodes, time, time, dict.fromkeys(nodes, time))


def _rich_block(
    draw: Draw, witness: Arrived, names: Iterator[str], wanted: Collection[str]
) -> _Part:
    """Return a rich pattern that a document mostly matches, most with values that are wanted."""
    step, nodes = pattern(draw, witness.tree, names, wanted)
    block, time = Block(draw(st.sampled_from(witness.streams)), step), witness.timestamp
    return _Part(block, nodes, time, time, dict.fromkeys(nodes, time))


# -- Predicates ----------------------------------------------------------------------------

_OPERATORS: tuple[Comparator, ...] = get_args(Comparator)
_SIGNS: tuple[Sign, ...] = ("+", "-", "*", "div", "mod")
_PLAIN: tuple[Function, ...] = ("lower-case", "upper-case", "normalize-space", "number", "string")
_CASTS: tuple[Function, ...] = ("number", "xs:decimal")
_CUT: tuple[Function, ...] = ("substring-before", "substring-after")
Operands: TypeAlias = Sequence[Operand]


@dataclass(frozen=True, slots=True)
class _Sides:
    """The operands of the left and right side of a predicate, and their values."""

    left: Operands
    right: Operands
    scope: Scope

    @property
    def all(self) -> Operands:
        return (*self.left, *self.right)


def _sides(draw: Draw, left: _Part, right: _Part, *, paths: bool) -> _Sides:
    left_operands, right_operands = (_variables(draw, part, paths) for part in (left, right))
    times = _time_scope(left.times | right.times)
    return _Sides(left_operands, right_operands, {**left.nodes, **right.nodes, **times})


def _time_scope(times: Mapping[str, int]) -> dict[str, Node | float]:
    """Return the times of variables under the texts that ask for them, in seconds."""
    return {f"time({name})": time / 1e6 for name, time in times.items()}


def _variables(draw: Draw, part: _Part, paths: bool) -> Operands:
    """Return the variables of a part, and now and then a path on one."""
    found = list[Operand](Var(name) for name in part.nodes)
    for name, node in part.nodes.items() if paths else ():
        inside = below(node)
        names = [inner.name for inner in inside]
        several = [inner for inner in inside if names.count(inner.name) > 1]
        if bool(inside) and draw(st.booleans()):
            target = draw(st.sampled_from(several * 3 + inside))
            found.append(Var(name, _path(draw, node, target)))
    return found


def _true(candidates: Sequence[Formula], scope: Scope) -> list[Formula]:
    return [formula for formula in candidates if holds(formula, scope)]


def _equality(draw: Draw, sides: _Sides) -> Formula:
    """Return a value join of both sides, if possible one that is true of the witnesses."""
    candidates = [Comparison("=", a, b) for a in sides.left for b in sides.right]
    chosen = draw(st.sampled_from(_true(candidates, sides.scope) or candidates))
    assert isinstance(chosen, Comparison)
    flipped = draw(st.integers(0, 3)) == 3
    return replace(chosen, left=chosen.right, right=chosen.left) if flipped else chosen


def _derived(draw: Draw, operand: Operand) -> Operand:
    """Return a function of an operand."""
    match draw(st.sampled_from(("plain", "plain", "plain", "cut", "length", "twice"))):
        case "cut":
            mark = Constant(draw(st.sampled_from((":", ":", "u", "."))))
            return Call(draw(st.sampled_from(_CUT)), (operand, mark))
        case "length":
            return Call("string-length", (operand,))
        case "twice":
            return Call("lower-case", (Call("normalize-space", (operand,)),))
        case _:
            return Call(draw(st.sampled_from(_PLAIN)), (operand,))


def _derived_equality(draw: Draw, sides: _Sides) -> Formula:
    """Return a comparison of functions of both sides, if possible a true one."""
    candidates = list[Formula]()
    for _ in range(6):
        a, b = draw(st.sampled_from(sides.left)), draw(st.sampled_from(sides.right))
        one = _derived(draw, a)
        other = b
        if isinstance(one, Call) and draw(st.integers(0, 3)) != 3:
            other = replace(one, arguments=(b, *one.arguments[1:]))
            if one.function == "lower-case" and isinstance(one.arguments[0], Call):
                other = _derived(draw, b)
        candidates += [
            Comparison("=", one, other),
            Comparison("=", Call(draw(st.sampled_from(_CASTS)), (a,)), b),
        ]
    return draw(st.sampled_from(_true(candidates, sides.scope) or candidates))


def _of_times(draw: Draw, sides: _Sides) -> Formula:
    """Return a comparison of times of documents, if possible a true one."""
    one, other = (
        Call("time", (draw(st.sampled_from(_names(of))),)) for of in (sides.left, sides.right)
    )
    ticks = Arithmetic("*", Arithmetic("-", other, one), Constant(1_000_000))
    scope = sides.scope
    distance = choices(ticks, scope)[0]
    assert isinstance(distance, float)
    near = Constant(round(distance) + draw(st.sampled_from((-1, 0, 0, 1))))
    shape = draw(st.sampled_from((Comparison("<", one, other), Comparison("<", ticks, near))))
    operators = draw(st.permutations(_OPERATORS))
    spelled = [replace(shape, operator=operator) for operator in operators]
    return (_true(spelled, scope) or spelled)[0]


def _names(operands: Operands) -> list[Operand]:
    """Return the variables among operands."""
    return [
        one
        for one in operands
        if isinstance(one, Decorated) or (isinstance(one, Var) and one.step is None)
    ]


def _number(draw: Draw, operand: Operand) -> Operand:
    """Return a number that is made of an operand."""
    if draw(st.booleans()):
        return Call(draw(st.sampled_from(_CASTS)), (operand,))
    constant = Constant(draw(st.sampled_from((0, 1, 2, 3, 0.5, 0.1, 10))))
    return Arithmetic(draw(st.sampled_from(_SIGNS)), operand, constant)


def _residual(draw: Draw, sides: _Sides) -> Formula:
    """Return a comparison that is no value join; the operator is one that makes it true."""
    a, b = draw(st.sampled_from(sides.all)), draw(st.sampled_from(sides.right))
    word = Constant(draw(st.sampled_from(("u", "U", "v", "3", " ", ""))))
    number = Constant(draw(st.sampled_from((2, 3, 3, 4.5))))
    function = draw(st.sampled_from(("contains", "starts-with")))
    forms: tuple[Formula, ...] = (
        *[Comparison("<", a, b)] * 5,
        Comparison("<", _number(draw, a), b),
        Comparison("<", _number(draw, a), _number(draw, b)),
        Comparison("<", Arithmetic("+", a, b), number),
        Comparison("<", Arithmetic("-", a, Constant(0.1)), b),
        Comparison("<", a, number),
        Comparison("<", word, b),
        TextTest(function, a, b),  # type: ignore[arg-type]  # mypy sees str
        TextTest(function, a, word),  # type: ignore[arg-type]
        Comparison("!=", a, b),
        Comparison("!=", b, word),
    )
    chosen = draw(st.sampled_from(forms))
    if isinstance(chosen, Comparison) and chosen.operator == "<":
        operators = draw(st.permutations(_OPERATORS))
        spelled = [replace(chosen, operator=operator) for operator in operators]
        return (_true(spelled, sides.scope) or spelled)[0]
    return chosen


def _atom(draw: Draw, sides: _Sides, kinds: Sequence[str]) -> Formula:
    match draw(st.sampled_from(kinds)):
        case "equal":
            return _equality(draw, sides)
        case "derived":
            return _derived_equality(draw, sides)
        case "time":
            return _of_times(draw, sides)
        case _:
            return _residual(draw, sides)


def _formula(draw: Draw, sides: _Sides, kinds: Sequence[str], logic: bool) -> Formula:
    """Return a predicate that is true of the witnesses, unless it is a mere value join."""
    size = draw(st.sampled_from((1, 1, 2) if not logic else (1, 2, 2, 3)))
    atoms = list(dict.fromkeys(_atom(draw, sides, kinds) for _ in range(size)))
    true = _true(atoms, sides.scope)
    false = [atom for atom in atoms if atom not in true]
    if not logic:
        return _all(true or _unequal(draw, atoms, sides))
    if not false or draw(st.booleans()):
        false += [_atom(draw, sides, kinds)]
    other = draw(st.sampled_from(false))
    sure = true or [Not(other)] if not holds(other, sides.scope) else [other]
    first = sure[0]
    shapes: tuple[Formula, ...] = (
        _all(sure),
        _all(sure),
        Or((first, other)) if other != first else first,
        Or((other, _all(sure))) if other not in sure else _all(sure),
        _all([*sure[1:], Or((other, first))]) if other != first else _all(sure),
        Not(And((Not(first), other))) if other != first else Not(Not(first)),
        Not(Or((Not(first), other))) if not holds(other, sides.scope) else _all(sure),
    )
    return draw(st.sampled_from(shapes))


def _unequal(draw: Draw, false: Sequence[Formula], sides: _Sides) -> Sequence[Formula]:
    """Return equalities that are false of the witnesses, more often with the other operator."""
    if draw(st.integers(0, 2)) == 2:
        return false
    others = [replace(one, operator="!=") for one in false if isinstance(one, Comparison)]
    return _true(others, sides.scope) or false


def _all(parts: Sequence[Formula]) -> Formula:
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else And(distinct)


def _equates(formula: Formula, sides: _Sides) -> bool:
    """Return true if a predicate is sure to equate one variable of each side."""
    match formula:
        case And(parts):
            return any(_equates(part, sides) for part in parts)
        case Comparison("=", left, right):
            found = [_single(operand, sides) for operand in (left, right)]
            return sorted(found) == [1, 2]
        case _:
            return False


def _single(operand: Operand, sides: _Sides) -> int:
    """Return the side of an operand of one variable, 0 for any other and for a time."""
    if "time(" in operand.text():
        return 0
    names = [leaf for leaf in leaves(operand) if not isinstance(leaf, Constant)]
    if len(names) != 1:
        return 0
    lefts = {leaf.name for one in sides.left for leaf in leaves(one) if isinstance(leaf, Var)}
    return 1 if names[0].name in lefts else 2


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


def _predicate(draw: Draw, style: _Style, sides: _Sides) -> Formula:
    return _formula(draw, sides, style.kinds, style.logic)


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


def _monotone(draw: Draw, style: _Style, left: _Part, right: _Part) -> _Part:
    """Return JOIN or FOLLOWED BY of two parts."""
    sides = _sides(draw, left, right, paths=True)
    predicate = _predicate(draw, style, sides)
    follows = left.t1 < right.t0 and draw(st.sampled_from((True, True, False)))
    t0, t1 = min(left.t0, right.t0), max(left.t1, right.t1)
    distance, least = abs(right.t1 - left.t1), style.scale if follows else 0
    window: int | None = _window(draw, style, distance, least)
    unit = style.unit
    if style.infinite and _equates(predicate, sides) and draw(st.integers(0, 3)) == 3:
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
    return _Part(made, left.nodes | right.nodes, t0, t1, left.times | right.times)


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
    left = _block(draw, chosen[0], _Names().block())
    assert isinstance(left.expression, Block)
    variables = [Var(name) for name in left.nodes]
    one, other = (draw(st.sampled_from(variables)) for _ in range(2))
    derived = _derived(draw, one)
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
    predicate = _all(draw(st.sampled_from(forms)))
    sides = left.expression, _exchanged(left.expression)
    return Join(*sides, predicate, window, style.unit, lower, symmetric=True)


def _chain(draw: Draw, style: _Style, witnesses: Sequence[Arrived], names: _Names) -> _Part:
    """Return joins of one block for each witness, with parentheses anywhere."""
    if len(witnesses) == 1:
        return _block(draw, witnesses[0], names.block())
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
        left = replace(left, sign=draw(st.sampled_from(_SIGNS)))
    return replace(atom, operator=draw(st.sampled_from(_OPERATORS)), left=left)


@st.composite
def predicates(draw: Draw) -> tuple[Formula, list[Side]]:
    """Return a strategy of predicates between two documents."""
    arrived = draw(documents((2, 2)))
    names = _Names()
    left, right = (_block(draw, witness, names.block()) for witness in _seen(arrived))
    sides = _sides(draw, left, right, paths=True)
    kinds = ("equal", "derived", "derived", "residual", "residual")
    a, b, c = (_varied(draw, _atom(draw, sides, kinds)) for _ in range(3))
    shapes = (a, a, a, a, Not(a), And((a, b)), Or((a, b)), Or((Not(a), And((b, c)))))
    drawn = zip(arrived, (left, right), strict=True)
    return draw(st.sampled_from(shapes)), [(doc.xml, part.nodes) for doc, part in drawn]


# -- Ordered operators ---------------------------------------------------------------------

PATHS_OVER_TIME = False  # whether the language takes `x1/author` in the predicate of one


def _ordered(draw: Draw, style: _Style, left: _Part, right: _Part) -> _Part:
    """Return NEXT, NOT FOLLOWED BY, or FOLLOWED BY or JOIN with ELSE."""
    predicate = _predicate(draw, style, _sides(draw, left, right, paths=PATHS_OVER_TIME))
    kind = draw(st.sampled_from(("next", "not", "else", "outer", "outer")))
    both, times = left.nodes | right.nodes, left.times | right.times
    if kind == "next":
        bare = draw(st.integers(0, 7)) == 7
        made = Next(left.expression, right.expression, None if bare else predicate)
        return _Part(made, both, left.t0, max(left.t1, right.t1), times)
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
        return _Part(absent, left.nodes, left.t0, left.t1 + window, left.times)
    either = FollowedBy(*sides, predicate, window, otherwise=True, unit=style.unit, lower=lower)
    return _Part(either, both, left.t0, max(left.t1, right.t1), times)


def _outer(draw: Draw, style: _Style, left: _Part, right: _Part, predicate: Formula) -> _Part:
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
    return _Part(made, both, min(left.t0, right.t0), max(left.t1, right.t1), times)


def _fold(draw: Draw, style: _Style, first: Arrived, new: Arrived, names: _Names) -> _Part:
    """Return a FOLD of two blocks, whose last row begins with the left side's `k_1`."""
    left = _block(draw, first, names.block(), "k_1")
    right = _block(draw, new, names.block(), "k")
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
    scope |= _time_scope({f"$1.{name}": left.t0 for name in left.nodes})
    scope |= _time_scope({f"$2.{name}": right.t0 for name in right.nodes})
    scope |= _time_scope({last.text(): left.t0, **right.times})
    scope |= {f"$2.{name}": node for name, node in right.nodes.items()} | right.nodes
    kinds = ("equal", "residual", "residual", "derived", "time")
    begins = _Sides([Decorated(1, "k_1")], [Decorated(2, "k")], scope)
    sides = _Sides([last, last, *firsts], news, scope)
    meets = [_formula(draw, begins, kinds, logic=True)]
    if draw(st.booleans()):
        meets.append(_formula(draw, sides, kinds, logic=True))
    aggregates = (
        ("n", Arithmetic("+", Decorated(0, "n"), Constant(1))),
        ("m", Arithmetic("+", Decorated(0, "m"), Decorated(2, "k"))),
    )[: draw(st.integers(0, 2))]
    again = [_formula(draw, sides, kinds, logic=True)]
    if aggregates:
        name = draw(st.sampled_from(aggregates))[0]
        limit = Comparison("<", Decorated(0, name), Constant(draw(st.sampled_from((1, 2, 3)))))
        draw(st.sampled_from((meets, again))).append(limit)
    meet, goes_on = _all(meets), _all(again)
    longest = meet.text() != goes_on.text() and draw(st.booleans())
    made = Fold(left.expression, right.expression, meet, goes_on, aggregates, longest)
    both = left.times | right.times
    return _Part(made, left.nodes | right.nodes, left.t0, right.t1, both)


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
            expression = _chain(draw, style, chosen, _Names()).expression
        queries.append(_query(draw, expression))
    events = _history(draw, queries, arrived, versions=1)
    return Case(events, _lateness(draw, style.scale))


def _joins(draw: Draw, arrived: Sequence[Doc], scale: int) -> list[Query]:
    """Return joins of two rich patterns, some of which differ in the window only."""
    style, seen, queries = _Style(scale=scale), _seen(arrived), list[Query]()
    for _ in range(draw(st.integers(1, 3))):
        first, second = _witnesses(draw, seen, 2)
        values = list(map(string_value, (second.tree, *below(second.tree))))
        left = _rich_block(draw, first, map("x{}".format, count(1)), values)
        if draw(st.integers(0, 9)) == 9:
            queries.append(Query(left.expression))
            continue
        names = map(draw(st.sampled_from(("y{}", "x{}'"))).format, count(1))
        right = _rich_block(draw, second, names, [*map(string_value, left.nodes.values())])
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
        names = _Names()
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


def _mixed(draw: Draw, style: _Style, shape: str, chosen: Sequence[Arrived]) -> _Part:
    """Return an ordered operator of two blocks, and others above or below it."""
    names = _Names()
    one, two, *rest = [_block(draw, witness, names.block()) for witness in chosen]
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
    draw: Draw, style: _Style, chosen: Sequence[Arrived], size: int, names: _Names
) -> tuple[_Part, _Part]:
    size = min(size, len(chosen) - 1)
    left = _chain(draw, style, chosen[:size], names)
    return left, _chain(draw, style, chosen[size:], names)


def _wrapped(draw: Draw, part: _Part) -> _Part:
    """Return a part as it is, or as a sub-query."""
    if draw(st.integers(0, 3)) < 3:
        return part
    select = _constructor(draw, part) if draw(st.booleans()) else None
    return replace(part, expression=Query(part.expression, select=select))


def _constructor(draw: Draw, part: _Part) -> Element:
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
        part = _ordered(draw, style, *_halves(draw, style, chosen, 1, _Names()))
    else:
        part = _chain(draw, style, chosen, _Names())
    subscribed = [_publisher(draw, part, 1)]
    for level in range(2, 2 + draw(st.sampled_from((1, 1, 2)))):
        seen = appeared((*map(Subscribe, subscribed), *map(Push, arrived)), lateness)
        new = [document for document in seen if f"P{level - 1}" in document.streams]
        if 0 < len(new) <= MANY:
            witnesses = _witnesses(draw, seen, draw(st.sampled_from((1, 1, 2))))
            witnesses = [one for one in witnesses if one not in new]
            witnesses = sorted([draw(st.sampled_from(new)), *witnesses], key=lambda d: d.timestamp)
            part = _chain(draw, style, witnesses, _Names())
        else:
            part = _Part(Block(f"P{level - 1}", Step("descendant", "a", "x1")), {}, 0, 0)
        subscribed.append(_publisher(draw, part, level))
    return Case(_published_history(draw, subscribed, arrived), lateness)


def _publisher(draw: Draw, part: _Part, level: int) -> Subscription:
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

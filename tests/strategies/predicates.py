"""Documents, blocks of queries over them, and predicates between blocks.

Documents are few, small and made of few values: words in mixed case and with blanks, numbers in
several spellings.  A query is drawn *from documents of its case*, the witnesses, one for each
block: patterns match them, and predicates are true of them (what is drawn and false of them is
negated, or stands in a disjunction).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import TypeAlias, get_args

from hypothesis import strategies as st

from tests.oracle.composites import Arrived
from tests.oracle.formulas import Scope, choices, holds
from tests.oracle.queries import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Decorated,
    Doc,
    Expression,
    Formula,
    Function,
    Not,
    Operand,
    Or,
    Sign,
    TextTest,
    Var,
    leaves,
)
from tests.oracle.steps import Axis, Block, Comparator, Compare, Condition, Exists, Path, Step
from tests.oracle.trees import Node, string_value
from tests.strategies.patterns import Draw, below, names_of, pattern

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
class Part:
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
class Names:
    """Names of variables: a letter for each block, then numbers."""

    letters: Iterator[str] = field(default_factory=lambda: iter("xyzwvuts"))

    def block(self) -> Iterator[str]:
        letter = next(self.letters)
        return (f"{letter}{number}" for number in range(1, 99))


def block(draw: Draw, witness: Arrived, names: Iterator[str], wanted: str | None = None) -> Part:
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
    return Part(block, nodes, time, time, dict.fromkeys(nodes, time))


def rich_block(draw: Draw, witness: Arrived, names: Iterator[str], wanted: Collection[str]) -> Part:
    """Return a rich pattern that a document mostly matches, most with values that are wanted."""
    step, nodes = pattern(draw, witness.tree, names, wanted)
    block, time = Block(draw(st.sampled_from(witness.streams)), step), witness.timestamp
    return Part(block, nodes, time, time, dict.fromkeys(nodes, time))


# -- Predicates ----------------------------------------------------------------------------

OPERATORS: tuple[Comparator, ...] = get_args(Comparator)
SIGNS: tuple[Sign, ...] = ("+", "-", "*", "div", "mod")
_PLAIN: tuple[Function, ...] = ("lower-case", "upper-case", "normalize-space", "number", "string")
_CASTS: tuple[Function, ...] = ("number", "xs:decimal")
_CUT: tuple[Function, ...] = ("substring-before", "substring-after")
Operands: TypeAlias = Sequence[Operand]


@dataclass(frozen=True, slots=True)
class Sides:
    """The operands of the left and right side of a predicate, and their values."""

    left: Operands
    right: Operands
    scope: Scope

    @property
    def all(self) -> Operands:
        return (*self.left, *self.right)


def sides_of(draw: Draw, left: Part, right: Part, *, paths: bool) -> Sides:
    left_operands, right_operands = (_variables(draw, part, paths) for part in (left, right))
    times = time_scope(left.times | right.times)
    return Sides(left_operands, right_operands, {**left.nodes, **right.nodes, **times})


def time_scope(times: Mapping[str, int]) -> dict[str, Node | float]:
    """Return the times of variables under the texts that ask for them, in seconds."""
    return {f"time({name})": time / 1e6 for name, time in times.items()}


def _variables(draw: Draw, part: Part, paths: bool) -> Operands:
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


def _equality(draw: Draw, sides: Sides) -> Formula:
    """Return a value join of both sides, if possible one that is true of the witnesses."""
    candidates = [Comparison("=", a, b) for a in sides.left for b in sides.right]
    chosen = draw(st.sampled_from(_true(candidates, sides.scope) or candidates))
    assert isinstance(chosen, Comparison)
    flipped = draw(st.integers(0, 3)) == 3
    return replace(chosen, left=chosen.right, right=chosen.left) if flipped else chosen


def derivation(draw: Draw, operand: Operand) -> Operand:
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


def _derived_equality(draw: Draw, sides: Sides) -> Formula:
    """Return a comparison of functions of both sides, if possible a true one."""
    candidates = list[Formula]()
    for _ in range(6):
        a, b = draw(st.sampled_from(sides.left)), draw(st.sampled_from(sides.right))
        one = derivation(draw, a)
        other = b
        if isinstance(one, Call) and draw(st.integers(0, 3)) != 3:
            other = replace(one, arguments=(b, *one.arguments[1:]))
            if one.function == "lower-case" and isinstance(one.arguments[0], Call):
                other = derivation(draw, b)
        candidates += [
            Comparison("=", one, other),
            Comparison("=", Call(draw(st.sampled_from(_CASTS)), (a,)), b),
        ]
    return draw(st.sampled_from(_true(candidates, sides.scope) or candidates))


def _of_times(draw: Draw, sides: Sides) -> Formula:
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
    operators = draw(st.permutations(OPERATORS))
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
    return Arithmetic(draw(st.sampled_from(SIGNS)), operand, constant)


def _residual(draw: Draw, sides: Sides) -> Formula:
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
        operators = draw(st.permutations(OPERATORS))
        spelled = [replace(chosen, operator=operator) for operator in operators]
        return (_true(spelled, sides.scope) or spelled)[0]
    return chosen


def atom(draw: Draw, sides: Sides, kinds: Sequence[str]) -> Formula:
    match draw(st.sampled_from(kinds)):
        case "equal":
            return _equality(draw, sides)
        case "derived":
            return _derived_equality(draw, sides)
        case "time":
            return _of_times(draw, sides)
        case _:
            return _residual(draw, sides)


def formula_of(draw: Draw, sides: Sides, kinds: Sequence[str], logic: bool) -> Formula:
    """Return a predicate that is true of the witnesses, unless it is a mere value join."""
    size = draw(st.sampled_from((1, 1, 2) if not logic else (1, 2, 2, 3)))
    atoms = list(dict.fromkeys(atom(draw, sides, kinds) for _ in range(size)))
    true = _true(atoms, sides.scope)
    false = [atom for atom in atoms if atom not in true]
    if not logic:
        return all_of(true or _unequal(draw, atoms, sides))
    if not false or draw(st.booleans()):
        false += [atom(draw, sides, kinds)]
    other = draw(st.sampled_from(false))
    sure = true or [Not(other)] if not holds(other, sides.scope) else [other]
    first = sure[0]
    shapes: tuple[Formula, ...] = (
        all_of(sure),
        all_of(sure),
        Or((first, other)) if other != first else first,
        Or((other, all_of(sure))) if other not in sure else all_of(sure),
        all_of([*sure[1:], Or((other, first))]) if other != first else all_of(sure),
        Not(And((Not(first), other))) if other != first else Not(Not(first)),
        Not(Or((Not(first), other))) if not holds(other, sides.scope) else all_of(sure),
    )
    return draw(st.sampled_from(shapes))


def _unequal(draw: Draw, false: Sequence[Formula], sides: Sides) -> Sequence[Formula]:
    """Return equalities that are false of the witnesses, more often with the other operator."""
    if draw(st.integers(0, 2)) == 2:
        return false
    others = [replace(one, operator="!=") for one in false if isinstance(one, Comparison)]
    return _true(others, sides.scope) or false


def all_of(parts: Sequence[Formula]) -> Formula:
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else And(distinct)


def equates(formula: Formula, sides: Sides) -> bool:
    """Return true if a predicate is sure to equate one variable of each side."""
    match formula:
        case And(parts):
            return any(equates(part, sides) for part in parts)
        case Comparison("=", left, right):
            found = [_single(operand, sides) for operand in (left, right)]
            return sorted(found) == [1, 2]
        case _:
            return False


def _single(operand: Operand, sides: Sides) -> int:
    """Return the side of an operand of one variable, 0 for any other and for a time."""
    if "time(" in operand.text():
        return 0
    names = [leaf for leaf in leaves(operand) if not isinstance(leaf, Constant)]
    if len(names) != 1:
        return 0
    lefts = {leaf.name for one in sides.left for leaf in leaves(one) if isinstance(leaf, Var)}
    return 1 if names[0].name in lefts else 2

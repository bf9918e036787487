"""Joins of two blocks with rich patterns, over documents with namespaces and attributes.

Patterns are drawn *from a document of the same case*: an element is picked, then nodes below
it, and names and axes are generalised (`a` to `*`, `/` to `//`).  Every pattern therefore
matches at least one document, and the value joins are drawn between values that are equal,
so that well over a third of the cases have matches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st
from lxml import etree

from tests.oracle.queries import And as AllOf
from tests.oracle.queries import (
    Case,
    Comparison,
    Constant,
    Doc,
    Event,
    FollowedBy,
    Formula,
    Join,
    Push,
    Query,
    Subscribe,
    Subscription,
    TextTest,
    Unit,
    Unsubscribe,
    Var,
    subscribed_first,
)
from tests.oracle.steps import (
    NAMESPACES,
    And,
    Axis,
    Block,
    Comparator,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Step,
    StringTest,
    TextEnd,
    TextFunction,
)

Operator: TypeAlias = Literal["JOIN", "FOLLOWED BY"]
Draw: TypeAlias = st.DrawFn

# -- Documents -----------------------------------------------------------------------------

Element: TypeAlias = tuple[int, str, str, str, str, list[tuple[str, str]]]

_NAMES = ("a", "a", "a", "b", "b", "b", "c", "c", "d", "e", "p:a", "p:b", "dc:c")
_VALUES = (*"uuuuuuvvw", "", "", "1", "1", "2.0", "10", " u", "a&b", "it's")
_FORMS = ("{}", "{}", "{}", "{}", "<![CDATA[{}]]>", "<!--u-->{}", "{}<?u v?>", "split")
_ATTRIBUTES = st.lists(
    st.tuples(st.sampled_from(("a", "b", "b", "p:b", "xml:lang")), st.sampled_from(_VALUES)),
    max_size=2,
    unique_by=lambda attribute: attribute[0],
)
_ELEMENT: st.SearchStrategy[Element] = st.tuples(
    st.sampled_from((2, 2, 3, 3, 4, 5)),
    st.sampled_from(_NAMES),
    st.sampled_from(_VALUES),
    st.sampled_from(_FORMS),
    st.sampled_from(("", "", "", "", "", "", "u", " ")),
    st.one_of(st.just([]), st.just([]), _ATTRIBUTES),
)


def _content(value: str, form: str) -> str:
    if form == "split":
        return f"{escape(value[:1])}<!--v-->{escape(value[1:])}"
    return form.format(value if "CDATA" in form else escape(value))


def _written(elements: Sequence[Element], default: str) -> bytes:
    """Return elements, each with its level, as XML; one stands below the last of a lower level."""
    declared = default + "".join(f' xmlns:{p}="{uri}"' for p, uri in NAMESPACES.items())
    parts, open_tags = list[str](), list[tuple[int, str, str]]()
    following = [element[0] for element in elements[1:]] + [0]
    for position, (level, name, value, form, tail, attributes) in enumerate(elements):
        while len(open_tags) > 1 and open_tags[-1][0] >= level:
            parts.append("</{1}>{2}".format(*open_tags.pop()))
        tag = name + ("" if position else declared)
        tag += "".join(f" {key}={quoteattr(text)}" for key, text in attributes)
        inner = form == "{}" and following[position] > level
        parts.append(f"<{tag}>{'' if inner else _content(value, form)}")
        open_tags.append((level if position else 0, name, tail if position else ""))
    parts += ["</{1}>{2}".format(*tag) for tag in reversed(open_tags)]
    return "".join(parts).encode()


@st.composite
def bodies(draw: Draw) -> tuple[bytes, ...]:
    """Return a strategy of two kinds of document, and one like the first but for one element."""
    kinds = [draw(st.lists(_ELEMENT, min_size=4, max_size=9)) for _ in range(2)]
    varied = list(kinds[0])
    position = draw(st.integers(1, len(varied) - 1))
    varied[position : position + 1] = draw(st.lists(_ELEMENT, max_size=1))
    default = draw(st.sampled_from(("", "", "", "", ' xmlns="urn:one"')))
    return (_written(kinds[0], ""), _written(kinds[1], default), _written(varied, ""))


_TIMES = st.sampled_from((0, 1, 3, 3, 3, 3, 5, 8))
_STREAMS = (("S",), ("S",), ("S",), ("S",), ("R",), ("R",), ("S", "R"))


@st.composite
def documents(draw: Draw, sizes: tuple[int, int] = (3, 6), scale: int = 1) -> tuple[Doc, ...]:
    """Return a strategy of documents in order of arrival; bodies and times repeat."""
    size = draw(st.integers(*sizes))
    times = draw(st.lists(_TIMES, min_size=size, max_size=size))
    if draw(st.booleans()):
        times.sort()
    chosen = draw(st.lists(st.sampled_from(draw(bodies())), min_size=size, max_size=size))
    streams = draw(st.lists(st.sampled_from(_STREAMS), min_size=size, max_size=size))
    rows = zip(streams, times, chosen, strict=True)
    return tuple(Doc(s, f"d{n}", t * scale, xml) for n, (s, t, xml) in enumerate(rows, start=1))


# -- Patterns, drawn from a document -------------------------------------------------------

Target: TypeAlias = tuple[etree._Element, str | None]
Bound: TypeAlias = list[tuple[str, Target]]


def _elements(root: etree._Element) -> list[etree._Element]:
    return [node for node in root.iter() if isinstance(node.tag, str)]


def _below(element: etree._Element) -> list[Target]:
    """Return the elements and the attributes that are below an element."""
    inner: list[Target] = [(node, None) for node in _elements(element)[1:]]
    return inner + [(node, str(key)) for node in _elements(element) for key in node.attrib]


def _value(target: Target) -> str:
    element, key = target
    return str(element.xpath("string()")) if key is None else str(element.get(key))


def _names(target: Target) -> tuple[str, ...]:
    """Return the name tests that a node meets, the exact ones several times."""
    element, key = target
    name = etree.QName(element if key is None else key)
    prefix = {uri: prefix for prefix, uri in NAMESPACES.items()}.get(name.namespace or "")
    if name.namespace is None:
        return (name.localname,) * 6 + ("*", f"*:{name.localname}")
    exact = () if prefix is None else (f"{prefix}:{name.localname}",) * 4 + (f"{prefix}:*",)
    return (*exact, "*", f"*:{name.localname}")


def _step(draw: Draw, target: Target, near: bool) -> Step:
    near = near and draw(st.sampled_from((True, True, False)))
    axis: Axis = "child" if near else "descendant"
    if target[1] is not None:
        axis = "attribute" if near else "descendant-attribute"
    return Step(axis, draw(st.sampled_from(_names(target))))


def _steps(draw: Draw, origin: etree._Element | None, target: Target) -> list[tuple[Target, Step]]:
    """Return the steps of a path that leads from an element (None: the document) to a node."""
    between = [target[0]]
    while between[0] is not origin and (parent := between[0].getparent()) is not None:
        between.insert(0, parent)
    route: list[Target] = [(node, None) for node in between if node is not origin]
    if target[1] is not None:
        route.append(target)
    steps, near = list[tuple[Target, Step]](), True
    for position, node in enumerate(route, start=1):
        kept = position == len(route) or draw(st.sampled_from((True, False, False)))
        if kept:
            steps.append((node, _step(draw, node, near)))
        near = kept
    return steps


def _linked(steps: Sequence[Step]) -> Step:
    linked = steps[-1]
    for step in reversed(steps[:-1]):
        linked = replace(step, then=linked)
    return linked


def _path(draw: Draw, origin: etree._Element, target: Target, last: Callable[[Step], Step]) -> Step:
    steps = [step for _, step in _steps(draw, origin, target)]
    return _linked([*steps[:-1], last(steps[-1])])


_ORDERS: tuple[tuple[Comparator, float], ...] = (
    ("=", 0),
    ("<=", 0),
    (">=", 0),
    ("<", 1),
    (">", -1),
)
_FUNCTIONS: tuple[tuple[TextFunction, int], ...] = (
    ("contains", 0),
    ("contains", 1),
    ("starts-with", 0),
)
_TEXTS: tuple[TextEnd, ...] = ("/text()", "/text()", "//text()")


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


def _value_test(draw: Draw, origin: etree._Element, target: Target | None) -> Condition:
    """Return a value predicate that a node (None: the origin itself) mostly meets."""
    step = None if target is None else _path(draw, origin, target, lambda last: last)
    node = target or (origin, None)
    value, path, text = _value(node), Path(step), None if node[1] else node[0].text
    flipped = draw(st.booleans())
    match draw(
        st.sampled_from(("equal", "unequal", "number", "number", "string", "text", "first"))
    ):
        case "unequal":
            others = tuple(other for other in ("u", "v", 5) if other != value)
            return Compare(path, "!=", draw(st.sampled_from(others)), flipped)
        case "number" if math.isnan(_number(value)):
            return Compare(path, "!=", draw(st.sampled_from((0, 1.5))), flipped)
        case "number":
            operator, distance = draw(st.sampled_from(_ORDERS))
            return Compare(path, operator, max(0, _number(value) + distance), flipped)
        case "string":
            function, start = draw(st.sampled_from(_FUNCTIONS))
            return StringTest(function, path, value[start : start + 2])
        case "first" if text is not None:
            return StringTest("contains", Path(step, "//text()"), text[:1])
        case "text" if text is not None:
            return Compare(Path(step, draw(st.sampled_from(_TEXTS))), "=", text, flipped)
        case _:
            return Compare(path, "=", value, flipped)


def _logic(draw: Draw, origin: etree._Element, target: Target) -> Condition:
    """Return a condition with and, or, not that the origin mostly meets."""
    test = _value_test(draw, origin, target)
    exists = Exists(_path(draw, origin, target, lambda last: last))
    absent = Exists(Step("descendant", draw(st.sampled_from(("e", "d", "z")))))
    choices: tuple[Condition, ...] = (
        Not(absent),
        Or((absent, test)),
        And((exists, test)),
        Or((And((test, exists)), absent)),
        Not(Or((absent, Not(exists)))),
    )
    return draw(st.sampled_from(choices))


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables of a block: their names, their nodes, the values that would join."""

    names: Iterator[str]
    wanted: frozenset[str]
    bound: Bound = field(default_factory=list)

    def bind(self, target: Target) -> str:
        name = next(self.names)
        self.bound.append((name, target))
        return name


_KINDS = ("bind", "bind", "bind", "bind", "bind", "exists", "value", "logic")


def _branches(
    draw: Draw, origin: etree._Element, variables: _Variables, depth: int = 0
) -> tuple[Condition, ...]:
    """Return conditions of an element that it mostly meets."""
    targets = _below(origin)
    if not targets:
        return (_value_test(draw, origin, None),) if draw(st.integers(0, 5)) == 5 else ()
    likely = [target for target in targets if _value(target) in variables.wanted]
    conditions = list[Condition]()
    for _ in range(draw(st.sampled_from((1, 2, 2, 3) if depth == 0 else (0, 1, 1)))):
        kind = draw(st.sampled_from(_KINDS))
        target = draw(st.sampled_from(likely * 3 + targets))
        match kind:
            case "bind":
                conditions += _bindings(draw, origin, target, variables, depth)
            case "exists":
                conditions.append(Exists(_path(draw, origin, target, lambda last: last)))
            case "value":
                conditions.append(_value_test(draw, origin, target))
            case _:
                conditions.append(_logic(draw, origin, target))
    return tuple(conditions)


def _bindings(
    draw: Draw, origin: etree._Element, target: Target, variables: _Variables, depth: int
) -> list[Condition]:
    """Return a nested binding, now and then with a twin: an equal pattern, another variable."""
    variable = variables.bind(target)
    inner: tuple[Condition, ...] = ()
    if target[1] is None and depth < 2:
        inner = _branches(draw, target[0], variables, depth + 1)
    *chain, last = [step for _, step in _steps(draw, origin, target)]
    bindings = [Exists(_linked([*chain, replace(last, variable=variable, conditions=inner)]))]
    if not inner and draw(st.integers(0, 4)) == 4:
        twin = replace(last, variable=variables.bind(target))
        bindings.append(Exists(_linked([*chain, twin])))
    return list(bindings)


def _block(draw: Draw, document: Doc, style: str, wanted: Iterable[str]) -> tuple[Block, Bound]:
    """Return a pattern that the document mostly matches, and the nodes of its variables."""
    root = etree.fromstring(document.xml)
    anchors = [node for node in _elements(root) if _below(node)] or [root]
    anchor = draw(st.sampled_from(anchors))
    names = (style.format(number) for number in range(1, 99))
    variables, steps = _Variables(names, frozenset(wanted)), list[Step]()
    for target, step in _steps(draw, None, (anchor, None)):
        if target[0] is anchor or draw(st.booleans()):
            step = replace(step, variable=variables.bind(target))
        steps.append(step)
    steps[-1] = replace(steps[-1], conditions=_branches(draw, anchor, variables))
    return Block(draw(st.sampled_from(document.streams)), _linked(steps)), variables.bound


# -- Queries -------------------------------------------------------------------------------


_OPERATORS: tuple[Operator, ...] = ("JOIN", "FOLLOWED BY", "FOLLOWED BY")


def _operands(draw: Draw, bound: Bound) -> list[tuple[Var, str]]:
    """Return operands for a predicate: the variables, and a few paths from them."""
    operands = [(Var(variable), _value(target)) for variable, target in bound]
    for variable, (element, key) in bound[:2]:
        targets = _below(element) if key is None else []
        if targets and draw(st.sampled_from((True, False, False))):
            target = draw(st.sampled_from(targets))
            step = _path(draw, element, target, lambda last: last)
            operands.append((Var(variable, step), _value(target)))
    return operands


def _predicate(draw: Draw, left: Bound, right: Bound) -> Formula:
    """Return a conjunction with at least one equality, if possible one that holds."""
    pairs = [(a, b) for a in _operands(draw, left) for b in _operands(draw, right)]
    equal = [(a[0], b[0]) for a, b in pairs if a[1] == b[1]]
    unequal = [(a[0], b[0]) for a, b in pairs if a[1] != b[1]]
    any_pair = [(a[0], b[0]) for a, b in pairs]
    flipped = draw(st.booleans())
    atoms = list[Formula]()
    for _ in range(draw(st.sampled_from((1, 1, 2, 2, 3)))):
        a, b = draw(st.sampled_from(equal or any_pair))
        atoms.append(Comparison("=", b, a) if flipped else Comparison("=", a, b))
    extra = draw(st.sampled_from(("", "", "", "", "unequal", "restriction")))
    if extra == "unequal" and unequal:
        a, b = draw(st.sampled_from(unequal))
        atoms.append(Comparison("!=", a, b))
    elif extra == "restriction":
        variable, target = draw(st.sampled_from(left + right))
        value, whole = _value(target), draw(st.booleans())
        starts = TextTest("starts-with", Var(variable), Constant(value[:1]))
        atoms.append(Comparison("=", Var(variable), Constant(value)) if whole else starts)
    distinct = tuple(dict.fromkeys(draw(st.permutations(atoms))))
    return distinct[0] if len(distinct) == 1 else AllOf(distinct)


def _window(draw: Draw, first: Doc, second: Doc, lowest: int, scale: int) -> int | None:
    distance = abs(second.timestamp - first.timestamp)
    near = (None, None, distance, distance, distance, distance + scale, distance - scale)
    window = draw(st.sampled_from(near if distance > 0 else (None, 0, 0, 0)))
    return None if window is None else max(window, lowest)


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


@st.composite
def queries(draw: Draw, arrived: Sequence[Doc], scale: int = 1) -> Query:
    """Return a strategy of queries that mostly match some of the documents."""
    operator = draw(st.sampled_from(_OPERATORS))
    first, second = draw(st.permutations(arrived))[:2]
    if first.timestamp == second.timestamp:
        operator = "JOIN"
    if operator == "FOLLOWED BY" and second.timestamp < first.timestamp:
        first, second = second, first
    opposite = [(node, None) for node in _elements(etree.fromstring(second.xml))]
    left, variables = _block(draw, first, "x{}", map(_value, opposite))
    if draw(st.integers(0, 9)) == 9:
        return Query(left)
    values = [_value(target) for _, target in variables]
    right, others = _block(draw, second, draw(st.sampled_from(("y{}", "x{}'"))), values)
    lowest = 0 if operator == "JOIN" else scale
    window = _window(draw, first, second, lowest, scale)
    unit: Unit = "ms" if scale == 1000 else ""
    if window is None and draw(st.booleans()):
        unit = "omitted"
    made = Join if operator == "JOIN" else FollowedBy
    distance = second.timestamp - first.timestamp
    lower, window = two_bounds(draw, distance, window, scale, follows=made is FollowedBy)
    predicate = _predicate(draw, variables, others)
    return Query(made(left, right, predicate, window, unit=unit, lower=lower))


@st.composite
def subscriptions(draw: Draw, arrived: Sequence[Doc], scale: int) -> tuple[Subscription, ...]:
    """Return a strategy of subscriptions, some of which differ in the window only."""
    made = list(draw(st.lists(queries(arrived, scale), min_size=1, max_size=3)))
    base = made[0]
    if isinstance(base.expression, Join | FollowedBy) and draw(st.booleans()):
        window = _window(draw, arrived[0], arrived[-1], scale, scale)
        unit: Unit = "ms" if scale == 1000 else ""
        follows = isinstance(base.expression, FollowedBy)
        lower, window = two_bounds(draw, scale, window, scale, follows=follows)
        made.append(Query(replace(base.expression, window=window, unit=unit, lower=lower)))
    return tuple(Subscription(f"Q{n}", query) for n, query in enumerate(made, start=1))


# -- Cases ---------------------------------------------------------------------------------


@st.composite
def cases(draw: Draw) -> Case:
    """Return a strategy of cases in which everyone subscribes first."""
    scale = draw(st.sampled_from((1, 1, 1000)))
    arrived = draw(documents(scale=scale))
    late = draw(st.sampled_from((0, 0, 0, 2))) * scale
    lateness = {"S": late, "R": draw(st.sampled_from((late, late, 3 * scale)))}
    return Case(subscribed_first(draw(subscriptions(arrived, scale)), arrived), lateness)


def _again(draw: Draw, arrived: tuple[Doc, ...]) -> tuple[Doc, ...]:
    """Return the documents with one of them sent again, as it was or as a new version.

    On another stream it is another document.
    """
    position = draw(st.integers(0, len(arrived) - 1))
    doc = arrived[position]
    streams = draw(st.sampled_from((doc.streams, doc.streams, ("S",), ("R",), ("S", "R"))))
    doc = replace(doc, streams=streams)
    if draw(st.sampled_from((True, True, True, False))):
        xml = draw(st.sampled_from((doc, doc, doc, *arrived))).xml + b"<!--changed-->"
        doc = replace(doc, xml=xml, timestamp=doc.timestamp + draw(st.integers(0, 2)))
    place = draw(st.integers(position + 1, len(arrived)))
    return (*arrived[:place], doc, *arrived[place:])


@st.composite
def histories(draw: Draw) -> Case:
    """Return a strategy of cases in which people come and go and documents come again."""
    arrived = draw(documents())
    subscribed = draw(subscriptions(arrived, 1))
    often = st.sampled_from((True, True, True, False))
    updating = draw(st.lists(often, min_size=4, max_size=4))
    if draw(often):
        arrived = _again(draw, arrived)
    events: list[Event] = [Push(doc) for doc in arrived]
    early = st.sampled_from((0, 0, 1))
    for subscription, updates in zip(subscribed, updating, strict=False):
        start = draw(early)
        events.insert(start, Subscribe(replace(subscription, updates=updates)))
        if draw(st.integers(0, 3)) == 3:
            after = events.index(Subscribe(replace(subscription, updates=updates))) + 1
            stop = draw(st.integers((after + len(events)) // 2, len(events)))
            events.insert(stop, Unsubscribe(subscription.name))
            if draw(st.booleans()):
                back = draw(st.integers(stop + 1, len(events)))
                events.insert(back, Subscribe(replace(subscription, updates=updates)))
    return Case(tuple(events), {"S": draw(st.sampled_from((0, 0, 3)))})

"""Rich patterns, and documents with namespaces and attributes for them.

A pattern is drawn *from a document*: an element is picked, then nodes below it, and names and axes
are generalised (`a` to `*`, `/` to `//`).  So every pattern mostly matches its document.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st
from lxml import etree

from tests.oracle.steps import (
    NAMESPACES,
    And,
    Axis,
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
from tests.oracle.trees import Node, Text, children, string_value

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
def rich_bodies(draw: Draw) -> tuple[bytes, ...]:
    """Return a strategy of two kinds of document, and one like the first but for one element."""
    kinds = [draw(st.lists(_ELEMENT, min_size=4, max_size=9)) for _ in range(2)]
    varied = list(kinds[0])
    position = draw(st.integers(1, len(varied) - 1))
    varied[position : position + 1] = draw(st.lists(_ELEMENT, max_size=1))
    default = draw(st.sampled_from(("", "", "", "", ' xmlns="urn:one"')))
    return (_written(kinds[0], ""), _written(kinds[1], default), _written(varied, ""))


# -- Patterns, drawn from a document -------------------------------------------------------


def below(node: Node) -> list[Node]:
    """Return the attributes and elements below a node."""
    found = list(node.attributes)
    for child in children(node):
        found += [child, *below(child)]
    return found


def _route(origin: Node, target: Node) -> list[Node]:
    """Return the nodes from below one node to another; none if that is not below it."""
    for child in (*origin.attributes, *children(origin)):
        rest = _route(child, target)
        if child is target or rest:
            return [child, *rest]
    return []


def names_of(node: Node) -> tuple[str, ...]:
    """Return the name tests that a node meets, the exact ones several times."""
    name = etree.QName(node.name)
    prefix = {uri: prefix for prefix, uri in NAMESPACES.items()}.get(name.namespace or "")
    if name.namespace is None:
        return (name.localname,) * 6 + ("*", f"*:{name.localname}")
    exact = () if prefix is None else (f"{prefix}:{name.localname}",) * 4 + (f"{prefix}:*",)
    return (*exact, "*", f"*:{name.localname}")


def _step(draw: Draw, node: Node, near: bool) -> Step:
    near = near and draw(st.sampled_from((True, True, False)))
    axis: Axis = "child" if near else "descendant"
    if node.attribute:
        axis = "attribute" if near else "descendant-attribute"
    return Step(axis, draw(st.sampled_from(names_of(node))))


def _steps(draw: Draw, origin: Node, target: Node) -> list[tuple[Node, Step]]:
    """Return the steps of a path that leads from one node to another."""
    route = _route(origin, target)
    steps, near = list[tuple[Node, Step]](), True
    for node in route:
        kept = node is target or draw(st.sampled_from((True, False, False)))
        if kept:
            steps.append((node, _step(draw, node, near)))
        near = kept
    return steps


def _linked(steps: Sequence[Step]) -> Step:
    linked = steps[-1]
    for step in reversed(steps[:-1]):
        linked = replace(step, then=linked)
    return linked


def _path(draw: Draw, origin: Node, target: Node) -> Step:
    return _linked([step for _, step in _steps(draw, origin, target)])


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


def _value_test(draw: Draw, origin: Node, node: Node) -> Condition:
    """Return a value predicate that a node, the origin or one below it, mostly meets."""
    step = None if node is origin else _path(draw, origin, node)
    value, path, text = string_value(node), Path(step), None
    if not node.attribute:
        text = next((part.value for part in node.content if isinstance(part, Text)), None)
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


def _logic(draw: Draw, origin: Node, target: Node) -> Condition:
    """Return a condition with and, or, not that the origin mostly meets."""
    test = _value_test(draw, origin, target)
    exists = Exists(_path(draw, origin, target))
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
    wanted: Collection[str]
    nodes: dict[str, Node] = field(default_factory=dict)

    def bind(self, node: Node) -> str:
        name = next(self.names)
        self.nodes[name] = node
        return name


_KINDS = ("bind", "bind", "bind", "bind", "bind", "exists", "value", "logic")


def _branches(
    draw: Draw, origin: Node, variables: _Variables, depth: int = 0
) -> tuple[Condition, ...]:
    """Return conditions of an element that it mostly meets."""
    targets = below(origin)
    if not targets:
        return (_value_test(draw, origin, origin),) if draw(st.integers(0, 5)) == 5 else ()
    likely = [target for target in targets if string_value(target) in variables.wanted]
    conditions = list[Condition]()
    for _ in range(draw(st.sampled_from((1, 2, 2, 3) if depth == 0 else (0, 1, 1)))):
        kind = draw(st.sampled_from(_KINDS))
        target = draw(st.sampled_from(likely * 3 + targets))
        match kind:
            case "bind":
                conditions += _bindings(draw, origin, target, variables, depth)
            case "exists":
                conditions.append(Exists(_path(draw, origin, target)))
            case "value":
                conditions.append(_value_test(draw, origin, target))
            case _:
                conditions.append(_logic(draw, origin, target))
    return tuple(conditions)


def _bindings(
    draw: Draw, origin: Node, target: Node, variables: _Variables, depth: int
) -> list[Condition]:
    """Return a nested binding, now and then with a twin: an equal pattern, another variable."""
    variable = variables.bind(target)
    inner: tuple[Condition, ...] = ()
    if not target.attribute and depth < 2:
        inner = _branches(draw, target, variables, depth + 1)
    *chain, last = [step for _, step in _steps(draw, origin, target)]
    bindings = [Exists(_linked([*chain, replace(last, variable=variable, conditions=inner)]))]
    if not inner and draw(st.integers(0, 4)) == 4:
        twin = replace(last, variable=variables.bind(target))
        bindings.append(Exists(_linked([*chain, twin])))
    return list(bindings)


def pattern(
    draw: Draw, document: Node, names: Iterator[str], wanted: Collection[str]
) -> tuple[Step, dict[str, Node]]:
    """Return a pattern that a document mostly matches, and the nodes of its variables."""
    (root,) = children(document)
    anchors = [node for node in (root, *below(root)) if below(node)] or [root]
    anchor = draw(st.sampled_from(anchors))
    variables, steps = _Variables(names, wanted), list[Step]()
    for node, step in _steps(draw, document, anchor):
        if node is anchor or draw(st.booleans()):
            step = replace(step, variable=variables.bind(node))
        steps.append(step)
    steps[-1] = replace(steps[-1], conditions=_branches(draw, anchor, variables))
    return _linked(steps), variables.nodes

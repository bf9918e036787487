"""Random XPath over random documents, and what it selects by three other evaluators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from elementpath import XPathContext, build_lxml_node_tree
from elementpath.collations import UNICODE_CODEPOINT_COLLATION
from elementpath.exceptions import ElementPathError
from elementpath.xpath31 import XPath31Parser
from elementpath.xpath_nodes import AttributeNode as PathAttribute
from elementpath.xpath_nodes import ElementNode, XPathNode
from hypothesis import strategies as st
from lxml import etree

from xscl.language.parser import parse, parse_block
from xscl.language.syntax import Block
from xscl.language.unparse import unparse
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.batch.shred import WitnessColumns
from xscl.shredding.nodes.tree import AttributeNode, number_nodes

NAMES = st.sampled_from(["a", "a", "b", "c"])
TEXTS = st.sampled_from(["", "x", "X y", " y ", "1", "2", "12", "xyz"])


# -- Documents -----------------------------------------------------------------------------


@st.composite
def documents(draw: st.DrawFn, comments: bool = True) -> etree._Element:
    """Return a strategy of documents: nested names, attributes, texts, comments.

    elementpath selects nothing that follows a comment.
    """
    root = etree.Element("r")
    elements = [root]
    for _ in range(draw(st.integers(1, 12))):
        element = etree.SubElement(draw(st.sampled_from(elements[-4:])), draw(NAMES))
        element.text = draw(TEXTS)
        element.tail = draw(st.sampled_from([None, None, "t"]))
        if draw(st.integers(0, 3)) == 0:
            element.set("p", draw(TEXTS))
        if comments and draw(st.integers(0, 9)) == 0:
            element.append(etree.Comment("x"))
        elements.append(element)
    return etree.fromstring(etree.tostring(root))


# -- Expressions ---------------------------------------------------------------------------

AXES = st.sampled_from(
    [
        *("", "", "", "", "child::", "descendant::", "parent::", "ancestor::", "self::"),
        *("following-sibling::", "preceding-sibling::", "following::", "preceding::"),
        *("descendant-or-self::", "ancestor-or-self::"),
    ]
)
TESTS = st.sampled_from(["a", "a", "b", "c", "*", "node()", "text()"])
WORDS = st.sampled_from(["x", "y", "", "1", "X y"])
NUMBERS = st.sampled_from(["1", "2", "0", "12"])


@st.composite
def relative(draw: st.DrawFn, depth: int, full: bool) -> str:
    """Return a strategy of paths below a node."""
    steps = [draw(step(depth, full, short=True)) for _ in range(draw(st.integers(1, 2)))]
    start = draw(st.sampled_from(["", "", "./", ".//"]))
    return start + draw(st.sampled_from(["/", "/", "//"])).join(steps)


@st.composite
def step(draw: st.DrawFn, depth: int, full: bool, short: bool = False) -> str:
    axis, test = draw(AXES), draw(TESTS)
    if short and draw(st.booleans()):
        axis, test = draw(st.sampled_from([("", "a"), ("", "b"), ("@", "p"), ("", "*")]))
    predicates = ""
    if depth and draw(st.booleans()):
        predicates = "".join(
            f"[{draw(predicate(depth - 1, full))}]" for _ in range(draw(st.integers(1, 2)))
        )
    return f"{axis}{test}{predicates}"


@st.composite
def single(draw: st.DrawFn, full: bool) -> str:
    """Return a strategy of operands with one text at most."""
    path = f"({draw(st.sampled_from(['a', 'b', '@p', 'c', './/b', '*', '..']))})[1]"
    functions = ["string({})", "normalize-space({})", "translate({}, 'x', 'X')", "concat({}, 'x')"]
    if full:
        functions += ["lower-case({})", "upper-case({})", "substring({}, 1, 1)"]
        functions += ["replace({}, '[xy]', 'z')", "substring-after({}, 'x')"]
    return draw(st.sampled_from([".", path, *(name.format(path) for name in functions)]))


@st.composite
def predicate(draw: st.DrawFn, depth: int, full: bool) -> str:
    """Return a strategy of predicates; with `full` beyond XPath 1.0."""
    kinds = ["path", "text", "count", "word", "leaves", "place", "length", "both", "not", "number"]
    if full:
        kinds += ["matches", "ends", "sequence", "some", "if", "exists", "union"]
    word, number = draw(WORDS), draw(NUMBERS)
    sign = draw(st.sampled_from(["=", "!="]))
    order = draw(st.sampled_from(["=", "<", ">=", "!="]))
    path = draw(relative(0, full))
    match draw(st.sampled_from(kinds)):
        case "path":
            return draw(relative(depth, full))
        case "text":
            return f"{draw(st.sampled_from(['', path + ' | ']))}{path} {sign} '{word}'".replace(
                f"{path} | {path}", path
            )
        case "count":
            return f"count({path}) {order} {number}"
        case "word":
            name = draw(st.sampled_from(["contains", "starts-with"]))
            return f"{name}({draw(single(full))}, '{word}')"
        case "leaves":
            return f"{path} = {draw(relative(0, full))}"
        case "place":
            places = [
                "1",
                "2",
                "last()",
                "position() = 1",
                "position() < 3",
                "position() != last()",
            ]
            return draw(st.sampled_from(places))
        case "length":
            return f"string-length({draw(single(full))}) {order} {number}"
        case "number":
            return f"number({draw(single(full))}) {draw(st.sampled_from(['=', '<']))} {number}"
        case "both":
            inner = [draw(predicate(0, full)) for _ in range(2)]
            joined = f" {draw(st.sampled_from(['and', 'or']))} ".join(f"({one})" for one in inner)
            return joined if not any(one.isdigit() or one == "last()" for one in inner) else "a"
        case "not":
            return f"not({path})"
        case "matches":
            return f"matches({draw(single(full))}, '{draw(st.sampled_from(['^x', 'y', '[0-9]']))}')"
        case "ends":
            return f"ends-with({draw(single(full))}, '{word}')"
        case "sequence":
            return f"{path} = ('{word}', 'x')"
        case "some":
            return f"some $v in {path} satisfies $v {sign} '{word}'"
        case "if":
            return f"if ({path}) then a else b"
        case "exists":
            return f"{draw(st.sampled_from(['exists', 'empty']))}({path})"
        case _:
            return f"({path} | b)"


@st.composite
def expressions(draw: st.DrawFn, full: bool) -> str:
    """Return a strategy of absolute paths."""
    steps = [draw(step(2, full)) for _ in range(draw(st.integers(1, 3)))]
    path = "//" + draw(st.sampled_from(["/", "/", "//"])).join(steps)
    if draw(st.integers(0, 5)) == 0:
        path += f" | //{draw(step(1, full))}"
    return path


# -- Evaluators ----------------------------------------------------------------------------

Selected = set[int]
"""Nodes by their numbers; a text or comment stands for the element that holds it."""


def engine(path: str, root: etree._Element) -> Selected:
    """Return the nodes that stage 1 finds for a block; raises QueryError."""
    return together([path], root)[0]


def together(paths: Sequence[str], root: etree._Element) -> list[Selected]:
    """Return the nodes that stage 1 finds for each of some blocks; raises QueryError."""
    automaton = Automaton()
    for number, path in enumerate(paths):
        expression = parse(_with_stream(path)).expression
        assert isinstance(expression, Block)
        read = pattern(expression)
        block = read.definition(read.main, frozenset((read.main,)))
        block = parse_block(unparse(block), short=True)
        automaton.add(number, block, block, False)
    columns = WitnessColumns(automaton)
    for doc in range(2):  # the second one has a known shape
        columns.add(doc, ("S",), root)
    found: list[list[Selected]] = [[set() for _ in range(2)] for _ in paths]
    for row in columns.tables()[0].to_pylist():
        found[row["pair"]][row["doc"]].add(row["node2"])
    assert all(one == other for one, other in found)
    return [one for one, _ in found]


def _with_stream(path: str) -> str:
    """Return a path, or a union of paths, as blocks of one stream."""
    first, *others = path.split(" | //")
    blocks = f"S{first}"
    for other in others:
        inside = sum(blocks.count(sign) for sign in "[(") > sum(blocks.count(s) for s in "])")
        blocks += f" | {'' if inside else 'S'}//{other}"
    return blocks


def libxml2(path: str, root: etree._Element) -> Selected:
    """Return the nodes that lxml selects."""
    found: Any = root.getroottree().xpath(path)
    return _numbers(root, map(_holder, found))


def _holder(one: Any) -> Any:
    if isinstance(one, etree._Element):
        return one if isinstance(one.tag, str) else one.getparent()
    if one.is_attribute:
        return one.getparent(), one.attrname
    return one.getparent().getparent() if one.is_tail else one.getparent()


def _parser() -> XPath31Parser:
    """Return elementpath's parser; a collation of the process would take its lock twice."""
    return XPath31Parser(default_collation=UNICODE_CODEPOINT_COLLATION)


def other(path: str, root: etree._Element) -> Selected | None:
    """Return the nodes that elementpath selects; None if it raises an error."""
    tree = build_lxml_node_tree(root.getroottree())
    try:
        found = list(_parser().parse(path).select(XPathContext(tree)))
    except (ElementPathError, ValueError, TypeError):
        return None
    return _numbers(root, (_held(one, root) for one in found))


def _held(one: object, root: etree._Element) -> Any:
    if isinstance(one, PathAttribute):
        assert one.parent is not None
        return one.parent.value, one.name
    if isinstance(one, ElementNode):
        return one.value
    assert isinstance(one, XPathNode)
    return one.parent.value if isinstance(one.parent, ElementNode) else root


def _numbers(root: etree._Element, found: Iterable[Any]) -> Selected:
    places: dict[Any, int] = {}
    for number, item in enumerate(number_nodes(root).items):
        key = (item.owner, item.name) if isinstance(item, AttributeNode) else item
        places[key] = number
    return {places[one] for one in found if one is not None}

"""Stage 1: exact twigs, node numbers, string values, and what is shared."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lxml import etree

from xscl.language.normalform import Joined
from xscl.language.parser import parse_block
from xscl.planning.compile import compile_query
from xscl.shredding.arrivals import Arrivals, shred
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.automaton.structure import Structure, skeleton
from xscl.shredding.automaton.subtree import Subtrees
from xscl.shredding.nodes.tree import number_nodes


def one_arrival(xml: bytes) -> Arrivals:
    """Return a single document on the stream S."""
    row = {"doc": 1, "streams": ["S"], "xml": xml, "ts": 1, "clock": 0, "rank": 64}
    return Arrivals.of(pa.Table.from_pylist([row | {"base": 1, "first": 1, "version": 1}]))


def rows(block: str, xml: bytes) -> list[tuple[str, str, int, int]]:
    """Return the witnesses of a block whose every variable is joined, by definitions."""
    query = compile_query(f"{block} JOIN{{{joined(block)}}} {primed(block)}")
    assert isinstance(query.root, Joined)
    (join,) = query.root.disjuncts
    definitions = join.block_definitions(0)
    automaton = Automaton()
    names = {}
    for number, (parent, child) in enumerate(join.reduced.pairs):
        if join.reduced.nodes[child].side == 0:
            first, second = definitions[parent], definitions[child]
            automaton.add(number, parse_block(first), parse_block(second), valued=True)
            names[number] = (first, second)
    arrivals = one_arrival(xml)
    table = shred(automaton, arrivals).bindings.to_pylist()
    return sorted((*names[row["pair"]], row["node1"], row["node2"]) for row in table)


def variables(block: str) -> list[str]:
    return [n.variable for n in pattern(parse_block(block)).nodes if n.variable is not None]


def joined(block: str) -> str:
    return " AND ".join(f"{v} = {v}'" for v in variables(block))


def primed(block: str) -> str:
    for variable in variables(block):
        block = block.replace(f"->{variable}", f"->{variable}'")
    return block


def test_a_row_needs_the_steps_between_its_own_nodes() -> None:
    xml = b"<a><b><a><c/></a></b></a>"
    assert rows("S//a->x1[.//b[.//c->x2]]", xml) == [
        ("S//a", "S//a", 0, 0),
        ("S//a", "S//a", 2, 2),
        ("S//a", "S//a//b//c", 0, 3),
    ]


def test_a_condition_holds_for_the_same_bound_node() -> None:
    xml = b"<r><a><k/><b>1</b></a><a><b>2</b></a></r>"
    assert rows("S//a[./k]->x[./b->y]", xml) == [
        ("S//a[./k]", "S//a[./k]", 1, 1),
        ("S//a[./k]", "S//a[./k]/b", 1, 3),
    ]


def test_attributes_are_numbered_after_their_element() -> None:
    xml = b'<a p="1" q="2"><b p="3"/><!-- no number --><c/></a>'
    tree = number_nodes(etree.fromstring(xml))
    assert [tree.path(number) for number in range(len(tree.items))] == [
        "/a[1]",
        "/a[1]/@p",
        "/a[1]/@q",
        "/a[1]/b[1]",
        "/a[1]/b[1]/@p",
        "/a[1]/c[1]",
    ]
    assert rows("S//@p->x", xml) == [("S//@p", "S//@p", 1, 1), ("S//@p", "S//@p", 4, 4)]


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ("S/a->x", [0]),
        ("S/b->x", []),
        ("S//*->x", [0, 1, 2, 3]),
        ("S//b->x", [1]),
        ("S//*:b->x", [1, 2]),
        ("S//Q{urn:n}*->x", [2]),
        ("S/a/b/c->x", []),
        ("S/*/*/c->x", [3]),
        ("S//b//c->x", []),
    ],
)
def test_name_tests_and_axes(block: str, found: list[int]) -> None:
    xml = b'<a><b/><n:b xmlns:n="urn:n"><c/></n:b></a>'
    assert [row[3] for row in rows(block, xml)] == found


@pytest.mark.parametrize(
    "xml",
    [
        b"<a><t>x y</t></a>",
        b"<a><t>x<!-- c --> y</t></a>",
        b"<a><t>x<![CDATA[ y]]></t></a>",
        b"<a><t>x<i> </i><?p q?>y</t></a>",
    ],
)
def test_string_values_are_those_of_xpath(xml: bytes) -> None:
    automaton = Automaton()
    block = parse_block("S//t")
    automaton.add(1, block, block, valued=True)
    arrivals = one_arrival(xml)
    assert shred(automaton, arrivals).values["strVal"].to_pylist() == ["x y"]


def test_common_prefixes_are_one_state_and_removal_leaves_nothing() -> None:
    automaton = Automaton()
    blocks = [parse_block(f"S//a/b/{name}[. = '{value}']") for name in "cd" for value in "12"]
    for number, block in enumerate(blocks):
        automaton.add(number, block, block, valued=True)
    structure = Structure(skeleton([*etree.fromstring(b"<a><b><c/></b></a>").iter()]), Subtrees())
    *_, line = automaton.lineages(("S",), structure)
    assert len([s for s in line.states if s.spot]) == 1  # c in /a/b, for both constants
    for number in range(len(blocks)):
        automaton.remove(number)
    assert len(automaton) == 0
    assert not automaton.reads(("S",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("S//a[./b][./c]", "S//a[./c][./b]"),
        ("S//a[./b/c]", "S//a[./b[./c]]"),
        ("S//a[./b = 'x']", "S//a['x' = b]"),
        ("S//a[./b and ./c]", "S//a[./b][./c]"),
        ("S//a[./b][./b]", "S//a[./b]"),
        ("S//a[./b or ./c]", "S//a[./c or ./b]"),
    ],
)
def test_equal_patterns_have_one_definition(one: str, other: str) -> None:
    first, second = (pattern(parse_block(text)) for text in (one, other))
    kept = frozenset({0})
    assert first.definition(0, kept) == second.definition(0, kept)


def test_entries_are_found_by_the_value_that_they_demand() -> None:
    automaton = Automaton()
    blocks = [parse_block(f"S//a[./b/@c = 'v{number}']/d") for number in range(100)]
    blocks.append(parse_block("S//a[contains(./d, 'x')]/d"))
    for number, block in enumerate(blocks):
        automaton.add(number, block, block, valued=True)
    xml = b"<r><a><b c='v7'/><d>x</d></a><a><b c='v9'/><d>y</d></a></r>"
    arrivals = one_arrival(xml)
    rows = shred(automaton, arrivals).bindings.to_pylist()
    assert sorted((row["pair"], row["node2"]) for row in rows) == [(7, 4), (9, 8), (100, 4)]

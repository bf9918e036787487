"""Stage 1: node numbers, and what is shared."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.xscl.shredding.patterns import install
from xscl.language.parser import parse_block
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.automaton.structure import Structure, Subtrees, skeleton
from xscl.shredding.nodes.tree import number_nodes


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


def test_common_prefixes_are_one_state_and_removal_leaves_nothing() -> None:
    automaton = Automaton()
    blocks = [parse_block(f"S//a/b/{name}[. = '{value}']") for name in "cd" for value in "12"]
    for number, block in enumerate(blocks):
        install(automaton, number, block, block, valued=True)
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

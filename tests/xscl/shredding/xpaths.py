"""The nodes that stage 1 selects by XPath."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from templates.model.relations import Pair
from xscl.language.parser import parse
from xscl.language.syntax import Block
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shred import WitnessColumns

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
        (definition,) = read.definitions((read.main,))
        automaton.install([Pair(number, definition, definition, False)])
    columns = WitnessColumns(automaton)
    for doc in range(2):  # the second one has a known shape
        columns.add(doc, ("S",), ReadDocument(b"", root))
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

"""Tests of an index and the tests that it avoids: constants, intervals, changing words."""

from __future__ import annotations

import gc
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.examples import examples
from tests.xscl.shredding.patterns import install, pair_of
from xscl.language.parser import parse_block
from xscl.language.syntax import Condition
from xscl.language.unparse import unparse
from xscl.shredding.automaton import lineage
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import steps_of
from xscl.shredding.batch import shred
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shape import DocumentShapes
from xscl.shredding.batch.shred import WitnessColumns
from xscl.shredding.conditions.atoms import Interval, IntervalIndex
from xscl.shredding.conditions.navigate import holds


def found(automaton: Automaton, xml: str) -> list[tuple[int, int, int]]:
    """Return the bindings in a document, each with its pair."""
    columns = WitnessColumns(automaton)
    columns.add(0, ("S",), ReadDocument(b"", etree.fromstring(xml)))
    rows = columns.tables()[0].select(["pair", "node1", "node2"]).to_pydict()
    return sorted(zip(*rows.values(), strict=True))


# -- Definitions ---------------------------------------------------------------------------


ODD = (
    'S//a[./b[./c[./d[./e[. = "]"]]]]]/f',
    "S//a[. = 'say \"]\"'][./b][. > -3]//@c",
    'S//Q{http://x/[y|}a[./Q{urn:"}b]/* | concat(lower-case(.), " | /x[")',
    'S//a[. = "(:"]/b[./c = "--"]/d',
    "S//a[(./b, ./c)[2] = 'x]' or .//d[1] = '[']/e",
)


@examples(200)
@given(source=st.randoms(use_true_random=False))
def test_a_drawn_definition_has_the_steps_of_its_block(source: Random) -> None:
    for block in pair_of(source)[:2]:
        assert [*steps_of(unparse(block), 1)] == [*map(unparse, block.steps)]


@pytest.mark.parametrize("text", ODD)
def test_steps_end_at_no_sign_within_brackets(text: str) -> None:
    steps = [*steps_of(text, 1)]
    assert "".join(steps) == text[1:]
    assert [parse_block(f"S{step}").steps[-1] for step in steps] == [*parse_block(text).steps]


# -- What is tried -------------------------------------------------------------------------


def test_blocks_that_cannot_match_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    automaton = Automaton()
    tests = (
        *("[./b = 'v{}']", "[./b = {}]", "[./b > 1{}]", "[./b > 100{}][./b < 200{}]"),
        *("[contains(./b, 'v{}')]", "[starts-with(./b, 'v{}')]", "[./n{}]", "[./b/m{} = 'x']"),
        *("[./b = 'w{}' or ./b = 'z{}']", "[not(./c)][./b = 'u{}']", "[./b != '3'][./k{} = '3']"),
    )
    for place, text in enumerate(tests):
        for number in range(50):
            block = parse_block(f"S//a{text.format(*[1000 + number] * 2)}")
            install(automaton, 100 * place + number, block, block, valued=True)
    tried: list[Condition] = []

    def counted(self: shred.DocumentWalk, condition: Condition, node: int) -> bool:
        tried.append(condition)
        return holds(condition, self.item(node))

    monkeypatch.setattr(shred.DocumentWalk, "_tried", counted)
    assert found(automaton, "<r><a><b>3</b><c/></a><a><b>v</b></a></r>") == []
    assert tried == []
    assert found(automaton, "<r><a><b>u1007</b></a></r>") == [(907, 1, 1)]
    assert len(tried) == 1


MANY = shred.TOO_MANY + 4


def test_a_place_gets_many_branches_and_loses_them_one_by_one() -> None:
    automaton = Automaton()
    upper = parse_block("S//a[./b0 = 'x']")
    xml = "<a>" + "".join(f"<b{n}>x</b{n}>" for n in range(MANY)) + "</a>"

    def pairs() -> list[int]:
        return [pair for pair, _, _ in found(automaton, xml)]

    for number in range(MANY):
        install(automaton, number, upper, parse_block(f"S//a[./b0 = 'x']/b{number}"), valued=True)
        assert pairs() == list(range(number + 1))
    for number in range(MANY):
        assert pairs() == list(range(number, MANY))
        automaton.remove(number)
    assert not automaton.reads(("S",))
    install(automaton, 0, upper, upper)
    assert pairs() == [0]


def test_a_structure_keeps_little_of_what_has_come_and_gone() -> None:
    automaton = Automaton()
    stays = parse_block("S//a[./b]"), parse_block("S//a[./b]/b")
    install(automaton, 0, *stays, valued=True)
    xml = "<r>" + "<a><b>x</b></a>" * 3 + "</r>"
    most = 0
    for number in range(1, 301):
        gone = parse_block("S/r/a[./b]/b")  # its states are others each time
        install(automaton, number, gone, gone, valued=True)
        assert [pair for pair, _, _ in found(automaton, xml)] == [0] * 3 + [number] * 3
        automaton.remove(number)
        assert isinstance(automaton.shapes, DocumentShapes)
        for shape in automaton.shapes._known.values():
            most = max(most, len(shape.reached) + len(shape._matched) + len(shape._under))
    assert 0 < most < 150


def lineages() -> list[lineage.Lineage]:
    """Return all lineages of this process."""
    return [one for one in gc.get_objects() if isinstance(one, lineage.Lineage)]


def test_names_that_never_come_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "LIMIT", 300)
    monkeypatch.setattr(lineage, "SUBTREES", 30)
    automaton = Automaton()
    asked, other = parse_block("S//a[./b]"), parse_block("S//c")
    install(automaton, 0, asked, asked, valued=False)
    gc.collect()
    before = {id(one) for one in lineages()}
    gc.disable()  # as where documents are shredded
    try:
        for number in range(200):
            xml = f"<r{number}><s{number}/><a><b/></a></r{number}>"
            assert found(automaton, xml) == [(0, 2, 2)]
            if number % 10 == 0:
                install(automaton, 1, other, other, valued=False)
        wide = "".join(f"<n{number}/>" for number in range(200))
        assert found(automaton, f"<r>{wide}<a><b/></a></r>") == [(0, 201, 201)]
        assert len([one for one in lineages() if id(one) not in before]) < 50
        assert len(automaton.known.subtrees) < 250
    finally:
        gc.enable()


# -- Words and intervals -------------------------------------------------------------------


def test_intervals_are_those_that_numbers_keep() -> None:
    source = Random(2)
    bounds = (-1e9, -8.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0, 4.0, 8.0, 511.0, 513.0, 1e19)
    values = (*bounds, 0.1, 2.0, 7.99, 512.0, 1e300, -1e300, math.inf, -math.inf)
    intervals = IntervalIndex()
    live: set[Interval] = set()
    kept = 0
    for _ in range(1_000):
        low, high = source.choices(bounds, k=2)
        interval = Interval(low, source.random() < 0.5, high, source.random() < 0.5)
        if interval in live:
            live.remove(interval)
            intervals.remove(interval)
        else:
            live.add(interval)
            intervals.add(interval)
        least, greatest = sorted(source.choices(values, k=2))
        if source.random() < 0.7:
            greatest = least
        expected = {
            one
            for one in live
            if (greatest > one.low or (greatest == one.low and not one.low_open))
            and (least < one.high or (least == one.high and not one.high_open))
        }
        found = intervals.kept_by(least, greatest)
        assert len(found) == len(expected)
        assert set(found) == expected
        kept += len(expected)
    assert kept > 1_000

"""Conditions are looked up: the same is found as by trying each, whatever comes and goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from lxml import etree

from feeds.documents import Document
from tests.examples import tried, usually
from tests.xscl.shredding.patterns import (
    DERIVED,
    Asked,
    Witness,
    document,
    expected,
    install,
    pair_of,
    reworded,
)
from xscl.engine.facade import Engine
from xscl.language.parser import parse_block
from xscl.language.unparse import unparse
from xscl.shredding.automaton import automaton_states, lineage
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch import shape, shred
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shape import DocumentShapes
from xscl.shredding.batch.shred import WitnessColumns
from xscl.shredding.conditions import constants
from xscl.shredding.nodes import number_nodes

STREAMS = (("S",), ("S",), ("T",), ("S", "T"))
Arrival = tuple[etree._Element, tuple[str, ...]]


def found(automaton: Automaton, arrivals: list[Arrival]) -> list[Counter[Witness]]:
    """Return the witnesses of each document."""
    columns = WitnessColumns(automaton)
    for doc, (root, streams) in enumerate(arrivals):
        columns.add(doc, streams, ReadDocument(b"", root))
    bindings, values = columns.tables()
    texts = values["strVal"].to_pylist()
    sizes = [len(number_nodes(root).items) for root, _ in arrivals]
    each: list[Counter[Witness]] = [Counter() for _ in arrivals]
    for row in bindings.to_pylist():
        text = None if row["value"] is None else texts[row["value"]]
        size = sizes[row["doc"]]
        first, second = (DERIVED if n >= size else n for n in (row["node1"], row["node2"]))
        each[row["doc"]][row["pair"], first, second, text] += 1
    occurring = Counter(
        text for of_one in each for text in {w[3] for w in of_one if w[3] is not None}
    )
    assert dict(zip(texts, values["docs"].to_pylist(), strict=True)) == occurring
    return each


def wanted(asked: dict[int, Asked], arrivals: list[Arrival]) -> list[Counter[Witness]]:
    """Return the witnesses of each document, by trying every choice of nodes."""
    trees = [(number_nodes(root), streams) for root, streams in arrivals]
    return [
        Counter(w for pair, one in asked.items() for w in expected(pair, one, tree, streams))
        for tree, streams in trees
    ]


def arrivals_of(source: Random, count: int) -> list[Arrival]:
    """Return documents, some of which have the structure of another one."""
    made: list[Arrival] = []
    for _ in range(count):
        root = document(source)
        if made and source.random() < 0.6:
            root = reworded(source, source.choice(made)[0])
        made.append((root, source.choice(STREAMS)))
    return made


def history(seed: int) -> Iterator[tuple[Automaton, dict[int, Asked], list[Arrival]]]:
    """Yield, after each of some changes, the automaton, what is asked of it, and documents."""
    source = Random(seed)
    automaton = Automaton()
    asked: dict[int, Asked] = {}
    kept = arrivals_of(source, 4)
    for _ in range(8):
        for pair in source.sample(sorted(asked), len(asked) // 3):
            automaton.remove(pair)
            del asked[pair]
        for _ in range(source.choice((1, 2, 30))):
            pair = source.randrange(60)
            asked[pair] = pair_of(source)
            install(automaton, pair, *asked[pair])
        kept = [(reworded(source, root), streams) for root, streams in kept]
        yield automaton, asked, [*kept, *arrivals_of(source, 3)]


LIMITS = (
    *((automaton_states, "FEW"), (constants, "RECENT"), (shape, "BUDGET")),
    *((shape, "SEEN"), (lineage, "LIMIT"), (lineage, "SUBTREES"), (shred, "NODES")),
)


@pytest.fixture(params=[None, 1, 3])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every memory so small that it is full at once, or leave them as they are."""
    if request.param is not None:
        for module, name in LIMITS:
            monkeypatch.setattr(module, name, request.param * (50 if name == "BUDGET" else 1))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("seed", usually(range(9), 1, 4, 7))
def test_what_is_looked_up_is_what_trying_every_node_finds(seed: int) -> None:
    for automaton, asked, arrivals in history(seed):
        assert found(automaton, arrivals) == wanted(asked, arrivals)
        shapes = automaton.shapes
        assert isinstance(shapes, DocumentShapes)
        kept = shapes._known.values()
        assert shapes._size == sum(len(one) + shape.ROWS * len(one.rows) for one in kept)


def test_well_over_a_third_of_the_pairs_have_witnesses_and_every_feature_occurs() -> None:
    total = hits = 0
    texts: list[str] = []
    for seed in range(tried(24)):
        for _, asked, arrivals in history(seed):
            pairs = {w[0] for of_one in wanted(asked, arrivals) for w in of_one}
            total += len(asked)
            hits += len(pairs)
            texts += (unparse(asked[pair][1]) for pair in pairs)
    assert hits / total > 0.36
    features = (
        "contains(",
        "starts-with(",
        "ends-with(",
        "matches(",
        "count(",
        "lower-case(",
        "substring(",
        " or ",
        "not(",
        "//@",
        "/@",
        "*:",
        "text()",
        "//",
        "!=",
    )
    every = "\n".join(texts)
    assert [feature for feature in features if feature not in every] == []


def test_everything_may_leave_in_any_order() -> None:
    for seed in range(tried(24)):
        source = Random(seed)
        automaton = Automaton()
        asked = {pair: pair_of(source) for pair in range(40)}
        arrivals = arrivals_of(source, 4)
        for pair, one in asked.items():
            install(automaton, pair, *one)
        for pair in source.sample(range(40), 40):
            automaton.remove(pair)
            del asked[pair]
            if pair % 5 == 0:
                assert found(automaton, arrivals) == wanted(asked, arrivals)
        assert len(automaton) == 0
        assert not automaton.reads(("S", "T"))


def test_shapes_that_do_not_come_again_after_a_change_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while others come: their lineages would be kept by nobody else."""
    monkeypatch.setattr(lineage, "LIMIT", 200)
    automaton = Automaton()
    for pair in range(6):
        block = f"S//i[./t{pair}]"
        install(automaton, pair, parse_block(block), parse_block(f"{block}//k"), True)
        texts = [f"<i><t{number}/><k>{pair}</k><u{pair}/></i>" for number in range(6)]
        for _ in range(2):
            found(automaton, [(etree.fromstring(text), ("S",)) for text in texts])
    shapes = automaton.shapes
    assert isinstance(shapes, shape.DocumentShapes)
    assert 0 < len(shapes._known) < 36


def test_shapes_over_the_budget_leave(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "BUDGET", 3)
    engine.subscribe("s", 'S//i->a[./k = "x"][./t->t] JOIN{t=u, 2 d} S//i->b[./t->u]')
    for day in range(12):
        more = b"<n/>" * (day % 3)
        text = b"<i><k>x</k><t>%d</t>%s</i>" % (day, more)
        engine.push(Document("S", f"d{day}", day, text))
    shapes = engine.state.dataflow.automaton.shapes
    assert isinstance(shapes, shape.DocumentShapes)
    (left,) = shapes._known.values()
    assert shapes._size <= len(left) + shape.ROWS * len(left.rows)


def test_the_shape_of_a_large_document_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large documents rarely have one structure; those of 9 MB took 25 MB each."""
    monkeypatch.setattr(shape, "LARGEST", 20)
    sizes = {}
    for items in (3, 30):
        with Engine() as engine:
            engine.subscribe("s", "S//i->a[./t->t] JOIN{t=u, 2 d} S//i->b[./t->u]")
            for day in range(4):
                text = f"<r>{'<i><t>x</t></i>' * items}</r>".encode()
                engine.push(Document("S", f"d{day}", day, text))
            shapes = engine.state.dataflow.automaton.shapes
            assert isinstance(shapes, shape.DocumentShapes)
            sizes[items] = len(shapes._known)
            assert len(engine.matches("s")) > 0
    assert sizes == {3: 1, 30: 0}

"""`why` says of some documents that they match exactly where the engine delivered them.

The cases are those of `tests.strategies`.  For each subscription
its matches are asked about, what differs from one of them in one document, and some documents
drawn at random; for NOT FOLLOWED BY also with a document that might answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until, usually
from tests.oracle.evaluation import arrivals, matches, named
from tests.oracle.queries import Case, Push, Subscribe, Unsubscribe
from tests.strategies import joins
from tests.strategies import language as drawn
from tests.xscl.engine.player import pushed
from xscl.inspection.why import NONE
from xscl.language.normalform import Absent, Form, Instants, Scan, components
from xscl.planning.compile import CompiledQuery, compile_query


def matching(cases: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Return those cases that have matches, of kinds of which few have."""
    return cases.filter(lambda case: bool(matches(case.events, case.lateness)))


KINDS: Mapping[str, st.SearchStrategy[Case]] = {
    "histories": joins.histories(),
    "chains": drawn.chains(),
    "residuals": drawn.residuals(),
    "functions": drawn.functions(),
    "ordered": drawn.ordered(),
    "mixes": matching(drawn.mixes()),
    "published": drawn.published(),
    "published in time": matching(drawn.published(waiting=True)),
}


def play(engine: xscl.Engine, case: Case) -> None:
    """Push a history into an engine, one document after the other."""
    for stream, lateness in case.lateness.items():
        engine.stream(stream, lateness=lateness)
    for event in case.events:
        match event:
            case Push(doc):
                engine.push(pushed(doc))
            case Unsubscribe(name):
                engine.unsubscribe(name)
            case Subscribe(one):
                engine.subscribe(one.name, one.query.text(), updates=one.updates)
    engine.flush()


def texts(engine: xscl.Engine, case: Case) -> dict[str, bytes]:
    """Return the texts of all documents by their names, also of those that are not kept."""
    published = {
        named(match.publish, match.id): match.xml() for match in engine.matches() if match.publish
    }
    return {row.id: row.document.xml for row in arrivals(case.events)} | published


def asked(
    query: CompiledQuery, found: set[tuple[str, ...]], ids: list[str], chance: random.Random
) -> Iterator[tuple[str, ...]]:
    """Yield documents for all blocks: what matches, what nearly does, and anything."""
    blocks, covered = len(query.normal.blocks), components(query.normal.form)
    optional = set(_optional(query.normal.form))
    for documents in chance.sample(sorted(found), min(len(found), 4)):
        if len(documents) == len(covered):
            placed = [chance.choice(ids) for _ in range(blocks)]
            for place, name in zip(covered, documents, strict=True):
                placed[place] = name
            yield tuple(placed)
            placed[chance.randrange(blocks)] = chance.choice(ids)
            yield tuple(placed)
    for _ in range(4):
        yield tuple(
            NONE if place in optional and chance.random() < 0.5 else chance.choice(ids)
            for place in range(blocks)
        )


def _optional(form: Form) -> Iterator[int]:
    """Yield the components on the right side of ELSE."""
    if not isinstance(form, Scan | Instants):
        yield from _optional(form.left)
        yield from _optional(form.right)
        if isinstance(form, Absent) and form.otherwise:
            yield from components(form.right)


def check(kind: str, number: int) -> None:
    """Compare `why` with what was delivered; matches and other documents occur, three or more."""
    said = {True: 0, False: 0}

    @examples(number)
    @given(KINDS[kind], st.integers(0, 1 << 20))
    def property_holds(case: Case, seed: int) -> None:
        chance = random.Random(seed)
        with xscl.Engine() as engine:
            play(engine, case)
            delivered, known = engine.matches(), texts(engine, case)
            ids = [row["docid"] for row in engine.sql("SELECT docid FROM documents").to_pylist()]
            for one in engine.subscriptions:
                found = {m.names for m in delivered if m.subscription == one.name}
                query = compile_query(one.query)
                for documents in asked(query, found, ids, chance):
                    answer = engine.why(one.name, *documents, read=known.__getitem__)
                    covered = components(query.normal.form)
                    names = tuple(documents[p] for p in covered if documents[p] != NONE)
                    assert answer.matched == (names in found), "\n".join(answer.lines())
                    assert answer.matched == all(edge.holds for edge in answer.edges)
                    said[answer.matched] += 1

    property_holds()
    until(lambda: min(said.values()) >= 3, property_holds)
    assert min(said.values()) >= 3, said


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "chains", "mixes"))
def test_why_says_what_the_engine_delivered(kind: str) -> None:
    check(kind, 3 if kind in ("mixes", "published in time") else 2)

"""SQL over the relations of joins has the rows of one engine, whoever evaluates the joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.documents import Document
from tests.examples import examples
from tests.xscl.inspection.divided import STATE, Divided, document, rows_of
from xscl.errors import SqlError
from xscl.inspection import rebuilt_relations
from xscl.service.browsing import witness

LEFT, RIGHT = "S//e->a[./k->x][./v->v]", "S//e->b[./k->y][./v->w]"
QUERIES = {
    "one": "S//e->a[./k->x] FOLLOWED BY{x = y, 3 s} S//e->b[./k->y]",
    "longer": "S//e->a[./k->x] FOLLOWED BY{x = y, 6 s} S//e->b[./k->y]",
    "two": LEFT + " JOIN{x = y AND v = w, 4 s} " + RIGHT,
    "unequal": LEFT + " FOLLOWED BY{x = y AND v != w, 5 s} " + RIGHT,
    "nested": "S//e->a[./i->n[./k->x][./v->v]] JOIN{x = y AND v = w, 4 s} R//*->b[.//k->y]/v->w",
    "both": "S//e->a[.//k->x] JOIN{x = y, 2 s} R//e->b[.//k->y]",
    "other value": "S//e->a[./k->x][./v->v] FOLLOWED BY{v = w, 3 s} S//e->b[./v->w]",
}
HERE = {
    "filter": "S//e->a[./k->x]",
    "absent": "S//e->a[./k->x] NOT FOLLOWED BY{x = y, 4 s} S//e->b[./v->y]",
    "less": LEFT + " FOLLOWED BY{x = y AND v < w, 3 s} " + RIGHT,
    "chain": "(S//e->a[./k->x] FOLLOWED BY{x = y, 3 s} S//e->b[./k->y])"
    " FOLLOWED BY{y = z, 3 s} R//e->c[.//k->z]",
}


@dataclass(frozen=True, slots=True)
class Case:
    """Documents and registrations in their order; some joins are elsewhere."""

    steps: Sequence[Sequence[Document] | str]
    lateness: int
    history: int | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps: list[Sequence[Document] | str] = []
    number, now = 0, 0.0
    texts = st.lists(st.sampled_from("12"), max_size=2)
    names = draw(st.permutations([*QUERIES, *HERE]))[: draw(st.integers(1, 6))]
    for name in names:
        steps.append(name)
        for _ in range(draw(st.integers(name == names[-1], 2))):  # a push is the last step
            batch = []
            for _ in range(draw(st.integers(1, 4))):
                number, now = number + 1, now + draw(st.sampled_from((0, 0.5, 1, 2)))
                late = draw(st.sampled_from((0, 0, 1, 3, 9)))
                keys, values = (
                    "".join(f"<{tag}>{text}</{tag}>" for text in draw(texts)) for tag in "kv"
                )
                inner = draw(st.sampled_from((f"{keys}{values}", f"<i>{keys}{values}</i>{keys}")))
                stream = draw(st.sampled_from("SSR"))
                batch.append(document(number, max(0, now - late), f"<e>{inner}</e>", stream))
            steps.append(batch)
    return Case(
        steps,
        draw(st.sampled_from((0, 2))),
        draw(st.sampled_from((None, 0))),
    )


@pytest.mark.hypothesis
def test_the_rows_are_those_of_one_engine() -> None:
    """Witnesses, those of the last push, and results of rows of R_T elsewhere all occur."""
    counts = Counter[str]()

    def property_holds(case: Case) -> None:
        with Divided(lateness=case.lateness, history=case.history) as both:
            for step in case.steps:
                if isinstance(step, str):
                    both.subscribe(step, (QUERIES | HERE)[step])
                else:
                    both.push(step)
            found = both.expect_equal()
            state = both.divided.state
            elsewhere = state.registry.elsewhere.rows
            stored = rows_of(both.divided, "SELECT doc, pair, node1, node2 FROM state.binding")
        counts["cases"] += 1
        counts["witnesses"] += len(found["R_bin"]) > len(stored)
        counts["last witnesses"] += (
            len(found.get("R_binW", ())) > state.processor.pushed.bindings.num_rows
        )
        out = [row for name in found if name.startswith("R_out") for row in found[name]]
        counts["results"] += any(row[0] in elsewhere for row in out)

    examples(100)(given(cases())(property_holds))()
    assert len(counts) == 4
    assert min(counts.values()) >= counts["cases"] / 10, counts


# -- One at a time -------------------------------------------------------------------------

ONE = [document(number, number / 10, f"<e><k>{number % 3}</k></e>") for number in range(1, 7)]


@pytest.fixture
def both() -> Iterator[Divided]:
    with Divided() as made:
        yield made


def test_rows_that_nothing_can_join_any_more_are_not_shown(both: Divided) -> None:
    both.subscribe("one", QUERIES["one"])
    both.push(ONE)
    assert {row[0] for row in rows_of(both.divided, "FROM R_bin")} == {one.id for one in ONE}
    both.push([document(7, 3.35, "<e><k>9</k></e>")])
    for name in STATE:
        found = {row[0] for row in rows_of(both.divided, f"FROM {name}")}
        assert found == {"d4", "d5", "d6", "d7"}, name
    assert rows_of(both.divided, "FROM R_out_1") == set()


@pytest.mark.parametrize("history", [0, None])
def test_documents_of_the_last_push_are_there_though_they_came_too_late(
    history: int | None,
) -> None:
    with Divided(history=history) as both:
        both.subscribe("one", QUERIES["one"])
        both.push(ONE)
        for time in (100, 200):
            both.push([document(time, time, "<e/>"), document(time + 1, 50, "<e><k>1</k></e>")])
            for engine in both.engines:
                assert {row[0] for row in rows_of(engine, "FROM R_binW")} == {f"d{time + 1}"}


@pytest.mark.parametrize("history", [0, None])
def test_partners_of_the_last_push_are_there_though_nothing_later_joins_them(
    history: int | None,
) -> None:
    with Divided(history=history) as both:
        # Results that stage 2 finds and the comparison of values refuses, so that none is kept.
        both.subscribe(
            "refined", "S//e[./k->x][./v->v] JOIN{x = y AND v < w, 5 s} R//e[./k->y][./v->w]"
        )
        both.push([document(1, 1, "<e><k>1</k><v>2</v></e>")])
        partner = document(2, 2, "<e><k>1</k><v>2</v></e>", "R")
        both.push([partner, document(3, 90, "<e/>")])
        assert both.expect_equal()["R_out_1"]
        both.push([document(4, 91, "<e/>")])
        if history == 0:
            assert rows_of(both.divided, "SELECT doc FROM state.text") == {(3,), (4,)}


def test_they_are_those_of_the_same_position_after_a_restart(tmp_path: Path) -> None:
    with Divided(folder=tmp_path) as both:
        both.subscribe("one", QUERIES["one"])
        both.push(ONE)
        before = both.expect_equal()
        assert before["R_out_1"]
        both.reopen()
        after = both.expect_equal()
        assert all(after[name] == before[name] for name in STATE)
        assert not after["R_binW"]
        both.push([document(7, 0.7, "<e><k>1</k></e>")])
        assert both.expect_equal()["R_binW"]


def test_a_join_that_is_newer_than_the_last_push_has_no_results(both: Divided) -> None:
    both.subscribe("one", QUERIES["one"])
    both.push([document(n, 3.5 * n, "<e><k>1</k></e>") for n in range(2)])
    both.subscribe("longer", QUERIES["longer"])
    both.divided.executors._plan.update()  # executors join the next documents
    assert not both.expect_equal()["R_out_1"]
    both.push([document(2, 7, "<e><k>1</k></e>")])
    assert {row[:3] for row in both.expect_equal()["R_out_1"]} == {(2, "d1", "d2")}


def test_a_removed_join_has_no_rows(both: Divided) -> None:
    for name in ("one", "other value"):
        both.subscribe(name, QUERIES[name])
    both.push(ONE)
    for engine in both.engines:
        engine.unsubscribe("one")
        assert not any(rows_of(engine, f"FROM {name}") for name in STATE)


def test_the_bindings_of_a_document_are_made_from_that_one(
    both: Divided, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.subscribe("one", QUERIES["one"])
    both.push(ONE)
    monkeypatch.setattr(rebuilt_relations, "MOST", 1)
    one, divided = (witness(engine, "d3", tmp_path) for engine in both.engines)
    assert one == divided
    assert any(node.variables for node in one.nodes)


def test_too_many_documents_are_refused(both: Divided, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt_relations, "MOST", 5)
    both.subscribe("one", QUERIES["one"])
    both.push(ONE[:5])
    both.divided.sql("FROM R_bin")
    both.push(ONE[5:])
    with pytest.raises(SqlError) as caught:
        both.divided.sql("FROM R_bin")
    message = "the relations of joins would be made from 6 documents, more than 5"
    assert str(caught.value) == message
    assert rows_of(both.divided, "SELECT docid FROM documents")

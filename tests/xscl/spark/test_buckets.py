"""Joins in buckets give what one engine gives, however many buckets there are.

The functions of executors run in this process: stage 1 to parts, the parts of a bucket to matches.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.documents import Document
from templates.model.result_bound import RESULTS
from tests.examples import examples
from tests.oracle.queries import Case
from tests.strategies.language import joins
from tests.xscl.engine.player import CUTS, cut
from tests.xscl.spark.bucket_runs import (
    Batches,
    Found,
    found_in_buckets,
    in_engine,
    possible,
)
from xscl.spark.bound import in_shares, within_bound
from xscl.spark.catalog import Catalog
from xscl.spark.match_rows import FOUND
from xscl.spark.part_format import unpacked


@pytest.mark.hypothesis
def test_drawn_joins_are_those_of_one_engine() -> None:
    seen: Counter[str] = Counter()

    @examples(48)
    @given(joins(), CUTS, CUTS, st.sampled_from((1, 4, 64)), st.sampled_from((0, 0, 3)))
    def agree(
        case: Case, cuts: list[bool], others: list[bool], buckets: int, lateness: int
    ) -> None:
        # each on one stream, with an id of its own
        documents = [
            Document(doc.streams[0], f"{number}-{doc.id}", doc.timestamp, doc.xml)
            for number, doc in enumerate(case.documents)
        ]
        with tempfile.TemporaryDirectory() as folder:
            catalog = Catalog(Path(folder), sample=documents[:3], forever=True)
            with catalog:
                queries = possible(
                    catalog, {one.name: one.query.text() for one in case.subscriptions}
                )
                found = found_in_buckets(catalog, cut(documents, cuts), buckets, lateness=lateness)
        expected = in_engine(queries, cut(documents, others), lateness=lateness)
        assert found == expected
        seen["cases"] += 1
        seen["joins"] += len(queries)
        seen["with matches"] += bool(found)

    agree()
    assert 4 * seen["with matches"] >= seen["cases"], seen


def numbered(texts: Sequence[str]) -> list[Document]:
    """Return documents with texts, at the times 0, 1, ..."""
    return [Document("S", f"d{time}", time, text.encode()) for time, text in enumerate(texts)]


def expect_alike(
    queries: Mapping[str, str], batches: Batches, buckets: int, place: Path
) -> list[Found]:
    """Compare buckets with an engine, which finds matches of each query; return them."""
    with Catalog(place) as catalog:
        catalog.subscribe_many(queries)
        found = found_in_buckets(catalog, batches, buckets)
    assert found == in_engine(queries, batches)
    assert {one.subscription for one in found} == queries.keys()
    return found


BOOKS = (
    "<b><a>Ann</a><a>Bob</a><a>Cid</a><t>one</t></b>",
    "<b><a>Bob</a><a>Cid</a><t>two</t></b>",
    "<b><a>Eve</a><t>one</t></b>",
    "<b><a>Ann</a><a>Cid</a><a>Eve</a><t>two</t></b>",
)
DISTINCT = "SELECT DISTINCT <m>{x}{y}</m> FROM S//b[./a->x] FOLLOWED BY{x=y, 9} S//b[./a->y]"
NAMED = {
    "distinct": DISTINCT,
    "plain": "S//b[./a->x] FOLLOWED BY{x=y, 9} S//b[./a->y]",
    "two": "S//b[./a->x][./t->u] JOIN{x=y AND u=v, 9} S//b[./a->y][./t->v]",
    "unlike": "S//b[./a->x][./t->u] JOIN{x=y AND u != v, 9} S//b[./a->y][./t->v]",
}


@pytest.mark.parametrize("buckets", [1, 3, 64])
def test_a_distinct_match_is_whole_in_each_bucket_that_finds_it(
    buckets: int, tmp_path: Path
) -> None:
    documents = numbered(BOOKS)
    expect_alike(NAMED, [documents[:2], documents[2:]], buckets, tmp_path)


AMOUNTS = (
    "<e><k>a</k><p>0.30</p><q>0.20</q><line>0.01</line><line>0.09</line></e>",
    "<e><k>a</k><p>0.1</p><q>0.10</q><line>0.1</line></e>",
    "<e><k>b</k><p>1.10</p><q>1.00</q><line>0.30</line></e>",
    "<e><k>b</k><p>0.3</p><q>99999999999999999.7</q></e>",
    "<e><k>a</k><p>1E-1</p><q>0.30</q><line>0.2</line><line>-0.10</line></e>",
    "<e><k>b</k><p>0.100000000000000001</p><q>0.1</q></e>",
)
OF_AMOUNTS = {
    "cast": "S//e[./k->x][./p->u] JOIN{x=y AND xs:decimal(u) = xs:decimal(v), 9}"
    " S//e[./k->y][./q->v]",
    "difference": "S//e[./k->x][./p - ./q = 0.1] JOIN{x=y, 9} S//e[./k->y]",
    "sum": "S//e[sum(line) = 0.10][./k->x] JOIN{x=y, 9} S//e[./k->y][./q->v]",
    "more": "S//e[./k->x][xs:decimal(./p) > 0.1] FOLLOWED BY{x=y, 9} S//e[./k->y]",
    "built": "SELECT <s of='{u * 3}'>{u + v} {u - v} {u div 3}</s> FROM"
    " S//e[./k->x][./p->u] FOLLOWED BY{x=y, 9} S//e[./k->y][./q->v]",
    "missing": "S//e[./k->x][./p->u] NOT FOLLOWED BY{x=y, 2} S//e[./k->y][./p * 3 = 0.3]",
}


@pytest.mark.parametrize("buckets", [1, 4, 64])
def test_amounts_are_decimals_in_buckets(buckets: int, tmp_path: Path) -> None:
    documents = numbered(AMOUNTS)
    end = Document("S", "end", 100, b"<e><k>c</k></e>")  # absences are certain
    found = expect_alike(OF_AMOUNTS, [documents[:2], documents[2:], [end]], buckets, tmp_path)
    pairs = {one.documents for one in found if one.subscription == "difference"}
    assert pairs == {("d0", "d1"), ("d0", "d4"), ("d2", "d3"), ("d2", "d5")}


LETTERS = st.sampled_from("uvw")
LEAVES = st.lists(st.tuples(st.sampled_from("abck"), LETTERS), min_size=1, max_size=4)
ABSENCES = {
    "one": "S//e[./a->x] NOT FOLLOWED BY{x=y, 3} S//e[./b->y]",
    "again": "S//e[./a->x] NOT FOLLOWED BY{x=y, 5} S//e[./b->y]",
    "later": "S//e[./a->x] NOT FOLLOWED BY{x=y, 2 TO 4} S//e[./b->y]",
    "or not": "S//e[./a->x] FOLLOWED BY{x=y, 1 TO 4} S//e[./b->y] ELSE",
    "outer": "S//e[./a->x] JOIN{x=y, -2 TO 3} S//e[./b->y] ELSE",
    "before": "S//e[./a->x][./c->z] JOIN{x=y, -4 TO -1} S//e[./b->y] ELSE LEFT",
    "after": "S//e[./a->x] JOIN{x=y, 2} S//e[./a->y][./c->z] ELSE RIGHT",
    "two": "S//e[./a->x][./b->u] NOT FOLLOWED BY{v=u AND x=y, 4} S//e[./a->y][./b->v]",
    "bound": "S//e[./a->x][./c->z] NOT FOLLOWED BY{x=y, 4} S//e[./b->y]",
    "attribute": "S//e[./k->x] NOT FOLLOWED BY{y=x, 2} S//e/@k->y",
    "beside": "S//e[./a->x] FOLLOWED BY{x=y, 5} S//e[./b->y]",
}


@st.composite
def events(draw: st.DrawFn) -> list[Document]:
    """Return documents whose times rise, but for a few that are late."""
    found, time = [], 0
    for number in range(draw(st.integers(2, 10))):
        time += draw(st.integers(0, 3))
        late = draw(st.sampled_from((0, 0, 0, 1, 4)))
        leaves = "".join(f"<{name}>{text}</{name}>" for name, text in draw(LEAVES))
        xml = f'<e k="{draw(LETTERS)}">{leaves}</e>'.encode()
        found.append(Document("S", f"d{number}", max(0, time - late), xml))
    return found


@pytest.mark.hypothesis
def test_drawn_absences_are_those_of_one_engine() -> None:
    seen: Counter[str] = Counter()

    @examples(60)
    @given(events(), CUTS, CUTS, st.sampled_from((1, 4, 64)), st.sampled_from((0, 0, 3)))
    def agree(
        documents: list[Document], cuts: list[bool], others: list[bool], buckets: int, late: int
    ) -> None:
        with tempfile.TemporaryDirectory() as folder, Catalog(Path(folder)) as catalog:
            catalog.subscribe_many(ABSENCES)
            found = found_in_buckets(catalog, cut(documents, cuts), buckets, lateness=late)
        assert found == in_engine(ABSENCES, cut(documents, others), lateness=late)
        seen["cases"] += 1
        seen.update({one.subscription for one in found})

    agree()
    assert all(seen[name] for name in ABSENCES), seen


def row(match: str | None, newcomer: str, answers: int) -> dict[str, object]:
    """Return a row of `FOUND` of one subscription."""
    return {"id": match, "subscription": "s", "newcomer": newcomer, "answers": answers}


@pytest.mark.parametrize(("more", "expected"), [(0, ["m1", "m2", "m3"]), (1, ["m3"])])
def test_a_document_over_the_bound_has_no_match(more: int, expected: list[str]) -> None:
    rows = [row("m1", "S/a", RESULTS - 1), row("m2", "S/a", 1 + more), row("m3", "S/b", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND)).to_pylist()
    assert sorted(one["id"] for one in found if one["id"]) == expected
    rejected = [one["_rejected"] for one in found if not one["id"]]
    assert [one["id"] for one in rejected] == ["S/a"] * more
    assert all("more than 10,000 results" in one["message"] for one in rejected)


def test_a_match_of_several_buckets_is_one_row() -> None:
    rows = [row("m1", "S/a", 1), row("m1", "S/a", 2), row("m2", "S/a", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND))
    assert sorted(found["id"].to_pylist()) == ["m1", "m2"]


def test_a_bucket_with_too_many_results_rejects_those_of_all() -> None:
    rows = [row("m1", "S/a", 1), row(None, "S/a", RESULTS + 1), row("m2", "S/b", 1)]
    found = within_bound(pa.Table.from_pylist(rows, schema=FOUND)).to_pylist()
    assert [one["id"] for one in found] == ["m2", None]
    assert found[1]["_rejected"]["id"] == "S/a"


def test_a_share_has_all_rows_of_its_documents() -> None:
    rows = [row(f"m{number}", f"S/{number % 7}", 1) for number in range(50)]
    shares = dict(in_shares(pa.Table.from_pylist(rows, schema=FOUND), 3))
    assert shares.keys() <= {0, 1, 2}
    newcomers = [set(unpacked(data)["newcomer"].to_pylist()) for data in shares.values()]
    assert sum(map(len, newcomers)) == 7
    assert sum(unpacked(data).num_rows for data in shares.values()) == 50


def test_a_document_of_both_sides_is_alone_on_each(tmp_path: Path) -> None:
    """An absent side has no values of another document, whichever comes first."""
    documents = [
        Document("S", "d0", 0, b"<e><a>u</a><b>u</b></e>"),
        Document("S", "d1", 9, b"<e><a>v</a><b>v</b></e>"),
        Document("S", "d2", 99, b"<e/>"),
    ]
    assert len(expect_alike({"outer": ABSENCES["outer"]}, [documents], 1, tmp_path)) == 4

"""Table 6.4 of Hong 2009, relation by relation, on the documents of Figures 6.1 and 6.2.

Node numbers in the paper leave room for one more first child in each document
than the figures' text shows; it is added here.  Variables go by the paper's
names: `NAMES` translates their canonical definitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xscl

D1 = b"""<book><publisher>Wrox</publisher><author>Danny Ayers</author>
<author>Andrew Watt</author><title>Beginning RSS and Atom Programming</title>
<category>Scripting &amp; Programming</category><category>Web Site Development</category></book>"""
D2 = b"""<blog><url>http://example.com/1</url><author>Danny Ayers</author>
<title>Beginning RSS and Atom Programming</title><category>Book Announcement</category>
<category>Scripting &amp; Programming</category></blog>"""

T1, T2, T3 = 10, 20, 30
TABLE_6_2 = {
    "Q1": "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 10} "
    "S//blog->x4[./author->x5][./title->x6]",
    "Q2": "S//book->x1[./author->x2][./category->x7] FOLLOWED BY {x2=x5 AND x7=x8, 20} "
    "S//blog->x4[./author->x5][./category->x8]",
    "Q3": "S//blog->x4[./author->x5][./title->x6] FOLLOWED BY {x5=x5' AND x6=x6', 30} "
    "S//blog->x4'[./author->x5'][./title->x6']",
}
NAMES = {
    "S//book": "x1",
    "S//book/author": "x2",
    "S//book/title": "x3",
    "S//book/category": "x7",
    "S//blog": "x4",
    "S//blog/author": "x5",
    "S//blog/title": "x6",
    "S//blog/category": "x8",
}
AYERS, WATT = "Danny Ayers", "Andrew Watt"
TITLE = "Beginning RSS and Atom Programming"
SCRIPTING, WEB, BOOK = "Scripting & Programming", "Web Site Development", "Book Announcement"


@pytest.fixture
def engine() -> Iterator[xscl.Engine]:
    with xscl.Engine() as engine:
        for name, query in TABLE_6_2.items():
            engine.subscribe(name, query)
        yield engine


def push(engine: xscl.Engine, name: str, time: int, xml: bytes) -> list[xscl.Match]:
    return list(engine.push([xscl.Document("S", name, time, xml)]))


def rows(engine: xscl.Engine, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a relation, sorted, with the paper's names for variables."""
    table = engine.sql(query)
    columns = [[NAMES.get(v, v) for v in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def template(engine: xscl.Engine) -> int:
    ((number, queries),) = rows(engine, "SELECT template, count(*) FROM R_sub GROUP BY template")
    assert queries == 3
    assert isinstance(number, int)
    return number


def test_a_r_t(engine: xscl.Engine) -> None:
    found = rows(
        engine,
        "SELECT s.subscription, t.* EXCLUDE (qid)"
        f" FROM R_T_{template(engine)} t JOIN R_sub s USING (qid)",
    )
    assert found == [
        ("Q1", "x1", "x2", "x3", "x4", "x5", "x6", "FOLLOWED BY", T1),
        ("Q2", "x1", "x2", "x7", "x4", "x5", "x8", "FOLLOWED BY", T2),
        ("Q3", "x4", "x5", "x6", "x4", "x5", "x6", "FOLLOWED BY", T3),
    ]


def test_b_r_doc_after_d1(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    assert rows(engine, "SELECT * FROM R_doc") == [
        ("d1", 0, None),
        ("d1", 2, AYERS),
        ("d1", 3, WATT),
        ("d1", 4, TITLE),
        ("d1", 5, SCRIPTING),
        ("d1", 6, WEB),
    ]


def test_c_r_bin_after_d1(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    assert rows(engine, "SELECT * FROM R_bin") == [
        ("d1", "x1", "x2", 0, 2),
        ("d1", "x1", "x2", 0, 3),
        ("d1", "x1", "x3", 0, 4),
        ("d1", "x1", "x7", 0, 5),
        ("d1", "x1", "x7", 0, 6),
    ]


def test_d_r_docw_of_d2(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    push(engine, "d2", 2, D2)
    assert rows(engine, "SELECT node, strVal FROM R_docW") == [
        (0, None),
        (2, AYERS),
        (3, TITLE),
        (4, BOOK),
        (5, SCRIPTING),
    ]
    assert rows(engine, "SELECT * FROM R_docTSW") == [("d2", 2)]
    assert rows(engine, "SELECT * FROM R_docTS") == [("d1", 1), ("d2", 2)]


def test_e_r_binw_of_d2(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    push(engine, "d2", 2, D2)
    assert rows(engine, "SELECT var1, var2, node1, node2 FROM R_binW") == [
        ("x4", "x5", 0, 2),
        ("x4", "x6", 0, 3),
        ("x4", "x8", 0, 4),
        ("x4", "x8", 0, 5),
    ]


def test_f_r_out_after_d2(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    push(engine, "d2", 2, D2)
    found = rows(
        engine,
        "SELECT s.subscription, o.* EXCLUDE (qid)"
        f" FROM R_out_{template(engine)} o JOIN R_sub s USING (qid)",
    )
    assert found == [
        ("Q1", "d1", "d2", 0, 2, 4, 0, 2, 3, T1),
        ("Q2", "d1", "d2", 0, 2, 5, 0, 2, 5, T2),
    ]


def test_section_6_5_views_after_d2(engine: xscl.Engine) -> None:
    push(engine, "d1", 1, D1)
    push(engine, "d2", 2, D2)
    assert rows(engine, "SELECT docid1, node1, docid2, node2, strVal FROM R_vj") == [
        ("d1", 2, "d2", 2, AYERS),
        ("d1", 4, "d2", 3, TITLE),
        ("d1", 5, "d2", 5, SCRIPTING),
    ]
    kept = rows(engine, "SELECT var1, var2, node1, node2, strVal FROM R_L WHERE docid1 = 'd1'")
    assert kept == [
        ("x1", "x2", 0, 2, AYERS),
        ("x1", "x3", 0, 4, TITLE),
        ("x1", "x7", 0, 5, SCRIPTING),
    ]
    assert rows(engine, "SELECT var1, var2, node1, node2, strVal FROM R_R") == [
        ("x4", "x5", 0, 2, AYERS),
        ("x4", "x6", 0, 3, TITLE),
        ("x4", "x8", 0, 5, SCRIPTING),
    ]


def test_exactly_q1_and_q2_fire_with_equal_documents(engine: xscl.Engine) -> None:
    assert push(engine, "d1", 1, D1) == []
    matches = push(engine, "d2", 2, D2)
    assert [m.subscription for m in matches] == ["Q1", "Q2"]
    assert [m.documents for m in matches] == [("d1", "d2")] * 2
    assert matches[0].xml() == matches[1].xml() == b"<result>" + D1 + D2 + b"</result>"
    assert [(m.t0, m.t1) for m in matches] == [(1, 2)] * 2
    bound = {v: [(n.node, n.path) for n in nodes] for v, nodes in matches[0].bindings.items()}
    assert bound == {
        "x1": [(0, "/book[1]")],
        "x2": [(2, "/book[1]/author[1]")],
        "x3": [(4, "/book[1]/title[1]")],
        "x4": [(0, "/blog[1]")],
        "x5": [(2, "/blog[1]/author[1]")],
        "x6": [(3, "/blog[1]/title[1]")],
    }

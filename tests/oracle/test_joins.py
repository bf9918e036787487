"""The oracle on joins of two blocks: cases worked by hand; libxml2 as an opinion on patterns."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.examples import examples
from tests.oracle.evaluation import Match, evaluate, matches, replay
from tests.oracle.output import nodes_of
from tests.oracle.patterns import embeddings, number
from tests.oracle.queries import And as AllOf
from tests.oracle.queries import (
    Case,
    Comparison,
    Constant,
    Doc,
    Event,
    FollowedBy,
    Join,
    Push,
    Query,
    Subscribe,
    Subscription,
    Unsubscribe,
    Var,
    blocks,
    subscribed_first,
)
from tests.oracle.steps import (
    NAMESPACES,
    And,
    Block,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Step,
    StringTest,
)
from tests.oracle.trees import Node, read, string_value
from tests.strategies.joins import cases, queries

BOOK = b"""<book><publisher>Wrox</publisher>\
<author>Danny Ayers</author><author>Andrew Watt</author>\
<title>Beginning RSS and Atom Programming</title><category>Scripting &amp; Programming</category>\
<category>Web Site Development</category></book>"""
BLOG = b"""<blog><url>http://example.com/1</url><author>Danny Ayers</author>\
<title>Beginning RSS and Atom Programming</title><category>Book Announcement</category>\
<category>Scripting &amp; Programming</category></blog>"""


def _child(name: str, variable: str | None = None, *conditions: Condition) -> Exists:
    return Exists(Step("child", name, variable, conditions))


def _top(name: str, variable: str | None, *conditions: Condition, stream: str = "S") -> Block:
    return Block(stream, Step("descendant", name, variable, conditions))


def _join(left: str, right: str) -> Comparison:
    return Comparison("=", Var(left), Var(right))


def _table_6_2(first: str, second: str, fields: tuple[str, str], *names: str) -> Query:
    left = _top(first, names[0], _child(fields[0], names[1]), _child(fields[1], names[2]))
    right = _top(second, names[3], _child(fields[0], names[4]), _child(fields[1], names[5]))
    predicate = AllOf((_join(names[1], names[4]), _join(names[2], names[5])))
    return Query(FollowedBy(left, right, predicate, 10))


Q1 = _table_6_2("book", "blog", ("author", "title"), "x1", "x2", "x3", "x4", "x5", "x6")
Q2 = _table_6_2("book", "blog", ("author", "category"), "x1", "x2", "x7", "x4", "x5", "x8")
Q3 = _table_6_2("blog", "blog", ("author", "title"), "x4", "x5", "x6", "x4'", "x5'", "x6'")

X, Y = _top("k", "x"), _top("k", "y")
SAME = _join("x", "y")
ITEM, SEQUENCE = Query(Join(X, Y, SAME)), Query(FollowedBy(X, Y, SAME))


def _doc(
    name: str, timestamp: int, xml: str = "<k>u</k>", streams: tuple[str, ...] = ("S",)
) -> Doc:
    return Doc(streams, name, timestamp, xml.encode())


def _pairs(query: Query, *documents: Doc, **lateness: int) -> set[tuple[str, ...]]:
    found = evaluate([Subscription("Q", query)], documents, lateness)
    return {tuple(name.rpartition("/")[2] for name in match[1]) for match in found}


def _history(*events: Event) -> set[Match]:
    return set(matches(events, {}))


def _sequences(query: Query, *documents: Doc) -> dict[str, tuple[int, ...]]:
    """Return the nodes of every variable in the only match of a query."""
    events = subscribed_first([Subscription("Q", query)], documents)
    (rows,) = replay(events, {}).values()
    return {
        name: tuple(n.number for n in found) for name, found in nodes_of(query, rows)[1].items()
    }


def _meets(xml: str, condition: Condition) -> bool:
    query = Query(Block("S", Step("child", "*", None, (condition,))))
    return bool(evaluate([Subscription("Q", query)], [_doc("d", 0, xml)]))


# -- Table 6.2 -----------------------------------------------------------------------------


def test_table_6_2_is_written_as_printed() -> None:
    assert Q1.text() == (
        "S//book->x1[./author->x2][./title->x3] FOLLOWED BY{x2 = x5 AND x3 = x6, 10} "
        "S//blog->x4[./author->x5][./title->x6]"
    )


def test_table_6_2_fires_q1_and_q2() -> None:
    subscriptions = [Subscription(f"Q{n}", query) for n, query in enumerate((Q1, Q2, Q3), start=1)]
    found = evaluate(subscriptions, [_doc("d1", 1, BOOK.decode()), _doc("d2", 2, BLOG.decode())])
    pair = ("d1", "d2")
    assert dict(found) == {
        ("Q1", pair, (("x2", "d1", 2), ("x3", "d1", 4), ("x5", "d2", 2), ("x6", "d2", 3))): 1,
        ("Q2", pair, (("x2", "d1", 2), ("x5", "d2", 2), ("x7", "d1", 5), ("x8", "d2", 5))): 1,
    }


def test_other_variables_are_sequences() -> None:
    assert isinstance(Q1.expression, FollowedBy)
    query = Query(replace(Q1.expression, predicate=_join("x3", "x6")))
    assert _sequences(query, _doc("d1", 1, BOOK.decode()), _doc("d2", 2, BLOG.decode())) == {
        **{"x1": (0,), "x2": (2, 3), "x3": (4,)},
        **{"x4": (0,), "x5": (2,), "x6": (3,)},
    }


# -- Time, order, streams --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "window", "first", "second", "expected"),
    [
        (Join, 3, 0, 3, {("d1", "d2"), ("d2", "d1")}),
        (Join, 3, 0, 4, set()),
        (Join, 0, 5, 5, {("d1", "d2"), ("d2", "d1")}),
        (Join, 0, 5, 6, set()),
        (FollowedBy, 3, 0, 3, {("d1", "d2")}),
        (FollowedBy, 3, 0, 4, set()),
        (FollowedBy, 3, 5, 5, set()),
        (FollowedBy, None, 0, 10**15, {("d1", "d2")}),
        (Join, (-1, 3), 0, 3, {("d1", "d2")}),
        (Join, (-1, 3), 0, 1, {("d1", "d2"), ("d2", "d1")}),
        (Join, (2, None), 0, 1, set()),
        (Join, (2, None), 0, 9, {("d1", "d2")}),
        (Join, (-3, -2), 0, 2, {("d2", "d1")}),
        (FollowedBy, (2, 3), 0, 1, set()),
        (FollowedBy, (2, 3), 0, 2, {("d1", "d2")}),
        (FollowedBy, (2, 3), 0, 4, set()),
    ],
)
def test_windows(
    operator: type[Join] | type[FollowedBy],
    window: int | tuple[int, int | None] | None,
    first: int,
    second: int,
    expected: set[tuple[str, str]],
) -> None:
    lower, upper = window if isinstance(window, tuple) else (None, window)
    query = Query(operator(X, Y, SAME, upper, lower=lower))
    assert _pairs(query, _doc("d1", first), _doc("d2", second)) == expected


def test_late_arrival_may_be_the_earlier_side() -> None:
    assert _pairs(SEQUENCE, _doc("d2", 9), _doc("d1", 4)) == {("d1", "d2")}


@pytest.mark.parametrize(("lateness", "expected"), [(1, set()), (2, {("d1", "d3")})])
def test_kept_until_clock_passes_time_window_and_lateness(
    lateness: int, expected: set[tuple[str, str]]
) -> None:
    query = Query(FollowedBy(X, Y, SAME, 3))
    other = _doc("d2", 9, "<z/>", ("R",))
    assert _pairs(query, _doc("d1", 4), other, _doc("d3", 6), S=lateness) == expected


def test_larger_lateness_of_the_two_streams_counts() -> None:
    query = Query(FollowedBy(X, _top("k", "y", stream="R"), SAME, 3))
    arrived = (_doc("d1", 4), _doc("d2", 9, "<z/>"), _doc("d3", 6, streams=("R",)))
    assert _pairs(query, *arrived, S=0, R=2) == {("d1", "d3")}
    assert _pairs(query, *arrived, S=2, R=0) == {("d1", "d3")}
    assert _pairs(query, *arrived, S=1, R=1) == set()


def test_document_in_two_streams_never_pairs_with_itself() -> None:
    query = Query(Join(X, _top("k", "y", stream="R"), SAME))
    both = _doc("d1", 0, streams=("S", "R"))
    assert _pairs(query, both) == set()
    assert _pairs(query, both, _doc("d2", 0, streams=("S", "R"))) == {("d1", "d2"), ("d2", "d1")}
    assert _pairs(query, both, _doc("d2", 0)) == {("d2", "d1")}


# -- Registration, repetition, versions ------------------------------------------------------


def test_subscription_sees_what_arrives_while_it_is_there() -> None:
    d1, d2, d3, d4 = (Push(_doc(f"d{n}", n)) for n in range(1, 5))
    here, gone = Subscribe(Subscription("Q", SEQUENCE)), Unsubscribe("Q")
    assert {match[1] for match in _history(d1, here, d2, d3, gone, d4)} == {("d2", "d3")}
    assert {match[1] for match in _history(here, d1, gone, d2, here, d3, d4)} == {("d3", "d4")}


def test_repetition_changes_nothing() -> None:
    subscribe, d1 = Subscribe(Subscription("Q", ITEM, updates=True)), Push(_doc("d1", 1))
    assert _history(subscribe, d1, d1) == set()


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        (False, {("d1", "d2")}),
        (True, {("d1", "d2"), ("d1@2", "d2"), ("d1@3", "d2")}),
    ],
)
def test_versions(updates: bool, expected: set[tuple[str, str]]) -> None:
    events = (
        Subscribe(Subscription("Q", SEQUENCE, updates)),
        Push(_doc("d1", 1)),
        Push(_doc("d1", 2, "<k>u<!--2--></k>")),
        Push(_doc("d1", 3, "<k>u<!--3--></k>")),
        Push(_doc("d2", 4)),
    )
    assert {match[1] for match in _history(*events)} == expected


def test_one_block_matches_once_for_each_document() -> None:
    query = Query(Block("S", Step("descendant", "k", "x")))
    assert _sequences(query, _doc("d1", 0, "<k><k/><k/></k>")) == {"x": (0, 1, 2)}


# -- Nodes and values ------------------------------------------------------------------------


def test_numbers_count_elements_and_attributes() -> None:
    (root,) = read(b'<a x="1"><!--n--><b xmlns:p="urn:p" p:y="2" z="3"/><?pi?><c/></a>').content
    assert isinstance(root, Node)
    found = [(node.name, node.number) for node, _ in embeddings(root, Step("descendant", "*"))]
    attributes = embeddings(root, Step("descendant-attribute", "*"))
    assert (root.number, found) == (0, [("b", 2), ("c", 5)])
    assert [node.number for node, _ in attributes] == [1, 3, 4]


def test_string_value_is_all_text_without_comments() -> None:
    assert string_value(read(b"<a>x<!--n-->y<b><![CDATA[<]]></b><?p q?>z</a>")) == "xy<z"


@pytest.mark.parametrize(
    ("value", "expected"), [(" 1.50\n", 1.5), ("-.5", -0.5), ("1.", 1.0), ("007", 7.0)]
)
def test_numbers(value: str, expected: float) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", ["", "1e", "Infinity", "inf", "1 2", "- 1", "१"])
def test_not_a_number(value: str) -> None:
    assert number(value) != number(value)


B, ABSENT = Path(Step("child", "b")), Path(Step("child", "z"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Compare(B, "=", "v"), True),
        (Compare(B, "!=", "v"), True),
        (Compare(B, "=", "w"), False),
        (Compare(B, ">", 2), False),
        (Compare(B, "=", 1), True),
        (Compare(B, "!=", 1), True),
        (Compare(ABSENT, "!=", "v"), False),
        (Not(Compare(ABSENT, "=", "v")), True),
        (StringTest("contains", B, "v"), False),
        (StringTest("starts-with", B, "1"), True),
        (StringTest("contains", ABSENT, ""), True),
        (Compare(Path(None, "/text()"), "=", "t"), True),
        (Compare(Path(), "=", "1.0vt"), True),
        (Compare(Path(None, "//text()"), "=", "v"), True),
        (And((_child("b"), Or((_child("z"), _child("b", None, Compare(Path(), "=", "v")))))), True),
        (And((_child("b"), _child("z"))), False),
    ],
)
def test_conditions(condition: Condition, expected: bool) -> None:
    assert _meets("<a><b>1.0</b><b>v</b>t</a>", condition) is expected


def test_equal_patterns_bind_different_nodes() -> None:
    left = _top("book", None, _child("author", "p"), _child("author", "q"))
    right = _top("pair", None, _child("c", "c"), _child("d", "d"))
    query = Query(Join(left, right, AllOf((_join("p", "c"), _join("q", "d")))))
    one = _doc("d1", 1, "<book><author>u</author><author>v</author></book>")
    other = _doc("d2", 1, "<pair><c>u</c><d>v</d></pair>")
    (match,) = evaluate([Subscription("Q", query)], [one, other])
    assert match[2] == (("c", "d2", 1), ("d", "d2", 2), ("p", "d1", 1), ("q", "d1", 2))


def test_contracted_steps_must_hold_for_the_same_node() -> None:
    inner = Exists(Step("descendant", "c", "x2"))
    left = _top("a", "x1", Exists(Step("descendant", "b", None, (inner,))))
    query = Query(Join(left, Y, AllOf((_join("x1", "y"), _join("x2", "y")))))
    documents = [_doc("d1", 1, "<a><b><a><c>u</c></a></b></a>"), _doc("d2", 1)]
    (match,) = evaluate([Subscription("Q", query)], documents)
    assert match[2] == (("x1", "d1", 0), ("x2", "d1", 3), ("y", "d2", 0))


def test_paths_in_the_predicate_leave_the_variable_in_the_tuple() -> None:
    author = Step("child", "author")
    same = Comparison("=", Var("x", author), Var("y", author))
    query = Query(FollowedBy(_top("book", "x"), _top("blog", "y"), same, 5))
    documents = [_doc("d1", 1, BOOK.decode()), _doc("d2", 2, BLOG.decode())]
    found = evaluate([Subscription("Q", query)], documents)
    assert list(found) == [("Q", ("d1", "d2"), (("x", "d1", 0), ("y", "d2", 0)))]


def test_restriction_in_the_predicate() -> None:
    query = Query(Join(X, Y, AllOf((SAME, Comparison("=", Var("x"), Constant("u"))))))
    documents = [_doc("d1", 1), _doc("d2", 1), _doc("d3", 1, "<k>v</k>"), _doc("d4", 1, "<k>v</k>")]
    assert _pairs(query, *documents) == {("d1", "d2"), ("d2", "d1")}


def test_order_against_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="compare with a number"):
        _meets("<a/>", Compare(Path(), "<", "v"))


# -- Patterns against libxml2 ----------------------------------------------------------------


def _xpath(block: Block) -> str:
    """Return the pattern in plain XPath 1.0: without variables and `*:name`."""
    text = re.sub(r"->[a-z0-9']+", "", block.step.text())
    return re.sub(r"\*:([a-z]+)", r"*[local-name()='\1']", text)


def _libxml2(xml: bytes, expression: str) -> list[int]:
    """Return the numbers of the nodes that libxml2 finds, numbered here once more.

    An empty CDATA section is taken out: XPath has no empty text nodes, libxml2 makes one of it.
    """
    root = etree.fromstring(xml.replace(b"<![CDATA[]]>", b""))
    order = [(e, k) for e in root.iter(etree.Element) for k in (None, *e.attrib)]
    numbers: dict[object, int] = {key: position for position, key in enumerate(order)}
    found = etree.XPath(expression, namespaces=NAMESPACES)(root.getroottree())
    assert isinstance(found, list)
    return sorted(
        numbers[(element, None)] for element in found if isinstance(element, etree._Element)
    )


@examples(30)
@given(case=cases(), data=st.data())
def test_patterns_select_what_libxml2_selects(case: Case, data: st.DataObject) -> None:
    query = data.draw(queries(case.documents))
    for block in blocks(query):
        for doc in case.documents:
            found = {last.number for last, _ in embeddings(read(doc.xml), block.step)}
            assert sorted(found) == _libxml2(doc.xml, _xpath(block))

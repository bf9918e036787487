"""Diagnoses: which block finds nothing, and which documents come closest to a match."""

from __future__ import annotations

import pytest

from xscl import Document, Engine, Retention, XsclError
from xscl.inspection.reasons import Diagnosis, ExaminedBlock, SeenName

D = 86_400_000_000
PAIR = "news//item[./title->t] FOLLOWED BY{t=u, 2 d} blog//post[./title->u]"


def engine_with(*documents: Document) -> Engine:
    engine = Engine(retention=Retention.of(history="1000 d"))
    engine.push(documents)
    return engine


def item(name: str, day: int, title: str, more: str = "") -> Document:
    return Document("news", name, day * D, f"<item><title>{title}</title>{more}</item>".encode())


def post(name: str, day: int, title: str, more: str = "") -> Document:
    return Document("blog", name, day * D, f"<post><title>{title}</title>{more}</post>".encode())


@pytest.fixture(scope="module")
def items() -> Engine:
    more = "<creator xmlns='http://purl.org/dc/elements/1.1/'/>"
    return engine_with(item("n1", 1, "sea"), item("n2", 2, "gale", more))


def failing(found: Diagnosis) -> tuple[tuple[str, ...], list[tuple[str, str | None]]]:
    """Return the closest documents, and their failing conditions."""
    assert found.closest is not None
    edges: list[tuple[str, str | None]] = [
        (edge.kind, edge.nearest) for edge in found.closest.edges if not edge.holds
    ]
    return found.closest.documents, edges


def test_a_block_that_finds_nothing_has_the_nearest_names() -> None:
    with engine_with(item("n1", 1, "a"), item("n2", 2, "b"), post("b1", 2, "a")) as engine:
        found = engine.why(PAIR.replace("./title->t", "./titel->t"))
    block, other = found.blocks
    assert block == ExaminedBlock(
        "news//item[./titel->t]",
        "news",
        kept=2,
        examined=2,
        matching=0,
        failing="news//item matches, but there is no /titel in it",
        nearest=(SeenName("title", 2),),
    )
    assert (other.matching, other.failing, other.nearest) == (1, None, ())
    assert found.closest is None
    assert list(found.lines()) == [
        "  0 of 2 documents of news match news//item[./titel->t]",
        "        news//item matches, but there is no /titel in it",
        "        near: title (2 documents)",
        "  1 of 1 document of blog match blog//post[./title->u]",
    ]


@pytest.mark.parametrize(
    ("query", "text", "near"),
    [
        ("news//itm", "there is no //itm; the root is item", ["item"]),
        ("news//item/@titel", "news//item matches, but there is no /@titel in it", ["title"]),
        ("news//creator", "there is no //creator; the root is item", ["dc:creator"]),
        (
            "news//item[./title = 'GALE']",
            "news//item matches, but not with [./title = \"GALE\"]: 'gale' and 'GALE',"
            " equal but for case",
            [],
        ),
        (
            "news//item[titel = 'gale']",
            "news//item matches, but there is no /titel in it",
            ["title"],
        ),
        (
            "news//item[count(title) > 3]",
            "news//item matches, but not with [count(./title) > 3]: '1' and '3'",
            [],
        ),
        ("other//item", None, []),
    ],
)
def test_the_failing_part_of_a_block(
    items: Engine, query: str, text: str | None, near: list[str]
) -> None:
    (block,) = items.why(query).blocks
    assert (block.failing, [one.name for one in block.nearest]) == (text, near)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ns//e", 'there is no //e; the root is *:e; it is p:e with NAMESPACE p = "urn:a"'),
        (
            'NAMESPACE q = "urn:b" ns//q:e',
            'there is no //Q{urn:b}e; the root is *:e; it is p:e with NAMESPACE p = "urn:a"',
        ),
        (
            "ns//*:e/n",
            'ns//*:e matches, but there is no /n in it; it is p:n with NAMESPACE p = "urn:a"',
        ),
        (
            "ns//*:e/@m",
            'ns//*:e matches, but there is no /@m in it; it is @p:m with NAMESPACE p = "urn:c"',
        ),
        ("ns//*:e/@o", "ns//*:e matches, but there is no /@o in it"),
        (
            'NAMESPACE q = "urn:a" ns//q:e/q:own',
            "ns//Q{urn:a}e matches, but there is no /Q{urn:a}own in it; own is there without a"
            " namespace",
        ),
    ],
)
def test_a_name_in_another_namespace(query: str, text: str) -> None:
    xml = b'<e xmlns="urn:a" xmlns:c="urn:c" c:m="1"><n>1</n><own xmlns=""/></e>'
    with engine_with(Document("ns", "d", D, xml)) as engine:
        (block,) = engine.why(query).blocks
    assert block.failing is not None
    assert block.failing.removesuffix(" before the query") == text


@pytest.mark.parametrize(
    ("documents", "closest", "edges"),
    [
        (
            [item("n1", 1, "x"), item("n2", 9, "gale"), post("b1", 2, "y"), post("b2", 12, "gale")],
            ("news/n2", "blog/b2"),
            [("time", "they are 3 d apart, 1 d too much")],
        ),
        (
            [item("n1", 1, "sea"), item("n2", 1, "Gale"), post("b1", 2, "gale")],
            ("news/n2", "blog/b1"),
            [("value", "'Gale' and 'gale', equal but for case")],
        ),
        (
            [item("n1", 1, "red sea"), item("n2", 1, "x y"), post("b1", 2, "black sea")],
            ("news/n1", "blog/b1"),
            [("value", "'red sea' and 'black sea'")],
        ),
        (
            [post("b1", 1, "gale"), item("n1", 2, "gale")],
            ("news/n1", "blog/b1"),
            [("order", "it is 1 d later")],
        ),
    ],
)
def test_the_closest_documents_fail_by_the_least(
    documents: list[Document], closest: tuple[str, ...], edges: list[tuple[str, str | None]]
) -> None:
    with engine_with(*documents) as engine:
        assert not engine.try_query(PAIR)
        assert failing(engine.why(PAIR)) == (closest, edges)


def test_an_absence_is_no_match_before_its_deadline() -> None:
    query = "news//item->a[./title->t] NOT FOLLOWED BY{t=u, 1 d} blog//post[./title->u]"
    pending = (
        "it is decided when time passes 1970-01-03T00:00:00Z; time is at"
        " 1970-01-02T00:00:00Z, and only a later document advances it, as 'news', 'blog' are not"
        " live; by the wall clock it has passed"
    )
    with engine_with(item("n1", 1, "gale")) as engine:
        engine.subscribe("silent", query, since="1 d")
        for asked in (query, "silent"):
            assert not engine.try_query(asked)
            assert failing(engine.why(asked)) == (("news/n1", "-"), [("order", pending)])
            assert not engine.why(asked, "n1").matched
        engine.push(post("b9", 2, "other"))
        for asked in (query, "silent"):  # an answer may come at the deadline itself
            assert not engine.try_query(asked)
            assert not engine.why(asked, "n1").matched
        engine.advance(2 * D + 1)
        for asked in (query, "silent"):
            assert [match.documents for match in engine.try_query(asked)] == [("n1",)]
            assert engine.why(asked, "n1").matched
        assert [match.documents for match in engine.matches("silent")] == [("n1",)]


def test_an_absence_waits_for_late_answers() -> None:
    query = "news//item->a[./title->t] NOT FOLLOWED BY{t=u, 1 d} blog//post[./title->u]"
    with engine_with() as engine:
        engine.stream("blog", lateness=D)
        engine.stream("other", lateness=9 * D)
        engine.subscribe("silent", query)
        engine.subscribe("slow", "other//a NOT FOLLOWED BY{20 d} other//b")
        engine.push([item("n1", 1, "gale"), item("n2", 1, "sea")])
        engine.push(post("b9", 3, "other"))
        for asked in (query, "silent"):
            assert not engine.try_query(asked)
            assert not engine.why(asked, "n1").matched
        engine.push(post("b1", 2, "gale"))  # late, and in time
        engine.advance(3 * D + 1)
        for asked in (query, "silent"):
            assert [match.documents for match in engine.try_query(asked)] == [("n2",)]
        assert [match.documents for match in engine.matches("silent")] == [("n2",)]


def test_a_subscription_sees_what_arrived_after_it() -> None:
    with engine_with(item("n1", 1, "gale")) as engine:
        engine.subscribe("late", "news//item[./title->t]")
        engine.push(post("b1", 2, "gale"))
        found = engine.why("late")
        assert failing(found) == (
            ("news/n1",),
            [("registration", "news/n1 arrived before the subscription")],
        )
        assert found.heading == "late has no match so far"
        engine.push(item("n2", 3, "sea"))
        assert engine.why("late").heading == "late has matches"
        engine.edit("late", "news//item[./title->t][./link]")
        found = engine.why("late")
        assert found.heading == "version 2 of late has no match so far"
        engine.edit("late", "news//item[./title->t]")
        before = "news/n2 arrived before version 3 of the subscription"
        assert failing(engine.why("late")) == (("news/n2",), [("registration", before)])


def test_too_many_results_are_the_reason_in_every_answer() -> None:
    same = "news//item[./title->t] JOIN{t=u, 9 d} news//item[./title->u]"
    many = "".join(f"<title>{number % 2}</title>" for number in range(300))
    crowd = [
        Document("news", f"n{day}", day * D, f"<item>{many}</item>".encode()) for day in (1, 2)
    ]
    with engine_with() as engine:
        engine.subscribe("same", same)
        engine.push(crowd)
        assert not engine.matches("same")
        found = engine.why("same")
        reason = "there were more matches with news/n2 than the bound allows"
        assert failing(found) == (("news/n2", "news/n1"), [("registration", reason)])
        assert found.closest == engine.why("same", "news/n2", "news/n1")


def test_patterns_have_the_prefixes_of_their_query() -> None:
    query = 'NAMESPACE s = "urn:shop" news//s:order->o[./s:number] JOIN{o = p, 1 d} blog//post->p'
    with engine_with() as engine:
        engine.subscribe("orders", query)
        engine.push(
            Document("news", "o1", D, b"<order xmlns='urn:shop'><number>7</number></order>")
        )
        engine.push(post("b1", 1, "7"))
        found = engine.why("orders")
        assert found.blocks[0].block == "news//s:order->o[./s:number]"
        assert found.closest is not None
        texts = [edge.text for edge in found.closest.edges if edge.kind == "pattern"]
        assert "news/o1 matches news//s:order->o[./s:number]" in texts


@pytest.mark.parametrize("operator", ["JOIN{u = w, 4}", "NOT FOLLOWED BY{u = w, 4}", "NEXT{u = w}"])
@pytest.mark.parametrize("outer_first", [True, False])
def test_an_outer_join_below_another_operator_has_a_document(
    engine: Engine, operator: str, outer_first: bool
) -> None:
    """None of its blocks is needed, but one of them has a document, in questions too."""
    outer, other = "(S//a[./t->u] JOIN{u = v, 3} T//a[./t->v] ELSE)", "U//a[./t->w]"
    query = f"{outer} {operator} {other}" if outer_first else f"{other} {operator} {outer}"
    engine.subscribe("q", query)
    for number, stream in enumerate("STU", 1):
        xml = f"<a><t>{number}</t></a>".encode()
        engine.push(Document(stream, f"of {stream}", number, xml))
    closest = engine.why("q").closest
    assert closest is not None
    assert closest.matched == any(closest.documents == match.names for match in engine.matches("q"))
    if outer_first or "NOT" not in operator:
        alone = ("-", "-", "of U") if outer_first else ("of U", "-", "-")
        with pytest.raises(XsclError, match=r"'-' stands for a block that|3 blocks"):
            engine.why("q", *alone)

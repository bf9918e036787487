"""Single expressions with the value that XPath 3.1 gives them, wherever they may stand."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from lxml import etree

import xscl
from tests.examples import tried
from tests.xscl.shredding.xpath_cases import Cases, document
from tests.xscl.shredding.xpaths import engine, together
from xscl.errors import QueryError
from xscl.inspection.condition_split import placed
from xscl.language import xpath_analysis
from xscl.language.parser import parse
from xscl.language.syntax import Block
from xscl.language.unparse import unparse
from xscl.shredding.automaton import pattern

NEWS = etree.fromstring(
    "<rss><channel><title>News</title><item><title>x</title><category>a</category></item>"
    "<item><title>y</title></item></channel></rss>"
)
ITEMS = {3, 6}


@pytest.mark.parametrize(
    ("condition", "items"),
    [
        ('/rss/channel/title = "News"', ITEMS),
        ("/rss", ITEMS),
        ("/", ITEMS),
        ('contains(/rss/channel/title, "New")', ITEMS),
        ('some $c in /rss/channel/item satisfies $c/category = "a"', ITEMS),
        ('every $c in /rss/channel/item satisfies $c/category = "a"', set()),
        ('//channel/title = "News"', ITEMS),
        ("count(/rss/channel/item) = 2", ITEMS),
        ('/rss/channel/title = "News" and title = "x"', {3}),
        ("/rss/channel/item/title = title", ITEMS),
        ("/rss/channel/title < title", ITEMS),
        ("(/rss/channel/title)[1] != title", ITEMS),
        ("/rss/channel[title]/title = 'News'", ITEMS),
        ("../title = 'News'", ITEMS),
        ("(/rss | zz)/channel/title = 'News'", ITEMS),
        ("$x = 'x'", None),
        ("for $t in /rss/channel/title return $t = 'News'", ITEMS),
        ("if (/rss/channel/title = 'News') then title = 'x' else zz", {3}),
        ("xs:string(/rss/channel/title) = 'News'", ITEMS),
        ("not(/rss/channel/title = 'News')", set()),
        ("preceding-sibling::title = 'News'", ITEMS),
        ("root()/rss/channel/title = 'News'", ITEMS),
        (". >> /rss/channel/title", ITEMS),
    ],
)
def test_paths_from_the_document_in_conditions(condition: str, items: set[int] | None) -> None:
    if items is None:
        with pytest.raises(QueryError):
            engine(f"//item[{condition}]", NEWS)
        return
    assert engine(f"//item[{condition}]", NEWS) == items


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    pattern.FORMS._known.clear()


def test_needed_names_are_never_stricter_than_the_condition(
    unfiltered: pytest.MonkeyPatch,
) -> None:
    random = Random(5)
    cases = Cases(random)
    conditions: list[str] = []
    while len(conditions) < tried(300):
        condition = cases.truth(random.choice((1, 1, 2)))
        try:
            parse(f"S//*[{condition}]")
            conditions.append(condition)
        except QueryError:
            continue
    roots = [document(random) for _ in range(3)]
    paths = [f"//*[{one}]" for one in conditions]
    found = [together(paths, root) for root in roots]
    unfiltered.setattr(xpath_analysis, "required", lambda token: [])
    pattern.FORMS._known.clear()
    for root, each in zip(roots, found, strict=True):
        for path, one, other in zip(paths, each, together(paths, root), strict=True):
            assert one == other, (path, etree.tostring(root))


# -- What follows a block ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("S/a/b[1] except /a/b[1]->x", 10),
        ("S/a/zz[1] union /a/b[1]->x", 11),
        ("S/a/b[last()] nonsense /q[last()]", 15),
        ("S/a/b[1] and /a/zz[1]", 10),
        ("S//a[b[1]]T/c[d[1]]", 11),
        ("S//a[b > c] or /d[1]", 13),
        ("S/a[b[1]] FOLLOWED BY{x = y, 1 d} T/a[c[1]] trailing /c[1]", 45),
        ("S/a/b[1] PUBLISH q /a[1]", 20),
        ("S//a/.. garbage //b/..", 9),
    ],
)
def test_nothing_behind_a_block_is_lost(query: str, column: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("some $x in zz satisfies $x = 'b' or c", False),
        ("(some $x in zz satisfies $x = 'b') or c", True),
        ("if (c) then zz else c or c", False),
        ("if (zz) then zz else zz or c", True),
        ("every $x in c satisfies $x = 'q' and zz", False),
        ("c or some $x in zz satisfies $x = 'b' or zz", True),
        ("some $x in c satisfies zz and $x or c", True),
        ("((if (c) then zz else c), 'p') = c", False),
        ("('p', (if (zz) then zz else c)) = c", True),
        ("((zz | c), ('p')) = ('r', ('q'))", True),
        (". intersect (//a) or zz", True),
        (". intersect (../zz) or (zz)", False),
        (". intersect (c)", False),
    ],
)
def test_a_clause_goes_on_behind_a_connective(condition: str, holds: bool) -> None:
    root = etree.fromstring("<a><c>q</c></a>")
    try:
        assert bool(engine(f"/a[{condition}]", root)) is holds
    except QueryError:
        assert condition.startswith("c or some")  # XPath has no `some` as an operand


# -- Prefixes ------------------------------------------------------------------------------

FUNCTIONS = "Q{http://www.w3.org/2005/xpath-functions}"


@pytest.mark.parametrize(
    ("path", "nodes"),
    [
        ("/w/e[{0}position() = 2]", {2}),
        ("/w/e[{0}last()]", {2}),
        ("/w/e[{0}position() < {0}last()]", {1}),
        ("/w/e[{0}position () = {0}last ( )]", {2}),
        ("/w[e[{0}position() = 2] = '2']", {0}),
        ("/w/e[{0}contains(., '2')]", {2}),
        ("/w[{0}count(e) = 2]", {0}),
        ("/w/e[{0}not({0}starts-with(., '2'))]", {1}),
        ("/w[{0}exists(e)]", {0}),
        ("/w[{0}empty(e)]", set()),
        ("/w/e[{0}matches({0}lower-case(.), '2')]", {2}),
        ("/w[{0}string-join(e, '-') = '1-2']", {0}),
        ("/w[{0}true()]", {0}),
    ],
)
def test_a_prefix_of_a_function_changes_nothing(path: str, nodes: set[int]) -> None:
    root = etree.fromstring("<w><e>1</e><e>2</e></w>")
    for prefix in ("", "fn:", FUNCTIONS):
        assert engine(path.format(prefix), root) == nodes, prefix
    declared = f'NAMESPACE f = "{FUNCTIONS[2:-1]}" S{path.format("f:")}'
    assert engine(unparse(parse(declared).expression).removeprefix("S"), root) == nodes


@pytest.mark.parametrize(
    ("condition", "nodes"),
    [
        *(
            (condition, {3})
            for condition in (
                *("(1 to 3)[. = 2]", "head((2, 3))", "data(2)", "(1, 2)[2]", "(2, ())", "n ! 2"),
                *("if (n) then 2 else 3", "for $x in n return 2", "for $x in 2 return $x"),
                *("math:pow(2, 1)", "round-half-to-even(2.1)", "2 treat as xs:integer"),
                *("insert-before((), 1, 2)", "remove((1, 2), 1)", "subsequence((1, 2), 2)"),
                *("index-of(('a', 'b'), 'b')", "n/number() + 1", "2 cast as xs:integer"),
                *("days-from-duration(xs:dayTimeDuration('P2D'))", "compare('b', 'a') + 1"),
                *("Q{http://www.w3.org/2005/xpath-functions/math}sqrt(4)", "2 * 1", "2 ! ."),
            )
        ),
        *((condition, {1}) for condition in ("n/position()", "count(*)[. = 1]", "n/last()")),
        *((condition, {1, 3}) for condition in ("data(n)", "head(n) = '1'", "(n, n)[1]", "n ! .")),
    ],
)
def test_a_condition_whose_value_is_a_number_is_a_position(condition: str, nodes: set[int]) -> None:
    root = etree.fromstring("<r><i><n>1</n></i><i><n>1</n></i></r>")
    for path in (f"/r/i[{condition}]", f"//i[n][{condition}]", f"/r/(i)[{condition}]"):
        assert engine(path, root) == nodes, path


def test_a_position_fails_at_its_own_parent_only() -> None:
    root = etree.fromstring("<r><i>1</i><i>2</i><o><i>x</i></o><i>4</i></r>")
    assert engine("/r/i[position() = xs:integer(.)]", root) == {1, 2}
    assert engine("//i[position() = xs:integer(.)]", root) == {1, 2}
    assert engine("/r/*[not(xs:integer(.) = 4)][2]", root) == set()
    assert engine("//o/*[position() = xs:integer(.)]", root) == set()
    text = "S//i[. intersect (../i[2])]"
    assert parse(text).expression == parse("S//i[2]").expression


@pytest.mark.parametrize(
    ("condition", "nodes"),
    [
        ("string(number(a)) = 'NaN'", {1, 7}),
        ("not(string(number(a)) = 'NaN')", {3, 5}),
        ("string(number(a)) != 'x'", {1, 3, 5, 7}),
        ("string(number(a)) = '1.0E7'", {3}),
        ("string(number(a)) = '10000000'", set()),
        ("contains(string(number(a)), 'E')", {3}),
        ("contains(number(a), 'NaN')", {1, 7}),
        ("string-length(string(floor(a))) = 3", {1}),
        ("lower-case(string(number(a))) = 'nan'", {1, 7}),
        ("string(string-length(a)) = '1'", {1, 5}),
        ("string(floor(number(a) * -0e0)) = '-0'", {3, 5}),
        ("string(ceiling(number(a) * -0.1e0)) = '-0'", {5}),
    ],
)
def test_the_text_of_a_number(condition: str, nodes: set[int]) -> None:
    root = etree.fromstring("<r><i><a>q</a></i><i><a>1e7</a></i><i><a>5</a></i><i/></r>")
    assert engine(f"//i[{condition}]", root) == nodes


def test_positions_of_one_step_are_one_condition() -> None:
    root = etree.fromstring("<r><i>1</i><i>2</i><i>2</i></r>")
    assert engine("/r/i[position() > 1][. = 2][2]", root) == {3}
    assert engine("/r/i[. = 2][2][. = 2][1]", root) == {3}
    assert engine("/r/i[2][2]", root) == set()
    text = "S//i[. intersect (../i[2][1])]"
    assert parse(text).expression == parse("S//i[2][1]").expression
    with pytest.raises(QueryError, match="over 2,000 characters"):
        parse(f"S//i{'[1]' * 3_000}")


def test_a_prefix_leaves_a_condition_to_the_index() -> None:
    for condition in ('fn:contains(title, "x")', 'fn:lower-case(title) = "x"', "fn:count(a) > 2"):
        block = parse(f"S//item[{condition}]").expression
        assert isinstance(block, Block)
        assert [one.where for one in placed(block)] == ["indexed"]


def test_a_prefix_of_a_function_changes_nothing_between_documents() -> None:
    written = [
        parse(
            f"S//a[./b->t] JOIN{{{prefix}lower-case(t) = u AND {prefix}contains(t, u), 1 d}}"
            " S//c[./d->u]"
        )
        for prefix in ("", "fn:")
    ]
    assert written[0] == written[1]


def test_an_element_of_the_namespace_of_functions_is_no_function() -> None:
    root = etree.fromstring(f'<a xmlns:fn="{FUNCTIONS[2:-1]}"><fn:b>x</fn:b><b>y</b></a>')
    query = f'NAMESPACE fn = "{FUNCTIONS[2:-1]}" S/a[fn:b > b]'
    block = parse(query).expression
    assert isinstance(block, Block)
    assert "Q{" in str(block)
    assert engine(f"/a[{FUNCTIONS}b = 'x'][not(b = 'x')]", root) == {0}


# -- Dates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('month-from-date("1970-01-01Z") = 1', True),
        ('hours-from-dateTime("1999-12-31T21:20:00-05:00") = 21', True),
        ("year-from-date(d) = 1999 and day-from-date(d) = 31", True),
        ("hours-from-dateTime(t) = 23 and day-from-date(t) = 1", True),
        ("hours-from-dateTime(r) = 21", True),
        ('minutes-from-dateTime("1999-12-31T21:20:00-05:00") = 20', True),
        ('hours-from-dateTime(xs:dateTime("1999-12-31T21:20:00-05:00")) = 21', True),
        ('timezone-from-date(xs:date("1999-12-31-05:00")) = xs:dayTimeDuration("-PT5H")', True),
        ('xs:date("1999-12-31-05:00") = xs:date("1999-12-31-05:00")', True),
        ('xs:dateTime("2025-12-31T23:00:00-05:00") > xs:dateTime("2026-01-01T02:00:00Z")', True),
        ('xs:dateTime(t) - xs:dateTime(t) = xs:dayTimeDuration("PT0S")', True),
        ("not(year-from-date(x) = 1999)", True),
    ],
)
def test_parts_of_dates_are_those_that_are_written(condition: str, holds: bool) -> None:
    root = etree.fromstring(
        "<a><d>1999-12-31-05:00</d><t>2026-01-01T23:30:00-05:00</t><x>no date</x>"
        "<r>Fri, 31 Dec 1999 21:20:00 -0500</r></a>"
    )
    assert bool(engine(f"/a[{condition}]", root)) is holds


def test_parts_of_dates_are_the_same_between_documents() -> None:
    with xscl.Engine() as kept:
        kept.subscribe(
            "q",
            "S//a[./t->t] JOIN{hours-from-dateTime(t) = hours-from-dateTime(u)"
            " AND month-from-date(t) = 12, 1 d} T//b[./u->u]",
        )
        found = kept.push(
            [
                xscl.Document("S", "1", 1, b"<a><t>1999-12-31T21:20:00-05:00</t></a>"),
                xscl.Document("T", "2", 2, b"<b><u>2026-06-01T21:00:00+09:00</u></b>"),
                xscl.Document("T", "3", 3, b"<b><u>2000-01-01T02:20:00Z</u></b>"),
            ]
        )
        assert [one.documents for one in found] == [("1", "2")]


# -- Single ones ---------------------------------------------------------------------------


def test_the_language_is_that_of_the_nearest_element_above() -> None:
    root = etree.fromstring('<e1 xml:lang="hr"><e2 xml:lang="en-US"><e3/></e2><e4/></e1>')
    assert engine("//e3[lang('en')]", root) == {4}
    assert engine("//*[lang('EN-us')]", root) == {2, 4}
    assert engine("//*[lang('hr')]", root) == {0, 5}
    assert engine("//*[lang('e')]", root) == set()
    assert engine("//e1[lang('en', e2/e3)]", root) == {0}


@pytest.mark.parametrize(
    ("path", "nodes"),
    [
        ("//a/@p/descendant-or-self::node()", {1}),
        ("//@p/self::node()", {1}),
        ("//@p/.[. = 'x']", {1}),
        ("//@p/self::attribute()", {1}),
        ("//@p//self::node()", {1}),
        ("//@p/self::p", set()),
        ("//@p/self::*", set()),
        ("//@p/ancestor::node()", {0}),
        ("//@p/ancestor-or-self::node()", None),
        ("//@p/ancestor-or-self::*", {0}),
        ("/a/@p[last()]", {1}),
        ("/a/*//following::*", {3, 4}),
    ],
)
def test_steps_from_attributes(path: str, nodes: set[int] | None) -> None:
    root = etree.fromstring('<a p="x"><b/><c/><d/></a>')
    if nodes is None:
        with pytest.raises(QueryError, match="elements and attributes"):
            engine(path, root)
    else:
        assert engine(path, root) == nodes


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("round(v, 2) = 1.23", True),
        ("round(v, 0) = 1", True),
        ("round(w, -2) = 1300", True),
        ("round(2.5) = 3 and round(-2.5) = -2", True),
        ("round-half-to-even(2.5) = 2 and round-half-to-even(v, 1) = 1.2", True),
        ("count(@p/descendant-or-self::node()) = 1", True),
        ("@p/descendant-or-self::node() = 'x'", True),
        ("count(@p/ancestor-or-self::node()) = 3", True),
        ("count(@p/following::node()) > 3", True),
        ("count(tokenize(n)) = 2", True),  # a no-break space is no separator
        ("contains-token(n, 'b')", False),
        ("contains-token(n, 'c')", True),
        ("normalize-space(n) = 'a\u00a0b c'", True),
        ("4.5 mod 1.2 = 0.9", True),
        ("string(1e7) = '1.0E7' and string(1e5) = '100000'", True),
        ("string(1.50) = '1.5' and string(3.0) = '3'", True),
        ("-3 mod 2 = -1 and 7 idiv -2 = -3", True),
        ("max(('a', 'b')) = 'b' and max((1, 2.5)) = 2.5", True),
        ("substring('12345', 0 div 0e0, 3) = ''", True),
        ("substring('12345', 1.5, 2.6) = '234'", True),
        ("string-to-codepoints('a') = 97 and codepoints-to-string((120, 121)) = 'xy'", True),
        ("deep-equal(v, v) and not(deep-equal(v, w))", True),
        ("path(v) = '/Q{}a[1]/Q{}v[1]'", True),
        ("count(//node()) = 10", True),  # no nodes for namespaces
        ("v is v and not(v is w) and v << w and w >> v", True),
        ("compare('a', 'b') < 0", True),
        ("zz is v", False),
        ("name(*[1]) = 'v' and local-name(@p) = 'p'", True),
        ("'a' = ('a', 'b') and ('b', 'c')[2] = 'c' and (1 to 3)[last()] = 3", True),
    ],
)
def test_single_values(condition: str, holds: bool) -> None:
    root = etree.fromstring('<a p="x"><v>1.234</v><w>1250</w><n> a\u00a0b\n c</n><e/>t<!--c--></a>')
    assert bool(engine(f"/a[{condition}]", root)) is holds
    assert bool(engine(f"/a[not({condition})]", root)) is not holds

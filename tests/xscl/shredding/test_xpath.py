"""XPath in blocks: worked conditions, what is refused, and the bounds of the work."""

from __future__ import annotations

import locale
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lxml import etree

import xscl
from tests.examples import tried
from tests.xscl.polling.scripted import Server
from tests.xscl.shredding.xpath_cases import Cases, document
from tests.xscl.shredding.xpaths import engine, together
from xscl.errors import QueryError
from xscl.inspection.explain import placed
from xscl.language import xpath_tree
from xscl.language.parser import parse, parse_block
from xscl.language.syntax import Block, Not, Residual
from xscl.language.xpath import DENIED
from xscl.shredding.automaton import pattern
from xscl.shredding.conditions import evaluation, xpath
from xscl.shredding.conditions.navigate import holds
from xscl.shredding.conditions.xpath_values import STEPS

DAY = 86_400_000_000


# -- Conditions ------------------------------------------------------------------------------


def test_blocks_in_xpath_bind_and_join(engine: xscl.Engine) -> None:
    engine.subscribe(
        "changed",
        "S//item[updated > published]->x[./title->t][./category[last()]->c]"
        " FOLLOWED BY{t = u AND c = d, 1 d}"
        " S//item[some $c in category satisfies $c = 'b']->y[./title->u][./category[2]->d]",
    )
    text = "<item><title>T</title><category>a</category><category>b</category>{}</item>"
    older = text.format("<published>2026-01-01</published><updated>2026-01-02</updated>")
    matches = engine.push(
        [
            xscl.Document("S", "1", DAY, older.encode()),
            xscl.Document("S", "2", DAY + 1, text.format("").encode()),
        ]
    )
    (match,) = matches
    assert match.documents == ("1", "2")
    assert match.bindings["d"][0].path == "/item[1]/category[2]"


# -- Bounds and isolation --------------------------------------------------------------------


READERS = (
    *("doc('{}')//a = b", "doc-available('{}')", "collection('{}') = b", "unparsed-text('{}') = b"),
    *("unparsed-text-lines('{}') = b", "unparsed-text-available('{}')", "json-doc('{}') = b"),
    *("uri-collection('{}') = b", "environment-variable('PATH') = b", "transform(map{{}}) = b"),
    *("available-environment-variables() = b", "parse-xml(b)//c = d", "fn:doc('{}') = b"),
    *("load-xquery-module('{}') = b", "Q{{http://www.w3.org/2005/xpath-functions}}doc('{}') = b"),
)


@pytest.mark.parametrize("reader", READERS)
def test_nothing_outside_of_the_document_is_read(
    reader: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret.xml"
    file.write_text("<a>secret</a>")
    monkeypatch.setenv("XSCL_CANARY", "secret")
    for address in (server.url("/secret"), file.as_uri()):
        with pytest.raises(QueryError):
            parse_block(f"S//item[{reader.format(address).replace(chr(39), chr(34))}]")
    assert server.asked == []


@pytest.mark.parametrize("name", sorted(DENIED))
def test_what_is_denied_is_refused_with_a_hint(name: str) -> None:
    texts = {
        "function": "function($x) { $x }(1) = b",
        "let": "let $x := b return $x = c",
        "#": "for-each(b, name#1) = c",
        "?": "b?c = d",
    }
    with pytest.raises(QueryError) as caught:
        parse_block(f"S//a[{texts.get(name, f'{name}(b) = c')}]")
    assert caught.value.hint is not None


@pytest.mark.parametrize("address", ["(:", "(:x:)", "urn:a(:b"])
@pytest.mark.parametrize("test", [". = {}b", "{}b + 1 = 2", "({}b | c)[2]"])
def test_a_namespace_in_which_a_comment_would_begin_is_refused(address: str, test: str) -> None:
    for text, name in ((f"Q{{{address}}}", ""), ("p:", f'NAMESPACE p = "{address}" ')):
        with pytest.raises(QueryError, match=r"line 1, column \d+: .* namespace .*'\(:'") as caught:
            parse(f"{name}S//a[{test.format(text)}]->x")
        assert caught.value.hint is not None


LONG = (
    "count(//*[count(//*) > 0]) > 0",
    "count(//*[count(//*[count(//*) > 0]) > 0]) > 0",
    "some $x in //a, $y in //b satisfies $x = $y + 1",
    "exists(for $x in //a, $y in //b return $x)",
    "every $w in tokenize(string-join(//a/../(a, b)/'x x x x x x'), ' ') satisfies //a",
    "count((//a, //b) ! (//a, //b)) > 1",
    "//a[following::b[preceding::a = 'x']]",
)


@pytest.mark.parametrize("text", LONG)
def test_an_expression_stops_at_its_budget(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the budget there is no truth value: neither the condition nor `not` of it holds."""
    condition = Residual(text)
    small = etree.fromstring("<r><a>x</a><b>x</b></r>")
    assert holds(condition, small) or holds(Not(condition), small)
    large = etree.fromstring(f"<r>{'<a>x</a><b>x</b>' * 500}</r>")
    with caplog.at_level(logging.WARNING, xpath.__name__):
        assert not holds(condition, large)
        assert not holds(Not(condition), large)
    assert {record.args for record in caplog.records} == {
        (text, f"over {STEPS:,} steps in one document")
    }


@pytest.mark.parametrize("size", [20, 60, 300])
def test_steps_are_those_that_are_done(size: int) -> None:
    """A feed in which one title is repeated: all items but the second of it."""
    titles = [f"title {number}" for number in range(size - 1)] + ["title 0"]
    items = "".join(f"<item><title>{title}</title></item>" for title in titles)
    root = etree.fromstring(f"<rss><channel>{items}</channel></rss>")
    matching = engine("//item[not(preceding::title = title)]", root)
    assert len(matching) == size - 1


@pytest.mark.parametrize(
    "condition", ["compare(a, b, 'C') = 0", "max(a, 'de_DE.UTF-8') = b", "contains(a, b, 'x')"]
)
def test_collations_are_refused(condition: str) -> None:
    with pytest.raises(QueryError, match="a collation in"):
        parse_block(f"S//item[{condition}]")


def test_texts_are_compared_by_code_point_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> None:
        raise locale.Error(str(given))

    monkeypatch.setattr(locale, "setlocale", refused)
    root = etree.fromstring("<r><a>a</a><b>B</b></r>")
    assert holds(Residual("compare(a, b) > 0"), root)
    assert holds(Residual("index-of(a, 'a') = 1"), root)
    assert holds(Residual("contains-token(a, 'a') and not(deep-equal(a, b))"), root)


@pytest.mark.parametrize("test", ["contains($w, 'z')", "compare($w, 'z') = 0"])
def test_a_sequence_that_is_filtered_is_bounded(test: str) -> None:
    condition = Residual(f"every $w in tokenize(a) satisfies not({test})")
    assert holds(condition, etree.fromstring(f"<r><a>{'x ' * 2_001}</a></r>"))
    large = etree.fromstring(f"<r><a>{'x ' * STEPS}</a></r>")
    assert not holds(condition, large)
    assert not holds(Not(condition), large)


def test_an_expression_is_evaluated_once_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    original = evaluation.Evaluation._tried

    def counted(document: evaluation.Evaluation, condition: Residual, item: Any) -> Any:
        tried.append(condition.text)
        return original(document, condition, item)

    monkeypatch.setattr(evaluation.Evaluation, "_tried", counted)
    with xscl.Engine() as engine:
        for number in range(20):
            engine.subscribe(f"q{number}", f"S//item[a > b or c = 'x{number}']")
        engine.push([xscl.Document("S", "1", DAY, b"<item><a>2</a><b>1</b></item>")])
    assert tried == ["a > b"]


# -- The values of single expressions ------------------------------------------------------


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    pattern.FORMS._known.clear()


def test_needed_names_are_never_stricter_than_the_condition(unfiltered: pytest.MonkeyPatch) -> None:
    random = Random(5)
    cases = Cases(random)
    conditions: list[str] = []
    while len(conditions) < tried(300):
        condition = cases.draw("truth", random.choice((1, 1, 2)))
        try:
            parse(f"S//*[{condition}]")
            conditions.append(condition)
        except QueryError:
            continue
    roots = [document(random) for _ in range(3)]
    paths = [f"//*[{one}]" for one in conditions]
    found = [together(paths, root) for root in roots]
    unfiltered.setattr(xpath_tree, "required", lambda token: [])
    pattern.FORMS._known.clear()
    for root, each in zip(roots, found, strict=True):
        for path, one, other in zip(paths, each, together(paths, root), strict=True):
            assert one == other, (path, etree.tostring(root))


@pytest.mark.parametrize("condition", ["(- -n, 5) = 2", "((- -2), 5) = n", "(n, - -5) = 2"])
def test_a_sign_before_a_sign_begins_no_comment(engine: xscl.Engine, condition: str) -> None:
    engine.subscribe("q", f"S//a[{condition}]->x")
    for number in (2, 3):
        engine.push(xscl.Document("S", f"d{number}", number, f"<a><n>{number}</n></a>".encode()))
    assert [match.documents for match in engine.matches("q")] == [("d2",)]


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


# -- Prefixes ------------------------------------------------------------------------------


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

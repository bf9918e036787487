"""Single expressions with the value that XPath 3.1 gives them, wherever they may stand."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from lxml import etree

from tests.examples import tried
from tests.xscl.shredding.xpath_cases import Cases, document
from tests.xscl.shredding.xpaths import engine, together
from xscl.errors import QueryError
from xscl.inspection.condition_split import placed
from xscl.language import xpath_tree
from xscl.language.parser import parse
from xscl.language.syntax import Block
from xscl.shredding.automaton import pattern


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
        condition = cases.truth(random.choice((1, 1, 2)))
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

"""A query that is made from its shape is what compiling it for itself makes of it."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.queries import Case
from tests.strategies.language import chains, functions, mixes, ordered, published, residuals
from xscl.errors import QueryError
from xscl.language.constants import MOST, Filler, marks, split
from xscl.language.parser import parse, parse_block
from xscl.planning.compile import CompiledQuery, QueryPlan, QueryPlans, compile_query

FORMS = (
    'S//a->v[./b = "{0}"][contains(./c, "{1}")]',
    "S//a->v[./b = '{0}'][./c > {n}][./d->x] FOLLOWED BY{{x = y, 3}} S//a[./d->y][./e = {m}]",
    'S//a[./b = "{0}"][./b = "{1}"][./d->x] JOIN{{x = y AND x = "{2}", 3 d}} T//a[./d->y]',
    'S//a[./b = "{0}" or ./b = "{1}"][./d->x] JOIN{{x = y AND starts-with(x, "{2}"), 3}} T//a->y',
    'S//a[not(./b = "{0}") and ./c < {n}][./d->x] JOIN{{x = y, 3}} T//a[./b < {m}][./d->y]',
    'S//a[./b = "{0}"][./b >= {n}][./d->x] JOIN{{x = y AND (x = "{1}" OR y = "{2}"), 3}} T//a->y',
    'S//a[./d->x] JOIN{{substring-before(x, "{0}") = y, 3}} T//a[./d->y]',
    'SELECT <hit by="{0}">{{x}}</hit> FROM S//a[./b = "{1}"][./d->x] JOIN{{x = y, 3}} T//a->y',
    'S//a[./d->x] JOIN{{x = y AND x < {n} AND y != "{0}", 3}} T//a->y',
    'S//a[./b = "{0}"][./d->x] JOIN{{x = y, 3}} T//a->y PUBLISH p',
    # chains, composites and their leaves, OR, what is left of predicates, operators over time
    'S//a[. = "{0}"]->x JOIN{{x=y, 3}} T//a[. > {n}]->y JOIN{{y=z AND z != "{1}", 9}} T//c->z',
    '(S//a[. = "{0}"]->x JOIN{{x=y, 3}} T//a->y) JOIN{{x=z AND y=w, 3}} (S//c->z NEXT T//d->w)',
    'S//a[./b = "{0}"]->x JOIN{{x = y AND x < y + {n} OR x != "{1}", 3}} T//a[./c = {m}]->y',
    'S//a->x JOIN{{x = y AND (x < y * {n} OR y > {m} * x OR not(x = "{0}")), 3}} T//a[.="{1}"]->y',
    'S//a[./b = "{0}"]->x NEXT{{x = y AND y > {n} AND contains(x, "{1}")}} S//a[./b = "{2}"]->y',
    'S//a[./b = {n}]->x NOT FOLLOWED BY{{x = y AND y != "{0}", 3 d}} S//a[./b = "{1}"]->y',
    'S//a[./b = "{0}"]->x FOLLOWED BY{{x = y AND y > {n}, 3}} T//a[./b != "{1}"]->y ELSE',
    'S//a[. > {n}]->x FOLD{{$1.x < $2.y, $2.y > $.n + {m}, $2.y + {m} AS n}} S//a[. != "{0}"]->y',
    'SELECT <a b="= {n})">{{x}}</a> FROM S//a[. = "{0}"]->x NEXT{{x = y}} S//a->y PUBLISH p',
    'S//a[./b = 5][./b = {n}][./c = "it\'s"][./c = "{0}"][./d->x] JOIN{{x = y, 3}} T//a->y',
)
ALONE = (
    *('S//a[./b = "{0}"][./b = "{1}"]', 'S//a[./b = "{0}" or ./b', "S//a[./b = 5][./b = {n}]"),
    *('SELECT <hit by="{0}"', 'SELECT <a b="= {n}'),
)
"""How forms begin whose order of conditions or whose output depends on constants."""
TEXTS = st.sampled_from(
    ("", "a", "b", "zz", " ", "10", "Ä", "x]", "and", "(", "=", ",", "\U0010ffff")
)
NUMBERS = st.sampled_from((0, 1, 5, 10, 0.5, 2.25, 12345678))


def plan_of(query: str) -> QueryPlan:
    """Return the plan of a query that is compiled by itself."""
    return QueryPlans().prepare(query)


@st.composite
def constants(draw: st.DrawFn) -> dict[str, object]:
    """Return constants for a form: they may be equal, and stand in any order."""
    texts = draw(st.lists(TEXTS, min_size=3, max_size=3))
    return {"texts": texts, "n": draw(NUMBERS), "m": draw(NUMBERS)}


def filled(form: str, values: dict[str, object]) -> str:
    """Return a form with constants in it."""
    texts = values["texts"]
    assert isinstance(texts, list)
    return form.format(*texts, n=values["n"], m=values["m"])


class Counting:
    """A compiler that keeps the texts that it is asked for."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def __call__(self, text: str) -> CompiledQuery:
        self.compiled.append(text)
        return compile_query(text)


@pytest.mark.parametrize("form", FORMS)
@examples(8)
@given(cases=st.lists(constants(), min_size=1, max_size=4))
def test_a_shape_gives_what_the_query_itself_gives(
    form: str, cases: list[dict[str, object]]
) -> None:
    shapes = QueryPlans()
    for values in cases:
        text = filled(form, values)
        assert shapes.prepare(text) == plan_of(text)


@examples(8)
@given(st.one_of(chains(), residuals(), functions(), ordered(), mixes(), published()))
def test_queries_of_the_whole_language_are_made_from_shapes(case: Case) -> None:
    for query in (one.query.text() for one in case.subscriptions):
        found = split(query)
        assert found is not None
        shape, given_ = found
        event(f"of {min(len(given_), 3)} constants")
        shapes = QueryPlans()
        for more in (100, 200):
            changed = [f"o{more}{c}" if isinstance(c, str) else c + more for c in given_]
            shapes.prepare(shape.text(changed))
        assert shapes.prepare(query) == plan_of(query)


@pytest.mark.parametrize("form", ["S//a[./b > {0}]->x", "S//a[./b + 1 > {0}]->x"])
def test_a_number_is_a_constant_if_it_is_printed_as_it_is_written(form: str) -> None:
    """A condition in XPath keeps its text: `0.10` of a known shape would be `0.1`."""
    shapes = QueryPlans()
    for number in ("0.5", "0.25", "0.10", "007", "1.0", "0.0", "12345678901234.5", "0", "100"):
        text = form.format(number)
        assert shapes.prepare(text) == plan_of(text)


@examples(20)
@given(st.one_of(chains(), residuals(), functions(), ordered(), mixes(), published()))
def test_a_filled_tree_is_the_tree_of_the_filled_text(case: Case) -> None:
    """A shape's second computation begins with the first one's tree."""
    for query in (one.query.text() for one in case.subscriptions):
        expect_tree_of_text(query)


@pytest.mark.parametrize("form", FORMS)
def test_the_tree_of_every_form_can_be_filled(form: str) -> None:
    expect_tree_of_text(form.format("u", "v", "w", n=20, m=0.25))


def expect_tree_of_text(query: str) -> None:
    """Fail unless the tree of a shape's text is filled as other constants are read."""
    found = split(query)
    assert found is not None
    shape, given_ = found
    first, last = marks(shape, first=True), marks(shape, first=False)
    fill = Filler(first)(parse(shape.text(first)))
    for constants in (last, given_):
        assert fill(constants) == parse(shape.text(constants))


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith(ALONE)])
def test_of_every_form_only_the_first_query_is_compiled_by_itself(form: str) -> None:
    counting, counts = Counting(), []
    shapes = QueryPlans(counting)
    for k in range(4):
        shapes.prepare(form.format(f"u{k}", f"v{k}", f"w{k}", n=k + 20, m=k + 100))
        counts.append(len(counting.compiled))
    assert counts == [1, 1, 1, 1]


def test_what_is_refused_for_itself_is_refused_by_its_shape() -> None:
    shapes = QueryPlans()
    shapes.prepare(FORMS[0].format("good", "good"))
    for text in ("z" * 70_000, "\x01"):
        with pytest.raises(QueryError):
            shapes.prepare(FORMS[0].format(text, "good"))


def test_a_text_with_very_many_constants_has_no_shape() -> None:
    conditions = "".join(f'[./b = "{n}"]' for n in range(MOST + 1))
    assert split(f"S//a{conditions}") is None
    assert parse_block(f"S//a{conditions}/c").stream == "S"


def test_of_more_shapes_than_are_kept_the_oldest_leaves() -> None:
    counting = Counting()

    def texts(name: str) -> tuple[str, str]:
        return f'S//{name}[./b = "one"]->v', f'S//{name}[./b = "two"]->v'

    shapes = QueryPlans(counting, most=2)
    for name in "abbcc":  # c in the place of a; with the second query of each the shape is learnt
        shapes.prepare(texts(name)[0])
    counting.compiled.clear()
    for name in "bc":
        made = shapes.prepare(texts(name)[1])
        assert made == plan_of(texts(name)[1])
    assert counting.compiled == []
    shapes.prepare(texts("a")[1])
    assert counting.compiled[0] == texts("a")[1]

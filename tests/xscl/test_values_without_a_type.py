"""Values of documents in every evaluator: what `<`, `=` and number() make of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from xscl import Document, Engine
from xscl.language.functions import NUMERIC, OPERANDS

VALUES = [
    # left, right, left < right
    ("9", "10", True),
    ("100", "99", False),
    ("30", "100", True),
    ("40", "40.00", False),
    ("1E3", "1001", True),
    ("1000", "1E3", False),
    ("007", "8", True),
    (" 9\n", "10", True),
    ("-INF", "INF", True),
    ("NaN", "5", False),
    ("5", "NaN", False),
    ("ann", "5", False),
    ("5", "ann", False),
    ("", "5", False),
    ("ann", "ben", True),
    ("2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00Z", True),
    ("2026-01-02", "2026-01-02T00:00:01Z", True),
    ("Mon, 05 Jan 2026 00:00:00 GMT", "Fri, 09 Jan 2026 00:00:00 GMT", True),
    ("2026-01-02", "5", False),
    ("n/a", "INF", False),
    ("1,5", "1E3", False),
    ("-2", "-1", True),
    ("Mon, 05 Jan 2026 00:00:00 GMT", "2026-01-02", False),
    ("Ben", "ann", True),
    ("2026-01-02", "ann", True),
    ("", "ann", True),
    (" b", "a", True),
]
LEFT, RIGHT = "o//o[./k->k][./v->a]", "i//i[./k->m][./v->b]"
KEYED = [
    f"{LEFT} FOLLOWED BY{{k = m AND a < b, 3 d}} {RIGHT}",
    f"{LEFT} FOLLOWED BY{{k = m AND b > a, 3 d}} {RIGHT}",
    f"{LEFT} JOIN{{a < b AND k = m, 3 d}} {RIGHT}",
    f"{LEFT} FOLLOWED BY{{starts-with(k, m) AND a < b AND k = m, 3 d}} {RIGHT}",
    "o//o->x FOLLOWED BY{x/k = y/k AND x/v < y/v, 3 d} i//i->y",
    "o//o[./k->k][./@v->a] FOLLOWED BY{k = m AND a < b, 3 d} i//i[./k->m][./@v->b]",
    f"({LEFT} JOIN{{k = c, 3 d}} c//c->c) FOLLOWED BY{{k = m AND a < b, 3 d}} {RIGHT}",
    f"{LEFT} FOLLOWED BY{{k = m AND a < b, 3 d}} {RIGHT} ELSE",
    f"{LEFT} NEXT{{k = m AND b > a}} {RIGHT}",
    f"{LEFT} FOLD{{$1.k = $2.m AND $1.a < $2.b, $.n < 9, $.n + 1 AS n}} {RIGHT}",
]
WITHOUT_KEY = ["o//v->a FOLLOWED BY{a < b, 3 d} i//v->b", "o//v->a NEXT{a < b} i//v->b"]


def document(stream: str, name: str, at: int, key: int, value: str) -> Document:
    attribute = value.replace("\n", "&#10;")
    xml = f'<{stream} v="{attribute}"><k>k{key}</k><v>{value}</v></{stream}>'
    return Document(stream, name, at, xml.encode())


def found(queries: Sequence[str], documents: Sequence[Document]) -> list[set[tuple[str, ...]]]:
    """Return the documents of the matches of each query."""
    with Engine() as engine:
        for at, query in enumerate(queries):
            engine.subscribe(f"q{at}", query)
        for one in documents:
            engine.push([one])
        engine.flush()
        return [{one.documents for one in engine.matches(f"q{at}")} for at in range(len(queries))]


def pairs(queries: Sequence[str], values: Sequence[tuple[str, str]]) -> list[set[tuple[str, str]]]:
    """Return for each query the pairs of which a document with the first and a later one match.

    Documents of a pair have a key of their own.
    """
    keys = range(len(values))
    documents = [document("o", f"o{n}", 1 + n, n, values[n][0]) for n in keys]
    documents += [Document("c", f"c{n}", 100 + n, f"<c>k{n}</c>".encode()) for n in keys]
    documents += [document("i", f"i{n}", 200 + n, n, values[n][1]) for n in keys]
    return [
        {values[n] for n in keys if any({f"o{n}", f"i{n}"} <= {*match} for match in matches)}
        for matches in found(queries, documents)
    ]


BOTH = [(left, right) for left, right, _ in VALUES]
IN_ORDER = {(left, right) for left, right, less in VALUES if less}


def test_an_order_between_documents_is_that_of_what_both_values_are() -> None:
    for query, holding in zip(KEYED, pairs(KEYED, BOTH), strict=True):
        assert holding == IN_ORDER, query


@pytest.mark.parametrize(("left", "right"), BOTH[:8])
def test_so_is_an_order_without_an_equality(left: str, right: str) -> None:
    expected = {(left, right)} & IN_ORDER
    assert pairs(WITHOUT_KEY, [(left, right)]) == [expected, expected]


NEGATED = [
    f"{LEFT} FOLLOWED BY{{k = m AND NOT a < b, 3 d}} {RIGHT}",
    f"{LEFT} NEXT{{k = m AND NOT a < b}} {RIGHT}",
]


def test_the_negation_of_an_order_holds_where_the_order_does_not() -> None:
    for query, holding in zip(NEGATED, pairs(NEGATED, BOTH), strict=True):
        assert holding == {*BOTH} - IN_ORDER, query


def test_what_is_in_order_ends_an_absence() -> None:
    query = f"{LEFT} NOT FOLLOWED BY{{k = m AND a < b, 3 d}} {RIGHT}"
    documents = [document("o", f"o{n}", 1 + n, n, left) for n, (left, _) in enumerate(BOTH)]
    documents += [document("i", f"i{n}", 50 + n, n, right) for n, (_, right) in enumerate(BOTH)]
    (absent,) = found([query], documents)
    assert {BOTH[int(name[1:])] for (name,) in absent} == {*BOTH} - IN_ORDER


BLOCKS = [
    "S//r[p < q]",
    "S//r[q > p]",
    "S//r[@p < @q]",
    "S//r[p <= q][not(p >= q)]",
    "S//r[some $x in p satisfies $x < q]",
    "S//r[p[. < ../q]]",
    "S//r[p < q or zz]",
    "S//r[not(not(p < q))]",
    "S//r[p < q and count(p) = 1]",
    "S//r[every $x in (p, p) satisfies q > $x]",
    "S//r[if (p < q) then true() else false()]",
    "S//p[. < ../q]",
]


def test_an_order_in_a_block_is_that_between_documents() -> None:
    documents = []
    for n, (left, right) in enumerate(BOTH):
        p, q = left.replace("\n", "&#10;"), right.replace("\n", "&#10;")
        text = f'<r p="{p}" q="{q}"><p>{p}</p><q>{q}</q></r>'
        documents.append(Document("S", f"d{n}", n, text.encode()))
    for query, matches in zip(BLOCKS, found(BLOCKS, documents), strict=True):
        assert {BOTH[int(name[1:])] for (name,) in matches} == IN_ORDER, query


FORMS = [
    *("S//r[p > 100]", "S//r[p > 1e2]", "S//r[p * 1 > 100]", "S//r[number(p) > 100]"),
    *("S//r[sum(p) > 100]", "S//r[max(p) > 100]", "S//r[abs(p) > 100]", "S//r[100 < p]"),
    *("S//r/p[. > 100]", "S//r[not(p <= 100)][p > 1]", "S//r[p > 100 and p > 99]"),
    *("S//r[xs:double(p) > 100]", "S//r[exists(p[. > 100])]", "S//r[round(p) > 100]"),
    *("S//p->p FOLLOWED BY{p > 100, 9 d} S//end", "S//p->p FOLLOWED BY{p * 1 > 100, 9 d} S//end"),
    *("S//p->p NEXT{p > 100} S//end", "S//p->p NEXT{number(p) > 100} S//end"),
    "S//p->p NOT FOLLOWED BY{NOT p > 100, 9 d} S//end",
]
OVER_100 = ["1.0E7", "101", " 1E3\n", "+101.0", "INF", "2000"]
NOT_OVER_100 = ["99", "9E1", "abc", "", "NaN", "-1", "1_000", "0x1F4", "$500", "1,000", "0"]


def with_end(values: Sequence[str]) -> list[Document]:
    """Return a document of each value, and one with which the history ends."""
    texts = [f"<r><p>{value}</p></r>".encode() for value in values]
    documents = [Document("S", f"d{n}", n, text) for n, text in enumerate(texts)]
    return [*documents, Document("S", "end", 100, b"<end/>")]


def test_a_number_is_one_for_every_evaluator() -> None:
    values = [*OVER_100, *NOT_OVER_100]
    for query, matches in zip(FORMS, found(FORMS, with_end(values)), strict=True):
        names = {one[0] for one in matches}
        assert [values[int(name[1:])] for name in sorted(names)] == OVER_100, query


@pytest.mark.parametrize("sign", ["!=", ">="])
def test_a_function_has_one_value_in_a_window_and_over_time(sign: str) -> None:
    values = ["0.04", "2.5", "1E2", "abc", "", "NaN", "INF", "2026-01-02", "20", "-3.50"]
    calls = [
        f"{name}(p)"
        for name, one in OPERANDS.items()
        if one.result in NUMERIC and len(one.arguments) == 1 and not one.constants
    ]
    assert {"round(p)", "floor(p)", "xs:decimal(p)", "year-from-date(p)"} <= {*calls}
    forms = ("FOLLOWED BY{%s, 9 d}", "NEXT{%s}", "NOT FOLLOWED BY{NOT %s, 9 d}")
    queries = [f"S//p->p {form % f'{call} {sign} 2'} S//end" for call in calls for form in forms]
    names = [{one[0] for one in matches} for matches in found(queries, with_end(values))]
    for call, place in zip(calls, range(0, len(names), 3), strict=True):
        in_window, next_one, answered = names[place : place + 3]
        assert in_window == next_one == answered, call


KEYS = [("007", "7"), ("40", "40.00"), ("1E3", "1000"), (" 9", "9")]
EQUAL = [
    f"{LEFT} {operator.replace('~', sign)} {RIGHT}"
    for operator in ("FOLLOWED BY{k = m AND a ~ b, 3 d}", "NEXT{k = m AND a ~ b}")
    for sign in ("=", "!=")
]
EQUAL_NUMBERS = [
    query.replace(" a ", " number(a) ").replace(" b", " number(b)", 1) for query in EQUAL
]


def test_equality_is_one_of_texts_unless_a_side_is_a_number() -> None:
    every, none = {*KEYS}, set[tuple[str, str]]()
    assert pairs(EQUAL, KEYS) == [none, every] * 2
    assert pairs(EQUAL_NUMBERS, KEYS) == [every, none] * 2


LARGE = [
    ("1.2345678901234567E19", "12345678901234567168"),  # as it prints
    ("1E19", "10000000000000000000"),
    ("9007199254740993E3", "9007199254740993024"),
]
LARGE_EQUAL = [
    f"{LEFT} {form} {RIGHT}{end}"
    for condition in ("number(a) = xs:decimal(b)", "a * 1 <= b + 0 AND NOT a * 1 < b * 1")
    for form, end in (
        (f"FOLLOWED BY{{k = m AND {condition}, 3 d}}", ""),
        (f"FOLLOWED BY{{k = m AND {condition}, 3 d}}", " ELSE"),
        (f"JOIN{{{condition}, 3 d}}", " ELSE RIGHT"),
        (f"NEXT{{k = m AND {condition}}}", ""),
    )
]


def test_a_large_double_equals_the_decimal_that_it_prints_as() -> None:
    assert pairs(LARGE_EQUAL, LARGE) == [{*LARGE}] * len(LARGE_EQUAL)
    shortest = [(one, f"{other[:-3]}000") for one, other in LARGE[::2]]  # as Python prints it
    assert not any(pairs(LARGE_EQUAL, shortest))


NUMBERS = [
    ("1E3", "1000", True),
    ("1000", "1.0E3", True),
    ("INF", "+INF", True),
    ("+1", "1.", True),
    ("NaN", "NaN", False),
    ("1_0", "10", False),
    ("0x1", "1", False),
    ("\u0661", "1", False),
]


def test_a_value_join_of_numbers_reads_every_form_of_a_number() -> None:
    query = f"{LEFT} FOLLOWED BY{{k = m AND number(a) = number(b), 3 d}} {RIGHT}"
    given = [(left, right) for left, right, _ in NUMBERS]
    assert pairs([query], given) == [{(left, right) for left, right, same in NUMBERS if same}]


def test_a_run_of_rising_values_goes_on_from_one_digit_to_two() -> None:
    query = "S//v->v FOLD{$2.v > $.v, $2.v > $.v, $.n + 1 AS n} S//v->v"
    values = (8, 9, 10, 11, 99, 100)
    rising = [Document("S", f"d{n}", n, f"<r><v>{n}</v></r>".encode()) for n in values]
    (chains,) = found([query], rising)
    names = [one.id for one in rising]
    assert chains == {*combinations(names, 2)}


CEL = {
    "cel": "SELECT id FROM FILTER{{{0}}} S",
    "sase": "EVENT S x WHERE {1} RETURN x.id AS id",
    "eql": "SELECT x.id AS id FROM S x WHERE FILTER({1})",
}


@pytest.mark.parametrize("language", CEL)
@pytest.mark.parametrize(
    ("kind", "one", "other", "less"),
    [
        (str, "9", "10", False),
        (float, "9", "10", True),
        (int, "9", "10", True),
        (float, "1.0E1", "1.1E1", True),
        (int, "1E1", "1.1E1", True),
        (int, "9.0", "10", True),
        (float, "1_0", "20", False),
        (int, "9.5", "10", False),
    ],
)
def test_event_languages_compare_attributes_as_they_are_declared(
    engine: Engine, language: str, kind: type, one: str, other: str, less: bool
) -> None:
    query = CEL[language].format("a < b", "x.a < x.b")
    engine.stream("S", attributes={"id": str, "a": kind, "b": kind})
    engine.subscribe("q", query, language=language)
    xml = f"<r><id>1</id><a>{one}</a><b>{other}</b></r>"
    engine.push([Document("S", "d1", 1, xml.encode())])
    engine.flush()
    assert bool([*engine.matches("q")]) is less


def test_explain_counts_comparisons_of_a_number_and_a_text(engine: Engine) -> None:
    queries = {
        "join": f"{LEFT} FOLLOWED BY{{k = m AND a < b, 3 d}} {RIGHT}",
        "next": f"{LEFT} NEXT{{a < b}} {RIGHT}",
        "negated": f"{LEFT} FOLLOWED BY{{k = m AND NOT a < b, 3 d}} {RIGHT}",
        "numbers": f"{LEFT} FOLLOWED BY{{k = m AND number(a) < b, 3 d}} {RIGHT}",
    }
    for name, query in queries.items():
        engine.subscribe(name, query)
    engine.push([document("o", "d1", 1, 1, "n/a")])
    engine.push([document("i", "d2", 2, 1, "5")])
    engine.flush()
    engine.subscribe("later", queries["join"])
    counted = {name for name in (*queries, "later") if COUNTED in engine.explain(name)}
    assert counted == {"join", "next", "negated"}
    engine.push([document("i", "d3", 3, 1, "7")])
    assert "2 comparisons of a number and a text did not hold" in engine.explain("join")


def test_explain_counts_documents_of_which_a_block_compares_a_number_and_a_text() -> None:
    queries = ["S//r[p < q]", "S//r[not(p < q)]", "S//r[p < q or zz]", "S//r[p < 5]"]
    with Engine() as engine:
        for query in queries:
            engine.subscribe(query, query)
        for n, value in enumerate(("4", "n/a", "", "9")):
            text = f"<r><p>{value}</p><q>10</q></r>"
            engine.push([Document("S", f"d{n}", n, text.encode())])
        counted = "compares a number with a text in 2 documents, the latest: d2: [p < q]"
        explained = [query for query in queries if counted in engine.explain(query)]
    assert explained == queries[:3]


COUNTED = "1 comparison of a number and a text did not hold"

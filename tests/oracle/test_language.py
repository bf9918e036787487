"""The oracle of XSCL: the cases that the engine is tried with, and what they are worth.

What the papers and the guide say of each construct is tried with the engine (`tests/golden`,
`tests/documentation/test_xscl_guide.py`), which the properties compare with the oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TypeAlias

import pytest

from tests.examples import ROUNDS, cases_of, usually
from tests.oracle import composites as rows
from tests.oracle import evaluation, formulas, patterns
from tests.oracle.composites import Arrived, Composite
from tests.oracle.evaluation import Match, matches
from tests.oracle.formulas import Scope, Value
from tests.oracle.output import document_of
from tests.oracle.patterns import values
from tests.oracle.queries import Case, FollowedBy, Join, Query, blocks
from tests.oracle.steps import Condition
from tests.oracle.trees import Binding, Node, descendants
from tests.strategies.language import KINDS, histories, joins
from xscl.language.normalform import normalise
from xscl.language.parser import parse

# -- The cases that the engine is tried with -------------------------------------------------

STRATEGIES = {"patterns": joins(), "histories": histories(), **KINDS}
NAMES = usually(STRATEGIES, *(name for name in STRATEGIES if name != "mixes"))
"""Mixes are of the others, and expensive."""

SIZES = {name: {"mixes": 100, "residuals": 30}.get(name, 15) for name in STRATEGIES}
"""How many cases have all that is asked for; to draw one takes some 50 ms."""


@cache
def collected(name: str, seeded: int | None = None) -> list[tuple[Case, Counter[Match]]]:
    """Return some cases of a strategy and the matches of each."""
    cases = cases_of(STRATEGIES[name], SIZES[name], seeded)
    return [(case, matches(case.events, case.lateness)) for case in cases]


SEEDS = (None, *range(ROUNDS))


@pytest.mark.parametrize("name", NAMES)
def test_well_over_a_third_of_the_subscriptions_have_matches(name: str) -> None:
    cases = [*collected(name), *collected(name, 0)]
    fired = sum(len({match[0] for match in found}) for _, found in cases)
    assert fired / sum(len(case.subscriptions) for case, _ in cases) > 0.4


@pytest.mark.parametrize("name", NAMES)
def test_every_query_is_one(name: str) -> None:
    """The parser takes the text, and the normal form its names, windows and predicates."""
    for case, _ in collected(name):
        for subscription in case.subscriptions:
            text = subscription.query.text()
            normal = normalise(parse(text), text)
            assert len(normal.blocks) == len(blocks(subscription.query)), text


FEATURES = {
    "patterns": (
        *(
            " TO ",
            " TO INF}",
            "JOIN{",
            "FOLLOWED BY{",
            ", INF}",
            " ms}",
            ", 0}",
            "//*",
            "*:",
            "p:",
            "dc:",
            "/@",
            "//@",
        ),
        *("starts-with(", "contains(", "text()", " and ", " or ", "not(", " AND ", "!=", " < "),
    ),
    "histories": ("JOIN{", "FOLLOWED BY{"),
    "chains": (
        *("JOIN{", "FOLLOWED BY{", "} (", ", INF}", " ms}", " ms TO ", "DISTINCT"),
        "SYMMETRIC JOIN{",
    ),
    "residuals": ("time(", " OR ", " AND ", "not(", "contains(", " < ", " >= ", " + ", " != "),
    "functions": ("lower-case(", "normalize-space(", "substring-before(", "number("),
    "ordered": (
        "NEXT{",
        "NOT FOLLOWED BY{",
        " ELSE",
        " FOLD{",
        "LONGEST FOLD{",
        "$.k",
        " AS n",
        " TO ",
        "time(",
        " ELSE LEFT",
    ),
    "mixes": ("NEXT{", "NOT FOLLOWED BY{", " ELSE) ", " JOIN{", "(SELECT"),
    "published": ("PUBLISH P1", "PUBLISH P3", "<hit>", "JOIN{"),
    "published in time": ("NOT FOLLOWED BY{", " ELSE PUBLISH P1", "NEXT{"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_feature_occurs_in_a_query_that_has_matches(name: str) -> None:
    missing = set(FEATURES[name])
    for seeded in SEEDS:
        for case, found in collected(name, seeded) if missing else ():
            fired = {match[0] for match in found}
            for one in case.subscriptions:
                if one.name in fired:
                    missing -= {feature for feature in missing if feature in one.query.text()}
    assert missing == set()


# -- Planted faults: what is done wrong must show in some case -------------------------------

Patch: TypeAlias = tuple[ModuleType, str, Callable[..., object]]


def _shorter(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    window = None if operator.window is None else operator.window - 1
    return IN_TIME(replace(operator, window=window), a, b)


def _at_one_time(named: Mapping[str, tuple[Arrived, Node]]) -> Scope:
    latest = max((document.timestamp for document, _ in named.values()), default=0)
    return NAMED({n: (replace(of, timestamp=latest), node) for n, (of, node) in named.items()})


def _without_lower(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    return IN_TIME(replace(operator, lower=None), a, b)


def _open_below(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    lower = None if operator.lower is None else operator.lower + 1
    return IN_TIME(replace(operator, lower=lower), a, b)


def _overlapping(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    return IN_TIME(operator, a, b) or (
        a.t1 == b.t0 and isinstance(operator, FollowedBy) and bool(operator.window)
    )


def _by_arrival(a: Composite, b: Composite, window: int | None, late: int) -> bool:
    return KEPT(a, b, window, 0)


def _as_strings(operator: str, a: Value, b: Value, numeric: bool) -> bool:
    return COMPARES(operator, str(a), str(b), False)


def _as_texts(operator: str, a: Value, b: Value) -> bool:
    return COMPARES(operator, str(a), str(b), False)


def _as_numbers(operator: str, a: Value, b: Value) -> bool:
    return COMPARES(operator, a, b, True)


def _without_branches(node: Node, condition: Condition) -> Iterator[Binding]:
    return iter([{}]) if "->" not in condition.text() else WAYS(node, condition)


def _both_orders(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    plain = replace(operator, symmetric=False) if isinstance(operator, Join) else operator
    return IN_TIME(plain, a, b)


COMPARES, WAYS = formulas._compares, patterns.ways
VALUES, PLAIN = values, document_of
IN_TIME, KEPT, NAMED = rows.in_time, rows.kept, rows._values
ALWAYS: Callable[..., bool] = lambda *_: True  # noqa: E731
FAULTS: dict[str, tuple[Patch, str]] = {
    "window": ((rows, "in_time", _shorter), "chains"),
    "the time of a node is that of the match": ((rows, "_values", _at_one_time), "residuals"),
    "a partner after the window of a JOIN": ((rows, "in_time", _shorter), "ordered"),
    "no lower bound": ((rows, "in_time", _without_lower), "chains"),
    "an open lower bound": ((rows, "in_time", _open_below), "chains"),
    "an answer before the lower bound": ((rows, "in_time", _without_lower), "ordered"),
    "absence at exactly T": ((rows, "in_time", _shorter), "ordered"),
    "simultaneous": ((rows, "in_time", _overlapping), "chains"),
    "both orders of a pair": ((rows, "in_time", _both_orders), "chains"),
    "nothing is forgotten": ((rows, "kept", ALWAYS), "chains"),
    "lateness": ((rows, "kept", _by_arrival), "residuals"),
    "the same document twice": ((rows, "_different", ALWAYS), "chains"),
    "nothing is late": ((rows, "_timely", lambda found, _: list(found)), "ordered"),
    "not the earliest": ((rows, "_earliest", lambda r, t: [b for b in r if t < b.t0]), "ordered"),
    "numbers as strings": ((formulas, "_compares", _as_strings), "functions"),
    "an order of texts": ((formulas, "_in_order", _as_texts), "residuals"),
    "an order of numbers": ((formulas, "_in_order", _as_numbers), "residuals"),
    "no order of dates": ((formulas, "moment", lambda _: None), "residuals"),
    "strings as numbers": ((formulas, "_is_number", ALWAYS), "residuals"),
    "a path as its first node": ((formulas, "values", lambda n, p: VALUES(n, p)[:1]), "chains"),
    "no predicate": ((rows, "holds", ALWAYS), "ordered"),
    "child as descendant": ((patterns, "children", descendants), "patterns"),
    "no conditions": ((patterns, "holds", ALWAYS), "patterns"),
    "no branches": ((patterns, "ways", _without_branches), "patterns"),
    "sides swapped": ((rows, "in_time", lambda o, a, b: IN_TIME(o, b, a)), "patterns"),
    "a version is another document": ((evaluation, "named", lambda _, i, __: i), "histories"),
    "nobody goes": ((evaluation, "Unsubscribe", Query), "histories"),
    "no constructor": (
        (evaluation, "document_of", lambda q, r: PLAIN(Query(q.expression), r)),
        "published",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (module, name, wrong), where = FAULTS[fault]

    def shows(seeded: int | None) -> bool:
        cases = collected(where, seeded)  # before there is the fault
        with monkeypatch.context() as patched:
            patched.setattr(module, name, wrong)
            return any(matches(case.events, case.lateness) != found for case, found in cases)

    assert any(map(shows, SEEDS))

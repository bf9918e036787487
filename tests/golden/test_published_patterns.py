"""Published examples of other systems, each as one query of SASE, EQL or CEL.

`published/` has a table for each source: *every* example of Flink's page on event processing, of
Esper's chapter on patterns, and of the sections Pattern and Sequence of Siddhi's guide; patterns of
Esper's regression suite; examples of the papers of SASE+.  Facts only: a pattern, events, and which
match, or the reason why it is no query.  Where a document gives no events, they are ours, and what
matches follows from its text.

An event is `label`, `label=number` or `label=number:key`; its type is the first letter, and one
happens every second.  `.` is a second without one, `+9` nine of them.  `o0` is the start of the
other system's query, where it counts from there.  A match is the labels of its events, in any
order.
"""

from __future__ import annotations

import ast
import re
import tomllib
from typing import NamedTuple

import pytest

from cep_core import Event
from tests.cep_core.engines import engine_of
from tests.project import ROOT

ATTRIBUTES = {"kind": str, "label": str, "v": int, "k": str}
NAMES = {
    "first": "AFTER MATCH FIRST ONLY",
    "restart": "AFTER MATCH RESTART",
    "ever": "WITHIN 1 day",
    "once": "WITHIN 1 day AFTER MATCH FIRST ONLY",
    "every": "a1 b1 c1 b2 a2 d1 a3 b3 e1 a4 f1 b4",
    "set": "o0 a1 b1 c1 b2 a2 d1 e1 f1 d2 b3 g1 d3",
}
"""Clauses and events that many examples share, written in braces."""


class Example(NamedTuple):
    """Their pattern, events, our query and its matches; without a query, the reason.

    A query of SASE is given without EVENT and RETURN; components that begin with x are not shown.
    `one stream:` says that its types are kinds of the events of one stream.
    """

    theirs: str
    events: str = ""
    ours: str = ""
    matches: str = ""
    reason: str = ""
    section: str = ""


def examples(source: str) -> list[Example]:
    """Return the examples of a table of `published/`."""
    path = ROOT / f"tests/golden/published/{source}.toml"
    rows = tomllib.loads(path.read_text("utf-8"))["example"]
    return [Example(**{name: _named(text) for name, text in row.items()}) for row in rows]


def _named(text: str) -> str:
    """Replace names in braces, but not the numbers of a repetition."""
    return re.sub(r"\{([a-z]+)\}", lambda name: NAMES[name[1]], text)


ELSEWHERE = {
    "test_cayuga_examples": (
        *(
            "test_example_1_and_11",
            "test_example_2_and_12",
            "test_example_3_and_13_is_the_same_as_2",
        ),
        *("test_example_4_and_14", "test_example_5_and_15", "test_example_6_and_16"),
        *("test_example_7_and_17", "test_example_8_and_18", "test_example_9_state_by_state"),
        *("test_s1", "test_s2", "test_s3", "test_s4", "test_s5", "test_s6", "test_s7"),
    ),
    "test_sase_examples": (
        *("test_q1_is_a_selection", "test_an_overdose_is_the_sum_of_two_doses_within_four_hours"),
        "test_q2_reports_what_is_taken_out_without_being_checked_out",
        "test_misplaced_inventory_is_reported_when_the_window_ends",
    ),
    "test_next_cep": (
        *("test_small_purchases_before_a_large_one", "test_a_currency_that_was_not_used_before"),
        "test_three_consecutive_large_transactions_of_an_account",
    ),
}
"""Examples of the Cayuga, SASE and NEXT CEP papers that tests of their own run."""

SOURCES = {
    source: examples(source) for source in ("flink", "esper", "esper_suite", "siddhi", "sase_plus")
}
SHARES = {"flink": 0.95, "esper": 0.85, "siddhi": 0.85}
"""The least share of the examples of a chapter that are one query."""

_COMPONENT = re.compile(
    r"(?P<aside>!\(?\s*|UNTIL )?\b(?P<types>[A-Z]+)(?P<times>[?*+]|\{[\d,]*\})?"
    r"(?P<manner>(?: (?:greedy|reluctant|any|next|nearest|strict|partition))*)"
    r" (?P<name>[a-z])(?P<run>\[\])?"
    r"(?= UNTIL|[\s,)|]|$)"
)
_CLAUSES = re.compile(
    r"(?P<pattern>.*?)(?: WHERE (?P<where>.*?))?"
    r"(?P<clauses>(?: WITHIN [^)]*?)?(?: AFTER MATCH [^)]*)?)"
)


GUIDE = (ROOT / "docs/languages/coming-from.md").read_text("utf-8")
TABLES, _, _ = GUIDE.partition("## What cannot be said")


def in_sase(ours: str) -> str:
    """Return a query of SASE with EVENT and RETURN; over one stream, kinds are conditions."""
    _, one, text = ours.partition("one stream: ")
    found = _CLAUSES.fullmatch(text if one else ours)
    assert found is not None
    pattern, where = found["pattern"], [found["where"]] if found["where"] else []
    items = []
    for part in _COMPONENT.finditer(pattern):
        name, run = part["name"], bool(part["run"])
        if one:
            known = ", ".join(f"'{kind.lower()}'" for kind in part["types"])
            where.append(f"{name}{'[i]' * run}.kind IN ({known})")
        if not part["aside"] and name != "x":
            items.append(f"LIST({name}[].label) AS {name}" if run else f"{name}.label AS {name}")
    if one:
        pattern = _COMPONENT.sub(_over_one_stream, pattern)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"EVENT {pattern}{condition}{found['clauses']} RETURN {', '.join(items)}"


def _over_one_stream(part: re.Match[str]) -> str:
    run = part["run"] or ""
    return f"{part['aside'] or ''}s{part['times'] or ''}{part['manner']} {part['name']}{run}"


def found_by(ours: str, events: str, later: int = 0) -> list[list[str]]:
    """Return the matches of a query, as sorted labels, when the events and some time are over."""
    one = "one stream: " in ours or "s a" in ours
    words = events.split()
    types = {word[0].upper() for word in words if word[0].isalpha()} | {*"ABCDEFGHKMNOPRST"}
    core = engine_of(["s"] if one else [*sorted(types), "Start"], ATTRIBUTES)
    full = ours.startswith(("SELECT", "EVENT"))
    language = "eql" if ours.startswith("SELECT") else "sase"
    query = ours if full else in_sase(ours)
    core.register("q", query, language)
    given = []
    time = 0
    for word in words:
        if word[0].isalpha():
            label, _, key = word.partition(":")
            label, _, number = label.partition("=")
            values = (label[0], label, int(number) if number else None, key or None)
            stream = "Start" if label == "start" else label[0].upper()
            given.append(Event("s" if one else stream, values, time))
        time += int(word[1:]) if word[0] == "+" else 1
    labels = {event.values[1] for event in given}
    everything = not re.search(r"RETURN|SELECT [^*]", query)
    matches = [*core.push(given), *core.advance(time + later)]
    return sorted(
        sorted(
            label
            for value in event.values
            for label in (value if isinstance(value, tuple) else [value])
            if label in labels or (label is not None and not everything)
        )
        for _, event in matches
    )


@pytest.mark.parametrize("source", SOURCES)
def test_one_query_finds_what_is_published(source: str) -> None:
    cases = [case for case in SOURCES[source] if case.ours]
    wanted = [
        (case.section, case.theirs, sorted(sorted(one.split()) for one in case.matches.split(", ")))
        for case in cases
    ]
    assert len({(case.section, case.theirs, case.events) for case in cases}) == len(cases)
    assert [
        (case.section, case.theirs, found_by(case.ours, case.events) or [[]]) for case in cases
    ] == wanted


@pytest.mark.parametrize(
    ("policy", "matches"),
    [
        ("", "a1 b1, a2 b2, a3 b1, a4 b2, a5 b3, a6 b4"),
        ("FIRST ONLY", "a1 b1, a2 b2"),
        ("RESTART", "a1 b1, a2 b2, a5 b3, a6 b4"),
        ("NEWEST", "a3 b1, a4 b2, a5 b3, a6 b4"),
        ("SKIP PAST LAST", "a1 b1, a2 b2, a5 b3, a6 b4"),
        ("SKIP TO LAST b", "a1 b1, a2 b2, a5 b3, a6 b4"),
    ],
)
def test_a_policy_acts_for_each_key_apart(policy: str, matches: str) -> None:
    events = "a1:x a2:y a3:x a4:y b1:x b2:y a5:x a6:y b3:x b4:y"
    clause = f" AFTER MATCH {policy}" if policy else ""
    found = found_by(f"SEQ(A a, next B b) WHERE [k] WITHIN 1 day{clause}", events)
    assert found == [one.split() for one in matches.split(", ")]
    first = found_by("A a WHERE [k] AFTER MATCH FIRST ONLY", "a1:x a2:y a3:x a4 a5")
    assert first == [["a1"], ["a2"], ["a4"]]


def test_most_published_examples_are_one_query_and_the_guide_names_the_others() -> None:
    for source, share in SHARES.items():
        cases = SOURCES[source]
        queries = sum(bool(case.ours) for case in cases)
        assert queries >= share * len(cases)
        assert f"| {queries} of {len(cases)} |" in GUIDE
    every = [case for cases in SOURCES.values() for case in cases]
    others = sum(map(len, ELSEWHERE.values()))
    assert f"has {len(every) + others} published examples" in GUIDE
    assert f"{sum(bool(case.ours) for case in every) + others} of them are one query" in GUIDE
    for case in every:
        assert bool(case.ours) != bool(case.reason), case
        assert case.reason in GUIDE, case


def test_examples_of_papers_have_tests_of_their_own() -> None:
    for module, names in ELSEWHERE.items():
        tree = ast.parse((ROOT / f"tests/golden/{module}.py").read_text("utf-8"))
        known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert known.issuperset(names)

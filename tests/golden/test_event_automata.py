r"""The event automata of NEXT CEP's operators (2009, sections 3.3 and 3.4), and SASE's (Figure 2).

The paper's pictures are described by their text.  An automaton is written a line for each
transition: from, to, event [predicate] / add or drop.
"""

from __future__ import annotations

import pytest

import cep_core
from tests.event_automata import EventAutomaton, automata_of
from tests.golden.test_next_cep import CURRENCIES, FIGURE_1, FRAUD, LARGE, TRANSACTION


def engine() -> cep_core.Engine:
    core = cep_core.Engine(ticks_per_second=1)
    for name in ("E1", "E2", "E3", "Z"):
        core.stream(name, {"id": str, "x": int})
    core.stream("t", TRANSACTION)
    return core


def automata(query: str, language: str = "eql") -> tuple[EventAutomaton, ...]:
    core = engine()
    core.register("q", query, language)
    return automata_of(core, "q")


def written(query: str, language: str = "eql") -> list[str]:
    """The automata of a query: what each puts out, its states but plain ones, its transitions."""
    lines = []
    for one in automata(query, language):
        lines.append(one.output)
        lines += [f"{s.name}: {s.kind} {s.after}".rstrip() for s in one.states if s.kind[0] != "o"]
        lines += [
            f"{t.source} {t.target} {t.event}{f' [{t.predicate}]' if t.predicate else ''}"
            f" / {t.change}"
            for t in one.transitions
        ]
    return lines


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("E1 A WHERE FILTER(A.x > 3)", ["A", "s0 sd E1 A [A.x > 3] / add"]),
        ("E1 | E2", ["(E1|E2)", "s0 sd E1 / add", "s0 sd E2 / add"]),
        (
            "E1 ; E2 WHERE FILTER(E1.id = E2.id), E2.x > E1.x",
            [
                "(E1;E2)",
                "s0 s1 E1 / add",
                "s1 s1 E2 [NOT (E1.id = E2.id)] / drop",
                "s1 sd E2 [E1.id = E2.id AND E2.x > E1.x] / add",
            ],
        ),
        (
            "E1+ WHERE FILTER(E1.id = PREV(E1.id)), E1.x > PREV(E1.x)",
            [
                "E1+",
                "s0 s1 E1 / add",
                "s0 sd E1 / add",
                "s1 s1 E1 [NOT (E1.id = PREV(E1.id))] / drop",
                "s1 s1 E1 [E1.id = PREV(E1.id) AND E1.x > PREV(E1.x)] / add",
                "s1 sd E1 [E1.id = PREV(E1.id) AND E1.x > PREV(E1.x)] / add",
            ],
        ),
        (
            r"(E1 ; E2) \ Z WHERE Z.x = E1.x",
            [
                *("(E1;E2)", "s0 s1 E1 / add", "s1 sd E2 / add"),
                r"((E1;E2)\Z)",
                "sf: failed-detection",
                "s0 sd (E1;E2) / add",
                "s0 sf Z [Z.x = E1.x] / drop",
            ],
        ),
        (
            "E1 @ 5 min",
            ["E1@", "s1: timing 5 min", "s0 s1 E1 / add", "s1 sd timer / drop"],
        ),
    ],
    ids=["filter", "union", "next", "iteration", "exception", "time"],
)
def test_the_automata_of_section_3_4(query: str, lines: list[str]) -> None:
    assert written(f"SELECT * FROM {query}") == lines


def test_small_purchases_before_a_large_one() -> None:
    """Events of another card are skipped; another amount ends the detection."""
    assert written(FRAUD) == [
        *("S1", "s0 sd t S1 [S1.amount < 100] / add"),
        *("(S1;S2)", "s0 s1 S1 / add", "s1 s1 t S2 [NOT (S1.acc = S2.acc)] / drop"),
        "s1 sd t S2 [S1.acc = S2.acc AND S2.amount < 100] / add",
        *("((S1;S2);L)", "s0 s1 (S1;S2) / add", "s1 s1 t L [NOT (S2.acc = L.acc)] / drop"),
        "s1 sd t L [S2.acc = L.acc AND (S1, L) OCCURS WITHIN 12 h AND L.amount > 250] / add",
    ]


def test_the_other_queries_of_the_paper() -> None:
    assert [one.output for one in automata(LARGE)] == ["T1", "(T1;T2)", "((T1;T2);T3)"]
    assert written(CURRENCIES)[-2:] == [
        "s0 s1 T1+ / add",
        "s1 sd t T2 [ALL(T1.currency) != T2.currency] / add",
    ]


def test_an_automaton_is_that_of_the_pattern_as_planned() -> None:
    core = cep_core.Engine(ticks_per_second=1)
    for name, rate in (("A", 128.0), ("B", 1.0), ("C", 64.0)):
        core.stream(name, {"x": int}, rate=rate)
    core.register("q", "SELECT * FROM (A ; B) ; C", "eql")
    assert [one.output for one in automata_of(core, "q")] == ["(B;C)", "(A;(B;C))"]


def run(views: tuple[EventAutomaton, ...], events: str) -> list[str]:
    """The detections of automata without predicates, by the rules of section 3.3.

    Events are one a tick.  An instance is (state, ids so far, when they began, when they ended);
    there is always one in s0, in which nothing has happened.
    """
    found: list[str] = []
    instances: dict[str, list[tuple[str, str, int, int]]] = {one.output: [] for one in views}
    for now, word in enumerate(events.split()):
        stream, name = word.split(":")
        coming = [(stream, name, now)]  # with the time at which it began
        for one in views:
            kept, put = [], []
            for state, so_far, began, ended in [*instances[one.output], ("s0", "", -1, -1)]:
                steps = [
                    (edge, event)
                    for event in coming
                    for edge in one.transitions
                    if (edge.source, edge.event) == (state, event[0]) and event[2] > ended
                ]
                if not steps and state != "s0":
                    kept.append((state, so_far, began, ended))
                for edge, (_, other, begins) in steps:
                    made = so_far + other if edge.change == "add" else so_far
                    begins = begins if state == "s0" else began
                    if edge.target == "sd":
                        put.append((one.output, made, begins))
                    else:
                        kept.append((edge.target, made, begins, now))
            instances[one.output] = kept
            coming += put
            if one is views[-1]:
                found += sorted(made for _, made, _ in put)
    return found


@pytest.mark.parametrize("query", ["E2 ; E3", "(E1 ; E2) ; E3", "E1 | E2", "E1 ; (E2 | E3)"])
@pytest.mark.parametrize("events", [FIGURE_1, "E1:a E1:b E2:c E3:d E2:e E1:f E3:g E2:h E3:i"])
def test_what_the_automata_say_is_what_the_engine_does(query: str, events: str) -> None:
    """Figure 1 and more; `run` follows the transitions, the engine does not know them."""
    text = f"SELECT * FROM {query}"
    if "|" in query:
        text = f"SELECT {' , '.join(_ids(query))} FROM {query}"
    found = run(automata(text), events)
    assert found
    assert found == [one.replace("None", "") for one in _engine_ids(text, events)]


def _ids(query: str) -> list[str]:
    names = [word for word in query.replace("(", " ").replace(")", " ").split() if word[0] == "E"]
    return [f"{name}.id AS {name}" for name in names]


def _engine_ids(text: str, events: str) -> list[str]:
    core = engine()
    core.register("q", text, "eql")
    coming = [word.split(":") for word in events.split()]
    out = core.push(cep_core.Event(s, (n, 0), now) for now, (s, n) in enumerate(coming))
    out += core.close()
    return ["".join(v for v in m.event.values if isinstance(v, str)) for m in out]


def test_sase_figure_2() -> None:
    """The sub-sequence (A, B, D) without the negated C, here E1, E2, Z; a wildcard keeps states."""
    query = "EVENT SEQ(E1 a, E2 b, !(E3 c), Z d) WHERE [id] WITHIN 6"
    assert written(query, "sase") == [
        "SEQ(E1, E2, Z)",
        "s0 s1 E1 / add",
        *("s1 s1 * / drop", "s1 s2 E2 / add"),
        *("s2 s2 * / drop", "s2 sd Z / add"),
    ]


def test_sase_any_and_runs() -> None:
    query = "EVENT SEQ(ANY(E1, E2) a, E3+ b[]) WITHIN 6"
    assert written(query, "sase") == [
        "SEQ(ANY(E1, E2), E3)",
        "s0 s1 ANY(E1, E2) / add",
        *("s1 s1 * / drop", "s1 s1 E3 / add", "s1 sd E3 / add"),
    ]

"""Accepted input survives a restart unchanged, and refused input changes nothing."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from cep_core.dataflow import mop
from cep_core.operators.pattern import matching
from cep_core.plan import Operator
from cep_core.state.state_log import StateWriter
from feeds.documents import Document
from feeds.errors import MalformedDocument
from tests.examples import examples
from tests.xscl.stored_tables import stored_tables
from xscl.engine.facade import Engine
from xscl.engine.transactions import Transactions
from xscl.errors import StoreError, XsclError
from xscl.store.store import Store

QUERIES = {
    "cel filter": ("SELECT k FROM FILTER{k = 'a'}(S) PUBLISH P", "cel"),
    "cel of P": ("SELECT k FROM P", "cel"),
    "cel next": ("SELECT * FROM S NEXT{$1.k = $2.k} L PUBLISH Q", "cel"),
    "cel wrong": ("SELECT nothing FROM S", "cel"),
    "one to P": ("SELECT <p><k>{string(x)}</k></p> FROM S//a->x PUBLISH P", "xscl"),
    "two to P": ("SELECT <p><j>{string(x)}</j></p> FROM L//a->x PUBLISH P", "xscl"),
    "back": ("SELECT <p/> FROM Q//* PUBLISH S", "xscl"),
    "next": ("(P//k->x NEXT{x = y} S//a->y) JOIN{x = z, 9 ms} S//a->z", "xscl"),
    "silence": ("S//a->x NOT FOLLOWED BY{x = y, 3 ms} P//k->y PUBLISH Q", "xscl"),
    "or": ("S//a->x JOIN{x = y OR x = 'a', 5 ms} Q//*->y", "xscl"),
}
OVER_TIME = {
    "fold": ("S//a[./k->x] FOLD{$2.y = $1.x, $2.y = $1.x, $.n + 1 AS n} S//a[./k->y]", "xscl"),
    "else": ("S//a[./k->x] FOLLOWED BY{x = y, 4 ms} L//a[./k->y] ELSE", "xscl"),
    "above": ("(S//a[./k->x] NEXT{x = y} S//a[./k->y]) NEXT{y = z} S//a[./k->z]", "xscl"),
    "cel join": ("SELECT * FROM S JOIN{$1.k = $2.k, 3 ms} L", "cel"),
    "mean": ("SELECT k, COUNT(*) AS n FROM S GROUP BY k WINDOW 4 ms", "cel"),
}


REMOVES = ("unsubscribe", "cascade", "purge", "edit")

ACTIONS = st.lists(
    st.tuples(st.just("subscribe"), st.sampled_from(list(QUERIES)))
    | st.tuples(
        st.sampled_from(["unsubscribe", "cascade", "purge", "edit", "pause", "resume", "rename"]),
        st.sampled_from(list(QUERIES)),
    )
    | st.tuples(st.sampled_from(["push", "strict", "late"]), st.just("")),
    min_size=3,
    max_size=14,
)


def documents(number: int) -> list[Document]:
    key = "ab"[number % 2]
    text = f"<a><k>{key}</k>{key}</a>".encode()
    return [Document(s, f"{s}{number}", number * 1_000, text) for s in "SL"]


def act(engine: Engine, action: tuple[str, str], number: int) -> None:
    kind, name = action
    match kind:
        case "subscribe":
            query, language = (QUERIES | OVER_TIME)[name]
            engine.subscribe(name, query, language=language)
        case "push":
            engine.push(documents(number))
        case "strict":
            engine.push([*documents(number), Document("S", "x", number, b"<")], strict=True)
        case "late":
            engine.stream("L", lateness=number)
        case "edit":
            query, language = list(QUERIES.values())[number % len(QUERIES)]
            engine.edit(name, query, language=language)
        case "pause" | "resume":
            engine.edit(name, paused=kind == "pause")
        case "rename":
            engine.edit(name, rename=list(QUERIES)[number % len(QUERIES)])
        case _:
            engine.unsubscribe(name, cascade=kind == "cascade", purge=kind == "purge")


def kept(engine: Engine) -> dict[str, list[str]]:
    """Return the state of temporal operators: the entries of an empty log, in no order.

    Operators are named by those who hold them: their numbers are of one run.
    """
    core = engine.state.dataflow.core
    names: dict[Operator, Any] = {}
    for holder, operators in engine.state.dataflow.state_log.held.items():
        for at, operator in enumerate(operators):
            names.setdefault(operator, []).append(f"{holder}, {at}")
    found: dict[str, list[str]] = {"kept": [], "waiting": [], "lanes": [], "left out": []}
    for entry in StateWriter(core.plan, core.codec, lambda one: min(names[one])).entries({}):
        for key, data in entry.items():
            found[key].append(repr(data))
    return {key: sorted(rows) for key, rows in found.items()}


def state(engine: Engine) -> dict[str, Any]:
    with closing(engine.connect()) as store:
        rows = {
            name: sorted(map(str, table.to_pylist()))
            for name, table in stored_tables(store).items()
        }
    del rows["core"]  # which has numbers of its own
    plans = {one.name: engine.explain(one.name).count("\n") for one in engine.subscriptions}
    return {"rows": rows, "found": found(engine), "plans": plans, "kept": kept(engine)}


def found(engine: Engine) -> list[tuple[str, str, bytes]]:
    return [(m.subscription, m.id, m.xml()) for m in engine.matches()]


def without_numbers(state: dict[str, Any]) -> dict[str, Any]:
    """Replace the rows that contain numbers of templates, pairs or variables by their counts.

    A reopened store assigns numbers from the highest in use; an open one never reuses a number.
    """
    rows, counts = dict(state["rows"]), Counter[str]()
    for name in list(rows):
        if name in ("variable", "pair", "template", "r_t", "composite_stream"):
            counts[name] += len(rows.pop(name))
    return state | {"rows": rows, "counts": counts}


def prepared(path: Path) -> Engine:
    engine = Engine(path)
    engine.stream("S", attributes={"k": str})
    engine.stream("L", attributes={"k": str}, lateness=2_000)
    return engine


@examples(2)
@given(ACTIONS)
@example(
    [("subscribe", "one to P"), ("subscribe", "back"), ("cascade", "back"), ("subscribe", "or")]
)
@example(
    [
        *(("subscribe", "one to P"), ("subscribe", "next"), ("push", ""), ("pause", "one to P")),
        *(("push", ""), ("edit", "next"), ("resume", "one to P"), ("rename", "one to P")),
        *(("push", ""), ("purge", "next")),
    ]
)
@example([*(("subscribe", name) for name in ("next", *OVER_TIME)), *(3 * [("push", "")])])
def test_it_opens_again_as_it_was(actions: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept, opened = Path(folder) / "kept.sqlite", Path(folder) / "opened.sqlite"
        steady, restarted = prepared(kept), prepared(opened)
        done = 0
        compared: Callable[[dict[str, Any]], dict[str, Any]] = dict
        for number, action in enumerate(actions):
            outcomes: list[tuple[str, str]] = []
            for engine in (steady, restarted):
                before = state(engine) if engine is steady else None
                try:
                    act(engine, action, number)
                except (XsclError, MalformedDocument) as error:
                    outcomes.append((type(error).__name__, str(error)))
                    assert before is None or state(engine) == before
                else:
                    outcomes.append(("", ""))
            assert outcomes[0] == outcomes[1]
            if not outcomes[0][0]:
                done += 1
                compared = without_numbers if action[0] in REMOVES else compared
            restarted.close()
            restarted = Engine(opened)
            assert found(restarted) == found(steady)
        event(f"{done} actions done")
        assert compared(state(restarted)) == compared(state(steady))
        steady.close()
        restarted.close()


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("SELECT * FROM S JOIN{$1.k = $2.k, 3 d} L", "cel"),
        ("EVENT SEQ(S a, L+ b[]) WITHIN 1000 RETURN a.k AS k", "sase"),
    ],
)
def test_what_was_left_out_is_told_after_a_restart(
    path: Path, query: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mop, "RUNS", 4)
    monkeypatch.setattr(matching, "RUNS", 4)
    with prepared(path) as engine:
        engine.subscribe("q", query, language=language)
        for number in range(4):
            engine.push([replace(d, id=f"{d.id}.{i}") for i in range(8) for d in documents(number)])
        told = engine.explain("q")
    assert "left them out" in told
    for _ in range(2):
        with Engine(path) as engine:
            assert engine.explain("q") == told


def test_a_component_that_fails_closes_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Transactions) -> Store:
        raise StoreError("no room", hint="planted")

    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "connect", fail)
        with pytest.raises(StoreError, match="no room"):
            Engine(path)
    Engine(path).close()

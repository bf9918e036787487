"""The state of temporal operators is written in entries, which describe it completely."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from cep_core.state.state_log import StateWriter
from feeds.documents import Document
from tests.examples import examples
from xscl.engine.facade import Engine
from xscl.engine.state import EngineState

QUERIES = {
    "next": ("S//a[./k->x] NEXT{x = y} L//a[./k->y]", "xscl"),
    "next too": ("S//a[./k->x] NEXT{x = y} L//a[./k->y]", "xscl"),
    "fold": ("S//a[./k->x] FOLD{$2.y = $1.x, $2.y = $1.x, $.n + 1 AS n} S//a[./k->y]", "xscl"),
    "silence": ("S//a[./k->x] NOT FOLLOWED BY{x = y, 3 ms} L//a[./k->y]", "xscl"),
    "else": ("S//a[./k->x] FOLLOWED BY{x = y, 4 ms} S//a[./k->y] ELSE", "xscl"),
    "above": ("(S//a[./k->x] NEXT{x = y} S//a[./k->y]) NEXT{y = z} S//a[./k->z]", "xscl"),
    "cel next": ("SELECT * FROM S NEXT{$1.k = $2.k} L", "cel"),
    "cel join": ("SELECT * FROM S JOIN{$1.k = $2.k, 3 ms} L", "cel"),
    "mean": ("SELECT k, COUNT(*) AS n FROM S GROUP BY k WINDOW 4 ms", "cel"),
}
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["push"] * 6 + ["subscribe"] * 3 + ["unsubscribe"]),
        st.sampled_from(list(QUERIES)),
        st.sampled_from([False, False, True]),
    ),
    min_size=6,
    max_size=12,
)
"""What is done, to which query, and whether all in memory is made from the store after it."""


def kept(engine: Engine) -> dict[str, list[str]]:
    """Return the state of temporal operators: the entries of an empty log, in no order."""
    core = engine.state.dataflow.core
    found: dict[str, list[str]] = {"kept": [], "waiting": [], "lanes": []}
    for entry in StateWriter(core.plan, core.codec, lambda operator: operator.number).entries({}):
        for key, data in entry.items():
            found[key].append(repr(data))
    return {key: sorted(rows) for key, rows in found.items()}


def act(engine: Engine, kind: str, name: str, number: int) -> None:
    subscribed = engine.subscription(name) is not None
    if kind == "push":
        key = "ab"[len(name) % 2]
        documents = [
            Document(
                stream, f"{stream}{number}", (number // 2) * 1_000, f"<a><k>{k}</k></a>".encode()
            )
            for stream, k in (("S", key), ("L", "a"))
        ]
        engine.push(documents[number % 2 :])
    elif kind == "subscribe" and not subscribed:
        query, language = QUERIES[name]
        engine.subscribe(name, query, language=language)
    elif kind == "unsubscribe" and subscribed:
        engine.unsubscribe(name)


@examples(3)
@given(ACTIONS)
def test_the_entries_are_the_whole(actions: list[tuple[str, str, bool]]) -> None:
    with Engine() as engine:
        engine.stream("S", attributes={"k": str})
        engine.stream("L", attributes={"k": str}, lateness=2_000)
        for name in list(QUERIES)[:: 1 + len(actions) % 3]:
            act(engine, "subscribe", name, 0)
        most = 0
        for number, (kind, name, again) in enumerate(actions):
            act(engine, kind, name, number)
            if again or number == len(actions) - 1:
                before = kept(engine)
                most = max(most, *map(len, before.values()))
                transactions = engine.transactions
                transactions.state = EngineState(
                    transactions.store, transactions.settings, transactions.compiled
                )
                assert kept(engine) == before
        event("something was kept" if most else "nothing was kept")


def test_only_what_a_push_touches_is_written() -> None:
    with Engine() as engine:
        engine.subscribe("next", "S//a[./k->x] NEXT{x = y} S//a[./k->y]")
        engine.push([Document("S", f"d{n}", n, f"<a><k>{n}</k></a>".encode()) for n in range(50)])
        before = written(engine)
        engine.push(Document("S", "e", 50, b"<a><k>7</k></a>"))
        after = written(engine)
        assert len(before) >= 50
        assert len(before - after) == 3  # what waited, left and right; the lanes
        assert len(after - before) == 4  # the same of today, and an instance
        assert len(engine.push(Document("S", "f", 51, b"<b/>"))) == 1
        assert len(after - written(engine)) == 4  # and the instance that was met
        engine.unsubscribe("next")
        assert written(engine) == set()


def written(engine: Engine) -> set[tuple[int, bytes]]:
    rows = engine.sql("SELECT number, entry FROM state.core").to_pylist()
    return {(row["number"], row["entry"]) for row in rows}

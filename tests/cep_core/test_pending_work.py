"""For whom lanes wait: as if nobody else had a query there, however much was asked before."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from cep_core import Engine, Event
from cep_core.dataflow.clock import END, Lane
from cep_core.plan.pending_work import AwaitedTimes
from tests.cep_core.engines import engine_of
from tests.examples import demand, examples

QUERIES = {
    "next": ("SELECT * FROM A NEXT{$1.k = $2.k} A", "cel"),
    "next of both": ("SELECT * FROM A NEXT{$1.k = $2.k} B", "cel"),
    "mean": ("SELECT k, COUNT(*) AS n FROM A GROUP BY k WINDOW 3 s", "cel"),
    "silence": ("EVENT SEQ(A a, !B b) WHERE [k] WITHIN 4", "sase"),
    "pairs": ("EVENT SEQ(A a, A b) WHERE [k] WITHIN 4", "sase"),
    "next of B": ("SELECT * FROM B NEXT{$1.k = $2.k} B", "cel"),
    "silence of B": ("EVENT SEQ(B a, !A b) WHERE [k] WITHIN 4", "sase"),
    "mean of B": ("SELECT k, COUNT(*) AS n FROM B GROUP BY k WINDOW 3 s", "cel"),
}
OURS = ["next", "next of both", "mean", "silence", "pairs"]

ACTIONS = st.lists(
    st.tuples(st.just("push"), st.sampled_from(["Ax", "Ay", "Bx", "By", "By"]))
    | st.tuples(st.just("toggle"), st.sampled_from(list(QUERIES)))
    | st.tuples(st.sampled_from(["ask", "advance"]), st.just("")),
    min_size=20,
    max_size=30,
)


def started() -> Engine:
    return engine_of("AB", {"k": str}, lateness=3)


def first(lane: Lane) -> int:
    """Return the first time that something waits for, of a lane all of whose queries count."""
    rows = [row[1] for _, row, _ in lane.waiting()]
    deadlines = [time for time, mop in lane.timers() if any(mop.awaiting(time))]
    return min([*rows, *deadlines], default=END)


@pytest.mark.hypothesis
def test_it_is_as_if_nobody_else_had_a_query() -> None:
    seen: Counter[str] = Counter()

    @examples(16)
    @given(st.sets(st.sampled_from(OURS), min_size=1, max_size=2), ACTIONS)
    def agrees(ours: set[str], actions: list[tuple[str, str]]) -> None:
        core, alone = started(), started()
        for name in QUERIES:
            for engine in (core, alone) if name in ours else (core,):
                engine.register(name, *QUERIES[name])
        awaited = AwaitedTimes(operator for name in ours for operator in core.query(name).held)
        found: set[str] = set()
        for time, (kind, what) in enumerate(actions):
            match kind:
                case "push":
                    for engine in (core, alone):
                        engine.push([Event(what[0], (what[1],), time)])
                case "advance":
                    for engine in (core, alone):
                        engine.advance(time)
                case "toggle" if what in ours:
                    continue
                case "toggle" if what in core.queries:
                    core.unregister(what)
                case "toggle":
                    core.register(what, *QUERIES[what])
                case _:
                    (lane,), (own,) = core.plan.lanes.values(), alone.plan.lanes.values()
                    expected = first(own)
                    assert awaited.first(lane) == expected
                    found.add("something" if expected < END else "nothing")
                    found |= {"others first"} if lane.next_epoch() < expected else set()
                    found |= {"a deadline"} if any(own.timers()) else set()
        seen.update(found)
        seen["cases"] += 1
        event(f"{sorted(found)}")

    def enough() -> bool:
        usual = min(seen["something"], seen["others first"])
        return 3 * usual >= seen["cases"] and seen["a deadline"] > 0

    agrees()
    demand(enough, agrees)

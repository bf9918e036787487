"""Events that are negated, at each edge of their gap: the last tick, one before, one after.

A property meets these ticks by chance only; here each of them is a case, in every form of SASE and
EQL that has a gap of its own.  CEL has no negation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from cep_core import ALL_RULES, Engine, Event, Match, Rule
from tests.examples import usually

LENGTHS = (10, 100)
"""Windows whose index by time has partitions of one tick, and of several."""
FIRST = 200  # when the first event, A, ends
SOON = FIRST + 2


class Gap(NamedTuple):
    """The gap of a query: after an event at `last` one cancels that begins after `after` and ends
    from `begin` to `end`; else there is a match at `found`."""

    last: int
    after: int
    begin: int
    end: int
    found: int

    def holds(self, t0: int, t1: int) -> bool:
        """Return True if an event with this interval cancels."""
        return self.after < t0 and self.begin <= t1 <= self.end

    def intervals(self) -> list[tuple[int, int]]:
        """Return the ticks at both edges of the gap, and intervals that begin or end there."""
        edges = [edge + more for edge in (self.begin, self.end) for more in (-1, 0, 1)]
        begins = (max(self.after, 0), self.after + 1)
        longer = {(t0, t1) for t0 in begins for t1 in edges if t0 <= t1}
        return sorted({(end, end) for end in edges} | longer)


GAPS: dict[str, Callable[[int], Gap]] = {  # of a window of so many ticks
    "end": lambda ticks: Gap(SOON, SOON, SOON + 1, FIRST + ticks - 1, FIRST + ticks - 1),
    "end <=": lambda ticks: Gap(SOON, SOON, SOON + 1, FIRST + ticks, FIRST + ticks),
    "start": lambda ticks: Gap(SOON, -1, SOON - ticks + 1, FIRST - 1, SOON),
    "between": lambda ticks: Gap(
        FIRST + ticks - 1, FIRST, FIRST + 1, FIRST + ticks - 2, FIRST + ticks - 1
    ),
    # what ends between the two events is an exception, whenever it begins
    "exception": lambda ticks: Gap(FIRST + ticks, -1, FIRST + 1, FIRST + ticks - 1, FIRST + ticks),
    # what is simultaneous with the moment ends it, too; nobody reads B
    "moment": lambda ticks: Gap(FIRST + 1, FIRST, FIRST + 1, FIRST + ticks, FIRST + ticks),
}
FORMS = [
    ("end", "EVENT SEQ(A a, B b, !Z z) WITHIN {}"),
    ("end", "EVENT SEQ(A a, B b, !Z z) WHERE [k] WITHIN {}"),
    ("end", "EVENT SEQ(A a, B b, !Z z) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"),
    ("end", "EVENT SEQ(A a, B b, !Z z) WHERE strict_contiguity(a, b) {{}} WITHIN {}"),
    ("end", "EVENT SEQ(A a, B b, !Z z) WHERE partition_contiguity(a, b) {{[k]}} WITHIN {}"),
    ("end", "EVENT SEQ(A a, B+ b[], !Z z) WITHIN {}"),
    ("end", "EVENT SEQ(A a, next B b, !Z z) WITHIN {}"),
    ("end", "SELECT A.k FROM A A ; B B ; !Z Z WITHIN {} s"),
    ("end <=", "EVENT SEQ(A a, B b, !Z z) WITHIN <= {}"),
    ("start", "EVENT SEQ(!Z z, A a, B b) WITHIN {}"),
    ("start", "EVENT SEQ(!Z z, A a, B b) WHERE [k] WITHIN {}"),
    ("start", "EVENT SEQ(!Z z, A a, B b) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"),
    ("start", "EVENT SEQ(!Z z, A+ a[], B b) WITHIN {}"),
    ("start", "EVENT SEQ(!Z z, A a, next B b) WITHIN {}"),
    ("between", "EVENT SEQ(A a, !Z z, B b) WITHIN {}"),
    ("between", "EVENT SEQ(A a, !Z z, B b) WHERE [k] WITHIN {}"),
    ("between", "EVENT SEQ(A a, !Z z, B b) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"),
    ("between", "EVENT SEQ(A+ a[], !Z z, B+ b[]) WITHIN {}"),
    ("between", "EVENT SEQ(A a, !Z z, next B b) WITHIN {}"),
    ("between", "SELECT A.k FROM A A ; !Z Z ; B B WITHIN {} s"),
    ("exception", r"SELECT A.k FROM (A A ; B B) \ Z Z WHERE (A, B) OCCURS WITHIN {} s"),
    ("exception", r"SELECT A.k FROM A A ; (B B \ Z Z) WHERE (A, B) OCCURS WITHIN {} s"),
    ("moment", r"SELECT A.k FROM (A A @ {} s) \ Z Z"),
]


def engine(text: str, ticks: int, lateness: int, rules: tuple[Rule, ...]) -> Engine:
    """Return an engine with a query, and a longer one that shares its state."""
    core = Engine(1, rules=rules)
    for name in "ABZ":
        core.stream(name, {"k": int}, lateness=lateness)
    language = "sase" if text.startswith("EVENT") else "eql"
    core.register("q", text.format(ticks), language)
    core.register("longer", text.format(2 * ticks), language)
    return core


def ends_of(matches: list[Match]) -> list[int | None]:
    """Return when the matches of the query end, without those of the longer one."""
    return [event.t1 for query, event in matches if query == "q"]


@pytest.mark.parametrize(
    "rules", usually([ALL_RULES, ()], ALL_RULES), ids=["all rules", "no rules"]
)
@pytest.mark.parametrize("ticks", usually(LENGTHS, 10))
@pytest.mark.parametrize(("kind", "text"), FORMS)
def test_what_is_negated_cancels_at_each_edge(
    kind: str, text: str, ticks: int, rules: tuple[Rule, ...]
) -> None:
    """A match is found when its gap is over, whether the negated event comes in order or late."""
    gap, outcomes = GAPS[kind](ticks), set()
    for t0, t1 in gap.intervals():
        events = [
            Event("A", (1,), FIRST, FIRST),
            Event("B", (1,), gap.last, gap.last),
            Event("Z", (1,), t0, t1),
        ]
        wanted = [] if gap.holds(t0, t1) else [gap.found]
        outcomes.add(bool(wanted))
        core = engine(text, ticks, 1_000, rules)
        assert ends_of([*core.push(events), *core.close()]) == wanted, (t0, t1)
        core, found = engine(text, ticks, 0, rules), list[int | None]()
        for event in sorted(events, key=lambda one: one.t1 or 0):
            if (event.t1 or 0) > gap.found:
                assert (found, ends_of(core.advance(gap.found))) == ([], []), (t0, t1)
            found += ends_of(core.push([event]))
            core = Engine.restore(core.snapshot(), rules=rules)
            assert not found or (event.t1 or 0) > gap.found, (t0, t1)
        assert [*found, *ends_of(core.advance(gap.found + 1))] == wanted, (t0, t1)
    assert outcomes == {False, True}

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


class Gap(NamedTuple):
    """The edges of a negation: an event cancels after `after`, ending from `first` to `last`."""

    after: int
    first: int
    last: int

    def holds(self, t0: int, t1: int) -> bool:
        """Return True if an event with this interval cancels."""
        return self.after < t0 and self.first <= t1 <= self.last


def at_the_end(begin: int, deadline: int) -> Gap:
    """Return the gap behind an event, up to and including a deadline."""
    return Gap(begin, begin + 1, deadline)


class Form(NamedTuple):
    """A query for a window of T ticks, its last event before the gap ends, the gap, the result."""

    language: str
    text: str
    last: Callable[[int], int]
    gap: Callable[[int], Gap]
    found: Callable[[int], int]


SOON = FIRST + 2


def ended(text: str) -> Form:
    """Return a form of SASE that negates its end: up to the last tick of the window."""
    return Form(
        "sase",
        text,
        lambda window: SOON,
        lambda window: at_the_end(SOON, FIRST + window - 1),
        lambda window: FIRST + window - 1,
    )


def begun(text: str) -> Form:
    """Return a form that negates its start: from the first tick of the window of its last event."""
    return Form(
        "sase",
        text,
        lambda window: SOON,
        lambda window: Gap(-1, SOON - window + 1, FIRST - 1),
        lambda window: SOON,
    )


def inside(text: str, language: str = "sase") -> Form:
    """Return a form that negates what is between its two events, as far apart as they may be."""
    return Form(
        language,
        text,
        lambda window: FIRST + window - 1,
        lambda window: Gap(FIRST, FIRST + 1, FIRST + window - 2),
        lambda window: FIRST + window - 1,
    )


def excepted(text: str) -> Form:
    """Return a form of EQL with an exception between its two events."""
    return Form(
        "eql",
        text,
        lambda window: FIRST + window,
        lambda window: Gap(-1, FIRST + 1, FIRST + window - 1),
        lambda window: FIRST + window,
    )


FORMS = {
    "negated end": ended("EVENT SEQ(A a, B b, !Z z) WITHIN {}"),
    "negated end, a key": ended("EVENT SEQ(A a, B b, !Z z) WHERE [k] WITHIN {}"),
    "negated end, next": ended(
        "EVENT SEQ(A a, B b, !Z z) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"
    ),
    "negated end, strict": ended(
        "EVENT SEQ(A a, B b, !Z z) WHERE strict_contiguity(a, b) {{}} WITHIN {}"
    ),
    "negated end, partition": ended(
        "EVENT SEQ(A a, B b, !Z z) WHERE partition_contiguity(a, b) {{[k]}} WITHIN {}"
    ),
    "negated end of a run": ended("EVENT SEQ(A a, B+ b[], !Z z) WITHIN {}"),
    "negated end of a pattern": ended("EVENT SEQ(A a, next B b, !Z z) WITHIN {}"),
    "negated end of a window with its end": Form(
        "sase",
        "EVENT SEQ(A a, B b, !Z z) WITHIN <= {}",
        lambda window: SOON,
        lambda window: at_the_end(SOON, FIRST + window),
        lambda window: FIRST + window,
    ),
    "negated start": begun("EVENT SEQ(!Z z, A a, B b) WITHIN {}"),
    "negated start, a key": begun("EVENT SEQ(!Z z, A a, B b) WHERE [k] WITHIN {}"),
    "negated start, next": begun(
        "EVENT SEQ(!Z z, A a, B b) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"
    ),
    "negated start of a run": begun("EVENT SEQ(!Z z, A+ a[], B b) WITHIN {}"),
    "negated start of a pattern": begun("EVENT SEQ(!Z z, A a, next B b) WITHIN {}"),
    "between": inside("EVENT SEQ(A a, !Z z, B b) WITHIN {}"),
    "between, a key": inside("EVENT SEQ(A a, !Z z, B b) WHERE [k] WITHIN {}"),
    "between, next": inside(
        "EVENT SEQ(A a, !Z z, B b) WHERE skip_till_next_match(a, b) {{[k]}} WITHIN {}"
    ),
    "between runs": inside("EVENT SEQ(A+ a[], !Z z, B+ b[]) WITHIN {}"),
    "between, of a pattern": inside("EVENT SEQ(A a, !Z z, next B b) WITHIN {}"),
    "between, of EQL": inside("SELECT A.k FROM A A ; !Z Z ; B B WITHIN {} s", "eql"),
    "end of a pattern of EQL": ended("SELECT A.k FROM A A ; B B ; !Z Z WITHIN {} s")._replace(
        language="eql"
    ),
    # what ends between the two events is an exception, whenever it begins
    "exception": excepted(r"SELECT A.k FROM (A A ; B B) \ Z Z WHERE (A, B) OCCURS WITHIN {} s"),
    "exception on the right": excepted(
        r"SELECT A.k FROM A A ; (B B \ Z Z) WHERE (A, B) OCCURS WITHIN {} s"
    ),
    # what is simultaneous with the moment ends it, too
    "exception before a moment": Form(
        "eql",
        r"SELECT A.k FROM (A A @ {} s) \ Z Z",
        lambda window: FIRST + 1,  # of a B that nobody reads
        lambda window: at_the_end(FIRST, FIRST + window),
        lambda window: FIRST + window,
    ),
}


def intervals(gap: Gap) -> set[tuple[int, int]]:
    """Return the ticks at both edges of a gap, and intervals that begin or end there."""
    edges = [edge + more for edge in (gap.first, gap.last) for more in (-1, 0, 1)]
    begins = (max(gap.after, 0), gap.after + 1)
    return {(end, end) for end in edges} | {(t0, t1) for t0 in begins for t1 in edges if t0 <= t1}


def engine(form: Form, window: int, lateness: int, rules: tuple[Rule, ...]) -> Engine:
    """Return an engine with one query."""
    core = Engine(1, rules=rules)
    for name in "ABZ":
        core.stream(name, {"k": int}, lateness=lateness)
    core.register("q", form.text.format(window), form.language)
    return core


def end_of(event: Event) -> int:
    return event.t0 if event.t1 is None else event.t1


def ends_of(matches: list[Match]) -> list[int]:
    """Return when the matches of the query end, without those of a longer one."""
    return [end_of(event) for query, event in matches if query == "q"]


def cases() -> list[object]:
    """Return each form with each window."""
    return [
        pytest.param(form, window, id=f"{name}, {window}")
        for name, form in FORMS.items()
        for window in LENGTHS
    ]


@pytest.mark.parametrize(
    "rules", usually([ALL_RULES, ()], ALL_RULES), ids=["all rules", "no rules"]
)
@pytest.mark.parametrize(("form", "window"), cases())
def test_what_is_negated_cancels_at_each_edge(
    form: Form, window: int, rules: tuple[Rule, ...]
) -> None:
    """A match is found when its gap is over, whether the negated event comes in order or late."""
    gap, end = form.gap(window), form.found(window)
    outcomes = set()
    for t0, t1 in sorted(intervals(gap)):
        events = [
            Event("A", (1,), FIRST),
            Event("B", (1,), form.last(window)),
            Event("Z", (1,), t0, t1),
        ]
        wanted = [] if gap.holds(t0, t1) else [end]
        outcomes.add(bool(wanted))
        core = engine(form, window, 1_000, rules)
        core.register("longer", form.text.format(2 * window), form.language)  # shares its state
        assert ends_of([*core.push(events), *core.close()]) == wanted, (t0, t1)
        core = engine(form, window, 0, rules)  # restarted after each event
        found = list[int]()
        for event in sorted(events, key=end_of):
            if end_of(event) > end:
                assert (found, ends_of(core.advance(end))) == ([], []), (t0, t1)
            found += ends_of(core.push([event]))
            core = Engine.restore(core.snapshot(), rules=rules)
            assert not found or end_of(event) > end, (t0, t1)
        assert [*found, *ends_of(core.advance(end + 1))] == wanted, (t0, t1)
    assert outcomes == {False, True}

"""Any pushed event is accepted or recorded as rejected, and affects no other."""

# ruff: noqa: E501 - queries are shown as they are

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import CepError, Engine, Event
from cep_core.events import is_hashable
from tests.examples import examples
from tests.fuzz.events import SCHEMAS, WRONG, odd_event, usual_event

QUERIES = (
    ("cel", "SELECT n + 1 AS m, v / n AS d, s FROM FILTER{n % 2 = 1 OR v > 1}(S)"),
    ("cel", "SELECT * FROM S NEXT{$1.n = $2.n AND $1.v * 10 < $2.v} S"),
    ("cel", "SELECT n, AVG(v) AS a, SUM(n) AS t, MAX(s) AS z, COUNT(*) AS c FROM S GROUP BY n WINDOW 5"),
    ("cel", "SELECT * FROM S JOIN{$1.n = $2.n AND contains($1.s, $2.s), 5 s} T"),
    ("cel", "SELECT * FROM (SELECT *, 0.0 AS w FROM S) FOLD{$2.n = $.n, DUR < 9 s, $.w + $2.v AS w} S"),
    ("sase", "EVENT SEQ(S a, !(T b), S c) WHERE [n] AND b.x > a.v WITHIN 10 s"),
    ("sase", "EVENT SEQ(S a, U+ b[]) WHERE skip_till_next_match(a, b[]) {[n] AND b[i].v > a.v} WITHIN 9 s"),
    ("eql", "SELECT A.n, ALL(B.v) AS vs FROM S A ; (U B)+ WHERE B.v >= PREV(B.v), FILTER(A.n = B.n)"),
    ("eql", "SELECT * FROM (S A ; T B) \\ U C WHERE floor(C.v) = A.n"),
)  # fmt: skip


def engine() -> Engine:
    core = Engine(1)
    for name, attributes in SCHEMAS.items():
        core.stream(name, attributes, lateness=3, channel="c" if name in "SU" else None)
    for number, (language, text) in enumerate(QUERIES):
        core.register(f"q{number}", text, language)
    return core


@examples(25)
@given(st.integers(0, 2**32))
def test_what_is_rejected_disturbs_nothing(seed: int) -> None:
    random = Random(seed)
    both, alone = engine(), engine()
    now = 0
    found: list[Any] = []
    wanted: list[Any] = []
    for _ in range(random.choice((1, 4, 8))):
        now += random.choice((0, 1, 3, 20))
        batch = [
            (odd_event if random.random() < 0.3 else usual_event)(random, now)
            for _ in range(random.choice((1, 3, 25)))
        ]
        both.rejected.clear()
        found += both.push(iter(batch))
        assert all(isinstance(one.reason, str) and one.reason for one in both.rejected)
        refused = {id(one.event) for one in both.rejected}
        wanted += alone.push([one for one in batch if id(one) not in refused])
    found += both.close()
    wanted += alone.close()
    assert repr(found) == repr(wanted)
    assert both.counts["events"] == alone.counts["events"]
    assert alone.counts["rejected"] == 0


CALLS: dict[str, Callable[[Engine, Any], object]] = {
    "ticks": lambda core, odd: Engine(odd),
    "the name of a stream": lambda core, odd: core.stream(odd, {"n": int}),
    "attributes": lambda core, odd: core.stream("X", odd),
    "the type of an attribute": lambda core, odd: core.stream("X", {"n": odd}),
    "lateness": lambda core, odd: core.stream("X", {"n": int}, lateness=odd),
    "channel": lambda core, odd: core.stream("X", {"n": int}, channel=odd),
    "rate": lambda core, odd: core.stream("X", {"n": int}, rate=odd),
    "the name of a query": lambda core, odd: core.register(odd, "SELECT * FROM S"),
    "a query": lambda core, odd: core.register("q", odd),
    "a language": lambda core, odd: core.register("q", "SELECT * FROM S", odd),
    "publish": lambda core, odd: core.register("q", "SELECT * FROM S", publish=odd),
    "unregister": lambda core, odd: core.unregister(odd),
    "query": lambda core, odd: core.query(odd),
    "explain": lambda core, odd: core.explain(odd),
    "advance": lambda core, odd: core.advance(odd),
    "restore": lambda core, odd: Engine.restore(odd),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_an_odd_argument_is_taken_or_refused(call: Callable[[Engine, Any], object]) -> None:
    refused = 0
    hashable = [one for one in WRONG if not isinstance(one, str) or is_hashable(one)]
    for odd in (*hashable, None, "", "a b", -1, 0, 2**62, "SELECT", "\0"):
        core = Engine(1)
        core.stream("S", {"n": int})
        try:
            call(core, odd)
        except CepError:
            refused += 1
        assert len(core.push([Event("S", (1,), 1)])) == len(core.queries)
    assert refused

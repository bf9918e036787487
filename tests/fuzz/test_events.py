"""Any pushed event is accepted or recorded as rejected, and affects no other."""

# ruff: noqa: E501 - queries are shown as they are

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cep_core import Engine
from tests.examples import examples
from tests.fuzz.events import SCHEMAS, odd_event, usual_event

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

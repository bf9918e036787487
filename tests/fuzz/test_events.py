"""Any pushed event is accepted or recorded as rejected, and affects no other."""

# ruff: noqa: E501 - queries are shown as they are

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import Engine, Event
from tests.examples import demand, examples
from tests.fuzz.events import SCHEMAS, odd_event, plain_event, usual_event

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


class Side:
    """An engine with the queries, and what it has found."""

    def __init__(self, lateness: int) -> None:
        self.core = Engine(1)
        for name, attributes in SCHEMAS.items():
            channel = "c" if name in "SU" else None
            self.core.stream(name, attributes, lateness=lateness, channel=channel)
        self.core.stream("V", {})
        for number, (language, text) in enumerate(QUERIES):
            self.core.register(f"q{number}", text, language)
        self.found: list[Any] = []

    def push(self, events: Iterable[Any]) -> None:
        self.found += self.core.push(events)

    def state(self) -> tuple[Any, ...]:
        """Return the rejected events, the counts, the rates and the snapshot of a core."""
        core = self.core
        rejected = [(id(one.event), one.reason) for one in core.rejected]
        return rejected, repr(core.late), core.stats(), repr(core.rates), core.snapshot()


@pytest.mark.hypothesis
def test_what_is_rejected_and_how_a_batch_is_cut_disturbs_nothing() -> None:
    """As if events came one by one, and those that are rejected not at all."""
    seen: Counter[str] = Counter()

    @examples(80)
    @given(st.integers(0, 2**32))
    def same(seed: int) -> None:
        random = Random(seed)
        lateness = random.choice((0, 0, 3))
        together, each, alone = (Side(lateness) for _ in range(3))
        now = 0
        for _ in range(random.choice((1, 2, 4))):
            now += random.choice((0, 1, 3, 20))
            usual = random.choice((plain_event, plain_event, usual_event))
            odd, batch = random.choice((0.0, 0.05, 0.05, 0.3)), list[Any]()
            for _ in range(random.choice((1, 10, 40))):
                now += random.choice((0, 0, 1, 3))
                batch.append((odd_event if random.random() < odd else usual)(random, now))
                if random.random() < 0.2:
                    batch.append(Event("V", (), now + 1))  # which nobody reads
            reported = len(together.core.rejected)
            together.push(iter(batch))
            for event in batch:
                each.push([event])
            rejected = [*together.core.rejected][reported:]
            assert all(isinstance(one.reason, str) and one.reason for one in rejected)
            refused = {id(one.event) for one in rejected}
            alone.push([one for one in batch if id(one) not in refused])
        assert together.state() == each.state()
        seen.update(late=bool(together.core.late), rejected=bool(together.core.rejected))
        for side in (together, each, alone):
            side.found += side.core.close()
        assert repr(together.found) == repr(alone.found)
        assert Counter(map(repr, together.found)) == Counter(map(repr, each.found))
        assert together.core.counts["events"] == alone.core.counts["events"]
        assert alone.core.counts["rejected"] == 0
        seen.update(cases=1, found=any(together.found))

    same()
    demand(lambda: 3 * min(seen["late"], seen["rejected"], seen["found"]) >= seen["cases"], same)

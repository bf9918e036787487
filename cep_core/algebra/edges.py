"""Edge rules: what each operator between two events does at the ends of its window.

Users of other engines expect other edges, so `explain` prints the rule next to
the operator.  An event carries an interval [t0, t1] in ticks; a document has
t0 = t1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EdgeRule:
    """An operator, the condition that its pairs (a, b) satisfy, and what that means in words."""

    operator: str
    condition: str
    meaning: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.condition} ({self.meaning})"


EDGE_RULES = {
    operator: EdgeRule(operator, condition, meaning)
    for operator, condition, meaning in (
        (
            "FOLLOWED BY",
            "a.t1 < b.t0 and b.t1 - a.t1 <= T",
            "all pairs, not only the next; equal times do not match",
        ),
        (
            "JOIN",
            "abs(a.t1 - b.t1) <= T",
            "every ordered pair of two different rows; equal times match",
        ),
        (
            "NEXT",
            "a.t1 < b.t0, b.t1 the smallest such",
            "the earliest later b that satisfies the predicate, all of them if simultaneous",
        ),
        (
            "FOLD",
            "instance.t1 < b.t0",
            "each instance meets its next b; simultaneous ones each continue it",
        ),
        (
            "LONGEST FOLD",
            "instance.t1 < b.t0",
            "each instance once, at the b.t1 of its next b, if no simultaneous one continues it",
        ),
        (
            "NOT FOLLOWED BY",
            "no b with a.t1 < b.t0 and b.t1 - a.t1 <= T",
            "one result for each a, at a.t1 + T; a b at exactly that time is an answer",
        ),
        (
            "ELSE",
            "the pairs of FOLLOWED BY, and each a that has none",
            "pairs at b.t1, all of them; an a without one at a.t1 + T, its b null",
        ),
        (
            "JOIN ELSE",
            "the pairs with S <= b.t1 - a.t1 <= T, and each a and b that has none",
            "a pair at its later end; an a without one at a.t1 + T, or a.t1 if T is below 0; a b at"
            " b.t1 - S, or b.t1 if S is above 0",
        ),
        (
            "@",
            "t0 = t1 = a.t1 + T",
            "one moment for each a, unless z with a.t1 < z.t0 and z.t1 <= a.t1 + T ends it",
        ),
        (
            "PATTERN",
            "a.t1 < b.t0, last.t1 - first.t1 < T",
            "simultaneous events neither follow nor block one another; T itself counts with <= T,"
            " touching intervals with NONSTRICT; null neither holds nor blocks",
        ),
        (
            "!",
            "no z with a.t1 < z.t0 and z.t1 < b.t0",
            "at the start: with last.t1 - T < z.t1 and z.t1 < first.t0; at the end: with"
            " last.t1 < z.t0 and z.t1 <= first.t1 + T - 1, when the result comes",
        ),
        (
            "! FOR",
            "no z with a.t1 < z.t0 and z.t1 <= a.t1 + t, and a.t1 + t < b.t0",
            "at the start: with first.t1 - t <= z.t1 and z.t1 < first.t0; at the end the result"
            " comes at a.t1 + t",
        ),
        ("WINDOW", "t - T < row.t1 <= t", "one result for each row, after its epoch t"),
        ("AT INSTANT", "row.t1 = t", "one result for each epoch t and group"),
    )
}

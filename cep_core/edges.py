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
    rule.operator: rule
    for rule in (
        EdgeRule(
            "FOLLOWED BY",
            "a.t1 < b.t0 and b.t1 - a.t1 <= T",
            "all pairs, not only the next; equal times do not match",
        ),
        EdgeRule(
            "JOIN",
            "abs(a.t1 - b.t1) <= T",
            "every ordered pair of two different documents; equal times match",
        ),
    )
}

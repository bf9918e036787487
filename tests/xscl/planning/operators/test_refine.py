"""Residual predicates are tested on columns of candidates, whatever stays of the string values."""

from __future__ import annotations

import pytest

import xscl
from xscl.planning.operators import refine

SIDES = "S//a->x[./t->t] JOIN{%s, 1 min} S//a->y[./d->d]"
QUERIES = {
    "own": SIDES % "contains(d, t)",
    "negated": SIDES % "NOT contains(d, t)",
    "either": SIDES % "starts-with(d, t) OR contains(d, 'x')",
    "path": SIDES % "contains(d, t/b)",
}
LEAVES = [("p", "pq"), ("q", "xp"), ("z", "q"), ("p", "")]


def _matches(batch: int) -> dict[str, list[tuple[str, ...]]]:
    documents = [
        xscl.Document("S", f"d{n}", n, f"<a><t><b>{t}</b></t><d>{d}</d></a>".encode())
        for n, (t, d) in enumerate(LEAVES)
    ]
    with xscl.Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        for start in range(0, len(documents), batch):
            engine.push(documents[start : start + batch])
        return {
            name: sorted(m.documents for m in engine.matches() if m.subscription == name)
            for name in QUERIES
        }


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("most", [-1, refine.MOST_CHARACTERS])
def test_matches_do_not_depend_on_kept_values(
    monkeypatch: pytest.MonkeyPatch, batch: int, most: int
) -> None:
    monkeypatch.setattr(refine, "MOST_CHARACTERS", most)
    numbered = list(enumerate(LEAVES))
    pairs = [(f"d{n}", f"d{m}", t, d) for n, (t, _) in numbered for m, (_, d) in numbered if n != m]
    own = [(a, b) for a, b, t, d in pairs if t in d]
    found = _matches(batch)
    assert found["own"] == found["path"] == own != []
    assert found["negated"] == [(a, b) for a, b, t, d in pairs if t not in d]
    assert found["either"] == [(a, b) for a, b, t, d in pairs if d.startswith(t) or "x" in d]

"""Published joins of two streams of ksqlDB, each as one query of XSCL.

`published/ksqldb.toml` has them as facts: the form of the join, events, and the results.  An event
is `stream/label@second`, perhaps with `=key`; a result is the labels of its events, `-` for none.
A side without a partner is a result when its window and the grace period are over.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import NamedTuple

import pytest

import xscl
from tests.project import ROOT
from xscl.time_format import SECOND

NAMES = {
    "joined": ("l/A@3 r/a@4 l/B@5 r/b@6 l/C@9 r/c@10 r/d@14 l/D@15 l/E@40 l/F@60 r/f@80 l/G@100"),
    "pairs": ("A+a, B+a, A+b, B+b, C+a, C+b, A+c, B+c, C+c, A+d, B+d, C+d, D+a, D+b, D+c, D+d"),
}
"""Events and results that examples share, written in braces."""
GRACE = 5 * SECOND


class JoinExample(NamedTuple):
    """Their join and ours, the events, and the results."""

    section: str
    theirs: str
    events: str
    ours: str
    matches: str


def examples() -> list[JoinExample]:
    """Return the examples of the table."""
    text = (ROOT / "tests/golden/published/ksqldb.toml").read_text("utf-8")
    rows = tomllib.loads(text)["example"]
    return [JoinExample(**{name: _named(one) for name, one in row.items()}) for row in rows]


def _named(text: str) -> str:
    return re.sub(r"\{(joined|pairs)\}", lambda name: NAMES[name[1]], text)


def documents(events: str) -> list[xscl.Document]:
    """Return the documents of events, which have one key unless they name theirs."""
    made = []
    for event in events.split():
        found = re.fullmatch(r"(\w+)/(\w+)@(\d+)(?:=(\w+))?", event)
        assert found is not None, event
        stream, label, second, key = found.groups()
        text = f"<e><k>{key or 'k'}</k></e>".encode()
        made.append(xscl.Document(stream, label, int(second) * SECOND, text))
    return made


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("example", examples(), ids=lambda one: one.theirs)
def test_a_published_join_is_one_query(example: JoinExample, together: bool) -> None:
    pushed = documents(example.events)
    with xscl.Engine() as engine:
        for stream in {one.streams[0] for one in pushed}:
            engine.stream(stream, lateness=GRACE)
        engine.subscribe("q", example.ours)
        for batch in [pushed] if together else [[one] for one in pushed]:
            engine.push(batch)
        engine.advance(pushed[-1].timestamp + 1)
        found = Counter(map(_shown, engine.matches("q")))
    assert found == Counter(example.matches.split(", "))


def _shown(match: xscl.Match) -> str:
    """Return the labels of a match: those of left streams are in capitals."""
    labels = [*match.documents]
    if len(labels) == 1:
        labels.insert(0 if labels[0].islower() else 1, "-")
    return "+".join(labels)


def test_every_kind_of_join_is_there() -> None:
    kinds = {one.theirs.partition(" JOIN")[0] for one in examples()}
    assert kinds >= {"INNER", "LEFT", "RIGHT", "FULL OUTER"}

"""Runs of LONGEST FOLD with the same documents may end at several times: each end is a match.

Documents have several keys, of which a run has one; simultaneous ones make several sums.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import xscl
from xscl.time_format import UNITS

BY_KEY = "S//p[./k->k][./x->x] LONGEST FOLD{$2.k = $.k, $2.x > $.x} S//p[./k->k][./x->x]"
BY_SUM = "S//p[./x->x] LONGEST FOLD{$2.x > $.s, $.s < 8, $.s + $2.x AS s} S//p[./x->x]"
QUERIES = {
    "keys": BY_KEY,
    "distinct": f"SELECT DISTINCT * FROM {BY_KEY} PUBLISH runs",
    "published": "runs//result->r",
    "sums": BY_SUM,
    "distinct sums": f"SELECT DISTINCT * FROM {BY_SUM}",
    "read": f"({BY_SUM}) FOLLOWED BY{{9 h}} S//p->z",
    "waits": f"({BY_SUM}) NOT FOLLOWED BY{{1 h}} S//p[./k->z]",
}
ROWS = (
    (1, "12", 1),
    (2, "12", 2),
    (2, "", 5),
    (3, "1", 0),
    (3, "", 7),
    (4, "2", 0),
    (4, "", 10),
    (5, "", 13),
)
"""The hour of each document, its keys and its x."""


@pytest.mark.parametrize("size", [1, 2, len(ROWS)])
def test_each_surface_has_each_end_of_the_runs_of_some_documents(tmp_path: Path, size: int) -> None:
    pushed: list[tuple[str, str]] = []
    for start in range(0, len(ROWS) + size, size):  # the last time there is nothing to push
        with xscl.Engine(tmp_path / "state.sqlite") as engine:
            for name, query in {} if start else QUERIES.items():
                engine.subscribe(name, query)
            made = []
            for number, (hour, keys, x) in enumerate(ROWS[start : start + size], start):
                leaves = "".join(f"<k>{key}</k>" for key in keys)
                xml = f"<p>{leaves}<x>{x}</x></p>".encode()
                made.append(xscl.Document("S", f"d{number}", hour * UNITS["h"], xml))
            some = engine.push(made) if made else engine.flush()
            pushed += [(one.subscription, one.id) for one in some]
    with xscl.Engine(tmp_path / "state.sqlite") as engine:
        listed = list(engine.matches())
        rows = engine.sql("SELECT subscription, docids, timestamp FROM matches").to_pylist()
    assert len(set(pushed)) == len(pushed)
    assert {(one.subscription, one.id) for one in listed} == set(pushed)
    found = [(one.subscription, *one.names, one.t1 // UNITS["h"]) for one in listed]
    assert sorted(found) == sorted(
        (row["subscription"], *row["docids"], row["timestamp"] // UNITS["h"]) for row in rows
    )
    for name in ("keys", "distinct"):
        assert {(name, "d0", "d1", 3), (name, "d0", "d1", 4)} <= set(found)
    for name in ("sums", "distinct sums"):
        assert {(name, "d0", "d4", 4), (name, "d0", "d4", 5)} <= set(found)
    assert Counter(name for name, *_ in found)["published"] == 2
    assert Counter(found)["read", "d0", "d4", "d7", 5] == 1


def test_what_reads_runs_has_no_distinct_matches(engine: xscl.Engine) -> None:
    """Its parts would be known at several times, and so would the values of a match."""
    for query in (QUERIES["read"], QUERIES["waits"]):
        with pytest.raises(xscl.QueryError, match="an operator that reads a LONGEST FOLD") as told:
            engine.subscribe("q", f"SELECT DISTINCT * FROM {query}")
        assert "PUBLISH the runs" in str(told.value)

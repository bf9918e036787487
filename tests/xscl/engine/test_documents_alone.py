"""A document that is alone on either side of an outer join: what surfaces say of it, and how often.

A match is of its documents by block, so the two are two matches, also with DISTINCT.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import xscl
from xscl.errors import XsclError
from xscl.inspection.why import NONE
from xscl.time_format import UNITS

H = UNITS["h"]
FIRST, SECOND = ("d", ""), ("", "d")
SIDES = {"ELSE": {FIRST, SECOND}, "ELSE LEFT": {FIRST}, "ELSE RIGHT": {SECOND}}
KINDS = list(product(("k = m, ", ""), SIDES, "ST"))
"""Predicate, sides and the second stream of joins, each with one window."""


def document(name: str, hours: int) -> xscl.Document:
    """Return a document of both streams with two values for each side."""
    values = "".join(f"<k>{name}{n}</k><m>{n}{name}</m>" for n in range(2))
    return xscl.Document(("S", "T"), name, hours * H, f"<a>{values}</a>".encode())


def subscribe(engine: xscl.Engine, select: str, window: str) -> None:
    """Register a query of each kind, and one that reads what it publishes."""
    for number, (predicate, sides, stream) in enumerate(KINDS):
        query = f"S//a[./k->k] JOIN{{{predicate}{window}}} {stream}//a[./m->m] {sides}"
        engine.subscribe(f"q{number}", f"{select}{query} PUBLISH P{number}")
        engine.subscribe(f"r{number}", f"P{number}//*->r")


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(
    "select", ["SELECT DISTINCT * FROM ", "", "SELECT DISTINCT <m>{k}{m}</m> FROM "]
)
@pytest.mark.parametrize("window", ["2 h", "-1 h TO 2 h", "0 s TO 2 h"])
def test_each_surface_has_a_match_for_each_side(
    tmp_path: Path, window: str, select: str, reopened: bool
) -> None:
    """With two bounds it is alone on the second side first; then the engine may be opened again."""
    engine = xscl.Engine(tmp_path / "state.sqlite")
    subscribe(engine, select, window)
    given = [one.id for one in [*engine.push(document("d", 10)), *engine.advance(11 * H + 1)]]
    if reopened:
        engine.close()
        engine = xscl.Engine(tmp_path / "state.sqlite")
    with engine:
        given += [one.id for one in engine.push(document("late", 90)) if "late" not in one.names]
        rows = engine.sql("SELECT subscription, docids FROM matches").to_pylist()
        total = 0
        for number, (predicate, sides, _) in enumerate(KINDS):
            name = f"q{number}"
            found = [one for one in engine.matches(name) if one.names == ("d",)]
            ids = {one.id for one in found}
            assert {one.by_block for one in found} == SIDES[sides]
            assert all(bool(one.bindings["k"]) == (one.by_block == FIRST) for one in found)
            has_nodes = bool(predicate) and "DISTINCT" not in select  # two of each side
            assert len(ids) == len(found) == len(SIDES[sides]) * (2 if has_nodes else 1)
            assert rows.count({"subscription": name, "docids": ["d"]}) == len(found)
            read = [one for one in engine.matches(f"r{number}") if one.t0 < 90 * H]
            assert len(read) == len(found)
            total += len(found) + len(read)
        assert len(given) == len(set(given)) == total


@pytest.mark.parametrize("sides", SIDES)
def test_why_tells_the_sides_apart(engine: xscl.Engine, sides: str) -> None:
    engine.subscribe("q", f"SELECT DISTINCT * FROM S//a[./k->k] JOIN{{1 h}} S//a[./m->m] {sides}")
    engine.push(document("d", 10))
    engine.flush()
    for side in (FIRST, SECOND):
        asked = tuple(name or NONE for name in side)
        if (sides, side) == ("ELSE LEFT", SECOND):
            with pytest.raises(XsclError, match="need not have a document of"):
                engine.why("q", *asked)
            continue
        why = engine.why("q", *asked)
        assert (why.matched, why.documents) == (side in SIDES[sides], asked)
    assert engine.why("q", "d").matched

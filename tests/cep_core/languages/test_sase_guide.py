"""The queries of docs/languages/sase.md have the results that it says."""

from __future__ import annotations

import re

import pytest

from cep_core import Event
from tests.cep_core.engines import engine_with, rows_found
from tests.project import ROOT

GUIDE = (ROOT / "docs" / "languages" / "sase.md").read_text("utf-8")
EVENTS = re.findall(r"^(\d+) (\w+) +id=(\d)(?: shelf=(\d))?$", GUIDE, re.MULTILINE)
QUERIES = re.findall(r"^\| ([^|`]+) \| `(EVENT .+)` \| (.*) \|$", GUIDE, re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(EVENTS) == 9
    assert len(QUERIES) == 37


@pytest.mark.parametrize(("construct", "query", "results"), QUERIES)
def test_an_example_has_the_results_that_it_says(construct: str, query: str, results: str) -> None:
    item = {"id": int}
    core = engine_with({"Shelf": {**item, "shelf": int}, "Counter": item, "Exit": item})
    events = [
        Event(kind, (int(item), int(shelf)) if shelf else (int(item),), int(time))
        for time, kind, item, shelf in EVENTS
    ]
    found = [
        f"{event.t0}-{event.t1}: {' '.join(map(str, event.values))}"
        for event in rows_found(core, query, events, "sase")
    ]
    assert ", ".join(sorted(found)) == ", ".join(sorted(re.split(r", (?=\d+-\d+: )", results)))

"""Which documents have more results than stay: the latest ones are remembered."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import xscl
from xscl.planning import truncations

KEPT = 3


def test_the_latest_documents_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncations, "KEPT", KEPT)
    path, seen = tmp_path / "state.sqlite", []
    with xscl.Engine(path, result_bound=1) as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y")
        for number in range(20):
            engine.push([xscl.Document("S", f"d{number}", number, b"<a>hi</a>")])
            stopped = engine.stopped("q")
            assert (stopped is None) is (number < 2)
            if stopped is not None:
                assert stopped.latest == f"d{number}"
                seen.append(stopped.documents)
        assert max(seen) == 2 * KEPT
        assert min(seen[KEPT:]) >= KEPT
        with closing(engine.connect()) as store:
            assert store.fetch("SELECT count(*) FROM state.cut") == [(seen[-1],)]
    with xscl.Engine(path, result_bound=1) as engine:
        again = engine.stopped("q")
        assert again is not None
        assert (again.documents, again.latest) == (seen[-1], "d19")

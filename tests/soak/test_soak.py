"""The verdict finds what grows; a run of some minutes holds."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.soak.measurements import Sample
from tests.soak.program import Settings, run
from tests.soak.report import Run, write
from tests.soak.verdict import ARRIVED, BOUNDS, LIMITS, SHORTEST, Judged, verdict

EVERY, MINUTES = 5.0, 60
STEADY = {
    **{limit.figure: 50_000.0 for limit in LIMITS},
    **dict.fromkeys(("rss", "children_rss", "disk_store"), 400.0),
    **dict.fromkeys(("handles", "threads", "waiting"), 60.0),
    **{figure: most / 2 for figure, most in BOUNDS.items()},
}


def samples(
    leaks: Mapping[str, float] | None = None,
    *,
    minutes: float = MINUTES,
    seed: int = 1,
) -> list[Sample]:
    """Samples that rise for a third of the time, with noise, saw teeth and peaks after that.

    `leaks` is what grows besides, by figure, a minute.
    """
    source, found = random.Random(seed), list[Sample]()
    for number in range(int(minutes * 60 / EVERY)):
        at = number * EVERY
        filled = min(1.0, 3 * at / (minutes * 60))
        tooth = 0.98 + 0.02 * (number % 7) / 7
        figures = {
            name: value * (0.3 + 0.7 * filled) * tooth * source.gauss(1, 0.004)
            for name, value in STEADY.items()
        }
        if number % 50 == 17:
            figures["rss"] *= 1.3
        for name, rate in (leaks or {}).items():
            figures[name] += rate * at / 60
        found.append(Sample(at, {**figures, ARRIVED: 20 * at}))
    return found


def failed(judged: list[Judged]) -> list[str]:
    return [one.what.partition(" ")[0] for one in judged if not one.holds]


@pytest.mark.parametrize("seed", range(5))
def test_what_fills_its_windows_and_stays_so_holds(seed: int) -> None:
    assert failed(verdict(samples(seed=seed))) == []


@pytest.mark.parametrize(
    ("figure", "rate"),
    [
        ("rss", 1.5),  # MB a minute
        ("handles", 0.5),
        ("threads", 1.0),
        ("disk_store", 2.0),
        ("documents", 250.0),
        ("waiting", 10.0),
    ],
)
def test_a_leak_fails(figure: str, rate: float) -> None:
    assert failed(verdict(samples({figure: rate}))) == [figure]


def test_a_figure_that_is_never_seen_fails() -> None:
    seen = samples()
    for one in seen:
        del one.figures["threads"]
    assert failed(verdict(seen)) == ["threads"]


def test_a_report_has_all_samples_and_the_verdict(tmp_path: Path) -> None:
    seen = samples(minutes=20)
    judged = [Judged("GET /: 500", False), *verdict(seen)]
    found = Run({"hours": 0.3}, {"documents": 7}, seen, judged)
    write(found, tmp_path)
    text = (tmp_path / "soak.md").read_text("utf-8")
    assert not found.holds
    assert "Verdict: **fails**" in text
    assert "- **fails**: GET /: 500" in text
    assert len(json.loads((tmp_path / "soak.json").read_text())["samples"]) == len(seen)


@pytest.mark.slow
def test_some_minutes_of_everything_hold() -> None:
    """A tenth of the subscriptions, for the shortest time in which all but memory is judged."""
    settings = Settings(hours=2.2 * SHORTEST / 3_600, subscriptions=2_000, ends_within=50)
    found = run(settings)
    assert found.holds, [one.what for one in found.judged if not one.holds]
    assert found.done["pairs that had to be delivered"] > 100
    assert found.done["misbehaving answers"] > 10

"""The verdict finds what grows; a run of some minutes holds."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.soak.measurements import Latencies, Sample
from tests.soak.program import Settings, run
from tests.soak.report import PLOTS, Run, write
from tests.soak.verdict import ARRIVED, BOUNDS, LIMITS, SHORTEST, WARM, Judged, growth, verdict

EVERY, MINUTES = 5.0, 60
STEADY = {
    **{limit.figure: 50_000.0 for limit in LIMITS},
    **dict.fromkeys(("rss", "children_rss", "disk_store"), 400.0),
    **dict.fromkeys(("handles", "threads", "waiting"), 60.0),
    **{bound.figure: bound.most / 2 for bound in BOUNDS},
}


def samples(
    leaks: Mapping[str, float] | None = None,
    *,
    minutes: float = MINUTES,
    seed: int = 1,
    faster: float = 0.0,
) -> list[Sample]:
    """Samples that rise for a third of the time, with noise, saw teeth and peaks after that.

    `leaks` is what grows besides, by figure, a minute.  `faster` raises the rate of documents.
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
        arrived = 20 * at * (1 + faster * at / (60 * minutes))
        found.append(Sample(at, {**figures, ARRIVED: arrived}))
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


def test_what_is_kept_may_grow_with_the_rate_of_documents() -> None:
    more = {"documents": 250.0, "handles": 0.5}
    assert failed(verdict(samples(more))) == ["handles", "documents"]
    assert failed(verdict(samples(more, faster=0.5))) == ["handles"]


def test_a_log_that_is_never_cut_fails() -> None:
    assert failed(verdict(samples({"disk_wal": 5.0}))) == ["disk_wal"]


def test_a_figure_that_is_never_seen_fails() -> None:
    seen = samples()
    for one in seen:
        del one.figures["threads"]
    assert failed(verdict(seen)) == ["threads"]


def test_growth_of_a_short_run_is_not_judged() -> None:
    short = verdict(samples({"handles": 50.0}, minutes=SHORTEST / 60))
    assert failed(short) == []
    assert sum("not judged" in one.what for one in short) == len(LIMITS)


def test_memory_is_judged_when_the_store_is_warm() -> None:
    leaks = {"rss": 50.0, "handles": 50.0}
    assert failed(verdict(samples(leaks, minutes=2.2 * SHORTEST / 60))) == ["handles"]
    assert failed(verdict(samples(leaks, minutes=2.2 * WARM / 60))) == ["rss", "handles"]


def test_growth_is_that_of_the_trend() -> None:
    points = [(float(x), 3.0 * x + (500 if x % 10 == 0 else 0)) for x in range(100)]
    assert math.isclose(growth(points), 3.0 * 99, rel_tol=0.05)


def test_latencies_are_of_their_interval() -> None:
    latencies = Latencies()
    for number in range(1, 101):
        latencies.add("push", number / 1_000)
    found = latencies.drain()
    assert (found["push_count"], found["push_p50"]) == (100, 50.5)
    assert (found["push_p95"], found["push_max"]) == (95, 100)
    assert latencies.drain() == {}


def test_a_report_has_all_samples_the_verdict_and_pictures(tmp_path: Path) -> None:
    seen = samples(minutes=20)
    judged = [Judged("GET /: 500", False), *verdict(seen)]
    found = Run({"hours": 0.3}, {"documents": 7}, seen, judged)
    write(found, tmp_path)
    text = (tmp_path / "soak.md").read_text("utf-8")
    assert not found.holds
    assert "Verdict: **fails**" in text
    assert "- **fails**: GET /: 500" in text
    for name in PLOTS:
        assert f"soak-{name}.svg" in text
        assert (tmp_path / f"soak-{name}.svg").read_text("utf-8").count("<svg") == 1


@pytest.mark.slow
def test_some_minutes_of_everything_hold() -> None:
    """A tenth of the subscriptions, for the shortest time in which all but memory is judged."""
    settings = Settings(hours=2.2 * SHORTEST / 3_600, subscriptions=2_000, ends_within=50)
    found = run(settings)
    assert found.holds, [one.what for one in found.judged if not one.holds]
    assert found.done["pairs that had to be delivered"] > 100
    assert found.done["misbehaving answers"] > 10

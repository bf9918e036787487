"""Drawn queries and documents: only our own errors, within memory, and within time of the process.

`python -m tests.fuzz.run_expressions SEED COUNT` measures each of them.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from random import Random

import pytest

from tests.fuzz.expressions import LANGUAGES, case
from tests.project import ROOT

GIB = 1 << 30


def tried(seed: int, count: int, seconds: int) -> dict[str, object]:
    """Run drawn queries in a process with limits of its processor time and memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (8 * GIB, 8 * GIB))

    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run_expressions", str(seed), str(count)],
        cwd=ROOT,
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2_000:])
    found: dict[str, object] = json.loads(done.stdout)
    return found


def of_time(what: str) -> bool:
    return what.startswith(("query cpu", "document cpu", "reading cpu"))


def test_all_languages_are_drawn() -> None:
    random = Random(0)
    assert {case(random).language for _ in range(200)} == {*LANGUAGES}


def test_some_queries_and_documents() -> None:
    found = tried(7, 60, 300)
    assert isinstance(found["wrong"], list)
    assert [one for one in found["wrong"] if not of_time(one[0])] == []
    assert found["accepted"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_queries_and_documents(seed: int) -> None:
    found = tried(seed, 500, 1_500)
    assert isinstance(found["wrong"], list)
    assert [one for one in found["wrong"] if not of_time(one[0])] == []

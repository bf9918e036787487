"""Common parts of tests: the Hypothesis profiles and the folder of real data.

Properties are derandomized (the same cases in every run), but not in the slow run, as chance would
fail a check of the counts of few cases now and then.  With the profile "planted" a failure is not
shrunk: it is expected (`tests.planted_faults`).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings

from tests.corpus import Corpus
from tests.examples import MORE, USUAL, tried
from tests.project import build_wheel
from tests.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_CI = os.environ.get("CI") == "true"

# No deadline: the first engine of a process takes longer than any useful one.
settings.register_profile("dev", deadline=None, max_examples=tried(USUAL))
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile(
    "planted", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("ci" if IN_CI or MORE == 1 else "dev")

# Bytecode is kept, whatever the environment says: without it each process that a test starts
# compiles all that it imports, and half of the time of collecting goes to rewriting assertions.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Times that people read are in the zone of the machine.
os.environ["TZ"] = "UTC"
time.tzset()

# The settings of whoever runs the tests, by the environment or a file, are none of the tests.
OF_TESTS = {
    f"XSCL_{one}" for one in ("EXAMPLES", "REQUIRE_SHARED_DATA", "SAMPLES", "SEEDS", "SOAK")
}
for _name in {one for one in os.environ if one.startswith("XSCL_")} - OF_TESTS:
    del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = os.devnull
os.environ["XSCL_PORT"] = "0"  # services of tests that run beside one another
gc.disable()  # until all is collected: a sixth of the time of that

SPARK = (
    *("through_spark", "/spark/test_feed_items.py::", "/spark/test_jobs.py::"),
    *("/spark/test_matching.py::", "/spark/test_service.py::", "/spark/test_session.py::"),
    "/spark/test_streaming.py::",
)
TOGETHER = {
    "the Spark session": SPARK,
    "the gallery and the browser": ("/xscl/web/",),
    "the wheel": ("/test_install.py::", "/test_project.py::test_wheel"),
    "cases of the whole language": ("/oracle/test_language.py::",),
    "the modules of the product": (
        "/structure/test_docstrings.py::",
        "/structure/test_structure.py::",
    ),
}
"""What takes long to make, and parts of the names of the tests that share it."""

WHOLE_MODULES = (
    *("/xscl/service/", "/xscl/cli/test_remote.py::", "/xscl/cli/test_cli.py::"),
    "/xscl/cli/test_read.py::",
)
"""Tests of which those of a module share a service or a store, and what they find there."""


BEGIN_WITH = (
    *(*SPARK, "/service/test_sql.py::", "/xscl/web/", "/soak/test_faults.py::"),
    *("/test_install.py::", "/oracle/test_language.py::", "/xscl/spark/"),
    *("/xscl/service/", "/cli/test_remote.py::"),
    *("/server/test_termination.py::", "/server/test_demo.py::", "/server/test_printing.py::"),
    *("/server/test_serve.py::", "/polling/test_many_feeds.py::", "/test_backup.py::"),
    *("/inspection/test_explanations_agree.py::", "/inspection/test_rebuilt_relations.py::"),
)
"""Tests that mostly wait, or are long in one process: last, they would leave the cores idle.

The longest comes first: Spark has one process for half of the run.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those tests, in that order, and mark those that have the session of Spark."""

    def rank(item: pytest.Item) -> int:
        name = item.nodeid
        ranks = (rank for rank, part in enumerate(BEGIN_WITH) if part in name)
        return next(ranks, len(BEGIN_WITH))

    items.sort(key=rank)
    for item in items:
        if "spark_session" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


_COLLECTED = Path(tempfile.gettempdir(), os.environ.get("PYTEST_XDIST_TESTRUNUID", "collected"))


def pytest_configure(config: pytest.Config) -> None:
    """End a worker process without destroying its objects, which takes 3 s."""
    if _worker(config):
        atexit.register(os._exit, 0)  # it runs after all that is registered later


def _worker(config: pytest.Config) -> str:
    """Return which of many processes this is.

    The environment says so, too, but is that of the processes that tests start as well.
    """
    return str(getattr(config, "workerinput", {}).get("workerid", ""))


def pytest_collection(session: pytest.Session) -> None:
    """Make other processes wait until the first one has collected: they find its bytecode.

    In a new clone each would make all of it, in 10 s.  When the first takes too long, they do.
    """
    if _worker(session.config) not in ("", "gw0"):
        with contextlib.suppress(AssertionError):
            eventually(_COLLECTED.exists)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep modules and tests out of collections, and collect the oldest generation seldom.

    Both together took a tenth of a run.
    """
    gc.freeze()
    gc.set_threshold(2_000, 10, 50)
    gc.enable()
    if _worker(session.config) == "gw0":
        _COLLECTED.touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Return to the collector what is left: DuckDB would list it behind the summary."""
    if not _worker(config):
        gc.unfreeze()
    if _worker(config) == "gw0":
        _COLLECTED.unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run three processes more than cores: half of the time tests wait for others.

    With two more, two cores had nothing to do for a quarter of a run.
    """
    return (os.cpu_count() or 1) + 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process one test at a time, but tests that share something expensive to one.

    Variants of a test are given together, but for those that wait: half of the messages are left.
    """
    # xdist need not be installed, and has no types
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            if any(part in nodeid for part in WHOLE_MODULES):
                return nodeid.partition("::")[0]
            shared = (
                what for what, parts in TOGETHER.items() if any(part in nodeid for part in parts)
            )
            is_long = any(part in nodeid for part in BEGIN_WITH)
            return next(shared, nodeid if is_long else nodeid.partition("[")[0])

        def mark_test_complete(self, node: Any, *given: Any) -> None:
            """Forget what is done: each report counts what a process still has to do."""
            super().mark_test_complete(node, *given)
            work = self.assigned_work[node]
            for scope in [name for name, tests in work.items() if all(tests.values())]:
                del work[scope]

    config.option.loadscopereorder = False  # it would begin with what has the most variants
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the working tree."""
    return build_wheel(tmp_path_factory.mktemp("project"))


@pytest.fixture(
    scope="session", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["own", "real"]
)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    """The project's own data, and real data where that lies beside the repository."""
    return Corpus(request.param)


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of all tests; a second one, from another thread, would be the same."""
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    from xscl.spark import start_session

    started = start_session(scratch=tmp_path_factory.mktemp("session"))
    with ThreadPoolExecutor() as threads:
        again = threads.submit(start_session).result()
    assert again.sparkContext is started.sparkContext
    yield started
    started.stop()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment of a spool is in a file of its own."""
    monkeypatch.setattr("feeds.spool._MOST", 1)

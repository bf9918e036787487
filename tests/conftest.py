"""What all tests share: the Hypothesis profiles and the folder of real data.

With the environment variable CI set to "true" properties are derandomised (the same cases in every
run), and a missing folder of real data is a failure instead of a skip.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No deadline: the first engine of a process and a busy machine take longer than any useful one.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "dev")


@pytest.hookimpl(tryfirst=True)  # before groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process; those that need Spark share one session."""
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real feeds and documents that lies beside the repository."""
    if SHARED_DATA.is_dir():
        return SHARED_DATA
    reason = "no ../shared/data beside the repository"
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)

"""A service with something to show, and a browser that looks at it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.xscl.service.conftest import serving
from tests.xscl.web.browser import Browser, chromium, missing
from tests.xscl.web.shown import Shop
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; without Chromium they are skipped, but never with CI=true."""
    if (absent := missing()) and os.environ.get("CI") != "true":
        pytest.skip(f"{' and '.join(absent)} not installed; apt-get install chromium-driver")
    assert not absent, f"{' and '.join(absent)} must be there; .ci/run installs them"
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def deaf() -> Iterator[str]:
    """An address and port of this machine where nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, deaf: str) -> Iterator[Shop]:
    """A service with some subscriptions and matches, for tests that only read."""
    home = DataDirectory(tmp_path_factory.mktemp("shop") / "data")
    with serving(home, fetching=PollSettings((deaf,))) as running, running.client() as client:
        made = Shop(running.address, client)
        made.fill()
        yield made


@pytest.fixture
def calm(browser: Browser) -> Iterator[None]:
    """A wide window in a light room, and no complaints of the browser at the end of a test.

    A browser complains of scripts, files and the policy, and of pages that say 404 or 422.
    """
    browser.look()
    browser.complaints()
    yield
    assert [one for one in browser.complaints() if "status of 4" not in one] == []
    browser.look()

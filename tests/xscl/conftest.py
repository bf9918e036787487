"""Common parts of the service's tests: answers to users have more time than elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from feeds.spool import Spool
from tests import waiting
from tests.xscl.delivery.receiver import Receiver, receiving
from tests.xscl.polling.scripted import Server, serving
from xscl import Engine
from xscl.cli import in_process
from xscl.ingestion.data_directory import DataDirectory
from xscl.service import subscribing
from xscl.service.routes import feeds
from xscl.service.sql import sql_service
from xscl.service.sql.limits import Limits
from xscl.store.store import Store
from xscl.web.views import editing

PATIENT = 60.0
"""Seconds that a user's question may take beside other tests; for users it is two.

Questions run at a lower priority, so that six busy processes leave them a fiftieth of a core.
"""

FIRST_ANSWER = 50.0
"""Seconds that a test waits for the first answer of a feed; a service waits five."""


@pytest.fixture(scope="session", autouse=True)
def patient_answers() -> Iterator[None]:
    """Extend what the service waits for on behalf of a user; tests of deadlines set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_service, "Limits", partial(Limits, seconds=PATIENT))
        patch.setattr(subscribing, "PATIENCE", waiting.PATIENCE)
        patch.setattr(editing, "COUNTING", waiting.PATIENCE)
        yield


@pytest.fixture(scope="module", autouse=True)
def patient_followers() -> Iterator[None]:
    """Extend the wait for the first answer of a feed, in the modules here: it is a stated bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "FIRST_ANSWER", FIRST_ANSWER)
        patch.setattr(in_process, "FIRST_ANSWER", FIRST_ANSWER)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a store, which is not there yet."""
    return tmp_path / "state.sqlite"


@pytest.fixture
def home(tmp_path: Path) -> DataDirectory:
    """A data directory, which is not there yet."""
    return DataDirectory(tmp_path / "data")


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An empty engine in memory."""
    with Engine() as made:
        yield made


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with closing(Store(None)) as made:
        yield made


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of feeds whose answers a test writes."""
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks and mails."""
    with receiving() as running:
        yield running


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """An empty spool."""
    with Spool(tmp_path / "spool") as opened:
        yield opened

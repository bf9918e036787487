"""A change that fails is not acknowledged to one who asks for it again, or at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import xscl
from feeds.spool import Spool
from tests.xscl.failing_commits import failing_commit, unread_after_commit
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.engine.disk_guard import DiskGuard
from xscl.ingestion.consumer_watch import ConsumerWatch
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.credentials import Credentials
from xscl.service.accounts import THE_OPERATOR
from xscl.service.changing import change
from xscl.service.installation import Installation, ServiceSettings
from xscl.service.status_series import StatusSeries
from xscl.service.subscribing import (
    SubscriptionRequest,
    subscribe,
    subscribe_all,
    unsubscribe,
)
from xscl.service.subscription_change import SubscriptionChange
from xscl.store.store_errors import StoreUnavailable

NEW = SubscriptionRequest("new", "S//a")
EDITED = "S//b"


@dataclass(frozen=True)
class Request:
    """A request for a change, and whether an engine has the change."""

    ask: Callable[[Installation], object]
    is_made: Callable[[xscl.Engine], bool]


def _is_edited(engine: xscl.Engine) -> bool:
    found = engine.subscription("old")
    return found is not None and found.query == EDITED


def _has_new(engine: xscl.Engine) -> bool:
    return engine.subscription("new") is not None


LOOP = asyncio.new_event_loop()
"""The event loop of requests; a service has one."""


def _put(here: Installation) -> object:
    asked = subscribe(here, THE_OPERATOR, NEW)
    return asyncio.run_coroutine_threadsafe(asked, LOOP).result()


REQUESTS = {
    "put": Request(_put, _has_new),
    "import": Request(lambda here: subscribe_all(here, THE_OPERATOR, [NEW]), _has_new),
    "edit": Request(
        lambda here: change(here, THE_OPERATOR, "old", SubscriptionChange(EDITED)), _is_edited
    ),
    "delete": Request(
        lambda here: unsubscribe(here, THE_OPERATOR, "old", cascade=False),
        lambda engine: engine.subscription("old") is None,
    ),
}


@pytest.fixture(scope="module", autouse=True)
def loop() -> Iterator[None]:
    thread = threading.Thread(target=LOOP.run_forever)
    thread.start()
    yield
    LOOP.call_soon_threadsafe(LOOP.stop)
    thread.join()
    LOOP.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    """A service that answers requests and consumes nothing."""
    home = DataDirectory(tmp_path / "data")
    with ExitStack() as stack:
        stack.enter_context(home.hold("test"))
        engine = stack.enter_context(xscl.Engine(home.database))
        engine.subscribe("old", "S//a")
        spool = stack.enter_context(Spool(home.spool))
        outbox = Outbox(engine, Credentials(), DeliverySettings(home.files))
        stack.callback(outbox.close)
        outbox.start()
        clock = ArrivalClock()
        yield stack.enter_context(
            closing(
                Installation(
                    home,
                    engine,
                    spool,
                    outbox,
                    ServiceSettings(),
                    disk=DiskGuard(home.path, 1),
                    clock=clock,
                    watch=ConsumerWatch(spool.latest, 0),
                    series=StatusSeries(now=clock.now),
                )
            )
        )


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_who_asks_again_is_told_the_truth(here: Installation, request_: Request) -> None:
    with unread_after_commit(here.engine):
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                request_.ask(here)
    assert not request_.is_made(here.engine)
    request_.ask(here)
    assert request_.is_made(here.engine)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_who_asks_beside_it_makes_the_change(here: Installation, request_: Request) -> None:
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            request_.ask(here)
        except BaseException as error:
            failed.append(error)

    other = threading.Thread(target=ask)

    def ask_beside() -> None:
        other.start()
        other.join(0.3)  # it waits for the end of the change

    with failing_commit(ask_beside), pytest.raises(OSError, match="Input/output"):
        request_.ask(here)
    other.join()
    assert not failed
    assert request_.is_made(here.engine)
    assert here.usage.owned(THE_OPERATOR, "subscriptions") == len(here.engine.subscriptions)

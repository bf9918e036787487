"""A change that fails is not acknowledged to one who asks for it again, or at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import xscl
from tests.xscl.failing_commits import failing_commit, unread_after_commit
from tests.xscl.service.conftest import filling
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.engine.disk_guard import DiskGuard
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.credentials import Credentials
from xscl.service.accounts import THE_OPERATOR
from xscl.service.app import App
from xscl.service.subscribing import (
    SubscriptionEdit,
    SubscriptionRequest,
    change,
    subscribe,
    subscribe_all,
    unsubscribe,
)
from xscl.store.store_errors import StoreUnavailable

NEW = SubscriptionRequest(name="new", query="S//a", history=False)
EDITED = "S//b"


@dataclass(frozen=True)
class Request:
    """A request for a change, and whether an engine has the change."""

    ask: Callable[[App], object]
    is_made: Callable[[xscl.Engine], bool]


def _is_edited(engine: xscl.Engine) -> bool:
    found = engine.subscription("old")
    return found is not None and found.query == EDITED


def _has_new(engine: xscl.Engine) -> bool:
    return engine.subscription("new") is not None


LOOP = asyncio.new_event_loop()
"""The event loop of requests; a service has one."""


def _put(app: App) -> object:
    asked = subscribe(app, THE_OPERATOR, NEW)
    return asyncio.run_coroutine_threadsafe(asked, LOOP).result()


REQUESTS = {
    "put": Request(_put, _has_new),
    "import": Request(lambda app: subscribe_all(app, THE_OPERATOR, [NEW]), _has_new),
    "edit": Request(
        lambda app: change(app, THE_OPERATOR, "old", SubscriptionEdit(query=EDITED)), _is_edited
    ),
    "delete": Request(
        lambda app: unsubscribe(app, THE_OPERATOR, "old", cascade=False),
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
def app(tmp_path: Path) -> Iterator[App]:
    """A service that answers requests and consumes nothing."""
    home = DataDirectory(tmp_path / "data")

    def outbox(engine: xscl.Engine) -> Outbox:
        return Outbox(engine, Credentials(), DeliverySettings(home.files))

    with filling(home) as engine:
        engine.subscribe("old", "S//a")
    with closing(App(home, "test", outbox=outbox, disk=DiskGuard(home.path, 1))) as app:
        app.delivery.start()
        yield app


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_who_asks_again_is_told_the_truth(app: App, request_: Request) -> None:
    with unread_after_commit(app.engine):
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                request_.ask(app)
    assert not request_.is_made(app.engine)
    request_.ask(app)
    assert request_.is_made(app.engine)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_who_asks_beside_it_makes_the_change(app: App, request_: Request) -> None:
    asked: list[Future[object]] = []

    def ask_beside() -> None:
        asked.append(threads.submit(request_.ask, app))
        wait(asked, 0.3)  # it waits for the end of the change

    with (
        ThreadPoolExecutor(1) as threads,
        failing_commit(ask_beside),
        pytest.raises(OSError, match="Input/output"),
    ):
        request_.ask(app)
    asked[0].result()
    assert request_.is_made(app.engine)
    assert app.accounts.usage.owned(THE_OPERATOR, "subscriptions") == len(app.engine.subscriptions)

"""An endpoint outlives the removal of its subscription if that fails, whoever looks meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, eventually
from tests.xscl.delivery.receiver import EACH, Receiver, Sending, sending
from tests.xscl.failing_commits import POINTS, failing_commit, unread_after_commit
from xscl.delivery.endpoint import Endpoint, Webhook
from xscl.errors import StoreError
from xscl.polling.credentials import Credentials
from xscl.store.store_errors import StoreUnavailable


def _look(at_work: Sending, endpoint: Endpoint, seconds: float = PATIENCE) -> None:
    """Wake an endpoint, and wait until it was looked at, or for some seconds."""
    stopping = threading.Event()
    timer = threading.Timer(seconds, stopping.set)
    timer.start()
    at_work.outbox._deliveries.wake(endpoint.id)
    at_work.outbox.finish(stopping)
    timer.cancel()


def _fail(at_work: Sending, endpoint: Endpoint) -> None:
    with (
        failing_commit(lambda: _look(at_work, endpoint, 0.3)),  # it waits for the end of the change
        pytest.raises(OSError, match="Input/output"),
    ):
        at_work.engine.unsubscribe("q")


def _lose(at_work: Sending, endpoint: Endpoint) -> None:
    with unread_after_commit(at_work.engine):
        with pytest.raises(StoreUnavailable):
            at_work.outbox.unsubscribe("q")
        _look(at_work, endpoint)


def _begin_beside(at_work: Sending, endpoint: Endpoint) -> None:
    """Look at it as one that was just made."""
    at_work.outbox._deliveries._forget(endpoint.id)
    _fail(at_work, endpoint)


def test_what_has_a_removed_subscription_is_gone_whatever_fails_afterwards(
    tmp_path: Path, receiver: Receiver
) -> None:
    """The removal deletes the rows of endpoints, so nothing more has to be stored for them."""
    with sending(receiver, Credentials(), tmp_path / "state.sqlite") as at_work:
        at_work.engine.subscribe("q", EACH)
        at_work.outbox.deliver("q", Webhook(receiver.url("/gone")))
        committed = at_work.engine.unsubscribe

        def fails(point: str) -> None:
            raise StoreError("planted")

        with pytest.MonkeyPatch.context() as patched:

            def unsubscribe(name: str, **how: bool) -> tuple[str, ...]:
                removed = committed(name, **how)
                patched.setattr(POINTS, fails)
                return removed

            patched.setattr(at_work.engine, "unsubscribe", unsubscribe)
            at_work.outbox.unsubscribe("q")
        assert not at_work.outbox.endpoints.of("q")
        at_work.engine.subscribe("q", EACH)
        at_work.items()
        at_work.outbox.finish(threading.Event())
        assert not receiver.at("/gone")


@pytest.mark.parametrize("remove", [_fail, _lose, _begin_beside])
def test_its_matches_are_delivered(
    tmp_path: Path, receiver: Receiver, remove: Callable[[Sending, Endpoint], None]
) -> None:
    where = f"/{remove.__name__}"
    with sending(receiver, Credentials(), tmp_path / "state.sqlite") as at_work:
        at_work.engine.subscribe("q", EACH)
        endpoint, _ = at_work.outbox.deliver("q", Webhook(receiver.url(where)))
        remove(at_work, endpoint)
        at_work.items()
        assert at_work.outbox.endpoints.of("q")
        eventually(lambda: receiver.at(where))
        at_work.outbox.unsubscribe("q")
        assert not at_work.outbox.endpoints.of("q")

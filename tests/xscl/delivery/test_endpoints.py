"""Endpoints in memory are those of the store, also after a change that could not be stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

import xscl
from tests.waiting import PATIENCE, eventually
from tests.xscl.delivery.receiver import EACH, Receiver, Sending, sending
from tests.xscl.failing_commits import POINTS, failing_commit, full_disk, unread_after_commit
from xscl.delivery.endpoint import Endpoint, File, Webhook
from xscl.delivery.outbox.endpoints import Endpoints, Letter, secrets_key
from xscl.delivery.store_epochs import begin_epoch, epochs_of
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.polling.credentials import NAME, Credentials, secrets_in
from xscl.store.store_errors import StoreUnavailable


def remove(endpoints: Endpoints) -> None:
    endpoints.remove([one.id for one in endpoints.of("q")])


def add(endpoints: Endpoints) -> None:
    endpoints.add("q", Webhook("http://other.example/?key=secret"), 0)


@pytest.mark.parametrize(
    ("change", "left", "point"),
    [(add, 3, "before_commit"), (add, 3, "after_commit"), (remove, 0, "before_commit")],
)
def test_a_change_that_cannot_be_stored_changes_nothing(
    tmp_path: Path, change: Callable[[Endpoints], None], left: int, point: str
) -> None:
    """Nor does one that is stored and fails afterwards, once something is saved."""
    secrets = secrets_in(tmp_path / NAME)

    def full(reached: str) -> None:
        if reached == point:
            raise full_disk()

    def stored() -> list[Endpoint]:
        with closing(Endpoints(engine.connect(), secrets)) as others:
            return others.of("q")

    with (
        xscl.Engine(tmp_path / "state.sqlite") as engine,
        closing(Endpoints(engine.connect(), secrets)) as endpoints,
    ):
        engine.subscribe("q", "S//a")
        endpoints.add("q", File("one.jsonl"), 0)
        endpoints.add("q", Webhook("http://hook.example/?key=secret"), 0)
        before = endpoints.of("q")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(POINTS, full)
            with pytest.raises(StoreError, match="No space left"):
                change(endpoints)
            assert endpoints.of("q") == before
        endpoints.save()
        assert stored() == before
        change(endpoints)  # somebody tries again
        assert endpoints.of("q") == stored()
        assert len(stored()) == left
        known = {secrets_key(one.id) for one in stored() if isinstance(one.channel, Webhook)}
        assert set(json.loads((tmp_path / NAME).read_bytes())) == known


def test_a_letter_that_is_delivered_while_it_is_replayed_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with xscl.Engine() as engine, closing(Endpoints(engine.connect(), Credentials())) as endpoints:
        id = endpoints.add("q", File("one.jsonl"), 0)[0].id
        letter, letters = Letter(id, "m", 1, 1, 0, 1, "refused"), endpoints.letters
        delivered = threading.Thread(target=endpoints.remove_letter, args=[letter])

        def deliver_beside(id: str) -> list[Letter]:
            found = letters(id)
            delivered.start()
            delivered.join(0.2)  # it waits for the end of the change
            return found

        endpoints.put_letter(letter)
        monkeypatch.setattr(endpoints, "letters", deliver_beside)
        assert endpoints.replay(id) == 1
        delivered.join()
        assert letters(id) == []


# -- An endpoint outlives the removal of its subscription if that fails, whoever look ------


def _look(at_work: Sending, endpoint: Endpoint, seconds: float = PATIENCE) -> None:
    """Wake an endpoint, and wait until it was looked at, or for some seconds."""
    stopping = threading.Event()
    timer = threading.Timer(seconds, stopping.set)
    timer.start()
    at_work.outbox.wake(endpoint.id)
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
    at_work.outbox._unlisten(endpoint.id)
    _fail(at_work, endpoint)


@pytest.fixture
def at_work(tmp_path: Path, receiver: Receiver) -> Iterator[Sending]:
    with sending(receiver, Credentials(), tmp_path / "state.sqlite") as sender:
        sender.engine.subscribe("q", EACH)
        yield sender


def test_what_has_a_removed_subscription_is_gone_whatever_fails_afterwards(
    at_work: Sending, receiver: Receiver
) -> None:
    """The removal deletes the rows of endpoints, so nothing more has to be stored for them."""
    at_work.outbox.deliver("q", Webhook(receiver.url("/gone")))
    committed = at_work.engine.unsubscribe
    with pytest.MonkeyPatch.context() as patched:

        def unsubscribe(name: str, **how: bool) -> tuple[str, ...]:
            removed = committed(name, **how)
            patched.setattr(POINTS, Mock(side_effect=StoreError("planted")))
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
    at_work: Sending, receiver: Receiver, remove: Callable[[Sending, Endpoint], None]
) -> None:
    where = f"/{remove.__name__}"
    endpoint, _ = at_work.outbox.deliver("q", Webhook(receiver.url(where)))
    at_work.outbox.finish(threading.Event())  # first looked at while `q` is lost: in a minute
    remove(at_work, endpoint)
    at_work.items()
    assert at_work.outbox.endpoints.of("q")
    eventually(lambda: receiver.at(where))
    at_work.outbox.unsubscribe("q")
    assert not at_work.outbox.endpoints.of("q")


# -- Generations ---------------------------------------------------------------------------


def test_each_generation_knows_up_to_where_it_agrees_with_those_before(tmp_path: Path) -> None:
    with Engine(tmp_path / "state.sqlite") as engine, closing(engine.connect()) as store:
        first = epochs_of(store)
        assert first == epochs_of(store)
        store.set_progress(position=10)
        second = begin_epoch(store)
        store.set_progress(position=25)
        third = begin_epoch(store)
        assert epochs_of(store) == third
        assert len({first.now, second.now, third.now}) == 3
        for generation, agreed in ((first, 10), (second, 25), (third, 99)):
            assert third.agreed(generation.now, 99) == agreed
            assert third.agreed(generation.now, 7) == 7
        assert third.agreed((third.now + 1) % (1 << 32), 7) == 0, "nobody knows that one"
        assert second.agreed(third.now, 7) == 0, "nor does an older store the younger one"
        assert first.prefix.startswith("g")
        assert len(first.prefix) == 10


def test_a_new_store_is_another_generation_and_an_opened_one_is_the_same(tmp_path: Path) -> None:
    found = []
    for name in ("a.sqlite", "b.sqlite", "a.sqlite"):
        with Engine(tmp_path / name) as engine, closing(engine.connect()) as store:
            found.append(epochs_of(store).now)
    assert found[0] == found[2] != found[1]
    with Engine() as engine, closing(engine.connect()) as store:
        assert epochs_of(store).now == 0

"""Endpoints in memory are those of the store, also after a change that could not be stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import xscl
from tests.xscl.failing_commits import POINTS, full_disk
from xscl.delivery.endpoint import Endpoint, File, Webhook
from xscl.delivery.outbox.endpoints import Endpoints, secrets_key
from xscl.errors import StoreError
from xscl.polling.credentials import NAME, Credentials, secrets_in


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    with xscl.Engine(tmp_path / "state.sqlite") as made:
        made.subscribe("q", "S//a")
        yield made


@pytest.fixture
def secrets(tmp_path: Path) -> Credentials:
    return secrets_in(tmp_path / NAME)


@pytest.fixture
def endpoints(engine: xscl.Engine, secrets: Credentials) -> Iterator[Endpoints]:
    with closing(Endpoints(engine.connect(), secrets)) as made:
        made.add("q", File("one.jsonl"), 0)
        made.add("q", Webhook("http://hook.example/?key=secret"), 0)
        yield made


def remove(endpoints: Endpoints) -> None:
    endpoints.remove([one.id for one in endpoints.of("q")])


def add(endpoints: Endpoints) -> None:
    endpoints.add("q", Webhook("http://other.example/?key=secret"), 0)


@pytest.mark.parametrize(
    ("change", "left", "point"),
    [(add, 3, "before_commit"), (add, 3, "after_commit"), (remove, 0, "before_commit")],
)
def test_a_change_that_cannot_be_stored_changes_nothing(
    tmp_path: Path,
    engine: xscl.Engine,
    endpoints: Endpoints,
    secrets: Credentials,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Endpoints], None],
    left: int,
    point: str,
) -> None:
    """Nor does one that is stored and fails afterwards, once something is saved."""

    def full(reached: str) -> None:
        if reached == point:
            raise full_disk()

    def stored() -> list[Endpoint]:
        with closing(Endpoints(engine.connect(), secrets)) as others:
            return others.of("q")

    before = endpoints.of("q")
    with monkeypatch.context() as patch:
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

"""Registrations: what a kill and a full disk leave of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.documents import Document
from tests.examples import examples
from tests.xscl.failing_commits import POINTS, full_disk
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.subscriptions.match import Match

# Of the sides of some, several nodes are alike: which is which depends on the variables' numbers.
QUERIES = {
    "b c": 'S//a[./b="1"][./b->x][./c->y] FOLLOWED BY{x=v AND y=w, 5 s} S//a[./b->v][./c->w]',
    "c b": 'S//a[./b="1"][./c->x][./b->y] FOLLOWED BY{x=v AND y=w, 5 s} S//a[./c->v][./b->w]',
    "b b": 'S//a[./b="1"][./b->x][./b->y] FOLLOWED BY{x=v AND y=w, 5 s} S//a[./b->v][./b->w]',
    "b c, 2": 'S//a[./b="2"][./b->x][./c->y] FOLLOWED BY{x=v AND y=w, 5 s} S//a[./b->v][./c->w]',
    "c, 2": 'S//a[./b="2"][./c->x] JOIN{x=y, 9 s} S//a[./c->y]',
    "one": 'S//a[./b="2"]->x',
    "next": "S//a/b->x NEXT{x=y} S//a/b->y",
    "made": "SELECT <a><b>{x}</b></a> FROM S//a[./c->x] FOLLOWED BY{x=y, 2 s} S//a/c->y PUBLISH P",
}


def document(number: int) -> Document:
    text = f"<a><b>{number % 2 + 1}</b><c>{number % 3}</c><b>{number % 5}</b></a>"
    return Document("S", f"d{number}", number * 1_000_000, text.encode())


def told(engine: Engine) -> list[tuple[object, ...]]:
    """The reported content of subscriptions."""
    return [(s.name, s.number, s.qid, s.template, s.outputs) for s in engine.subscriptions]


def killed(engine: Engine, directory: Path) -> Path:
    """Return the store of an engine as a kill would leave it."""
    path = engine.transactions.store.path
    assert path is not None
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, directory / file.name)
    return directory / path.name


def ids(matches: Iterable[Match]) -> list[str]:
    return [match.id for match in matches]


def subscribe(engine: Engine, *names: str) -> None:
    for name in names:
        engine.subscribe(name, QUERIES[name])


def test_a_kill_leaves_numbers_as_they_were_told(tmp_path: Path) -> None:
    with Engine() as steady, Engine(tmp_path / "state.sqlite") as engine:
        for one in (steady, engine):
            subscribe(one, "b c", "c b", "b b")
        (tmp_path / "killed").mkdir()
        with Engine(killed(engine, tmp_path / "killed")) as again:
            assert told(again) == told(engine) == told(steady)
            for number in range(6):
                assert ids(again.push(document(number))) == ids(steady.push(document(number)))
            assert steady.matches()
            views = ("subscriptions", "R_T_1", "R_bin")
            answers = [
                [one.sql(f"FROM {view} ORDER BY ALL").to_pylist() for view in views]
                for one in (again, steady)
            ]
            assert answers[0] == answers[1]


def full(point: str) -> None:
    if point == "before_commit":
        raise full_disk()


@pytest.mark.parametrize(
    "fail",
    [
        lambda engine: engine.push(document(1)),
        lambda engine: subscribe(engine, "c, 2"),
        lambda engine: engine.unsubscribe("c b"),
    ],
    ids=["push", "subscribe", "unsubscribe"],
)
def test_on_a_full_disk_registrations_stay(
    fail: Callable[[Engine], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(tmp_path / "state.sqlite") as engine:
        subscribe(engine, "b c", "c b")
        before = told(engine)
        with monkeypatch.context() as patch:
            patch.setattr(POINTS, full)
            with pytest.raises(StoreError, match="No space left"):
                fail(engine)
        assert told(engine) == before
        engine.push([document(30), document(31)])
        assert {match.subscription for match in engine.push(document(34))} == {"b c", "c b"}


def test_on_a_full_disk_all_can_be_read_and_the_end_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.sqlite"
    engine = Engine(path)
    subscribe(engine, "b c", "c b")
    before = told(engine)
    with monkeypatch.context() as patch:
        patch.setattr(POINTS, full)
        assert engine.sql("FROM R_T_1").num_rows == 1  # they share it
        assert engine.sql("FROM state.pair").num_rows > 0
        engine.close()
    with Engine(path) as engine:
        assert told(engine) == before
        engine.push([document(30), document(31)])
        assert {match.subscription for match in engine.push(document(34))} == {"b c", "c b"}


ACTIONS = st.lists(
    st.sampled_from([*QUERIES, *QUERIES, "push", "push", "kill", "kill", "remove", "sql"]),
    min_size=6,
    max_size=14,
)


@examples(2)
@given(ACTIONS)
def test_kills_change_nothing(actions: list[str]) -> None:
    """Numbers that were told, and matches, are those of an engine that lives on."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        steady, engine = Engine(), Engine(directory / "state.sqlite")
        for number, action in enumerate(actions):
            if action == "kill":
                directory = Path(folder, str(number))
                directory.mkdir()
                path, before = killed(engine, directory), told(engine)
                engine.close()
                engine = Engine(path)
                assert told(engine) == before
                continue
            for one in (steady, engine):
                names = [subscription.name for subscription in one.subscriptions]
                if action == "push":
                    one.push(document(number))
                elif action == "sql":
                    one.sql("FROM subscriptions")
                elif action == "remove":
                    for name in names[:-1][:1]:  # the newest one's number would come again
                        one.unsubscribe(name)
                elif action not in names:
                    subscribe(one, action)
            assert [s[:1] + s[4:] for s in told(engine)] == [s[:1] + s[4:] for s in told(steady)]
        for number in range(20, 26):
            assert ids(engine.push(document(number))) == ids(steady.push(document(number)))
        assert ids(engine.matches()) == ids(steady.matches())
        engine.close()
        steady.close()

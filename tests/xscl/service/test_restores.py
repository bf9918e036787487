"""Backups of all boundaries of transactions are restored, and the services go on (C18).

One service takes documents, polls a feed and posts to a webhook.  After each of its transactions a
backup is taken.  Each is restored in a new directory, where clients send again what they have, and
in the place of the service when it has ended, where the spool has it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from feeds.spool import Spool
from tests.xscl.delivery.receiver import Receiver
from tests.xscl.polling.scripted import Server, reply
from tests.xscl.polling.scripted import serving as scripted
from tests.xscl.service.conftest import Running, eventually, ok, serving
from tests.xscl.service.listening import listening
from xscl.engine.backup import Backup, back_up
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.service.restore import restore
from xscl.store.store import Store

pytestmark = pytest.mark.slow

QUERIES = {
    "pair": "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y",
    "next": "S//a->x NEXT{x=y} S//a->y",
    "made": "SELECT <p>{x}</p> FROM S//a->x FOLLOWED BY{x=y, 1 d} S//a->y PUBLISH P",
    "reads": "P//p->x FOLLOWED BY{x=y, 1 d} S//a->y",
    "items": "news//item->i[./channel_url->t] FOLLOWED BY{t=u, 1 d} news//item[./channel_url->u]",
}
VALUES, DOCUMENTS, ITEMS = 3, 9, 4
EACH = DOCUMENTS // VALUES
PAIRS = VALUES * EACH * (EACH - 1) // 2
MATCHES = (
    *(PAIRS, DOCUMENTS - VALUES, PAIRS),
    VALUES * EACH * (EACH - 1) * (EACH - 2) // 6,
    (ITEMS - 1) * (ITEMS - 2) // 2,  # the first one comes before the subscription
)
BEGAN = datetime.now(UTC) - timedelta(minutes=30)


def rss(count: int) -> bytes:
    """Return a feed with so many items, a minute apart."""
    items = "".join(
        f"<item><guid>g{n}</guid><title>Item {n}</title>"
        f"<pubDate>{format_datetime(BEGAN + timedelta(minutes=n))}</pubDate></item>"
        for n in range(count)
    )
    link = "<link>http://feed.example/</link>"
    return reply(
        f'<rss version="2.0"><channel><title>F</title>{link}{items}</channel></rss>'.encode()
    )


def send(client: httpx.Client, number: int) -> None:
    text = f"<a>{number % VALUES}</a>"
    assert client.post(f"/v1/documents/S?id=d{number}", content=text).status_code == 202


def poll(client: httpx.Client) -> None:
    (feed,) = ok(client.get("/v1/feeds"))["items"]
    ok(client.post(f"/v1/feeds/{feed['key']}:poll"))


def matches(client: httpx.Client) -> list[str]:
    """Return the ids of all matches."""
    found, following = list[str](), "limit=100"
    while following:
        page = ok(client.get(f"/v1/matches?{following}"))
        found += [match["id"] for match in page["matches"]]
        following = page["next"]
    return found


def events(client: httpx.Client, count: int) -> list[tuple[str, str]]:
    """Return the first events of all subscriptions: their ids and the matches."""
    with listening(client, "/v1/events?after=0") as listener:
        return [(one.id, one.data["data"]["id"]) for one in listener.take(count)]


def position_of(event: str) -> int:
    return int(event.split("-")[1])


@dataclass
class Drill:
    """A service that has ended, and the backups of its transactions."""

    home: DataDirectory
    receiver: Receiver
    server: Server
    backups: list[Path] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    delivered: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def serve(self, home: DataDirectory) -> Iterator[tuple[Running, httpx.Client]]:
        allowed = f"127.0.0.1:{self.receiver.port}", self.server.address
        fetching = PollSettings(allowed, quick=True)
        with serving(home, fetching=fetching) as running, running.client() as client:
            yield running, client

    def posts(self, since: int = 0) -> dict[str, Any]:
        """Return the messages that were posted after some others, by id; none has two contents.

        Positions are left out, and times: a document that is sent again has a later one.
        """
        found: dict[str, Any] = {}
        for got in self.receiver.got[since:]:
            told = [(one["match"], one["documents"]) for one in got.data["matches"]]
            assert found.setdefault(got.id, told) == told
        return found


@contextmanager
def backed_up_at_each_transaction(home: DataDirectory, into: list[Path]) -> Iterator[None]:
    """Take a backup after each transaction on the store of a data directory."""
    of_store: Callable[..., Any] = Store.transaction
    taking, folder = threading.Lock(), home.path.with_name("backups")
    folder.mkdir()

    @contextmanager
    def transaction(store: Store) -> Iterator[None]:
        with of_store(store):
            yield
        if store.path == home.database:
            with taking:
                target = folder / f"{len(into)}.tar"
                back_up(store, target, home.spool)
                into.append(target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "transaction", transaction)
        yield


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Drill]:
    home = DataDirectory(tmp_path_factory.mktemp("drill") / "data")
    with scripted() as server:
        server.says("/feed", rss(1))
        done = Drill(home, receiver, server)
        with done.serve(home) as (_, client):
            set_up(client, done)
            with backed_up_at_each_transaction(home, done.backups):
                work(client, done)
            done.events = events(client, sum(MATCHES))
            assert sorted(match for _, match in done.events) == sorted(matches(client))
            done.delivered = done.posts()
        yield done


def set_up(client: httpx.Client, done: Drill) -> None:
    ok(client.post("/v1/feeds", json={"url": done.server.url("/feed"), "stream": "news"}))
    eventually(lambda: known(client, "%#g0"))
    for name, query in QUERIES.items():
        ok(client.put(f"/v1/subscriptions/{name}", json={"query": query, "history": False}))
    hook = {"kind": "webhook", "url": done.receiver.url("/hook")}
    ok(client.post("/v1/subscriptions/pair/endpoints", json=hook))


def work(client: httpx.Client, done: Drill) -> None:
    for number in range(DOCUMENTS):
        send(client, number)
        if number < ITEMS - 1:
            done.server.says("/feed", rss(number + 2))
            poll(client)
        eventually(lambda sent=number: known(client) >= sent)  # type: ignore[misc]  # mypy infers no type for the default
    eventually(lambda: len(matches(client)) == sum(MATCHES))
    eventually(lambda: len(done.posts()) == PAIRS)


def known(client: httpx.Client, ids: str = "d%") -> int:
    """Return the number of documents in the store with ids of some form."""
    query = {"query": f"SELECT count(*) AS n FROM documents WHERE id LIKE '{ids}'"}
    return int(ok(client.post("/v1/sql", json=query))["rows"][0][0])


def positions(home: DataDirectory) -> tuple[int, int]:
    """Return the position of the newest match, and the endpoint's, of a store at rest."""
    with Engine(home.database) as engine:
        ((delivered,),) = engine.connect().fetch("SELECT position FROM state.endpoint")
        return engine.log.position(), int(delivered)


def of_webhook(done: Drill, client: httpx.Client) -> set[str]:
    """Return the matches of the subscription that has a webhook."""
    page = ok(client.get("/v1/subscriptions/pair/matches?limit=100&after=0"))
    return {match["id"] for match in page["matches"]}


def is_continued(done: Drill, home: DataDirectory, again: Callable[[httpx.Client], None]) -> None:
    """Serve a restored directory, and compare all that it has with the first service."""
    newest, delivered = positions(home)
    before = [(position_of(id), match) for id, match in done.events if position_of(id) <= newest]
    posted = len(done.receiver.got)
    expected = {match for _, match in done.events}
    home.backups.mkdir()  # as a kill during a backup leaves it
    with done.serve(home) as (_, client):
        assert not home.backups.exists()
        again(client)
        eventually(lambda: expected <= set(matches(client)))
        found = matches(client)
        assert sorted(found) == sorted(expected), "nothing is doubled"
        now = events(client, len(expected))
        prefix = [(position_of(id), match) for id, match in now[: len(before)]]
        assert prefix == before, "what the backup has keeps its positions"
        is_resumed(done, client, now, newest)
        waiting = {match for id, match in now if position_of(id) > delivered} & of_webhook(
            done, client
        )
        eventually(lambda: waiting <= done.posts(posted).keys())
    for id, data in done.posts(posted).items():
        assert done.delivered[id] == data, "the same message under the same id"


def is_resumed(done: Drill, client: httpx.Client, now: list[tuple[str, str]], newest: int) -> None:
    """Resume at an event of the first service: before the backup, and after it."""
    for last, _ in (done.events[0], done.events[len(done.events) // 2], done.events[-1]):
        common = min(position_of(last), newest)
        left = [match for id, match in now if position_of(id) > common]
        with listening(client, "/v1/events", last) as listener:
            if position_of(last) > newest:
                first = listener.next()
                assert (first.name, first.data["position"]) == ("restored", newest)
            assert [one.data["data"]["id"] for one in listener.take(len(left))] == left


def test_c18_a_backup_of_each_transaction_is_restored_elsewhere(
    drill: Drill, tmp_path: Path
) -> None:
    """Clients send all documents again; the service knows those that it has."""
    assert len(drill.backups) > 20
    for target in drill.backups:
        home = DataDirectory(tmp_path / target.stem)
        done = restore(target, home)
        shutil.copy(drill.home.path / "secrets.json", home.path)
        has_what_waits(home, done.backup)
        assert (done.aside, done.missing) == (None, 0)

        def again(client: httpx.Client) -> None:
            for number in range(DOCUMENTS):
                send(client, number)
            poll(client)

        is_continued(drill, home, again)
        shutil.rmtree(home.path)


def has_what_waits(home: DataDirectory, backup: Backup) -> None:
    """Check that the spool has the segments after the position of the backup, and no others."""
    with Spool(home.spool, read_only=True) as spool:
        numbers = spool.numbers(0)
        assert numbers == list(range(backup.position + 1, spool.latest() + 1))
        assert [f"spool/{number:012d}.arrows" for number in numbers[:1]] == list(backup.segments)


def test_c18_a_backup_of_each_transaction_is_restored_in_its_place(
    drill: Drill, tmp_path: Path
) -> None:
    """The spool has all documents; nobody sends one again."""
    for target in drill.backups:
        home = DataDirectory(shutil.copytree(drill.home.path, tmp_path / target.stem))
        done = restore(target, home, force=True)
        assert done.aside is not None
        assert done.missing == 0
        with Spool(home.spool, read_only=True) as spool:
            assert done.waiting == spool.latest() - done.backup.position
        is_continued(drill, home, lambda client: None)
        shutil.rmtree(home.path)

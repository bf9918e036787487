"""Documents without a time get it in the order in which they are accepted, whoever posts them."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.xscl.service.conftest import Running, ok, serving
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer

CLIENTS = 8
KEYS = 20
WINDOW = 20_000  # ticks
NEXT = "S//a[./k->x] NEXT{x = y} S//a[./k->y]"
SILENCE = f"S//a[./k->x] NOT FOLLOWED BY{{x = y, {WINDOW // 1000} ms}} S//b[./k->y]"


def text(client: int, number: int) -> bytes:
    """A document; a third of them are answers, and clients share their keys."""
    name = "b" if number % 3 == 2 else "a"
    return f"<{name}><k>{(client + number * 7) % KEYS}</k></{name}>".encode()


def post(running: Running, client: int, each: int, failures: list[str]) -> None:
    connection = http.client.HTTPConnection(urlsplit(running.address).netloc, timeout=200)
    for number in range(each):
        path = f"/v1/documents/S?id=c{client}-{number}"
        connection.request("POST", path, body=text(client, number))
        answer = connection.getresponse()
        told = answer.read()
        if answer.status != 202:
            failures.append(told.decode())
    connection.close()


def accepted(home: DataDirectory) -> list[Document]:
    """The documents in the order of the spool."""
    spool = Spool(home.spool, read_only=True)
    return [one for number in spool.numbers(0) for one in spool.read(number)]


def nexts(documents: Sequence[Document]) -> Iterator[tuple[str, str]]:
    """Each question with the one that follows it under its key, in the order of acceptance."""
    last: dict[bytes, str] = {}
    for one in documents:
        if one.xml.startswith(b"<a>"):
            if one.xml in last:
                yield last[one.xml], one.id
            last[one.xml] = one.id


def silences(documents: Sequence[Document]) -> Iterator[tuple[str]]:
    """The questions without an answer in the window."""
    answers = defaultdict(list)
    for one in documents:
        if one.xml.startswith(b"<b>"):
            answers[one.xml[3:-4]].append(one.timestamp)
    for one in documents:
        if one.xml.startswith(b"<a>"):
            times = answers[one.xml[3:-4]]
            if not any(one.timestamp < time <= one.timestamp + WINDOW for time in times):
                yield (one.id,)


@pytest.mark.parametrize("each", usually([20, 80], 20))
def test_operators_over_time_see_concurrent_posts_in_the_order_of_acceptance(
    each: int, place: DataDirectory
) -> None:
    failures: list[str] = []
    with serving(place) as running:
        with running.client() as operator:
            for name, query in (("next", NEXT), ("silence", SILENCE)):
                ok(operator.put(f"/v1/subscriptions/{name}", json={"query": query}))
        threads = [
            threading.Thread(target=post, args=(running, client, each, failures))
            for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    with Engine(place.database) as engine, Spool(place.spool) as spool:
        Consumer(spool, engine.ingest).run_once()
        engine.flush()
        found = [(match.subscription, match.documents) for match in engine.matches()]
        late = engine.sql("SELECT docid, behind FROM late").to_pylist()
    documents = accepted(place)
    times = [one.timestamp for one in documents]
    assert len(documents) == CLIENTS * each
    assert late == []
    assert all(one < other for one, other in itertools.pairwise(times))
    expected = {name: [] for name in ("next", "silence")} | {
        "next": sorted(nexts(documents)),
        "silence": sorted(silences(documents)),
    }
    assert all(expected.values())
    for name, matches in expected.items():
        assert sorted(matched for one, matched in found if one == name) == matches, name

"""Readers of every kind at once over a large store, while documents come (row L3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest
from lxml import etree

from tests.examples import usually
from tests.xscl.service.conftest import Running, eventually, filling, ok, serving
from tests.xscl.service.listening import listening
from xscl.ingestion.data_directory import DataDirectory
from xscl.language.names import EVERYTHING
from xscl.store.store import Store

WITNESSES, SUBSCRIPTIONS, SECONDS = 1_000_000, 1_000, 15.0
FEW = (1_000, 10, 0.2)
"""As many witnesses, subscriptions and seconds in the usual run."""
ATOM = "{http://www.w3.org/2005/Atom}"


def _make_witnesses(store: Store, witnesses: int) -> None:
    each, docs = np.arange(witnesses), np.arange(witnesses // 10)
    keys = pa.array(1_000_000_000 + each, pa.uint64())
    node = pa.array(each % 10, pa.int32())
    columns = {"doc": 1_000 + each // 10, "pair": pa.array(each * 0, pa.int32())}
    store.append("binding", pa.table({**columns, "node1": node, "node2": node, "key": keys}))
    times = ("start", "ts", "clock", "rank", "base")
    store.append("times", pa.table({"doc": 1_000 + docs, **dict.fromkeys(times, docs)}))
    texts = [f"a {number}" for number in range(witnesses)]
    store.append("value", pa.table({"key": keys, "strVal": texts}))


def _document(number: int) -> dict[str, object]:
    times = dict.fromkeys(("ts", "clock", "base", "first", "arrived"), number)
    names = {"id": f"item/{number}", "given": "x", "version": 1, "streams": ["S", EVERYTHING]}
    rest = {"rank": number * 64, "hash": b"x", "history": False, "origin": ""}
    return {"doc": 1_000 + number, **names, **times, **rest}


def filled(path: Path, witnesses: int, subscriptions: int) -> DataDirectory:
    """A store with witnesses that may still be joined, but with nothing that comes."""
    home = DataDirectory(path / "data")
    home.create()
    with filling(home) as engine:
        query = "S//a->x FOLLOWED BY{{x=y, {} s}} S//a->y"
        rows = ((f"s{n}", query.format(1_000_000 + n)) for n in range(subscriptions))
        engine.subscribe_many(rows)
        with closing(engine.host.connect()) as store, store.transaction():
            _make_witnesses(store, witnesses)
            store.insert_rows("state.document", map(_document, range(witnesses // 10)))
            store.set_progress(next_doc=1000 + witnesses)
    return home


@contextmanager
def reading(work: Callable[[httpx.Client], object], running: Running) -> Iterator[list[float]]:
    """Do something again and again while the block runs; yield how long each time took.

    The client's patience is the watchdog.
    """
    took, failed = list[float](), list[BaseException]()
    stop = threading.Event()

    def run() -> None:
        try:
            with running.client() as client:
                while not stop.is_set():
                    began = time.monotonic()
                    work(client)
                    took.append(time.monotonic() - began)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join(60)
    if failed:
        raise failed[0]
    assert took


@pytest.mark.parametrize(
    ("witnesses", "subscriptions", "seconds"),
    usually([FEW, (WITNESSES, SUBSCRIPTIONS, SECONDS)], FEW, several=True),
)
def test_l3_sql_events_and_feeds_are_read_at_once_while_documents_come(
    witnesses: int, subscriptions: int, seconds: float, tmp_path: Path
) -> None:
    """Nobody starves: not who sends, nor any reader; and all see the same."""
    numbers = iter(range(1_000_000))

    def send(client: httpx.Client) -> None:
        number = next(numbers)
        stamp = (2_000_000 + number) * 1_000_000
        text = f"<a>{number // 2}</a>"
        ok(client.post(f"/v1/documents/S?id=d{number}&time={stamp}", content=text))

    def ask(client: httpx.Client) -> None:
        asked = {"query": "SELECT count(*) AS n, max(position) FROM matches"}
        answer = client.post("/v1/sql", json=asked)
        assert answer.status_code in (200, 429), answer.text

    def syndicate(client: httpx.Client) -> None:
        feed = client.get("/v1/subscriptions/s7/feed.atom")
        assert etree.fromstring(feed.content).tag == f"{ATOM}feed"

    def hear(client: httpx.Client) -> None:
        with client.stream("GET", "/v1/subscriptions/s3/events?after=0") as answer:
            assert next(answer.iter_lines()).startswith("retry:")

    with (
        serving(filled(tmp_path, witnesses, subscriptions), patience=300) as running,
        running.client() as operator,
    ):
        with (
            reading(send, running) as sent,
            reading(ask, running),
            reading(hear, running),
            reading(syndicate, running),
            reading(lambda client: ok(client.get("/v1/subscriptions?limit=100")), running),
        ):
            time.sleep(seconds)
        pairs = min(1000, len(sent) // 2)
        assert pairs > 0
        page = "/v1/subscriptions/s3/matches?limit=1000&after=0"
        eventually(lambda: len(ok(operator.get(page))["matches"]) >= pairs, 120)
        kept = [match["id"] for match in ok(operator.get(page))["matches"][:pairs]]
        with listening(operator, "/v1/subscriptions/s3/events?after=0") as listener:
            assert [event.data["data"]["id"] for event in listener.take(pairs)] == kept
        entries = operator.get("/v1/subscriptions/s7/feed.atom")
        found = etree.fromstring(entries.content).findall(f"{ATOM}entry")
        assert len(found) == min(50, pairs)

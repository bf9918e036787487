"""Explanations, lists, counters and SQL agree on what subscriptions have, whatever happened.

Every match has a `why` that holds, and whatever is no match has one that fails.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import xscl
from tests.examples import MORE
from tests.plain_http import NO_CERTIFICATES
from tests.waiting import PATIENCE
from tests.xscl.inspection.drawn_histories import QUERIES, History
from tests.xscl.service.conftest import ok
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.engine.disk_guard import DiskGuard
from xscl.engine.match_log import LAST
from xscl.errors import XsclError
from xscl.ingestion.data_directory import DataDirectory
from xscl.inspection.why import NONE
from xscl.language.normalform import components
from xscl.planning.compile import compile_query
from xscl.polling.credentials import Credentials
from xscl.server.app import create_app
from xscl.service.app import App, ServiceSettings
from xscl.service.server import serving

KEPT = xscl.Retention.of(history="30000 d")
HISTORIES = 250 * MORE if MORE > 1 else len(QUERIES)
"""One for each kind of query, at least: its first subscription is of that kind."""
SERVED = range(0, HISTORIES, 1 if MORE > 1 else 5)
"""Those of a service, which says what the library says."""
ASKED = 3
"""Matches, and other documents, about which each subscription is asked."""


class Surface:
    """The answers of the library."""

    def __init__(self, engine: xscl.Engine) -> None:
        self.engine = engine

    def matches(self, name: str) -> list[tuple[str, ...]]:
        found = self.engine.matches(name)
        assert len({one.id for one in found}) == len(found)
        return [one.names for one in found]

    def why(self, name: str, documents: tuple[str, ...]) -> tuple[bool, str]:
        found = self.engine.why(name, *documents)
        assert found.matched == all(edge.holds for edge in found.edges)
        return found.matched, "\n".join(found.lines())

    def has_match(self, name: str) -> tuple[bool, str]:
        found = self.engine.why(name)
        closest = found.closest
        if closest is not None:
            named = self.engine.why(name, *closest.documents)
            # A match of a version before the current one explains the documents that it has.
            assert named == closest or (named.matched and not closest.matched)
        return closest is not None and closest.matched, "\n".join(found.lines())


class Service(Surface):
    """The answers of the HTTP API and of the page, which have to be those of the library."""

    def __init__(self, engine: xscl.Engine, client: httpx.Client) -> None:
        super().__init__(engine)
        self._client = client

    def matches(self, name: str) -> list[tuple[str, ...]]:
        found, after = list[tuple[str, ...]](), 0
        while True:
            path = f"/v1/subscriptions/{name}/matches"
            page = ok(self._client.get(path, params={"after": after}))
            found += [tuple(of["document"] for of in one["sources"]) for one in page["matches"]]
            if page["next"] is None:
                break
            after = int(page["next"].partition("&")[0].removeprefix("after="))
        assert found == super().matches(name)
        if self.engine.subscription(name) is not None:
            page = self._client.get("/subscriptions", params={"q": name}).text
            shown = re.findall(r">([\d,]+) match(?:es)?<span class=.hidden.> of ([^<]*)<", page)
            assert [int(count) for count, of in shown if of == name] == [len(found)], page
        return found

    def why(self, name: str, documents: tuple[str, ...]) -> tuple[bool, str]:
        asked = {"subscription": name, "documents": documents}
        answer = self._client.post("/v1/why", json=asked)
        if answer.status_code >= 400:
            raise XsclError(answer.text)
        shown = self._client.get("/why", params={"subscription": name, "doc": documents}).text
        holds = re.search("(They match|It matches): every condition holds", shown) is not None
        assert holds == answer.json()["matched"], shown
        fails = re.search("(They do|It does) not match", shown) is not None
        assert fails == (not answer.json()["matched"])
        return answer.json()["matched"], answer.text

    def has_match(self, name: str) -> tuple[bool, str]:
        found = ok(self._client.post("/v1/diagnose", json={"subscription": name}))
        closest = found["closest"]
        return closest is not None and closest["matched"], str(found)


@dataclass(frozen=True)
class Version:
    """A version of a subscription: its blocks, those of a match, its matches by block."""

    blocks: int
    covered: tuple[int, ...]
    found: set[tuple[str, ...]]

    def has(self, documents: tuple[str, ...]) -> bool:
        """Return True if there is a match of some documents, or of documents for all blocks."""
        if documents in self.names:
            return True
        if len(documents) != self.blocks:
            return False
        placed = (documents[place] for place in self.covered)
        return tuple("" if one == NONE else one for one in placed) in self.found

    @property
    def names(self) -> set[tuple[str, ...]]:
        """The documents of each match."""
        return {tuple(filter(None, one)) for one in self.found}


def versions(engine: xscl.Engine, name: str) -> list[Version]:
    """Return the versions of a name, the current one last."""
    matches, made = engine.matches(name), list[Version]()
    for one in engine.state.subscriptions.versions(name):
        normal = compile_query(one.query).normal
        found = {match.by_block for match in matches if match.version == one.version}
        made.append(Version(len(normal.blocks), tuple(components(normal.form)), found))
    return made


def asked(
    found: set[tuple[str, ...]], blocks: int, ids: list[str], chance: random.Random
) -> Iterator[tuple[str, ...]]:
    """Yield documents: those of matches, near misses, and any for all blocks."""
    for documents in chance.sample(sorted(found), min(len(found), ASKED)):
        yield documents
        near = list(documents)
        near[chance.randrange(len(near))] = chance.choice(ids)
        yield tuple(near)
    for _ in range(ASKED):
        placed = [chance.choice(ids) for _ in range(blocks)]
        if chance.random() < 0.3:
            placed[chance.randrange(blocks)] = NONE
        yield tuple(placed)


def check(surface: Surface, history: History, chance: random.Random, said: Counter[object]) -> None:
    """Compare all that is said of the subscriptions of a history."""
    engine = surface.engine
    known_documents = engine.sql("SELECT docid, stream FROM documents").to_pylist()
    ids = [one["docid"] for one in known_documents if one["stream"] in history.streams.values()]
    known = engine.state.subscriptions
    named = [*(one.name for one in engine.subscriptions), *known.removed()]
    mine = [name for name in named if name.partition(" (")[0] in history.names]
    rows = engine.sql("SELECT subscription, docids FROM matches").to_pylist()
    total = 0
    for name in mine:
        listed = surface.matches(name)
        total += len(listed)
        in_sql = [tuple(row["docids"]) for row in rows if row["subscription"] == name]
        assert Counter(in_sql) == Counter(listed), name
        each = versions(engine, name)
        assert set().union(*(one.names for one in each)) == set(listed)
        said[f"version {bool(each[-1].found)}"] += 1
        for documents in asked(set(listed), each[-1].blocks, ids, chance) if ids else ():
            expected = any(one.has(documents) for one in each)
            try:
                matched, text = surface.why(name, documents)
            except XsclError:  # a wrong number of documents
                assert not expected, (name, documents)
                continue
            assert matched == expected, f"{name} {documents} {expected=}\n{text}"
            said[matched] += 1
            if " has the match" in text:
                said[text.rpartition(": ")[2]] += 1
        has, text = surface.has_match(name)
        assert has == bool(each[-1].found), f"{name} {each[-1].found}\n{text}"
    pages = engine.log
    assert total == pages.count(0, LAST, lambda one: one.name in mine)


def explained(history: History, error: BaseException) -> str:
    return "\n".join([f"history {history.number}", *history.steps, str(error)])


def run(numbers: range, directory: Path) -> Counter[object]:
    """Compare the answers of the library in histories, half of them on a file."""
    said = Counter[object]()
    for number in numbers:
        path = directory / f"{number}.sqlite" if number % 2 else None

        def reopen(engine: xscl.Engine, path: Path | None = path) -> xscl.Engine:
            if path is None:
                return engine
            engine.close()
            return xscl.Engine(path)

        history = History(number, reopen=reopen)
        chance, engine = random.Random(number), xscl.Engine(path, retention=KEPT)
        try:
            for current in history.play(engine):
                engine = current  # it may have been opened again
                check(Surface(engine), history, chance, said)
        except Exception as error:
            raise AssertionError(explained(history, error)) from error
        finally:
            engine.close()
    return said


@pytest.mark.hypothesis
def test_whatever_happened_explanations_agree_with_matches(tmp_path: Path) -> None:
    said = run(range(HISTORIES), tmp_path)
    assert min(said[True], said[False]) >= HISTORIES, said


@contextmanager
def answering(home: DataDirectory) -> Iterator[tuple[xscl.Engine, httpx.Client]]:
    """Yield an engine, and a client of its service in this process."""

    def outbox(engine: xscl.Engine) -> Outbox:
        return Outbox(engine, Credentials(), DeliverySettings(home.files))

    with ExitStack() as stack:
        settings, disk = ServiceSettings(port=0), DiskGuard(home.path, 1)
        opened = App(home, "test", outbox=outbox, disk=disk, settings=settings)
        app = stack.enter_context(closing(opened))
        app.engine.retain(KEPT)
        app.delivery.start()
        limit, loop = app.accounts.connections, app.delivery.loop
        address = stack.enter_context(serving(create_app(app), settings, limit, loop))
        yield (
            app.engine,
            stack.enter_context(
                httpx.Client(base_url=address, timeout=PATIENCE, verify=NO_CERTIFICATES)
            ),
        )


def run_service(numbers: range, home: DataDirectory) -> Counter[object]:
    """Compare the answers of a service and of its page in histories, one after the other."""
    said = Counter[object]()
    with answering(home) as (engine, client):
        for number in numbers:
            history = History(number, at=(1_000 + number) * 1_000_000_000)
            try:
                for _ in history.play(engine):
                    check(Service(engine, client), history, random.Random(number), said)
            except Exception as error:
                raise AssertionError(explained(history, error)) from error
            for name in history.names:
                if engine.subscription(name) is not None:
                    engine.unsubscribe(name, cascade=True)
            for name in engine.state.subscriptions.removed():
                engine.unsubscribe(name, purge=True)
    return said


@pytest.mark.hypothesis
def test_whatever_happened_a_service_and_its_page_say_the_same(tmp_path: Path) -> None:
    said = run_service(SERVED, DataDirectory(tmp_path / "data"))
    assert min(said[True], said[False]) >= len(SERVED), said

"""Matches on their way to people: in linear work, on a thread that holds up nobody."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.waiting import beside
from tests.work import measured
from tests.xscl.server.processes import served
from tests.xscl.service.conftest import eventually
from xscl.cli.match_printer import MatchPrinter
from xscl.cli.match_text import match_text
from xscl.delivery.cards import shown
from xscl.delivery.message import messages_of, row_of
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.delivery.outbox.printing import Printing
from xscl.documents.retention import Retention
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.credentials import Credentials
from xscl.shredding.nodes import AttributeNode, number_nodes
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import Match

PAIRS = "S//a->x FOLLOWED BY{x=y, 1000 s} S//a->y"


def documents(*numbers: int, text: str = "hi") -> list[Document]:
    return [Document("S", f"d{n}", n, f"<a>{text}</a>".encode()) for n in numbers]


# -- The work of one match -----------------------------------------------------------------

WAYS: dict[str, Callable[[Sequence[Match]], object]] = {
    "text": lambda found: [list(match_text(one, verbose=True)) for one in found],
    "json": lambda found: [json.dumps(row_of(one)) for one in found],
    "message": lambda found: [one.json() for one in messages_of(found)],
    "page": lambda found: [shown(one, "q") for one in found],
    "xml": lambda found: [one.xml() for one in found],
}


def shown_in_all_ways(nodes: int) -> None:
    query = "S//r[./c->x][.//@t->z] FOLLOWED BY{x=y, 10 s} S//c->y"
    text = ("<r><c>k</c>" + '<b t="1">v</b>' * nodes + "</r>").encode()
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        found = engine.push([Document("S", "1", 1, text), Document("S", "2", 2, text)])
        assert len(found) == 1
        assert len(found[0].bindings["z"]) == nodes
        for way in WAYS.values():
            assert way(found)


def test_a_match_of_many_nodes_is_shown_in_linear_work() -> None:
    shown_in_all_ways(1)  # what is imported and compiled once
    few, many = (measured(partial(shown_in_all_ways, nodes))[1] for nodes in (1_000, 4_000))
    assert many < 4.5 * few


@st.composite
def _trees(draw: st.DrawFn) -> etree._Element:
    root = etree.Element(draw(st.sampled_from(["a", "{u}a"])))
    elements = [root]
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from(elements))
        elements.append(etree.SubElement(parent, draw(st.sampled_from(["a", "b", "{u}a"]))))
        if draw(st.booleans()):
            elements[-1].set("t", "1")
        if draw(st.booleans()):
            parent.append(etree.Comment("c"))
    return root


@given(_trees())
def test_a_location_finds_its_node(root: etree._Element) -> None:
    tree = number_nodes(root)
    places = [tree.path(number) for number in range(len(tree.items))]
    assert len(set(places)) == len(places)
    for place, item in zip(places, tree.items, strict=True):
        path = place.replace("Q{u}", "u:")
        found = root.getroottree().xpath(path, namespaces={"u": "u"})
        assert found == [item.value if isinstance(item, AttributeNode) else item]


# -- The tail ------------------------------------------------------------------------------


class Heard:
    """A listener that can be held up."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.skipped = 0
        self.may_go = threading.Event()
        self.may_go.set()
        self.begun = threading.Event()

    def __call__(self, matches: Sequence[Match]) -> None:
        self.begun.set()
        assert self.may_go.wait(60)
        self.found += [match.id for match in matches]

    def skip(self, count: int) -> None:
        self.skipped += count


@dataclass(frozen=True)
class Printed:
    """An outbox that prints to a listener."""

    printing: Printing
    outbox: Outbox

    def finish(self) -> None:
        """Wait until everything is printed."""
        self.outbox.notify_all()
        eventually(self.printing.has_all)


@contextmanager
def tail(
    engine: xscl.Engine,
    heard: Callable[[Sequence[Match]], None],
    skipped: Callable[[int], None] = lambda count: None,
    behind: int = 100_000,
) -> Iterator[Printed]:
    printing = Printing(engine, heard, skipped, behind)
    outbox = Outbox(engine, Credentials(), DeliverySettings(Path("nowhere")), printing)
    outbox.start()
    with closing(outbox):
        yield Printed(printing, outbox)


@pytest.fixture
def pairs() -> Iterator[xscl.Engine]:
    """An engine with one subscription, whose matches are printed from now on."""
    with xscl.Engine() as engine:
        engine.subscribe("pairs", PAIRS)
        engine.log.undelivered()
        yield engine


def ours(engine: xscl.Engine) -> list[str]:
    """Return the matches that are no user's, but for those of the first documents."""
    return [one.id for one in engine.matches() if not one.subscription.startswith("_1.")][2:]


def test_all_matches_are_heard_once_in_order(tmp_path: Path) -> None:
    """By who begins now, and by the next process from where this one ended."""
    heard, path = Heard(), tmp_path / "x.sqlite"
    with xscl.Engine(path) as engine:
        engine.subscribe("pairs", PAIRS)
        engine.subscribe("same", PAIRS)
        engine.subscribe("_1.theirs", PAIRS)
        engine.push(documents(1, 2))
        with tail(engine, heard) as following:
            for n in range(3, 30):
                engine.push(documents(n))
                following.finish()
        assert heard.found == ours(engine), "what was there before it began was not asked for"
        engine.log.save_acknowledged()
        engine.push(documents(30))
        assert engine.log.acknowledged < engine.matches()[-1].position
    with xscl.Engine(path) as engine:
        with tail(engine, heard) as following:
            following.finish()
        assert heard.found == ours(engine)


def test_who_is_slow_holds_up_nobody_and_skips(pairs: xscl.Engine) -> None:
    heard = Heard()
    heard.may_go.clear()
    with tail(pairs, heard, heard.skip, 100) as following:
        pairs.push(documents(1, 2))
        following.outbox.notify_all()
        assert heard.begun.wait(60)
        pairs.push(documents(*range(3, 40)))
        following.outbox.notify_all()
        heard.may_go.set()
        following.finish()
    every = [one.id for one in pairs.matches()]
    assert heard.found == [every[0], *every[-10:]]
    assert heard.skipped == len(every) - 11


def test_who_fails_goes_on_with_the_next(
    pairs: xscl.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Mock(side_effect=ValueError("the listener fell asleep"))
    with tail(pairs, failing) as following:
        for n in range(1, 4):
            pairs.push(documents(n))
            following.finish()
    assert [len(call.args[0]) for call in failing.call_args_list] == [1, 2]
    assert "fell asleep" in caplog.text


def test_what_cannot_be_read_now_is_passed_again(pairs: xscl.Engine) -> None:
    failing_first = Mock(side_effect=[StoreUnavailable(None, "planted"), None])
    pairs.push(documents(1, 2))
    with tail(pairs, failing_first) as following:
        following.finish()
    first, second = ([one.id for one in call.args[0]] for call in failing_first.call_args_list)
    assert first == second != []


def test_the_past_of_a_new_subscription_is_not_printed() -> None:
    heard = Heard()
    with xscl.Engine() as engine:
        engine.retain(Retention(history=None))
        engine.subscribe("pairs", PAIRS)
        engine.log.undelivered()
        with tail(engine, heard) as following:
            engine.push(documents(1, 2))
            following.finish()
            eventually(lambda: engine.log.acknowledged == engine.matches()[-1].position)
            engine.subscribe("past", PAIRS.replace("1000", "999"), since="900 s")
            following.finish()
        assert len(engine.matches()) == 2
        assert len(heard.found) == 1


# -- The printer ---------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("pairs", PAIRS)
        old = Document("S", "d1", 1, b"<a>hi</a>", history=True)
        found = engine.push([old, Document("S", "d2", 2, b"<a>hi</a>", history=True)])
        found_new = engine.push(documents(3))
        for as_json in (False, True):
            plain = MatchPrinter(as_json=as_json, history=False)
            plain(found)
            assert not printed(capsys)
            plain(found_new)
            assert len(printed(capsys)) == (2 if as_json else 10)
            plain.skipped(0)
            plain.skipped(7)
            assert printed(capsys) == ['{"skipped": 7}' if as_json else "... 7 skipped"]


def test_a_match_that_is_gone_is_left_out_and_the_others_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("gone", "T//a->x FOLLOWED BY{x=y, 1000 s} T//a->y")
        engine.subscribe("pairs", PAIRS)
        texts = [Document("T", f"t{n}", n, b"<a>hi</a>") for n in (1, 2)]
        found = engine.push([*texts, *documents(3, 4)])
        assert [match.subscription for match in found] == ["gone", "pairs"]
        engine.unsubscribe("gone", purge=True)
        MatchPrinter(as_json=True, history=True)(found)
    (line,) = printed(capsys)
    assert json.loads(line)["subscription"] == "pairs"


def test_a_pipe_that_is_closed_ends_printing_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        printer = MatchPrinter(as_json=True, history=True)
        printer.skipped(1)
        assert os.read(reading, 100) == b'{"skipped": 1}\n'
        os.close(reading)
        printer.skipped(2)
        printer.skipped(3)
    assert capsys.readouterr().err.count("nobody reads the output") == 1


def test_a_full_pipe_that_does_not_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that another program has made non-blocking takes part of a line, then nothing."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    lines = 20_000  # more than a pipe holds
    with os.fdopen(reading) as source, os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        printer = MatchPrinter(as_json=True, history=True)

        def printing() -> None:
            with stream:
                for count in range(1, lines + 1):
                    printer.skipped(count)

        with beside(printing):
            eventually(lambda: not select.select([], [writing], [], 0)[1])  # the pipe is full
            assert [json.loads(line)["skipped"] for line in source] == [*range(1, lines + 1)]


# -- The process ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "count"),
    usually([("json", 60), ("json", 100), ("text", 100)], ("json", 60), several=True),
)
def test_an_output_that_nobody_reads_stops_nothing(tmp_path: Path, form: str, count: int) -> None:
    """Documents are consumed, SIGTERM ends the process, and the next one prints the rest."""
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), xscl.Engine(home.database) as engine:
        engine.subscribe("pairs", PAIRS)
        engine.log.undelivered()
    with Spool(home.spool) as spool:
        spool.append(documents(*range(count), text="long " * 30), 1)
    with served(home, *(["--json"] if form == "json" else [])) as process:
        eventually(lambda: (home.read_status() or {}).get("waiting") == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "stopped" in process.stderr.read()
    with xscl.Engine(home.database) as engine:
        assert len(engine.matches()) == count * (count - 1) // 2
        assert len(engine.log.undelivered()) > 0


def test_a_listener_that_fails_to_hear_of_skipped_matches_hears_the_next(
    pairs: xscl.Engine,
) -> None:
    heard, full = Heard(), Mock(side_effect=OSError(28, "No space left on device"))
    with tail(pairs, heard, full, 10) as following:
        pairs.push(documents(*range(1, 10)))
        following.finish()
    assert heard.found == [pairs.matches()[-1].id]

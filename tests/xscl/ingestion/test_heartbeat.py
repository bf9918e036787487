"""Time passes on live streams when nothing comes: once, durably, the same whenever it is read."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from feeds.documents import Document
from feeds.errors import SegmentsMissing
from feeds.spool import Spool
from tests.project import LEAN, python
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.heartbeat import ON_THE_WAY, Heartbeat
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed_repository import ticks
from xscl.server.serve import ServeSettings, Service
from xscl.subscriptions.match import Match

SECOND = 1_000_000
SILENCE = "S//a[./k->x] NOT FOLLOWED BY{x = y, 2 s} S//b[./k->y]"


def document(name: str, at: float, text: str = "1", stream: str = "S") -> Document:
    """A document whose element is named by the first letter of its name; `at` is in seconds."""
    xml = f"<{name[0]}><k>{text}</k></{name[0]}>".encode()
    return Document(stream, name, round(at * SECOND), xml)


@dataclass
class Place:
    """An engine, its spool, and a clock that is set by hand, in seconds."""

    engine: Engine
    spool: Spool
    now: float = 0.0
    heard: float | None = None

    def __post_init__(self) -> None:
        self.keeper = Heartbeat(
            self.engine,
            self.spool,
            lambda: None if self.heard is None else round(self.heard * SECOND),
            lambda: round(self.now * SECOND) + ON_THE_WAY,
        )

    def send(self, *documents: Document) -> None:
        self.spool.append(documents, round(self.now * SECOND))
        self.consume()

    def consume(self) -> None:
        Consumer(self.spool, self.engine.ingest).run_once()

    def at(self, now: float) -> list[tuple[str, ...]]:
        """Return the documents of the matches that are there once it is so late."""
        self.now = now
        self.keeper.beat_if_due()
        self.consume()
        return [match.documents for match in self.engine.matches()]


@pytest.fixture
def place(engine: Engine, spool: Spool) -> Place:
    return Place(engine, spool)


@pytest.fixture
def silence(place: Place) -> Place:
    """A callback for an answer that did not come."""
    place.engine.stream("S", live=True)
    place.engine.subscribe("silence", SILENCE)
    return place


def test_silence_is_found_when_its_time_is_over_and_nothing_comes(silence: Place) -> None:
    silence.send(document("a", 10))
    assert silence.at(10) == []  # the document's own epoch may get more
    assert silence.at(12) == []  # an answer at exactly two seconds counts
    assert silence.at(12.000001) == [("a",)]
    written = silence.spool.latest()
    assert silence.at(99) == [("a",)]
    assert silence.spool.latest() == written, "nobody waits for the time any more"


@pytest.mark.usefixtures("apart")
def test_time_does_not_pass_over_a_lost_segment(silence: Place) -> None:
    silence.send(document("a", 10))
    lost = silence.spool.append([document("b", 11)], 11 * SECOND)
    silence.spool.segment(lost).path.unlink()
    with pytest.raises(SegmentsMissing):
        silence.at(12.5)
    assert silence.spool.latest() == lost
    silence.spool.skip(lost, lost)
    assert silence.at(12.5) == [("a",)]


def test_a_beat_waits_for_what_is_not_consumed_yet(silence: Place) -> None:
    silence.send(document("a", 10))
    silence.spool.append([document("b", 12)], 12 * SECOND)
    silence.now = 99
    silence.keeper.beat_if_due()
    assert silence.spool.latest() == 2
    assert silence.at(99) == []


@pytest.mark.parametrize(
    "replayed",
    [
        "L//a[./k->x] NEXT{x = y} L//b[./k->y]",
        "L//a[./k->x] NOT FOLLOWED BY{x = y, 2 s} L//b[./k->y]",
        "L//a[./k->x] NOT FOLLOWED BY{x = y, 2 s} S//b[./k->y]",  # its m-ops are those of SILENCE
        "(S//a[./k->x] NOT FOLLOWED BY{x = y, 3 s} S//c[./k->y]) NEXT{x = z} L//a[./k->z]",
    ],
)
def test_what_waits_on_a_replayed_stream_makes_no_time_pass(replayed: str, silence: Place) -> None:
    """Also if a live stream is as late: of both, only what is live waits for the wall clock."""
    silence.engine.subscribe("replayed", replayed)
    silence.send(document("a", 10, stream="L"), document("c", 10, "2", stream="S"))
    silence.at(99)
    assert silence.spool.latest() == 1
    silence.send(document("b", 11, "2", stream="L"))
    assert silence.engine.sql("FROM late").num_rows == 0
    silence.send(document("a2", 11))
    silence.at(99)
    assert silence.spool.latest() > 3, "a live one waits"


def test_what_is_published_is_as_live_as_what_it_is_made_of(place: Place) -> None:
    engine = place.engine
    engine.subscribe("echo", "SELECT <e>{string(x)}</e> FROM S//a[./k->x] PUBLISH E")
    engine.subscribe("silence", "E//e->x NOT FOLLOWED BY{x = y, 2 s} E//f->y")
    place.send(document("a", 10))
    assert (engine.is_live("E"), place.at(20)) == (False, [("a",)])
    engine.stream("S", live=True)
    assert engine.is_live("E")
    assert len(place.at(21)) == 2
    assert engine.sql("SELECT live FROM watermarks WHERE stream = 'E'").to_pylist() == [
        {"live": True}
    ]


def test_feeds_that_were_not_polled_are_waited_for(silence: Place) -> None:
    silence.send(document("a", 10))
    silence.heard = 11
    assert silence.at(50) == []
    silence.send(document("b", 11.5))  # as the poll finds it
    silence.heard = 51
    assert silence.at(51) == []
    assert silence.engine.sql("FROM late").num_rows == 0


@pytest.mark.parametrize("together", [False, True])
def test_a_beat_is_what_it_is_however_the_spool_is_cut(place: Place, together: bool) -> None:
    engine, spool = place.engine, place.spool
    engine.stream("S", live=True, attributes={"k": str})
    engine.subscribe("silence", SILENCE)
    engine.subscribe("pairs", "S//a[./k->x] FOLLOWED BY{x = y, 3 s} S//b[./k->y]")
    engine.subscribe("events", "SELECT * FROM S NEXT{$1.k = $2.k} S", language="cel")
    for documents, beat in (
        ([document("a", 10), document("a2", 11, "2")], 13),
        ([document("b", 12), document("b2", 13, "2")], 15),
        ([document("b3", 13.5, "2"), document("a3", 16, "3")], 19),
    ):
        spool.append(documents, 0)
        if not together:
            place.consume()
        spool.beat(beat * SECOND)
        if not together:
            place.consume()
    place.consume()
    found = sorted((match.subscription, match.documents) for match in engine.matches())
    assert found == [
        ("events", ()),
        ("pairs", ("a", "b")),
        ("pairs", ("a2", "b2")),
        ("silence", ("a",)),  # b came when it was 13
        ("silence", ("a3",)),
    ]
    late = engine.sql("SELECT docid, watermark, missed FROM late ORDER BY ALL").to_pylist()
    assert [(row["docid"], row["missed"]) for row in late] == [
        ("b", ["events", "pairs", "silence"]),
        ("b3", ["events", "pairs", "silence"]),
    ]


def test_beats_keep_their_places_when_poison_is_taken_out(engine: Engine) -> None:
    engine.subscribe("silence", SILENCE)
    given = [document("p", 1), document("a", 10), document("q", 1), document("b", 11)]
    batch = BatchKey("q", 1, 1, (Beat(3, 12 * SECOND), Beat(4, 13 * SECOND)))
    found = engine.ingest.push(given, source=batch, poison={0, 2})
    assert [match.documents for match in found] == [("a",)]
    assert engine.sql("SELECT docid FROM late").to_pylist() == [{"docid": "b"}]
    assert engine.push(given, source=batch) == []


@pytest.mark.parametrize("fault", ["stored:2", pytest.param("beat", marks=pytest.mark.slow)])
def test_a_beat_has_its_effect_once_whenever_the_process_is_killed(
    home: DataDirectory, fault: str
) -> None:
    """Killed with the beat in the spool, and in the transaction that is to take it."""
    with home.hold("test"), Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.stream("S", live=True)
        engine.subscribe("silence", SILENCE)
        spool.append([document("a", ticks() / SECOND - 60)], ticks())
    code = (
        f"{LEAN}from pathlib import Path;"
        " from xscl.ingestion.data_directory import DataDirectory;"
        " from xscl.server.serve import Service, ServeSettings;"
        " settings = ServeSettings(poll_interval=0.05);"
        " Service(DataDirectory(Path(sys.argv[1])), settings, lambda matches: None).run()"
    )
    assert python("-c", code, home.path, XSCL_FAULT=fault).returncode == -signal.SIGKILL
    told: list[Any] = []

    def listen(matches: Sequence[Match]) -> None:
        told.extend(match.documents for match in matches)
        if told:
            service.stop()

    with Spool(home.spool, read_only=True) as spool:
        assert [spool.segment(number).rows for number in spool.numbers(0)] == [1, 0]
        service = Service(home, ServeSettings(poll_interval=0.05), listen)
        service.run()
        assert told == [("a",)]
        assert spool.latest() == 2, "the beat that was there has done"

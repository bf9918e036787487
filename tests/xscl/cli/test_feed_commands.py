"""`xscl feeds ...`: answers and messages as the user sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import Result

from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.project import ROOT
from tests.xscl import commandline
from tests.xscl.commandline import called, json_rows
from tests.xscl.polling.scripted import Server, reply, rss
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import BATCH

OPML = """<opml version="2.0"><body>
<outline text="Tech &amp; Science"><outline text="A" xmlUrl="https://a.example/f"/></outline>
<outline text="B" xmlUrl="https://b.example/f" category="/daily"/>
<outline text="again" xmlUrl="https://a.example/f"/>
<outline text="nothing"/>
<outline text="file" xmlUrl="file:///etc/passwd"/>
</body></opml>"""


def xscl(*arguments: str, given: str | None = None) -> Result:
    return called("feeds", *arguments, given=given)


answered = partial(commandline.answered, "feeds")


def complained(code: int, *arguments: str) -> str:
    done = xscl(*arguments)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stderr


def listed() -> list[dict[str, Any]]:
    return json_rows(answered("list", "--json"))


# -- Lists ---------------------------------------------------------------------------------


def test_a_list_is_taken_in_with_a_line_for_each_outline() -> None:
    Path("mine.opml").write_text(OPML, "utf-8")
    done = xscl("import", "mine.opml", "--tag", "all")
    assert (done.exit_code, done.stderr) == (1, "xscl: 2 of 5 outlines could not be imported\n")
    assert done.stdout == (
        "added: https://a.example/f on a.example, all, Tech-Science\n"
        "added: https://b.example/f on b.example, all, daily\n"
        "twice: https://a.example/f\n"
        "refused: nothing: it has no address of a feed\n"
        "refused: file:///etc/passwd: 'file:///etc/passwd' is no address of a feed\n"
        "5 outlines: 2 added, 1 twice, 2 refused\n"
    )
    assert [(feed["title"], feed["tags"], feed["state"]) for feed in listed()] == [
        ("A", ["all", "Tech-Science"], "new"),
        ("B", ["all", "daily"], "new"),
    ]


def test_a_second_time_nothing_changes_but_tags_that_are_new() -> None:
    Path("mine.opml").write_text(OPML, "utf-8")
    complained(1, "import", "mine.opml")
    before = listed()
    assert "2 of 5 outlines" in complained(1, "import", "mine.opml")
    assert listed() == before
    report = json_rows(xscl("import", "mine.opml", "--tag", "new", "--json").stdout)
    outcomes = ["tagged", "tagged", "followed already", "refused", "refused"]
    assert [line["outcome"] for line in report] == outcomes
    assert [feed["tags"] for feed in listed()] == [["Tech-Science", "new"], ["daily", "new"]]


def test_streams_that_are_read_already_may_miss_older_items() -> None:
    Path("mine.opml").write_text(OPML, "utf-8")
    called("subscribe", "q", "daily//item->i")
    told = complained(1, "import", "mine.opml")
    assert told.count("subscriptions to 'daily' may miss older") == 1
    assert "may miss" not in complained(1, "import", "mine.opml")


def test_what_is_exported_is_imported_the_same() -> None:
    Path("mine.opml").write_text(OPML, "utf-8")
    complained(1, "import", "mine.opml")
    answered("add", "https://c.example/f", "--keep", "--stream", "news", "--every", "30min")
    assert answered("export", "out.opml") == "3 feeds written to out.opml\n"
    assert answered("export") == Path("out.opml").read_text("utf-8")
    answered("import", "out.opml", "--data", "other")
    assert answered("export", "--data", "other") == answered("export")
    other = json_rows(answered("list", "--json", "--data", "other"))
    options = [(feed["stream"], feed["every"]) for feed in listed()]
    assert options == [(feed["stream"], feed["every"]) for feed in other]
    assert ("news", 1_800) in options
    assert "b.example" not in answered("export", "--tag", "Tech-Science")


def test_a_plain_list_from_standard_input() -> None:
    done = xscl("import", "-", given="# mine\nhttps://a.example/f\nnonsense\n")
    assert done.stdout.endswith("2 outlines: 1 added, 1 refused\n")


def test_what_is_no_list() -> None:
    for body, message in (
        ("<rss/>", "the root element is rss, which is no OPML"),
        ("<opml><body>", "line 1, column 13:"),
        ("words", "the text is no OPML and has no address of a feed on a line"),
    ):
        Path("x").write_text(body, "utf-8")
        assert f"x cannot be read: {message}" in complained(2, "import", "x")
        assert not Path("xscl-data").exists()


# -- One feed ------------------------------------------------------------------------------


def test_a_feed_is_shown_and_changed(server: Server) -> None:
    server.says("/f", reply(rss("one", "two")), reply(status="410 Gone"), reply(rss("one", "two")))
    answered("add", server.url("/f"), "--stream", "news", "--tag", "old")
    assert answered("edit", "news", "--tag", "new", "--untag", "old", "--every", "2 h") == (
        f"{server.url('/f')} is on news, new, feeds, every 7200 s\n"
    )
    allow = ("--allow-address", server.address)
    assert answered("refresh", "news", *allow).startswith(
        f"{server.url('/f')}: 2 new or changed items\n1 feed polled, 0 matches\n"
    )
    shown = answered("show", "news")
    for name, value in {"stream": "news", "tags": "new", "items": 2, "quality": "strict"}.items():
        assert f"{name:15}{value}\n" in shown
    assert complained(1, "poll", "news", *allow).endswith(
        "the server says that the feed is gone (410)\n"
    )
    assert answered("poll", "--all", *allow).startswith("no feed is due\n")
    answered("edit", "news", "--revive")
    answered("poll", *allow)
    (feed,) = listed()
    assert (feed["state"], feed["items"], feed["versions"], feed["polls"]) == ("ok", 2, 2, 2)


def test_times_are_printed_in_the_zone_of_the_reader(server: Server) -> None:
    server.says("/f", reply(rss("one")))
    answered("add", server.url("/f"), "--stream", "news")
    answered("refresh", "--allow-address", server.address)
    (feed,) = listed()
    utc = datetime.fromisoformat(feed["polled"])
    there = utc.astimezone(ZoneInfo("Asia/Kolkata")).isoformat(timespec="seconds")
    assert there.endswith("+05:30")
    assert f"polled         {there}\n" in answered("show", "news", "--timezone", "Asia/Kolkata")
    assert f"polled         {utc:%Y-%m-%dT%H:%M:%SZ}\n" in answered("show", "news")
    local = utc.astimezone().isoformat(timespec="seconds").replace("+00:00", "Z")
    assert f"polled         {local}\n" in answered("show", "news", "--timezone", "local")
    (same,) = json_rows(answered("list", "--json", "--timezone", "Asia/Kolkata"))
    assert same == feed, "programs get UTC"
    for wrong in ("Nowhere/There", "../UTC", "", "Asia"):
        assert "is no time zone" in complained(2, "list", "--timezone", wrong)


def test_items_are_marked_as_read(server: Server) -> None:
    server.says("/f", reply(rss("one")))
    answered("add", server.url("/f"))
    assert called("read").stderr == "xscl: no marks\n"
    assert called("read", "news/a#1", "news/b#2").exit_code == 0
    assert called("read", "news/b#2", "--unread").exit_code == 0
    (mark,) = json_rows(called("read", "--json").stdout)
    assert mark["item"] == "news/a#1"
    assert called("read", "--order", "date").exit_code == 0


def test_all_feeds_are_refreshed_without_a_name(server: Server) -> None:
    for path in ("/1", "/2"):
        server.says(path, reply(rss("one")))
        answered("add", server.url(path))
    said = answered("refresh", "--allow-address", server.address)
    assert said.endswith("2 feeds polled, 0 matches\n")
    assert (server.count("/1"), server.count("/2")) == (1, 1)


@pytest.mark.parametrize("form", usually([(), ("--json",)], ()))
def test_matches_that_nobody_could_read_come_with_the_next_poll(
    server: Server, form: tuple[str, ...]
) -> None:
    """One is of a process that was killed before, the others of two batches of one poll."""
    place = DataDirectory(Path("xscl-data"))
    with place.hold("test"), Engine(place.database) as engine, Spool(place.spool) as spool:
        engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 9} S//a->y")
        engine.log.undelivered()
        engine.push([Document("S", f"d{n}", n, b"<a>1</a>") for n in (0, 1)])
        spool.append([Document("S", "d2", 2, b"<a>1</a>")], 1)
        spool.append([Document("T", f"t{n}", 3, b"<t/>") for n in range(BATCH)], 1)
        spool.append([Document("S", "d3", 4, b"<a>1</a>")], 1)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "xscl", "feeds", "poll", *form],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(answered("poll", "--json"))["matches"]
    expected = [("d0", "d1"), ("d0", "d2"), ("d1", "d2"), ("d0", "d3"), ("d1", "d3"), ("d2", "d3")]
    assert [tuple(match["documents"]) for match in found] == expected
    assert json.loads(answered("poll", "--json"))["matches"] == []

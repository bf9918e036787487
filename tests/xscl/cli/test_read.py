"""Questions of a new user: where matches are, the name of a table, why a feed is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import Result

from tests.xscl.commandline import answered, called, json_rows
from tests.xscl.polling.scripted import Server, reply, rss, serving
from xscl import Document
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.queries.tables import LEVELS

ECHO = "feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]"


def failed(code: int, *arguments: str) -> str:
    done = called(*arguments)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stderr


@pytest.fixture(scope="module")
def first_poll(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Two feeds with the same three items, and a subscription, after the first poll."""
    home = tmp_path_factory.mktemp("polled") / "xscl-data"
    data = ("--data", str(home))
    with serving() as server:
        for path in ("/one", "/two"):
            server.says(path, reply(rss("a same", "b same", "c other")))
            answered("feeds", "add", server.url(path), "--stream", path[1:], *data)
        answered("subscribe", "echo", ECHO, *data)
        return home, called("feeds", "poll", "--all", "--allow-address", server.address, *data)


@pytest.fixture
def polled(first_poll: tuple[Path, Result], folder: Path) -> Result:
    """The output of the first poll, whose data directory is that of the commands."""
    home, done = first_poll
    shutil.copytree(home, folder / "xscl-data")
    return done


# -- Matches -------------------------------------------------------------------------------


def test_a_poll_says_how_many_matches_are_among_history_and_where(polled: Result) -> None:
    assert polled.exit_code == 0
    assert polled.stdout.endswith(
        "2 feeds polled, 0 matches\n6 more among items that the feeds held already (echo 6)\n"
    )
    assert "'xscl matches NAME' lists these" in polled.stderr


@pytest.mark.usefixtures("polled")
def test_the_matches_of_a_subscription_are_listed_and_continued() -> None:
    lines = json_rows(answered("matches", "echo", "--json"))
    assert len(lines) == len({line["match"] for line in lines}) == 6
    assert {line["subscription"] for line in lines} == {"echo"}
    text = answered("matches", "echo", "-v").splitlines()
    assert [line for line in text if line.startswith("  match ")] == [
        f"  match {line['match']}" for line in lines
    ]
    for at, line in enumerate(lines, 1):
        rest = answered("matches", "echo", "--after", line["match"], "--json")
        assert json_rows(rest) == lines[at:]
    answered("subscribe", "other", ECHO, "--from-now")
    assert answered("matches", "other") == ""
    assert "has no match 'nix'" in failed(1, "matches", "echo", "--after", "nix")
    message = failed(1, "matches", "ecko")
    assert message == "xscl: there is no subscription named 'ecko'\nhint: did you mean 'echo'?\n"


# -- Names ---------------------------------------------------------------------------------


def test_an_unknown_table_is_answered_with_near_ones(polled: Result) -> None:
    assert "hint: did you mean documents or story_documents?\n" in failed(
        1, "sql", "SELECT * FROM document"
    )
    assert "watermarks" in failed(1, "sql", "SELECT * FROM watermark").rpartition("hint")[2]
    assert "such as documents, " in failed(1, "sql", "SELECT * FROM zzzzz")
    assert "hint" not in failed(1, "sql", "SELECT nix FROM documents")
    assert "LINE 2: FROM documents WHERE docid = 1::DATE\n" in failed(
        1, "sql", "SELECT docid\nFROM documents WHERE docid = 1::DATE"
    )
    told = failed(1, "sql", "SELECT * FROM match")
    assert told == "xscl: there is no relation 'match'\nhint: did you mean matches?\n"


def test_an_address_that_is_not_allowed_is_named_for_the_option(server: Server) -> None:
    added = called("feeds", "add", server.url("/f"))
    assert f"--allow-address {server.address} allows it" in added.stderr
    message = failed(1, "feeds", "poll")
    assert f"--allow-address {server.address} allows it" in message
    (feed,) = json_rows(answered("feeds", "list", "--json"))
    assert (feed["state"], feed["failures"]) == ("refused", 0)


# -- Figures -------------------------------------------------------------------------------


def test_the_status_counts_what_is_published_and_late_apart(folder: Path) -> None:
    answered("subscribe", "p", "SELECT <c/> FROM S//a PUBLISH made")
    with Engine(DataDirectory(folder / "xscl-data").database) as engine:
        for id_, time in (("1", 1_700_000_000_000_000), ("2", 1_700_000_001_000_000), ("3", 5)):
            engine.push(Document("S", id_, time, b"<a/>"))
        ranks = engine.sql("SELECT rank FROM state.document WHERE doc % 2 = 1").to_pylist()
        assert all(row["rank"] % LEVELS == 0 for row in ranks)
    found = json.loads(answered("status", "--json"))
    assert (found["documents"], found["published"], found["late"]) == (3, 3, 1)
    assert found["clock"] == "2023-11-14T22:13:21Z"
    said = answered("status")
    assert "documents      3 taken in, 1 late, 0 rejected\n" in said
    assert "published      3 documents made of matches\n" in said
    assert "clock          2023-11-14T22:13:21Z\n" in said

"""`xscl try` and `xscl why` as the user sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.cli.test_cli import BLOG, BOOK, PAIR
from tests.xscl.commandline import answered, called, json_rows
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory

D = 86_400_000_000
TEXT = (
    "{}  1970-01-04T00:00:00Z\n"
    "  Feeds | d2 (book) | 1970-01-03T00:00:00Z\n  Feeds | d3 (blog) | 1970-01-04T00:00:00Z\n"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a subscription, and four documents; one is in the spool only."""
    home = DataDirectory(tmp_path_factory.mktemp("made") / "xscl-data")
    with home.hold("test"), Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("keeper", "S//*->k JOIN{k=n} T//none->n")
        engine.push(Document("S", "d1", D, BOOK.encode()))
        engine.subscribe("pair", PAIR)
        batch = [
            Document("S", "d2", 2 * D, BOOK.encode()),
            Document("S", "d3", 3 * D, BLOG.encode()),
            Document("R", "d4", 3 * D, b"<other/>"),
        ]
        number = spool.append(batch, 3)
        engine.push(spool.read(number), source=BatchKey(SPOOL, number, number))
    return home.path


@pytest.fixture(autouse=True)
def place(made: Path, folder: Path) -> DataDirectory:
    """A copy of the data directory in the directory of work."""
    return DataDirectory(shutil.copytree(made, folder / "xscl-data"))


# -- try -----------------------------------------------------------------------------------


def test_try_a_subscription_on_what_came_before_it_too() -> None:
    rows = json_rows(answered("try", "pair", "--json"))
    assert [row["documents"] for row in rows] == [["d1", "d3"], ["d2", "d3"]]
    assert {row["subscription"] for row in rows} == {"pair"}
    assert answered("try", "pair", "--since", "1d") == TEXT.format("pair")


def test_try_says_that_there_is_no_match() -> None:
    done = called("try", "S//none->x")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "xscl: warning: line 1, column 4: 'none' is not in the newest 3 documents of 'S'\n"
        "hint: did you mean note (1 document)?\n"
        "xscl: no match among the kept documents\n"
        "  0 of 3 documents of S match S//none->x\n"
        "        there is no //none; the roots are book, blog\n"
        "        near: note (1 document)\n"
    )


def test_subscribe_remarks_on_blocks_that_no_kept_document_matches() -> None:
    done = called("subscribe", "hushed", "S//book[./title = 'feeds']")
    assert done.exit_code == 0
    assert done.stderr == (
        'xscl: no kept document matches S//book[./title = "feeds"]: S//book matches, but not with'
        " [./title = \"feeds\"]: 'Feeds' and 'feeds', equal but for case\n"
    )


# -- why -----------------------------------------------------------------------------------


def test_why_a_match() -> None:
    assert answered("why", "pair", "d2", "d3").splitlines() == [
        "pair matches d2, d3",
        "  holds  registration  the subscription sees d2, d3",
        "  holds  pattern       d2 matches S//book->b[./title->t]",
        "  holds  pattern       d3 matches S//blog->c[./title->u]",
        "  holds  time          d2 and d3 are at most 30 d apart: they are 1 d apart",
        "  holds  value         t = u: 'Feeds' and 'Feeds'",
    ]


def test_why_reads_a_text_that_is_not_kept_from_the_spool() -> None:
    found = json.loads(answered("why", "pair", "d2", "d4", "--json"))
    nearest = [edge["nearest"] for edge in found["edges"] if edge["kind"] == "pattern"]
    assert nearest == [None, "R/d4 belongs to R"]


def test_a_word_that_is_no_name_is_told_to_be_taken_as_a_query() -> None:
    told = "there is no subscription of that name: 'echoo' is taken as a query"
    assert told in called("explain", "echoo").stderr
    for known in ("pair", "S"):
        assert "taken as a query" not in called("explain", known).stderr
    for command in (("try", "echoo"), ("why", "echoo", "d1")):
        told = called(*command).stderr
        assert told.count("there is no subscription") == 1
        assert "is taken as a query" not in told

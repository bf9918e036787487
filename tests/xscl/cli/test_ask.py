"""`xscl try` and `xscl why` as the user sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import ANY

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.cli.test_cli import BLOG, BOOK, PAIR, answered, failed
from tests.xscl.commandline import called, json_rows
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
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    """A copy of the data directory in the directory of work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XSCL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return DataDirectory(shutil.copytree(made, tmp_path / "xscl-data"))


# -- try -----------------------------------------------------------------------------------


def test_try_a_subscription_on_what_came_before_it_too() -> None:
    rows = [json.loads(line) for line in answered("try", "pair", "--json").splitlines()]
    assert [row["documents"] for row in rows] == [["d1", "d3"], ["d2", "d3"]]
    assert {row["subscription"] for row in rows} == {"pair"}
    assert answered("try", "pair", "--since", "1d") == TEXT.format("pair")


def test_try_a_query_or_a_file() -> None:
    assert answered("try", PAIR, "--since", "36 h") == TEXT.format("try")
    Path("q.xscl").write_text(f"-- books and blogs\n{PAIR}\n")
    assert answered("try", "@q.xscl", "--since", "36 h") == TEXT.format("try")
    assert answered("try", "S//blog->b", "--format", "xml") == f"<result>{BLOG}</result>\n"
    assert len(json_rows(answered("subscriptions", "--json"))) == 2


def test_try_says_how_documents_come_on_a_stream_that_has_none() -> None:
    said = called("try", "feeds//a->x").stderr
    assert "nothing has come on feeds: 'xscl feeds add URL' follows a feed" in said
    said = called("try", "news//a->x").stderr
    assert "nothing has come on news: 'xscl feeds add URL --tag news' follows a feed" in said


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


def test_why_without_documents_shows_what_comes_closest() -> None:
    query = PAIR.replace("S//blog", "S//blog[./zzz]")
    assert answered("why", query).splitlines()[:3] == [
        "the query has no match so far",
        "  2 of 3 documents of S match S//book->b[./title->t]",
        "  0 of 3 documents of S match S//blog->c[./zzz][./title->u]",
    ]
    (found,) = json.loads(answered("why", PAIR, "--json"))["closest"]["edges"][-1:]
    value = {"kind": "value", "text": "t = u", "holds": True, "nearest": ANY, "pending": False}
    assert found == value
    assert answered("why", "pair").startswith("pair has matches\n")


def test_subscribe_remarks_on_blocks_that_no_kept_document_matches() -> None:
    done = called("subscribe", "hushed", "S//book[./title = 'feeds']")
    assert done.exit_code == 0
    assert done.stderr == (
        'xscl: no kept document matches S//book[./title = "feeds"]: S//book matches, but not with'
        " [./title = \"feeds\"]: 'Feeds' and 'feeds', equal but for case\n"
    )


def test_subscribe_warns_of_names_that_were_never_seen() -> None:
    done = called("subscribe", "typo", "S//book[./titel->t] JOIN{t=u, 1 d} SS//blog[./title->u]")
    assert done.exit_code == 0
    assert done.stderr == (
        "xscl: warning: line 1, column 11: 'titel' is not in the newest 3 documents of 'S'\n"
        "hint: did you mean title (3 documents)?\n"
        "xscl: warning: line 1, column 36: nothing is known of the stream 'SS'\n"
        "hint: did you mean S (3 documents)?\n"
    )


def test_subscribe_and_try_warn_once_of_amounts_that_are_compared_as_texts() -> None:
    for stream, xml in (("o", "<o><t>40</t></o>"), ("i", "<i><u>40.00</u></i>")):
        Path(f"{stream}.xml").write_text(xml)
        answered("push", "--stream", stream, f"{stream}.xml", "--at", "2024-05-07")
    query = "o//t->t FOLLOWED BY{t != u AND t = t, 1 d} i//u->u"
    warned = (
        f"xscl: warning: line 1, column {query.index('t != u') + 1}: t != u compares texts, and"
        " values such as '40' and '40.00' were seen\n"
        "hint: compare numbers with number(t) != number(u)\n"
    )
    for arguments in (("subscribe", "amounts", query), ("try", query)):
        done = called(*arguments)
        assert done.stderr.startswith(warned)
        assert done.stderr.count("compares texts") == 1
    assert answered("explain", "amounts").splitlines()[-1] == (
        "warning: t != u compares texts, and values such as '40' and '40.00' were seen: compare"
        " numbers with number(t) != number(u)"
    )


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (1, ["pear"], "hint: did you mean 'pair'?"),
        (2, ["S//a->x JON S//b->y"], "xscl: line 1, column 9: "),
        (2, ["S//a->x JOIN{x=y, 5} S//b->y"], "the window 5 has no unit"),
        (2, ["pair", "--since", "7"], "xscl: --since 7 has no unit\nhint: write '7 d' or '7 h'\n"),
        (2, ["pair", "--since", "soon"], "this is not a duration"),
        (2, ["@nix"], "the query file nix cannot be read"),
    ],
)
def test_try_called_wrongly(code: int, arguments: list[str], message: str) -> None:
    assert message in failed(code, "try", *arguments)


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


def test_why_not() -> None:
    first, second, *_ = answered("why", "pair", "d1", "d3").splitlines()
    assert first == "pair does not match d1, d3"
    assert second.endswith("  the subscription sees d1, d3: d1 arrived before the subscription")
    found = json.loads(answered("why", PAIR, "d1", "d3", "--json"))
    assert (found["query"], found["documents"]) == ("the query", ["d1", "d3"])
    assert found["matched"] is True


def test_why_reads_a_text_that_is_not_kept_from_the_spool() -> None:
    found = json.loads(answered("why", "pair", "d2", "d4", "--json"))
    assert [edge["nearest"] for edge in found["edges"] if edge["kind"] == "pattern"] == [
        *(None, "R/d4 belongs to R"),
    ]


def test_why_without_a_document_for_a_block() -> None:
    absent = "S//book->b NOT FOLLOWED BY{b=c, 1 h} S//blog->c"
    assert answered("why", absent, "d1").startswith("the query matches d1\n")
    assert answered("why", absent, "d1", "-").startswith("the query matches d1, -\n")


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (1, ["pear", "d1", "d2"], "hint: did you mean 'pair'?"),
        (1, ["pair", "d1"], "xscl: 1 document for a query of 2 blocks\nhint: name a document for"),
        (1, ["pair", "d1", "d9"], "xscl: there is no document 'd9'\nhint: xscl sql 'SELECT docid "),
        (2, ["S//a->x JOIN{x=y, 5} S//b->y", "d1", "d2"], "the window 5 has no unit"),
    ],
)
def test_why_called_wrongly(code: int, arguments: list[str], message: str) -> None:
    assert message in failed(code, "why", *arguments)


@pytest.mark.parametrize(
    "command", [["try", "echoo"], ["explain", "echoo"], ["why", "echoo", "d1"]]
)
def test_a_word_that_is_no_name_is_told_to_be_taken_as_a_query(command: list[str]) -> None:
    told = "there is no subscription of that name: 'echoo' is taken as a query"
    assert told in called(*command).stderr


@pytest.mark.parametrize("known", ["pair", "S"])
def test_a_word_that_is_known_is_not_warned_of(known: str) -> None:
    assert "taken as a query" not in called("explain", known).stderr


def test_a_trial_says_what_came_too_late_for_it() -> None:
    rows = [
        {"id": f"o{day}", "timestamp": f"2025-03-{day:02}", "xml": "<o/>"} for day in (10, 1, 20)
    ]
    for number, row in enumerate(rows):
        Path(f"{number}.jsonl").write_text(json.dumps(row) + "\n")
        answered("push", "--stream", "orders", f"{number}.jsonl")
    done = called("try", "orders//o->x NOT FOLLOWED BY{1 h} invoices//i->y")
    assert "o10" in done.stdout
    assert "o1 " not in done.stdout
    assert "xscl: 1 document was too late for this query (lateness 0 s)\n" in done.stderr
    assert "too late" not in called("try", "orders//o->x").stderr, "it waits for no time"

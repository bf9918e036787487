"""The command line: answers, exit codes, messages; every one as the user sees it."""

import io
import json
import re
import shlex
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import answered, called, failed, json_rows
from xscl.cli.document_inputs import instant
from xscl.cli.in_process import LocalService
from xscl.cli.output import clean, one_line
from xscl.client import Match
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.server.demo import publishing

PAIR = "S//book->b[./title->t] JOIN{t=u, 30 d} S//blog->c[./title->u]"
BOOK = "<book><author>A Press</author><title>Feeds</title></book>"
BLOG = "<blog><title>Feeds</title><note>good</note></blog>"


def write(name: str, text: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def rows(*arguments: str) -> list[dict[str, Any]]:
    return json_rows(answered(*arguments, "--json"))


def documents_of(*arguments: str) -> list[list[str]]:
    """Return the documents of the matches of a run."""
    return [row["documents"] for row in rows("run", *arguments)]


# -- run -----------------------------------------------------------------------------------


def test_run_prints_the_match_of_two_files() -> None:
    write("in/a.xml", BOOK)
    write("in/b.xml", BLOG)
    documents = "".join(
        f"  Feeds | {name} | 2024-05-06T00:00:00Z\n" for name in ("a.xml (book)", "b.xml (blog)")
    )
    asked = ("run", "-q", PAIR, "in", "--at", "2024-05-06")
    assert answered(*asked) == f"q1  2024-05-06T00:00:00Z\n{documents}"
    (match,) = rows(*asked)
    assert answered(*asked, "-v") == (
        f"q1  2024-05-06T00:00:00Z\n  match {match['id']}\n{documents}"
        "    b = /book[1]\n    t = Feeds\n    c = /blog[1]\n    u = Feeds\n"
    )


def test_run_jsonl_has_everything_about_a_match() -> None:
    write("a.xml", BOOK)
    write("b.xml", BLOG)
    asked = ("run", "-q", PAIR, "a.xml", "b.xml", "--at", "7")
    (row,) = json_rows(answered(*asked, "--format", "jsonl"))
    assert row.keys() == Match.model_fields.keys()
    assert (row["id"], row["timestamp"]) == (row["match"], "1970-01-01T00:00:00.000007Z")
    assert [source["title"] for source in row["sources"]] == ["Feeds", "Feeds"]
    assert (row["subscription"], row["documents"]) == ("q1", ["a.xml", "b.xml"])
    assert (row["t0"], row["t1"]) == (7, 7)
    assert row["bindings"]["u"] == [
        {"document": "b.xml", "node": 1, "path": "/blog[1]/title[1]", "value": "Feeds"}
    ]
    assert row["xml"] == f"<result>{BOOK}{BLOG}</result>"
    assert rows(*asked) == [row]


def test_run_takes_finite_inputs_in_the_order_of_time_and_id() -> None:
    lines = [{"id": f"d{n}", "timestamp": n, "xml": BOOK} for n in (3, 1, 2)]
    write("d.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    query = "S//book->b[./title->t] FOLLOWED BY{t=u, 1 ms} S//book->c[./title->u]"
    assert documents_of("-q", query, "d.jsonl") == [["d1", "d2"], ["d1", "d3"], ["d2", "d3"]]


def test_run_names_queries_in_order_and_reads_them_from_files() -> None:
    write("q.xscl", "-- all books\nS//book->b\n")
    write("a.xml", BOOK)
    found = rows("run", "-q", "S//blog->b", "-q", "@q.xscl", "a.xml")
    assert [row["subscription"] for row in found] == ["q2"]


def test_run_maps_streams_to_inputs() -> None:
    write("a.xml", BOOK)
    write("b.xml", BOOK)
    other = "FOLLOWED BY{x=z, 1 s} T//none->z"
    given = ("--stream", "L=a.xml", "b.xml")
    assert documents_of("-q", "L//book->x", "-q", f"L//book->x {other}", *given) == [["a.xml"]]
    told = failed(2, "run", "-q", f"R//book->x {other}", *given)
    assert "no query reads the stream 'L'" in told


def test_run_gives_the_rest_to_the_streams_that_nobody_named() -> None:
    write("a.xml", BOOK)
    write("b.xml", BLOG)
    query = "L//*->x[./title->t] JOIN{t=u, 1 d} R//*->y[./title->u]"
    found = documents_of("-q", query, "--stream", "L=a.xml", "b.xml", "a.xml")
    assert found == [["a.xml", "b.xml"]]
    told = failed(2, "run", "-q", query, "--stream", "L=a.xml", "--stream", "R=a.xml", "b.xml")
    assert told == (
        "xscl: no stream is left for b.xml: all have inputs of their own\n"
        "hint: give it one with --stream NAME=PATH\n"
    )


def test_run_gives_no_input_to_calendars() -> None:
    for hour in (10, 13):
        line = {"id": f"d{hour}", "timestamp": f"2026-11-01T{hour}:00:00Z", "xml": "<x/>"}
        write(f"{hour}.jsonl", json.dumps(line))
    query = "AT '0 12 * * *'->t FOLLOWED BY{1 d} S//x"
    assert documents_of("-q", query, "10.jsonl", "13.jsonl") == [["d13"]]


def test_run_keeps_files_of_the_same_name_apart() -> None:
    write("old/a.xml", BOOK)
    write("new/a.xml", BLOG)
    assert documents_of("-q", PAIR, "old", "new/a.xml") == [["old/a.xml", "new/a.xml"]]


def test_run_reads_archives_and_feeds() -> None:
    feed = "<rss version='2.0'><channel><link>http://f.example/</link>{}</channel></rss>"
    item = "<item><guid>{}</guid><title>Feeds</title></item>"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("f.rss", feed.format(item.format("one") + item.format("two")))
    write("f.zip", packed.getvalue())
    query = "S//item->a[./title->t] JOIN{t=u, 1 d} S//item->b[./title->u]"
    assert len(rows("run", "-q", query, "f.zip")) == 2
    native = "S/rss/channel/item->a[./title->t] JOIN{t=u, 1 d} S/rss/channel/item->b[./title->u]"
    assert rows("run", "-q", native, "f.zip") == []
    assert len(rows("run", "-q", native, "f.zip", "--native")) == 2


def test_run_goes_on_without_what_cannot_be_read() -> None:
    write("in/a.xml", BOOK)
    write("in/bad.xml", "<a><b></a>")
    done = called("run", "-q", "S//book->b", "in", "nix.xml")
    assert done.exit_code == 0
    assert "a.xml" in done.stdout
    first, second, last = done.stderr.splitlines()
    assert first.startswith("xscl: not read: in/bad.xml: xml_syntax: ")
    assert first.endswith("(line 1, column 11)")
    assert second == "xscl: not read: nix.xml: there is no such file or directory"
    assert last == "xscl: documents read: 1, not read: 2"
    assert called("run", "-q", "S//book->b", "in", "nix.xml", "--strict").exit_code == 1
    assert "documents read: 0, not read: 1" in failed(1, "run", "-q", "S//book->b", "nix.xml")


def test_run_refuses_a_window_without_a_unit() -> None:
    query = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"
    assert failed(2, "run", "-q", query, "a.xml") == (
        "xscl: line 1, column 26: the window 10 has no unit\n"
        f"  {query}\n"
        f"  {' ' * 25}^\n"
        "hint: write '10 s' or '10 min'; the units are ms, s, min, h, d, w\n"
        "xscl: 'xscl help xscl' shows the language\n"
    )


def test_times_are_iso_8601_or_ticks() -> None:
    assert instant("1970-01-02") == 86_400_000_000
    assert instant("1970-01-01T01:00:00+01:00") == 0
    assert instant("12") == 12


# -- Subscriptions, explain, sql, witness, status ------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two subscriptions and two documents that match."""
    home = DataDirectory(tmp_path_factory.mktemp("made") / "xscl-data")
    answered("subscribe", "pair", PAIR, "--data", str(home.path))
    answered("subscribe", "books", "S//book->b", "--data", str(home.path))
    with home.hold("test"), Engine(home.database) as engine, Spool(home.spool) as spool:
        batch = [Document("S", "d1", 1, BOOK.encode()), Document("S", "d2", 2, BLOG.encode())]
        number = spool.append([*batch, Document("T", "d3", 3, b"<other x='1'>text</other>")], 3)
        engine.push(spool.read(number), source=BatchKey(SPOOL, number, number))
    return home.path


@pytest.fixture
def place(made: Path, folder: Path) -> DataDirectory:
    """A copy of it, as the data directory of the commands."""
    return DataDirectory(shutil.copytree(made, folder / "xscl-data"))


def test_subscribe_list_unsubscribe(place: DataDirectory) -> None:
    listed = [(one["name"], one["reads"]) for one in rows("subscriptions")]
    assert listed == [("books", ["S"]), ("pair", ["S"])]
    head, *_ = answered("subscriptions").splitlines()
    assert head.split() == ["NAME", "TEMPLATE", "READS", "TAGS", "QUERY"]
    assert answered("unsubscribe", "pair") == "unsubscribed 'pair'\n"
    assert len(rows("subscriptions")) == 1
    assert "did you mean 'books'?" in failed(1, "unsubscribe", "boks")


def test_explain_draws_the_join_graph(place: DataDirectory, folder: Path) -> None:
    for query in ("pair", PAIR):
        answered("explain", query, "--svg", "drawn.svg")
        assert "<title" in (folder / "drawn.svg").read_text("utf-8")
        (folder / "drawn.svg").unlink()
    with Engine(place.database) as engine:
        engine.stream("C", attributes={"x": int})
        engine.subscribe("events", "SELECT x FROM C", language="cel")
    assert "only queries in XSCL are drawn" in failed(1, "explain", "events", "--svg", "x.svg")
    assert answered("explain", "events")


def test_sql_in_every_format(place: DataDirectory) -> None:
    query = "SELECT id, timestamp, streams FROM documents ORDER BY id"
    assert answered("sql", query) == (
        "id  timestamp  streams\n"
        'd1  1          ["S"]\nd2  2          ["S"]\nd3  3          ["T"]\n(3 rows)\n'
    )
    assert answered("sql", query, "--format", "csv").splitlines()[1] == 'd1,1,"[""S""]"'
    assert rows("sql", query)[2] == {"id": "d3", "timestamp": 3, "streams": ["T"]}
    answered("sql", query, "--format", "parquet", "--output", "d.parquet")
    assert pq.read_table("d.parquet").column("id").to_pylist() == ["d1", "d2", "d3"]


@pytest.mark.parametrize("form", ["csv", "json", "jsonl"])
def test_an_answer_is_written_in_bounded_memory(
    form: str, place: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"a": range(12_000), "b": [f"text {i}" for i in range(12_000)]})

    def select(_: LocalService, query: str) -> pa.Table:
        tracemalloc.start()
        return rows

    monkeypatch.setattr(LocalService, "select", select)
    try:
        answered("sql", "SELECT", "--format", form, "--output", "written")
        assert tracemalloc.get_traced_memory()[1] < 350_000
    finally:
        tracemalloc.stop()
    text = Path("written").read_text("utf-8")
    assert len(text) > 180_000
    if form != "csv":
        read = json.loads(text) if form == "json" else json_rows(text)
        assert read == rows.to_pylist()


def test_json_is_an_array_with_a_row_a_line(place: DataDirectory) -> None:
    texts = "[]\n", '[\n  {"i": 0}\n]\n', '[\n  {"i": 0},\n  {"i": 1}\n]\n'
    for number, text in enumerate(texts):
        query = f"SELECT i FROM range({number}) r(i) ORDER BY i"
        assert answered("sql", query, "--format", "json") == text


def test_sql_values_that_formats_lack(place: DataDirectory) -> None:
    query = (
        "SELECT 'NaN'::DOUBLE AS n, NULL AS z, '=1+1' AS f, DATE '2024-05-06' AS d,"
        r" '\xC3\xA9'::BLOB AS b"
    )
    (row,) = rows("sql", query)
    assert row == {"n": None, "z": None, "f": "=1+1", "d": "2024-05-06", "b": "é"}
    assert answered("sql", query, "--format", "csv").splitlines()[1] == "nan,,'=1+1,2024-05-06,é"
    assert answered("sql", "SELECT 1 AS a WHERE false", "--json") == ""


def test_witness_shows_nodes_and_variables(place: DataDirectory) -> None:
    assert answered("witness", "d1").splitlines() == [
        "0  book",
        "1    author  A Press",
        "2    title  Feeds",
        "       <- S//book/title",
    ]
    found = json.loads(answered("witness", "d2", "--json"))
    assert [node["node"] for node in found["nodes"]] == [0, 1, 2]


def test_witness_finds_the_text_of_what_nobody_needs_in_the_spool(place: DataDirectory) -> None:
    assert answered("witness", "d3") == "0  other  text\n1    @x  1\n"
    assert "there is no document 'd4'" in failed(1, "witness", "d4")


READING = (
    *("status", "subscriptions", "unsubscribe x", "sql 'SELECT 1'", "witness d", "feeds list"),
    *("feeds remove x", "feeds poll", "try x", "why x d", "backup b.xscl"),
)


@pytest.mark.parametrize("command", READING)
def test_reading_makes_no_data_directory(folder: Path, command: str) -> None:
    assert "there is no data in" in failed(1, *shlex.split(command))
    assert list(folder.iterdir()) == []


# -- Feeds ---------------------------------------------------------------------------------


def test_a_poll_that_reaches_nothing_fails() -> None:
    answered("feeds", "add", "http://127.0.0.1:9/f", "--keep")
    done = called("feeds", "poll")
    assert done.exit_code == 1
    assert done.stderr.startswith("xscl: http://127.0.0.1:9/f: ")
    assert "1 feed polled, 0 matches" in done.stdout
    assert called("feeds", "poll").stdout.startswith("no feed is due\n")


def test_history_is_printed_when_asked_for() -> None:
    with publishing() as server:
        answered("feeds", "add", f"http://{server.address}/weather.atom", "--stream", "weather")
        answered("subscribe", "gales", "weather//item->w[contains(./title, 'gale')]")
        allow = ("--allow-address", server.address)
        out = json.loads(answered("feeds", "poll", "--notify-history", "--json", *allow))
        assert len(out["matches"]) == 1


# -- Conventions ---------------------------------------------------------------------------


def test_version() -> None:
    assert re.fullmatch(r"xscl( \d+\.\d+\.\d+\S*|, run from its source)\n", answered("--version"))


def test_control_characters_never_reach_a_terminal() -> None:
    assert clean("a\x1b]0;evil\x07b\x9b31m\u202ec\n\td\x00") == "a]0;evilb31mc\n\td"
    assert one_line(" a\n b\t\x1bc ") == "a b c"
    assert one_line("x" * 10, 4) == "xxx\N{HORIZONTAL ELLIPSIS}"
    write("a.xml", "<a>\u009b31mred</a>")
    out = answered("run", "-q", "S//a->x", "a.xml")
    assert "    x = 31mred\n" in out

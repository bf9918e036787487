"""`xscl push`: documents from files into a data directory, as a user sees it."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.xscl.commandline import answered, called, json_rows

PAIR = "books//book->b[./t->t] FOLLOWED BY{t=u, 30 d} blogs//blog->c[./t->u]"


@pytest.fixture(autouse=True)
def echo(folder: Path) -> None:
    """A data directory with one subscription."""
    assert called("subscribe", "echo", PAIR).exit_code == 0


def lines(path: str, *rows: dict[str, Any]) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def blog(id_: str, title: str, day: int, kind: str = "blog") -> dict[str, Any]:
    xml = f"<{kind}><t>{title}</t></{kind}>"
    return {"id": id_, "timestamp": f"2026-01-{day:02}T00:00:00Z", "xml": xml}


def book(id_: str, title: str, day: int) -> dict[str, Any]:
    return {**blog(id_, title, day, "book"), "stream": "books"}


def sql(query: str) -> list[dict[str, Any]]:
    return json_rows(answered("sql", query, "--json"))


def answer(*arguments: str) -> dict[str, Any]:
    done = called("push", *arguments, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == (1 if found["not_read"] else 0), done.stderr
    return found


def pairs(found: dict[str, Any]) -> list[list[str]]:
    return [row["documents"] for row in found["matches"]]


def test_documents_are_joined_with_what_was_pushed_before() -> None:
    first = answer(lines("books.jsonl", book("b1", "X", 1)), "--stream", "blogs")
    second = answer(lines("blogs.jsonl", blog("c1", "X", 3), blog("c2", "Y", 3)), "--stream=blogs")
    assert (first["documents"], first["matches"]) == (1, [])
    assert (second["documents"], pairs(second)) == (2, [["b1", "c1"]])
    again = answer("blogs.jsonl", "--stream=blogs")
    assert (again["documents"], again["new"], again["matches"]) == (2, 0, [])


def test_lines_that_name_their_streams_need_no_other() -> None:
    named = lines("named.jsonl", book("b1", "X", 1), {**blog("c1", "X", 2), "stream": "blogs"})
    assert pairs(answer(named)) == [["b1", "c1"]]
    done = called("push", lines("one.jsonl", book("b2", "X", 1), blog("c2", "X", 2)))
    assert done.exit_code == 2
    assert "the documents need a stream\nhint: name it with --stream;" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        *("[1]", "{}", '{"xml": "<b/>"', '{"xml": "<b/>", "timestamp": "noon"}'),
        *(
            json.dumps({"xml": "<b/>", "id": "b", "stream": stream})
            for stream in ("a b", "1x", ["books", "a->b"], "n" * 201)
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_disturbs_no_other(line: str) -> None:
    path = lines("mixed.jsonl", book("b1", "X", 1), {**blog("c1", "X", 2), "stream": "blogs"})
    Path(path).write_text(f"{Path(path).read_text()}\n{line}\n")
    found = answer(path)
    assert (found["new"], found["not_read"], pairs(found)) == (2, 1, [["b1", "c1"]])
    for command in (("push",), ("run", "-q", PAIR)):
        done = called(*command, path)
        assert re.search(
            r"not read: [^ ]*mixed.jsonl:4: json_.*\(line 4, column \d+\)", done.stderr
        )
        assert "b1" in done.stdout or command == ("push",)


@pytest.mark.parametrize("named", [{}, {"id": "b9"}])
def test_a_line_for_a_stream_that_takes_none_is_named(named: dict[str, str]) -> None:
    """One of a stream that is published refuses all: without its subscription it would be right."""
    path = lines("mixed.jsonl", {**book("b1", "X", 1), "stream": "blogs"})
    line = json.dumps({"xml": "<b/>", "stream": "feeds", **named})
    Path(path).write_text(f"{Path(path).read_text()}{line}\n")
    found = called("push", path)
    assert found.exit_code == 1
    assert re.search(r"not read: [^ ]*mixed.jsonl:2: json_.* stream named 'feeds'", found.stderr)
    assert sql("SELECT id FROM documents") == [{"id": "b1"}]
    called("subscribe", "maker", "SELECT <m>{x}</m> FROM books//book[./t->x] PUBLISH made")
    Path(path).write_text(f"{Path(path).read_text()}{line.replace('feeds', 'made')}\n")
    found = called("push", path)
    place = "b9 in mixed.jsonl" if named else "mixed.jsonl:3"
    assert f"{place}: the stream 'made' has what a subscription publishes" in found.stderr


def test_a_push_to_feeds_makes_no_data_directory() -> None:
    Path("a.xml").write_text("<blog/>")
    assert called("push", "a.xml", "--stream", "feeds", "--data", "new").exit_code == 1
    assert not Path("new").exists()


def test_whole_files_directories_and_archives() -> None:
    Path("in").mkdir()
    Path("in/a.xml").write_text("<book><t>X</t></book>")
    with zipfile.ZipFile("b.zip", "w") as archive:
        archive.writestr("b.xml", "<blog><t>X</t></blog>")
    assert answer("in", "--stream=books", "--stream=shelf", "--at=2026-01-01")["documents"] == 1
    here = Path.cwd()
    found = pairs(answer("b.zip", "--stream=blogs", "--at=2026-01-03"))
    assert found == [[f"{here}/in/a.xml", f"{here}/b.zip!b.xml"]]
    (row,) = sql("SELECT streams FROM documents WHERE id LIKE '%/a.xml'")
    assert row["streams"] == ["books", "shelf"]


def test_what_cannot_be_read_is_told_and_disturbs_no_other() -> None:
    broken = {**blog("c9", "X", 2), "xml": "<blog"}
    lines("all.jsonl", book("b1", "X", 1), broken, blog("c1", "X", 3))
    Path("none.xml").write_text("no XML at all")
    done = called("push", "all.jsonl", "none.xml", "--stream", "blogs")
    assert done.exit_code == 1
    assert "2 of 4 documents could not be read" in done.stderr
    assert done.stdout.startswith("echo  2026-01-03T00:00:00Z\n  books/b1 (book) | ")
    assert done.stdout.endswith("2 documents, 2 of them new; 2 not read; 1 match\n")
    assert f"not read: {Path.cwd()}/none.xml" in done.stderr
    assert "not read: c9 in all.jsonl: " in done.stderr
    assert "(line 1, column " in done.stderr
    again = answer("all.jsonl", "none.xml", "--stream", "blogs")
    assert (again["documents"], again["new"], again["not_read"]) == (2, 0, 2)


def test_a_directory_without_documents_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = called("push", "--stream", "books", str(empty))
    assert done.exit_code == 1
    assert f"xscl: {empty}: there are no documents in it\n" in done.stderr


def test_what_cannot_be_read_is_a_row_of_rejected() -> None:
    """Told once, however often it is pushed: reason, place, hash and how it begins."""
    texts = {"none.xml": "no XML at all", "lines.jsonl": '{"xml": "<a/>"}\n{"xml": 3}\n{"xml\n'}
    for name, text in texts.items():
        Path(name).write_text(text)
    lines("ahead.jsonl", {**book("b9", "X", 1), "timestamp": "2999-01-01T00:00:00Z"})
    lines("long.jsonl", {**book("b8", "X", 1), "xml": "<b>z" + "é" * 1_000})
    for _ in range(2):
        called("push", *texts, "ahead.jsonl", "long.jsonl", "missing.xml", "--stream", "blogs")
    rows = sql("SELECT * EXCLUDE (timestamp) FROM rejected ORDER BY id")
    names = ("stream", "id", "reason", "line", "column")
    found = [{**row, "id": row["id"].removeprefix(f"{Path.cwd()}/")} for row in rows]
    assert [tuple(row[name] for name in names) for row in found] == [
        ("blogs", "lines.jsonl:2", "json_value", 2, 1),
        ("blogs", "lines.jsonl:3", "json_syntax", 3, 6),
        ("blogs", "none.xml", "xml_syntax", 1, 1),
        ("books", "b8", "xml_syntax", 1, 1_005),
        ("books", "b9", "future", None, None),
    ]
    assert rows[2]["sha256"] == hashlib.sha256(b"no XML at all").hexdigest()
    assert [row["beginning"] for row in rows[1:3]] == ['{"xml\n', "no XML at all"]
    assert rows[3]["beginning"] == "<b>z" + "é" * 510


def test_a_file_is_one_document_however_it_is_named(folder: Path) -> None:
    for name in ("in", "other"):
        Path(name).mkdir()
        Path(f"{name}/a.xml").write_text(f"<book><t>{name}</t></book>")
    for named in ("in", "in/a.xml", str(folder / "in" / "a.xml"), "other"):
        answer(named, "--stream", "books")
    answer("in/a.xml", "other/a.xml", "--stream", "books")
    rows = sql("SELECT id FROM documents ORDER BY id")
    assert [row["id"] for row in rows] == [str(folder / one / "a.xml") for one in ("in", "other")]


def test_a_time_far_ahead_is_refused_as_all_else_would_be_over() -> None:
    answer(lines("b.jsonl", book("b1", "X", 1)), "--stream", "blogs")
    Path("a.xml").write_text("<blog><t>X</t></blog>")
    done = called("push", "a.xml", "--stream", "blogs", "--at", "2999-01-01")
    assert done.exit_code == 1
    assert "may be 1 d ahead" in done.stderr
    assert pairs(answer("a.xml", "--stream", "blogs", "--at", "2026-01-05"))


REFUSED = {
    **{name: f"'{name}' cannot be the name of a stream: begin with" for name in ("a b", "1x")},
    "feeds": "can be sent to a stream named 'feeds'",
    "_1.private": "it begins as the service's own names do",
    "made": "the stream 'made' has what a subscription publishes",
}


@pytest.mark.parametrize("stream", REFUSED)
def test_streams_are_refused_as_a_service_refuses_them(stream: str) -> None:
    called("subscribe", "maker", "SELECT <m>{x}</m> FROM books//book[./t->x] PUBLISH made")
    Path("a.xml").write_text("<blog><t>X</t></blog>")
    done = called("push", "a.xml", "--stream", stream)
    assert done.exit_code == 1
    assert REFUSED[stream] in done.stderr
    assert answer(lines("l.jsonl", {**book("b1", "X", 1)}), "--stream", "blogs")["new"] == 1
    assert sql("SELECT id FROM documents WHERE NOT published") == [{"id": "b1"}]


def test_a_query_in_a_file_may_begin_with_a_byte_order_mark() -> None:
    Path("q.xscl").write_text("\ufeffbooks//book->x", "utf-8")
    assert called("subscribe", "marked", "@q.xscl").exit_code == 0
    assert answer(lines("b.jsonl", book("b1", "X", 1)), "--stream", "blogs")["matches"]


def test_a_time_in_another_unit_is_told_once_for_each_input() -> None:
    for name in ("one", "two"):
        rows = [{**book(f"{name}-{n}", "X", 1), "timestamp": 1_793_840_400 + n} for n in range(2)]
        lines(f"{name}.jsonl", *rows)
    told = called("push", "one.jsonl", "two.jsonl", "--stream", "s")
    assert told.exit_code == 0
    assert told.stderr.count("its time was read as") == 2
    assert "two-0: its time was read as 1970-01-01T00:29:53.840400Z" in told.stderr
    assert "1793840400 looks like seconds" in told.stderr
    lines("ticks.jsonl", {**book("small", "X", 1), "timestamp": 5_000_000})
    assert "was read as" not in called("push", "ticks.jsonl", "--stream", "s").stderr

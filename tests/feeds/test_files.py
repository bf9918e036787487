"""Documents from files, directories and archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pytest
from lxml import etree

from feeds.documents import Document
from feeds.files import archives
from feeds.files.files import RejectedFile, read
from tests.corpus import Corpus

AT = 1_363_687_200_000_000  # 2013-03-19T10:00:00Z
FEED = (
    "<rss><channel><title>T</title><link>http://a/</link>"
    "<item><guid>1</guid><title>x</title><pubDate>Mon, 18 Mar 2013 10:00:00 GMT</pubDate></item>"
    "<item><guid>2</guid><title>y</title></item></channel></rss>"
)


def every(path: Path, native: bool = False) -> list[Document | RejectedFile]:
    return list(read(path, streams="S", at=AT, native=native))


def documents(path: Path) -> list[Document]:
    found = every(path)
    assert not [each for each in found if isinstance(each, RejectedFile)]
    return [each for each in found if isinstance(each, Document)]


def rejections(path: Path) -> list[tuple[str, str, int]]:
    return [
        (each.id, each.reason, each.line) for each in every(path) if isinstance(each, RejectedFile)
    ]


def write(path: Path, body: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return path


def test_a_document_is_the_file_as_it_is(tmp_path: Path) -> None:
    body = "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>".encode("latin-1")
    (document,) = documents(write(tmp_path / "one.xml", body))
    assert document == Document("S", "one.xml", AT, body, origin="one.xml")


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret.txt",
        "../outside/secret.xml",
        "../outside/secret.zip",
        "../directory-beside/secret.xml",
        "/etc/hostname",
        "chain",
        "../outside/nothing",
        "../outside",
    ],
)
def test_a_link_out_of_the_directory_is_not_read(tmp_path: Path, target: str) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "directory"
    write(outside / "secret.txt", "top secret")
    write(outside / "secret.xml", "<top>secret</top>")
    write(tmp_path / "directory-beside" / "secret.xml", "<top>secret</top>")
    with zipfile.ZipFile(outside / "secret.zip", "w") as archive:
        archive.writestr("secret.xml", "<top>secret</top>")
    write(inside / "own.xml", "<own/>")
    if target == "chain":
        (inside / ".chain").symlink_to("../outside/secret.xml")
        target = ".chain"
    (inside / "deep").mkdir()
    for link in (inside / "link.xml", inside / "deep" / "link.xml"):
        link.symlink_to(target if link.parent == inside or target[0] == "/" else f"../{target}")
    found = every(inside)
    assert [each.id for each in found if isinstance(each, Document)] == ["own.xml"]
    for each in found:
        if isinstance(each, RejectedFile):
            assert each.body is None
            assert "secret" not in each.reason
    if not (inside / "link.xml").is_dir():
        assert ("link.xml", "file_outside: the link leads out of the directory", 0) in rejections(
            inside
        )


def test_a_link_within_the_directory_is_read(tmp_path: Path) -> None:
    inside = tmp_path / "directory"
    write(inside / "deep" / "own.xml", "<own/>")
    (inside / "link.xml").symlink_to("deep/own.xml")
    (tmp_path / "itself").symlink_to(inside)
    for path in (inside, tmp_path / "itself"):
        assert [one.id for one in documents(path)] == ["deep/own.xml", "link.xml"]
    (tmp_path / "one.xml").symlink_to(inside / "link.xml")
    assert [one.id for one in documents(tmp_path / "one.xml")] == ["one.xml"]


def test_links_in_a_circle_are_not_read_and_stop_nothing(tmp_path: Path) -> None:
    for link, target in (("a.xml", "a.xml"), ("b.xml", "c.xml"), ("c.xml", "b.xml"), ("d", "d/x")):
        (tmp_path / link).symlink_to(target)
    write(tmp_path / "own.xml", "<own/>")
    assert [one.id for one in every(tmp_path) if isinstance(one, Document)] == ["own.xml"]
    assert rejections(tmp_path) == [
        (name, "file_unreadable: it is not a regular file", 0)
        for name in ("a.xml", "b.xml", "c.xml", "d")
    ]


def test_time_of_the_file_where_there_is_no_other(tmp_path: Path) -> None:
    path = write(tmp_path / "one.xml", "<a/>")
    os.utime(path, ns=(AT * 1000, AT * 1000))
    (document,) = read(path, streams=("S", "T"))
    assert isinstance(document, Document)
    assert (document.timestamp, document.streams) == (AT, ("S", "T"))


def test_a_feed_is_its_items(tmp_path: Path) -> None:
    one, two = documents(write(tmp_path / "feed.txt", FEED))
    assert (one.id, two.id) == ("http://a/ T#1", "http://a/ T#2")
    assert (one.timestamp, two.timestamp) == (AT - 86_400_000_000, AT)
    assert etree.fromstring(one.xml).findtext("channel_url") == "http://a/"
    assert etree.fromstring(one.xml).findtext("title") == "x"


def test_items_in_their_native_form(tmp_path: Path) -> None:
    one = every(write(tmp_path / "feed.xml", FEED), native=True)[0]
    assert isinstance(one, Document)
    assert etree.fromstring(one.xml).findtext("channel/item/title") == "x"


def test_snapshots_of_a_feed_agree_and_other_feeds_do_not(tmp_path: Path) -> None:
    write(tmp_path / "monday.xml", FEED)
    write(tmp_path / "tuesday.xml", FEED)
    write(tmp_path / "other.xml", FEED.replace("<title>T<", "<title>Comments<"))
    write(tmp_path / "nameless.xml", FEED.replace("<link>http://a/</link>", ""))
    write(tmp_path / "sub" / "nameless.xml", FEED.replace("<link>http://a/</link>", ""))
    assert {document.id for document in documents(tmp_path)} == {
        f"{feed}#{guid}"
        for guid in "12"
        for feed in (
            "http://a/ T",
            "http://a/ Comments",
            "file:nameless.xml",
            "file:sub/nameless.xml",
        )
    }
    addresses = {
        etree.fromstring(document.xml).findtext("channel_url") for document in documents(tmp_path)
    }
    assert addresses == {"http://a/", "file:nameless.xml", "file:sub/nameless.xml"}


def test_a_damaged_feed_is_mended_a_damaged_document_is_not(tmp_path: Path) -> None:
    (one, *_) = documents(write(tmp_path / "feed.xml", FEED.replace(">x<", ">a & b<")))
    assert etree.fromstring(one.xml).findtext("title") == "a & b"
    path = write(tmp_path / "other.xml", "<a>\n a & b</a>")
    message = "xml_syntax: xmlParseEntityRef: no name: a bare & is written &amp;"
    assert rejections(path) == [("other.xml", message, 2)]


def test_directories_are_sorted_and_go_on_after_bad_files(tmp_path: Path) -> None:
    for name in ("b.xml", "a/z.xml", "a.xml", ".hidden.xml", ".git/x.xml"):
        write(tmp_path / name, "<a/>")
    write(tmp_path / "a" / "bad.xml", "<a>")
    os.mkfifo(tmp_path / "pipe")
    assert [each.id for each in every(tmp_path)] == [
        "a.xml",
        "a/bad.xml",
        "a/z.xml",
        "b.xml",
        "pipe",
    ]
    assert [(name, reason) for name, reason, _ in rejections(tmp_path)] == [
        ("a/bad.xml", "xml_syntax: Premature end of data in tag a line 1"),
        ("pipe", "file_unreadable: it is not a regular file"),
    ]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\n.xml")).write_bytes(b"<a/>")
    assert documents(tmp_path)[0].id == "??.xml"


def test_no_such_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file or directory"):
        every(tmp_path / "none")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "xml_syntax: Document is empty"),
        ("plain text", "xml_syntax: Start tag expected, '<' not found"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "xml_entities: entity declarations are refused"),
        ("{}", "not_a_feed: the JSON text is no JSON Feed"),
        ("x" * 10_000_001, "xml_size: the file has more than 10,000,000 bytes"),
    ],
)
def test_rejected(tmp_path: Path, body: str, reason: str) -> None:
    ((_, said, _),) = rejections(write(tmp_path / "x", body))
    assert said.startswith(reason)


# --- JSON ---


def test_json_feed(tmp_path: Path) -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": 7, "title": "x"}]}
    (document,) = documents(write(tmp_path / "feed.json", json.dumps(feed, indent=1)))
    assert document.id == "file:feed.json#7"


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"xml": "<a/>"},
        {"stream": "T", "id": "d", "timestamp": 5, "xml": "<b>\xe9</b>"},
        {"stream": ["T", "U"], "timestamp": "1970-01-01T00:00:01Z", "xml": "<c/>"},
        {"xml": "<?xml version='1.0' encoding='latin-1'?><d>\xe9</d>", "id": "e"},
    ]
    text = "\n".join(json.dumps(line) for line in lines[:2]) + "\n\n"
    text += "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines[2:])
    found = documents(write(tmp_path / "x.jsonl", "\ufeff" + text))
    assert [(each.stream, each.id, each.timestamp) for each in found] == [
        ("S", "x.jsonl:1", AT),
        ("T", "d", 5),
        (("T", "U"), "x.jsonl:4", 1_000_000),
        ("S", "e", AT),
    ]
    assert [etree.fromstring(each.xml).text for each in found] == [None, "\xe9", None, "\xe9"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"xml": "<a/>"', "json_syntax: Expecting ',' delimiter"),
        ("[1]", 'json_value: a line is an object with a string "xml"'),
        ('{"xml": 1}', 'json_value: a line is an object with a string "xml"'),
        ('{"xml": "<a/>", "id": 3}', 'json_value: "id" is a string'),
        ('{"xml": "<a/>", "stream": []}', 'json_value: "stream" is the name of a stream'),
        ('{"xml": "<a/>", "stream": {"a": 1}}', 'json_value: "stream" is the name of a stream'),
        ('{"xml": "<a/>", "timestamp": "soon"}', "json_value: \"timestamp\" is no time: 'soon'"),
        ('{"xml": "<a/>", "timestamp": true}', 'json_value: "timestamp" is an integer'),
        ('{"xml": "<a/>", "timestamp": 1e99}', 'json_value: "timestamp" is an integer'),
        ('{"xml": "<a/>", "timestamp": ' + "9" * 30 + "}", 'json_value: "timestamp" is an integer'),
        ('{"xml": "<a>\\ud800</a>"}', "json_value: a text has half of a surrogate pair"),
        ('{"xml": "<a/>", "n": ' + "[" * 100_000, "json_syntax: "),
        (
            '{"id": "x", "xml": "<a/>", "tmestamp": "2026-01-01"}',
            "json_value: unknown key 'tmestamp': did you mean timestamp?",
        ),
        ('{"xml": "<a/>", "tme": 1}', "json_value: unknown key 'tme': did you mean time?"),
        ('{"xml": "<a/>", "time": 1, "timestamp": 1}', 'json_value: "time" is another name of'),
        ('{"xml": "<a/>", "time": "soon"}', "json_value: \"timestamp\" is no time: 'soon'"),
        ('{"xml": "<a/>", "Stram": "s"}', "json_value: unknown key 'Stram': did you mean stream?"),
        ('{"xml": "<a/>", "": 1}', "json_value: unknown key ''"),
        (f'{{"xml": "<a/>", "{"k" * 5_000}": 1}}', f"json_value: unknown key '{'k' * 40}'"),
        (
            '{"id": "x", "xlm": "<a/>"}',
            "json_value: the key \"xml\" is missing: did you mean it by 'xlm'?",
        ),
        ('{"id": "x", "text": "<a/>"}', 'json_value: the key "xml" is missing'),
    ],
)
def test_bad_lines_are_told_by_number(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path / "x.jsonl", f'{{"xml": "<a/>"}}\n{line}\n{{"xml": "<b/>"}}\n')
    first, bad, last = every(path)
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert isinstance(bad, RejectedFile)
    assert (bad.id, bad.line) == ("x.jsonl:2", 2)
    assert bad.reason.startswith(reason)


def test_a_line_whose_stream_has_a_fault_is_told_by_number(tmp_path: Path) -> None:
    def fault(stream: str) -> str | None:
        return f"{stream} is wrong" if stream.isupper() else None

    named = "".join(f'{{"xml": "<a/>", "stream": {one}}}\n' for one in ('"a"', '"B"', '["c", "D"]'))
    path = write(tmp_path / "x.jsonl", f'{named}{{"xml": "<a/>"}}\n')
    first, *wrong, last = read(path, streams="S", fault=fault)
    assert (first.stream, last.stream) == ("a", "S")
    assert [(bad.line, bad.reason) for bad in wrong if isinstance(bad, RejectedFile)] == [
        (2, "json_value: B is wrong"),
        (3, "json_value: D is wrong"),
    ]


def test_long_files_of_lines_are_read_line_by_line(tmp_path: Path) -> None:
    line = json.dumps({"xml": f"<a>{'x' * 1_000_000}</a>"})
    long = json.dumps({"xml": "x" * 20_000_000})
    found = every(write(tmp_path / "x.jsonl", "\n".join([line] * 11 + [long, line])))
    assert [type(each) for each in found] == [Document] * 11 + [RejectedFile, Document]
    assert [each.id for each in found[-2:]] == ["x.jsonl:12", "x.jsonl:13"]


# --- archives ---


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], mode: str, others: Mapping[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]  # any mode
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
        for name, kind in (others or {}).items():
            other = tarfile.TarInfo(name)
            other.type, other.linkname = kind, "/etc/passwd"
            archive.addfile(other)
    return buffer.getvalue()


FILES = {
    "a.xml": b"<a/>",
    "d/feed.xml": FEED.encode(),
    "d/lines.jsonl": b'{"xml": "<a/>"}\n{"xml": "<a/>"}',
    "../../up.xml": b"<up/>",
    ".hidden": b"x",
}


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
def test_archives(tmp_path: Path, kind: str) -> None:
    body = zipped(FILES) if kind == "zip" else tarred(FILES, kind, {"d": tarfile.DIRTYPE})
    found = documents(write(tmp_path / "pack", body))
    assert {document.id for document in found} == {
        "pack!a.xml",
        "pack!../../up.xml",
        "http://a/ T#1",
        "http://a/ T#2",
        "pack!d/lines.jsonl:1",
        "pack!d/lines.jsonl:2",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["pack"]


def test_what_is_no_file_in_an_archive_is_named(tmp_path: Path) -> None:
    """It is named in a directory, too."""
    others = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE}
    body = tarred({"a.xml": b"<a/>"}, "w:gz", {**others, ".link": tarfile.SYMTYPE})
    document, *left_out = every(write(tmp_path / "pack", body))
    assert document.id == "pack!a.xml"
    reason = "file_unreadable: it is not a regular file"
    assert left_out == [RejectedFile("S", f"pack!{name}", reason) for name in others]


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_one_compressed_file(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    (document,) = documents(write(tmp_path / "a.xml", packed(b"<a/>")))
    assert (document.id, document.xml) == ("a.xml", b"<a/>")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (gzip.compress(b"x" * 20_000_000, 1), "xml_size: the file has more than 10,000,000 bytes"),
        (gzip.compress(b"<a/>")[:-6], "archive_damaged: Compressed file ended"),
        (zipped({"a.xml": b"<a/>"})[:-8], "archive_damaged: File is not a zip file"),
        (zipped({"z": bytes(20_000_000)}), "xml_size: the file has more than 10,000,000 bytes"),
        (zipped({"z": zipped({})}), "xml_syntax: Start tag expected"),
        (zipped({"z": zipped({"a": b"<a/>"})}), "archive_nested: an archive in an archive"),
        (tarred({"z": gzip.compress(b"<a/>")}, "w"), "archive_nested: an archive in an archive"),
    ],
    ids=count(),
)
def test_bad_archives(tmp_path: Path, body: bytes, reason: str) -> None:
    ((_, said, _),) = rejections(write(tmp_path / "x", body))
    assert said.startswith(reason)


def test_a_damaged_member_does_not_hide_the_others(tmp_path: Path) -> None:
    body = zipped({"a.xml": b"<a>" + b"x" * 50 + b"</a>", "b.xml": b"<b/>"})
    start = body.index(b"a.xml") + 5
    found = every(write(tmp_path / "x.zip", body[: start + 4] + b"\xff\xff" + body[start + 6 :]))
    assert [(type(each), each.id) for each in found] == [
        (RejectedFile, "x.zip!a.xml"),
        (Document, "x.zip!b.xml"),
    ]


def test_archives_are_not_unpacked_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "UNPACKED", 4_000)
    monkeypatch.setattr(archives, "MEMBERS", 3)
    large = {f"{n}.xml": b"<a>" + b"x" * 1_500 + b"</a>" for n in range(4)}
    many = {f"{n}.xml": b"<a/>" for n in range(5)}
    for body, kept, reason in (
        (zipped(large), 2, "archive_damaged: it unpacks to more than 4,000 bytes"),
        (tarred(large, "w:gz"), 2, "archive_damaged: it unpacks to more than 4,000 bytes"),
        (tarred({".big": bytes(10_000), **many}, "w:xz"), 0, "archive_damaged: it unpacks to more"),
        (zipped(many), 3, "archive_damaged: it has more than 3 files"),
    ):
        found = every(write(tmp_path / "x", body))
        assert [type(each) for each in found] == [Document] * kept + [RejectedFile]
        assert rejections(tmp_path / "x")[0][1].startswith(reason)


def test_a_tar_header_may_not_take_all_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 50_000_000
    body = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + b"x" * 50_000_000 + bytes(1024))
    message = "archive_damaged: a header has more than 16,777,216 bytes"
    assert rejections(write(tmp_path / "x", body)) == [("x", message, 0)]


@pytest.mark.parametrize(
    ("is_real", "count", "no_feeds", "documents"),
    [
        (False, 28, ["FEEDS.tsv"], ["auction.xml"]),
        pytest.param(
            True,
            1033,
            ["FEEDS.tsv", "LICENSE.corpus", "SOURCE.txt"],
            ["XMarkAuction.xml", "much_ado.xml"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["own", "real"],
)
def test_directories_of_snapshots_and_of_documents(
    is_real: bool, count: int, no_feeds: list[str], documents: list[str]
) -> None:
    """Every item of all snapshots, and the documents that are no feeds."""
    corpus = Corpus(is_real)
    found = every(corpus.folder("rss-sync-open"))
    items = {each.id for each in found if isinstance(each, Document)}
    assert len(items) == count
    assert [each.id for each in found if isinstance(each, RejectedFile)] == no_feeds
    read = every(corpus.folder("xml-docs"))
    assert [each.id for each in read if isinstance(each, Document)] == documents

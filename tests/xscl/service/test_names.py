"""Names that somebody gives have a length, and can be printed, in every way in."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from feeds.documents import Document
from tests.xscl.commandline import answered
from tests.xscl.service.conftest import code, ok
from xscl.documents.document_validation import LONGEST_ID, check_stream
from xscl.engine.facade import Engine
from xscl.errors import DocumentError, XsclError
from xscl.ingestion.data_directory import DataDirectory
from xscl.language.names import LONGEST_LABEL, LONGEST_NAME, LONGEST_STREAM
from xscl.polling.feed import LONGEST_HEADER, tag_name, title_of
from xscl.polling.feed_repository import MOST_TAGS
from xscl.service.restore import restore
from xscl.store.store_errors import BackupError

QUERY = "S//k->x"
LONG = "n" * 20_000


def is_refused(answer: httpx.Response) -> None:
    """Check that an answer refuses, and does not repeat what was too long."""
    assert answer.status_code in (400, 422), answer.text
    assert len(answer.content) < 2_000


WRONG = ("a/b", "a\0b", " a", ".", LONG, "n" * (LONGEST_NAME + 1), "a\nb", "a\x1bb", "a\u202eb")


@pytest.mark.parametrize("name", [*WRONG, "\ud800"])
def test_a_subscription(operator: httpx.Client, name: str) -> None:
    row = json.dumps({"name": name, "query": QUERY})
    imported = operator.post("/v1/subscriptions:import", content=row)
    is_refused(imported)
    if name in WRONG:
        assert (*code(imported), imported.json()["row"]) == (422, "subscription_name", 1)
    for path in ("a/b", "a%2Fb", "a/matches"):
        put = operator.put(f"/v1/subscriptions/{path}", json={"query": QUERY})
        assert code(put) == (422, "subscription_name")
    listed = ok(operator.get("/v1/subscriptions"))["items"]
    assert all(len(one["name"]) <= LONGEST_NAME for one in listed)
    ok(operator.put("/v1/subscriptions/given", json={"query": QUERY}))
    kind = {"content-type": "application/json"}
    body = json.dumps({"name": name})
    is_refused(operator.patch("/v1/subscriptions/given", content=body, headers=kind))
    if name in ("a/b", "."):
        return  # only an address cannot have it
    with closing(Engine()) as engine:
        with pytest.raises(XsclError):
            engine.subscribe(LONG if name.startswith("n") else name, QUERY)
        assert not engine.subscriptions


def test_names_of_the_greatest_length_are_taken(operator: httpx.Client) -> None:
    name = "é" * LONGEST_NAME
    ok(operator.put(f"/v1/subscriptions/{name}", json={"query": QUERY}))
    assert ok(operator.get(f"/v1/subscriptions/{name}"))["name"] == name
    stream = "s" * LONGEST_STREAM
    ok(operator.put("/v1/subscriptions/long-stream", json={"query": f"{stream}//k->x"}))
    ok(operator.post(f"/v1/documents/{stream}", content=b"<k/>"))


STREAMS: dict[str, Callable[[Engine, str], object]] = {
    "read": lambda engine, name: engine.subscribe("q", f"{name}//k->x"),
    "published": lambda engine, name: engine.subscribe("q", f"S//k->x PUBLISH {name}"),
    "published by CEL": lambda engine, name: engine.subscribe(
        "q", f"SELECT k FROM S PUBLISH {name}", language="cel"
    ),
    "declared": lambda engine, name: engine.stream(name),
    "pushed": lambda engine, name: engine.push([Document(name, "d", 0, b"<k/>")]),
}


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream(way: str) -> None:
    with closing(Engine()) as engine:
        engine.stream("S", attributes={"k": str})
        with pytest.raises(XsclError, match="cannot be the name of a stream"):
            STREAMS[way](engine, "n" * (LONGEST_STREAM + 21))
        with pytest.raises(XsclError, match=r"name of a stream|over 1,000 characters") as refused:
            STREAMS[way](engine, LONG)
        assert len(str(refused.value)) < 1_000
        STREAMS[way](engine, "n" * LONGEST_STREAM)


def test_a_document() -> None:
    with closing(Engine()) as engine:
        pushed = engine.push([Document("S", LONG, 0, b"<k/>"), Document("S", "d", 0, b"<k/>")])
        assert pushed.rejected == 1
        (row,) = engine.sql("SELECT id, reason FROM rejected").to_pylist()
        assert (len(row["id"]), row["reason"]) == (LONGEST_ID, "id")


SAVED, TOKENS, LABELLED = "/v1/sql/saved/", "/v1/tokens", "/v1/subscriptions/labelled"


@pytest.mark.parametrize(
    ("method", "address", "body"),
    [
        *(("POST", TOKENS, {"label": label}) for label in ("l" * (LONGEST_LABEL + 1), "a\nb")),
        ("POST", f"{LABELLED}/addresses", {"label": "l" * (LONGEST_LABEL + 1)}),
        ("POST", f"{LABELLED}/addresses", {"label": "a\nb"}),
        *(("POST", TOKENS, {"user": user}) for user in ("u" * 101, "a\nb")),
        *(("PUT", f"{SAVED}{name}", {"query": "SELECT 1"}) for name in ("s" * 101, "a%0Ab")),
        *(("PUT", LABELLED, {"query": QUERY, "tags": [tag]}) for tag in ("t" * 51, "a\x07b")),
        ("POST", "/v1/subscriptions:import", {"name": "x", "query": QUERY, "tags": ["a\x07b"]}),
    ],
)
def test_names_of_other_things(
    operator: httpx.Client, method: str, address: str, body: dict[str, object]
) -> None:
    ok(operator.put(LABELLED, json={"query": QUERY}))
    is_refused(operator.request(method, address, json=body))


def test_names_of_feeds(operator: httpx.Client) -> None:
    url = "https://feeds.example/a.xml"
    for body in (
        {"url": url, "stream": LONG},
        {"url": url, "tags": [LONG]},
        {"url": url, "headers": [f"X-Key: {'h' * LONGEST_HEADER}"]},
        {"url": f"{url}?{'q' * 5_000}"},
    ):
        is_refused(operator.post("/v1/feeds", json=body))
    with pytest.raises(DocumentError, match="cannot be the name of a stream"):
        check_stream("n" * (LONGEST_STREAM + 1))
    assert title_of(LONG) == "n" * LONGEST_NAME
    assert title_of("a\nb\x1bc") == "abc"
    assert len(tag_name(LONG)) <= LONGEST_STREAM


def test_names_in_a_list_of_feeds(operator: httpx.Client) -> None:
    many = ",".join(f"c{number}" for number in range(MOST_TAGS + 1))
    outlines = [
        f'<outline xmlUrl="https://one.example/f.xml" title="{LONG}" htmlUrl="https://{LONG}"/>',
        f'<outline text="{LONG}"><outline xmlUrl="https://two.example/f.xml"/></outline>',
        f'<outline xmlUrl="https://three.example/f.xml" category="{many}"/>',
    ]
    opml = f"<opml version='2.0'><head/><body>{''.join(outlines)}</body></opml>"
    taken = ok(operator.post("/v1/feeds:import", content=opml.encode()))
    assert [line["outcome"] for line in taken] == ["added", "added", "refused"]
    feeds = ok(operator.get("/v1/feeds"))["items"]
    names = [(one["title"], one["site_url"], *one["tags"]) for one in feeds]
    assert max(len(text) for row in names for text in row[:1] + row[2:]) <= LONGEST_NAME
    assert max(len(row[1]) for row in names) <= 4_000


def test_names_in_a_backup(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "home")
    answered("subscribe", "one", QUERY, "--data", str(home.path))
    with Engine(home.database) as engine:
        with engine.transactions.change() as state:
            state.store.fetch("UPDATE state.subscription SET name = ?", [LONG])
        engine.backup(tmp_path / "b.xsclbackup")
    with pytest.raises(BackupError, match="of a subscription has 20,000 characters"):
        restore(tmp_path / "b.xsclbackup", DataDirectory(tmp_path / "other"))

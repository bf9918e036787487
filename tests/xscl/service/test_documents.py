"""Documents over HTTP: durable when acknowledged, refused with a reason, held back if need be."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.service.conftest import Running, code, eventually, ok
from xscl.engine.disk_guard import DiskGuard
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.service.intake import Intake, IntakeFull
from xscl.service.routes.documents import MOST
from xscl.time_format import written


def spooled(running: Running) -> list[Document]:
    spool = Spool(running.home.spool, read_only=True)
    return [one for number in spool.numbers(0) for one in spool.read(number)]


def test_acknowledged_is_durable(operator: httpx.Client, running: Running) -> None:
    sent = ok(operator.post("/v1/documents/orders", content=b"<o>1</o>"))
    (found,) = (one for one in spooled(running) if one.id == sent["id"])
    assert (found.stream, found.xml) == ("orders", b"<o>1</o>")
    assert sent["timestamp"] == written(found.timestamp)


def test_h4_operators_over_time_see_concurrent_posts_in_the_order_of_acceptance(
    operator: httpx.Client, running: Running
) -> None:
    ok(operator.put("/v1/streams/rush", json={}))
    ok(operator.put("/v1/subscriptions/next", json={"query": "rush//a->x NEXT{x=y} rush//a->y"}))

    def post(sender: int) -> None:
        with running.client() as client:
            for number in range(20):
                ok(client.post(f"/v1/documents/rush?id={sender}-{number}", content=b"<a>k</a>"))

    with ThreadPoolExecutor(8) as senders:
        list(senders.map(post, range(8)))
    accepted = [one for one in spooled(running) if one.stream == "rush"]
    assert len(accepted) == 160
    assert all(one.timestamp < other.timestamp for one, other in pairwise(accepted))
    ok(operator.post("/v1/documents/rush?id=last", content=b"<a>k</a>"))
    expected = [[one.id, other.id] for one, other in pairwise(accepted)]

    def found() -> list[list[str]]:
        page = ok(operator.get("/v1/subscriptions/next/matches?after=0&limit=200"))["matches"]
        return [one["documents"] for one in page][:159]

    eventually(lambda: found() == expected)
    assert "rush" not in operator.get("/v1/late").text


def test_an_id_makes_sending_again_harmless(operator: httpx.Client) -> None:
    ok(operator.put("/v1/subscriptions/all", json={"query": "again//*->x"}))
    for _ in range(3):
        address = "/v1/documents/again?id=a1&time=2026-03-01T12:00:00Z"
        sent = ok(operator.post(address, content=b"<o><p/></o>"))
        assert sent == {"id": "a1", "stream": "again", "timestamp": "2026-03-01T12:00:00Z"}
    ok(operator.post("/v1/documents/again?id=a2", content=b"<o><p/></o>"))

    def seen() -> list[str]:
        tried = ok(operator.post("/v1/try", json={"subscription": "all"}))
        return [match["documents"][0] for match in tried["matches"]]

    eventually(lambda: "a2" in seen())
    assert sorted(set(seen())) == ["a1", "a2"]


def test_documents_are_events_once_their_attributes_are_known(operator: httpx.Client) -> None:
    sequence = "EVENT SEQ(ticks a, ticks b) WHERE a.k = b.k AND a.v < b.v WITHIN 1 hours"
    wanted = {"query": sequence, "language": "sase"}
    ok(operator.put("/v1/streams/ticks", json={"live": False}))
    refused = operator.put("/v1/subscriptions/rising", json=wanted)
    assert refused.status_code == 422
    assert "PUT /v1/streams/ticks with" in refused.json()["hint"]
    attributes = {"k": "str", "v": "float"}
    declared = {"live": False, "attributes": attributes}
    assert ok(operator.put("/v1/streams/ticks", json=declared))["attributes"] == attributes
    ok(operator.put("/v1/subscriptions/rising", json=wanted))
    bare = {"query": sequence.replace("1 hours", "1"), "language": "sase"}
    for answer in (
        operator.put("/v1/subscriptions/bare", json=bare),
        operator.patch("/v1/subscriptions/rising", json=bare),
    ):
        assert (answer.status_code, answer.json()["hint"][:18]) == (422, "write '1 s' or '1 ")
    assert ok(operator.put("/v1/streams/ticks", json={"live": False}))["attributes"] == attributes
    for value in (1, 2, 1):
        ok(operator.post("/v1/documents/ticks", content=f"<t><k>x</k><v>{value}</v></t>".encode()))
    path = "/v1/subscriptions/rising/matches"
    eventually(lambda: len(ok(operator.get(path))["matches"]) == 1)
    assert operator.put("/v1/streams/odd", json={"attributes": {"k": "date"}}).status_code == 422


def test_times(operator: httpx.Client, alice: httpx.Client) -> None:
    def send(user: httpx.Client, moment: str) -> httpx.Response:
        stream = "times" if user is operator else "hours"
        return user.post(f"/v1/documents/{stream}", params={"time": moment}, content=b"<a/>")

    for wrong in ("yesterday", "2026-13-01", "nan", "1e9"):
        assert code(send(operator, wrong)) == (422, "time")
    soon = str((int(time.time()) + 3_600) * 1_000_000)
    assert send(operator, soon).status_code == 202
    # Everybody's windows are counted from the latest document.
    assert code(send(alice, soon)) == (422, "future")
    for client, ahead in ((operator, "1 d"), (alice, "5 min")):
        answer = client.post("/v1/documents/Z?id=z1&time=2090-01-02T03:04:05Z", content=b"<k/>")
        assert code(answer) == (422, "future")
        detail = answer.json()["detail"]
        for told in ("'z1'", "2090-01-02T03:04:05Z", f"may be {ahead} ahead"):
            assert told in detail


@pytest.mark.parametrize(
    ("time", "unit", "meant", "iso"),
    [
        ("1793840400", "seconds", "1793840400000000", "2026-11-05T01:00:00Z"),
        ("1793840400123", "milliseconds", "1793840400123000", "2026-11-05T01:00:00.123000Z"),
    ],
)
def test_a_time_in_another_unit_is_refused(
    operator: httpx.Client, time: str, unit: str, meant: str, iso: str
) -> None:
    address = "/v1/documents/units"
    for refused in (
        operator.post(address, params={"time": time}, content=b"<a/>"),
        operator.post(address, params={"timestamp": time}, content=b"<a/>"),
        operator.post(address, headers={"X-Document-Time": time}, content=b"<a/>"),
    ):
        assert code(refused) == (422, "time")
        problem = refused.json()
        assert problem["detail"].startswith(f"{time} is taken as 1970-01-")
        assert problem["hint"].endswith(f"{time} looks like {unit}: write {meant} or {iso}")


def test_only_the_operator_sends_to_public_streams(
    operator: httpx.Client, alice: httpx.Client
) -> None:
    ok(operator.post("/v1/documents/public", content=b"<a/>"))
    assert code(alice.post("/v1/documents/public", content=b"<a/>")) == (403, "stream_public")
    for user in (operator, alice):
        refused = user.post("/v1/documents/feeds", content=b"<a/>")
        assert code(refused) == (422, "stream_name")
        assert "'feeds': it has the items of all feeds" in refused.json()["detail"]
    assert ok(alice.post("/v1/documents/hers", content=b"<a/>"))["stream"] == "hers"
    assert "hers" in [one["name"] for one in ok(alice.get("/v1/streams"))["items"] if one["own"]]


def test_a_quota_of_bytes(running: Running, operator: httpx.Client) -> None:
    with running.user("erin") as erin:
        ok(operator.put("/v1/accounts/erin/quota", json={"bytes_a_day": 100}))
        whole, broken = b"<a>" + b"x" * 33 + b"</a>", b"<a>" + b"x" * 37
        ok(erin.post("/v1/documents/hers", content=whole))
        assert code(erin.post("/v1/documents/hers", content=broken)) == (422, "xml_syntax")
        refused = erin.post("/v1/documents/hers", content=whole)
        assert code(refused) == (403, "quota_exceeded")
        assert refused.json()["detail"] == "you have sent 80 bytes today, and may send 100"
        ok(erin.post("/v1/documents/hers", content=b"<a/>"))
        assert ok(erin.get("/v1/me"))["used"]["bytes_today"] == 84


def test_a_quota_of_matches(operator: httpx.Client, alice: httpx.Client) -> None:
    ok(operator.put("/v1/accounts/alice/quota", json={"matches_a_day": 2}))
    ok(alice.put("/v1/streams/counted", json={}))
    ok(alice.put("/v1/subscriptions/counted", json={"query": "counted//a->x"}))
    for _ in range(2):
        ok(alice.post("/v1/documents/counted", content=b"<o><a/></o>"))
    eventually(lambda: ok(alice.get("/v1/me"))["used"]["matches_today"] == 2)
    more = alice.post("/v1/documents/counted", content=b"<o><a/></o>")
    assert code(more) == (403, "quota_exceeded")
    more = alice.put("/v1/subscriptions/more", json={"query": "counted//b->x"})
    assert code(more) == (403, "quota_exceeded")
    ok(operator.put("/v1/accounts/alice/quota", json={}))
    ok(alice.post("/v1/documents/counted", content=b"<o><a/></o>"))


@patch("xscl.service.intake.BYTES", 100)
def test_l2_the_bytes_that_wait_are_bounded(place: DataDirectory) -> None:
    large = Document("S", "d", 1, b"<a>" + b"x" * 90 + b"</a>")
    with place.hold("test"), Engine(place.database) as engine, Spool(place.spool) as spool:
        intake = Intake(spool, engine, DiskGuard(place.path, 0), ArrivalClock())
        intake.append([large])
        with pytest.raises(IntakeFull, match="documents wait to be consumed"):
            intake.append([large])
        intake.close()


@pytest.mark.parametrize(
    ("charset", "word", "body"),
    [
        ("iso-8859-1", "café", "<a>café</a>".encode("latin-1")),
        ("utf-8", "tür", "<?xml version='1.0' encoding='iso-8859-1'?><a>tür</a>".encode()),
    ],
)
def test_documents_are_in_the_charset_of_their_type(
    operator: httpx.Client, charset: str, word: str, body: bytes
) -> None:
    kind = {"Content-Type": f"application/xml; charset={charset}"}
    ok(operator.post("/v1/documents/coded", content=body, headers=kind))
    attempt = {"query": f"coded//a->x[. = '{word}']"}
    eventually(lambda: ok(operator.post("/v1/try", json=attempt))["total"] == 1)


def test_a_wrong_charset_is_refused_with_the_place(operator: httpx.Client) -> None:
    for charset, body in (
        ("utf-8", b"<?xml version='1.0' encoding='iso-8859-1'?><a>caf\xe9</a>"),
        ("klingon", b"<a/>"),
        ("shift_jis", b"<a>\x81</a>"),
    ):
        kind = {"Content-Type": f"text/xml; charset={charset}"}
        refused = operator.post("/v1/documents/coded", content=body, headers=kind)
        assert code(refused) == (422, "xml_encoding")
        assert "line 1" in refused.text or refused.json().get("line") == 1


def test_lists_are_in_the_charset_of_their_type(operator: httpx.Client, running: Running) -> None:
    opml = (
        '<opml version="2.0"><body><outline text="Grüße" xmlUrl="https://coded.example/f"/>'
        "</body></opml>"
    )
    kind = {"Content-Type": "text/x-opml; charset=iso-8859-1"}
    (line,) = ok(operator.post("/v1/feeds:import", content=opml.encode("latin-1"), headers=kind))
    assert line["title"] == "Grüße"
    rows = "name,query\ncoded,\"S//a[. = 'café']->x\"\n".encode("latin-1")
    kind = {"Content-Type": "text/csv; charset=ISO-8859-1"}
    ok(operator.post("/v1/subscriptions:import", content=rows, headers=kind))
    assert "café" in ok(operator.get("/v1/subscriptions/coded"))["query"]
    refused = operator.post(
        "/v1/subscriptions:import", content=rows, headers={"Content-Type": "text/csv"}
    )
    assert code(refused)[1] == "encoding"
    operator.delete("/v1/subscriptions/coded")
    for feed in ok(operator.get("/v1/feeds"))["items"]:
        operator.delete(f"/v1/feeds/{feed['key']}")


# -- Batches of documents ------------------------------------------------------------------


PLAIN = "<o>1</o>"
TIME = "2026-03-01T12:00:00Z"
LINES: dict[str, dict[str, Any]] = {
    "plain": {"xml": PLAIN, "id": "a"},
    "other stream": {"xml": PLAIN, "id": "b", "stream": "others"},
    "time": {"xml": PLAIN, "id": "c", "time": TIME},
    "timestamp in microseconds": {"xml": PLAIN, "id": "d", "timestamp": 1_772_366_400_000_000},
    "declared encoding": {"xml": '<?xml version="1.0" encoding="UTF-16"?><o>\u00e9</o>', "id": "e"},
    "malformed": {"xml": "<o>", "id": "f"},
    "two times": {"xml": PLAIN, "time": TIME, "timestamp": TIME},
    "no time": {"xml": PLAIN, "time": "soon"},
    "seconds": {"xml": PLAIN, "time": "1772366400"},
    "future": {"xml": PLAIN, "time": "2999-01-01T00:00:00Z", "id": "g"},
    "stream of all feeds": {"xml": PLAIN, "stream": "feeds"},
    "no name of a stream": {"xml": PLAIN, "stream": "a b"},
    "long id": {"xml": PLAIN, "id": "x" * 501},
}


def sent(client: httpx.Client, *lines: dict[str, Any] | str, stream: str = "batched") -> Any:
    """The answer to a batch of lines."""
    body = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    kind = {"Content-Type": "application/x-ndjson"}
    return client.post(
        "/v1/documents:batch", params={"stream": stream}, content=body.encode(), headers=kind
    )


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_is_answered_as_a_document_alone(operator: httpx.Client, line: Any) -> None:
    given = {name: line[name] for name in ("id", "time", "timestamp") if name in line}
    xml = line["xml"].replace(' encoding="UTF-16"', "").encode()
    address = f"/v1/documents/{line.get('stream', 'batched')}"
    alone = operator.post(address, params=given, content=xml)
    batch = ok(sent(operator, {"xml": PLAIN}, line, ""))
    if alone.is_success:
        assert batch["refused"] == []
        assert batch["taken"][1]["id"] == line["id"]
        assert batch["taken"][1]["stream"] == line.get("stream", "batched")
        if {"time", "timestamp"} & line.keys():
            assert batch["taken"][1] == ok(alone)
    else:
        assert len(batch["taken"]) == 1
        (refused,) = batch["refused"]
        assert (refused["line"], refused["code"]) == (2, alone.json()["code"])


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", '{"id": "a"}', '{"xml": 1}', '{"xml": "<a/>", "more": 1}'),
        *('{"xml": "<a/>", "time": true}', '{"xml": "\\ud800"}', "[" * 100_000),
    ],
)
def test_a_line_that_is_no_document_is_named(operator: httpx.Client, line: str) -> None:
    answer = ok(sent(operator, "", line, {"xml": PLAIN, "id": "good"}))
    assert [one["id"] for one in answer["taken"]] == ["good"]
    assert [(one["line"], one["code"]) for one in answer["refused"]] == [(2, "invalid_request")]


def test_a_batch_has_bounds(operator: httpx.Client) -> None:
    assert code(sent(operator)) == (422, "empty_list")
    assert code(sent(operator, *[{"xml": PLAIN}] * (MOST + 1))) == (413, "too_many_rows")
    (refused,) = ok(sent(operator, {"xml": PLAIN}, stream="a b"))["refused"]
    assert refused["code"] == "stream_name"


def test_documents_of_a_batch_are_in_its_order_and_in_one_segment(
    operator: httpx.Client, running: Running
) -> None:
    ok(operator.put("/v1/subscriptions/batches", json={"query": "ordered//o->x"}))
    spool = Spool(running.home.spool, read_only=True)
    before = spool.latest()
    answer = ok(
        sent(operator, *[{"xml": PLAIN, "id": f"n{n}"} for n in range(50)], stream="ordered")
    )
    assert spool.latest() == before + 1
    times = [one["timestamp"] for one in answer["taken"]]
    assert times == sorted(set(times))
    eventually(lambda: len(ok(operator.get("/v1/subscriptions/batches/matches"))["matches"]) == 50)


def test_a_user_sends_to_own_streams_only_and_within_quotas(
    operator: httpx.Client, alice: httpx.Client
) -> None:
    today = ok(alice.get("/v1/me"))["used"]["documents_today"]
    ok(operator.put("/v1/accounts/alice/quota", json={"documents_a_day": today + 2}))
    try:
        answer = ok(sent(alice, *[{"xml": PLAIN}] * 3, stream="hers"))
    finally:
        ok(operator.put("/v1/accounts/alice/quota", json={}))
    assert len(answer["taken"]) == 2
    assert [(one["line"], one["code"]) for one in answer["refused"]] == [(3, "quota_exceeded")]

"""Batches of documents: each line is answered as if its document had been sent alone."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from feeds.spool import Spool
from tests.xscl.service.conftest import Running, code, eventually, ok
from xscl.service.routes.documents import MOST

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
    ("line", "reason"),
    [
        ("{", "invalid_request"),
        ("[]", "invalid_request"),
        ('{"id": "a"}', "invalid_request"),
        ('{"xml": 1}', "invalid_request"),
        ('{"xml": "<a/>", "more": 1}', "invalid_request"),
        ('{"xml": "<a/>", "time": true}', "invalid_request"),
        ('{"xml": "\\ud800"}', "invalid_request"),
        ("[" * 100_000, "invalid_request"),
    ],
)
def test_a_line_that_is_no_document_is_named(
    operator: httpx.Client, line: str, reason: str
) -> None:
    answer = ok(sent(operator, "", line, {"xml": PLAIN, "id": "good"}))
    assert [one["id"] for one in answer["taken"]] == ["good"]
    assert [(one["line"], one["code"]) for one in answer["refused"]] == [(2, reason)]


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
    ok(operator.put("/v1/accounts/alice/quota", json={"documents_a_day": 2}))
    try:
        answer = ok(sent(alice, *[{"xml": PLAIN}] * 3, stream="hers"))
    finally:
        ok(operator.put("/v1/accounts/alice/quota", json={}))
    assert len(answer["taken"]) == 2
    assert [(one["line"], one["code"]) for one in answer["refused"]] == [(3, "quota_exceeded")]

"""The README's calls, as they stand there."""

from __future__ import annotations

import asyncio
import json
import shlex

import httpx
import pytest

from tests.test_readme import CLIENT, README
from tests.xscl.service.conftest import Running, eventually
from xscl.client import AsyncClient


async def read_streams(address: str) -> tuple[str, ...]:
    """Return the streams that the subscription reads, by the asynchronous client."""
    async with AsyncClient(address) as client:
        return (await client.subscription("echo")).reads


CALLS = [
    shlex.split(line, comments=True)[1:]
    for line in README.replace("\\\n", "").splitlines()
    if line.startswith("curl ")
]


def call(client: httpx.Client, words: list[str]) -> httpx.Response:
    """Do what curl would, with the file of queries that it names."""
    method, url, headers, body = "GET", "", {}, None
    options = iter(words)
    for word in options:
        if word == "-X":
            method = next(options)
        elif word == "-H":
            name, _, value = next(options).partition(": ")
            headers[name] = value
        elif word in ("-d", "--data-binary"):
            body = next(options)
            method = "POST" if method == "GET" else method
        else:
            url = word.removeprefix("localhost:8425")
    if body == "@queries.csv":
        body = "name,query\nparcels,books//parcel\n"
    return client.request(method, url, headers=headers, content=body)


def test_the_calls_lead_to_a_match(operator: httpx.Client) -> None:
    assert len(CALLS) == 5
    assert [call(operator, words).status_code for words in CALLS] == [201, 202, 202, 200, 200]
    assert operator.get("/v1/subscriptions/parcels").status_code == 200
    (asked,) = (words for words in CALLS if words[0].endswith("/matches"))
    eventually(lambda: len(json.loads(call(operator, asked).text)["matches"]) == 1)


def test_the_client_prints_the_matches(
    running: Running, operator: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = CLIENT
    exec(compile(code.replace("http://127.0.0.1:8425", running.address), "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "('o1', 'i1') {'a': ('a12',), 'b': ('a12',)}\n" in shown
    assert asyncio.run(read_streams(running.address)) == ("orders", "invoices")
    assert shown.endswith("'nmae' is not in the newest 1 document of 'orders' None\n")

"""Hostile XML through the running service (group X): each with a code, kept, counted, and alone."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from tests.feeds.test_xmlparse import bomb
from tests.xscl.polling.scripted import Server, reply, rss
from tests.xscl.polling.scripted import serving as scripted
from tests.xscl.service.conftest import Running, code, eventually, ok, serving
from tests.xscl.service.test_metrics import figures
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings

CANARY = "canary-51c7"
MEGABYTES = 256
"""How much memory a hostile document may cost."""

ATTACKS: dict[str, tuple[bytes, str]] = {
    "x1 in text": (bomb(b"<l>&e9;</l>"), "xml_entities"),
    "x2 quadratic": (
        b'<!DOCTYPE a [<!ENTITY b "' + b"x" * 100_000 + b'">]><a>' + b"&b;" * 2_000 + b"</a>",
        "xml_entities",
    ),
    "x3 file": (b"<!DOCTYPE a [<!ENTITY b SYSTEM '{file}'>]><a>&b;</a>", "xml_entities"),
    "x3 http": (b"<!DOCTYPE a [<!ENTITY b SYSTEM '{http}'>]><a>&b;</a>", "xml_entities"),
    "x4 file": (b"<!DOCTYPE a [<!ENTITY % b SYSTEM '{file}'> %b;]><a>&c;</a>", "xml_entities"),
    "x4 used": (b"<!DOCTYPE a SYSTEM '{http}'><a>&c;</a>", "xml_syntax"),
    "x7 deep": (b"<a>" * 10_000 + b"</a>" * 10_000, "xml_depth"),
    "x8 text": (b"<a>" + b"x" * 10_500_000 + b"</a>", "xml_size"),
    "x9 elements": (b"<r>" + b"<i>x</i>" * 1_000_000 + b"</r>", "xml_elements"),
    "x13 character": (b"<a>&#8;</a>", "xml_chars"),
    "x13 encoding": (b"<a>caf\xe9</a>", "xml_encoding"),
    "x14 truncated": (b"<a><b>acknowledged in part</b>", "xml_syntax"),
    "x15 undeclared": (b"<a>x&nbsp;y</a>", "xml_syntax"),
}
ACCEPTED = {
    "x4-bare": "<!DOCTYPE a SYSTEM '{http}'><a><k>v</k></a>",
    "x6-include": "<a xmlns:xi='http://www.w3.org/2001/XInclude'><k>v</k>"
    "<xi:include href='{file}' parse='text'/></a>",
    "x17-id": "<a><k xml:id='i'>v</k><b xml:id='i'/></a>",
    "x17-version": "<?xml version='1.1'?><a><k>v</k></a>",
    "x17-default": "<!DOCTYPE a [<!ATTLIST k d CDATA 'x'>]><a><k>v</k></a>",
}
Sent: TypeAlias = dict[str, tuple[bytes, httpx.Response]]
"""The bodies of attacks and their answers."""

DEEPEST = b"<a>" * 255 + b"<leaf>bottom</leaf>" + b"</a>" * 255


@dataclass(frozen=True)
class Canary:
    """A text in a file and on a server; a request for it means that a document opened a file."""

    server: Server
    file: Path

    def named_in(self, text: bytes) -> bytes:
        """Return a text with the addresses of the canary."""
        http = self.server.url("/canary.dtd")
        return text.replace(b"{file}", self.file.as_uri().encode()).replace(
            b"{http}", http.encode()
        )


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    text = f'<!ENTITY c "{CANARY}">'
    with scripted() as server:
        server.says("/canary.dtd", reply(text.encode()))
        made = Canary(server, tmp_path_factory.mktemp("canary") / "canary.dtd")
        made.file.write_text(text)
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, canary: Canary) -> Iterator[Running]:
    home = DataDirectory(tmp_path_factory.mktemp("hostile") / "data")
    fetching = PollSettings((canary.server.address,), quick=True)
    with serving(home, fetching=fetching) as made:
        yield made


@pytest.fixture(scope="module")
def sent(operator: httpx.Client, canary: Canary) -> Sent:
    """Send every attack, each between documents that are well; return what was answered."""
    found = {}
    ok(operator.put("/v1/streams/X", json={}))
    before = reset_peak()
    for number, (name, (text, _)) in enumerate(ATTACKS.items()):
        ok(operator.post(f"/v1/documents/X?id=well-{number}", content=b"<a><k>v</k></a>"))
        body = canary.named_in(text)
        found[name] = body, operator.post("/v1/documents/X", params={"id": name}, content=body)
    eventually(lambda: len(rejected(operator)) == len(ATTACKS))
    assert peak() - before < MEGABYTES << 20
    return found


def rejected(operator: httpx.Client) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = ok(operator.get("/v1/rejected"))["items"]
    return rows


def reset_peak() -> int:
    """Return the memory of this process, in which the service runs; the peak begins from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) << 10


@pytest.mark.parametrize("name", ATTACKS)
def test_x1_x2_x3_x4_x7_x8_x9_x13_x14_x15_the_service_refuses_with_a_code(
    sent: Sent, name: str
) -> None:
    answer = sent[name][1]
    assert code(answer) == (422, ATTACKS[name][1])
    detail = answer.json()["detail"]
    assert 5 < len(detail) < 300
    assert "\n" not in detail
    assert "Traceback" not in answer.text
    assert CANARY not in answer.text
    if ATTACKS[name][1] in ("xml_depth", "xml_elements", "xml_size"):
        assert re.search(r"\d", detail), "it names the limit"
    else:
        assert answer.json()["line"] >= 1
        assert answer.json()["column"] >= 1


def test_x1_x3_x8_x9_x13_what_is_refused_is_kept_with_its_beginning_and_counted(
    sent: Sent, operator: httpx.Client
) -> None:
    kept = {row["id"]: row for row in rejected(operator)}
    for name, (body, _) in sent.items():
        row = kept[name]
        assert (row["stream"], row["reason"]) == ("X", ATTACKS[name][1])
        assert row["sha256"] == hashlib.sha256(body).hexdigest()
        shown = body[:1024].decode("utf-8", "replace")
        assert row["beginning"].startswith(shown[:-3])
        assert len(row["beginning"]) <= len(shown)
    counted = figures(operator)
    for reason in {reason for _, reason in ATTACKS.values()}:
        number = [expected for _, expected in ATTACKS.values()].count(reason)
        assert counted["xscl_problems_total", reason] == number
        assert counted["xscl_rejections", reason] == number
    query = "SELECT count(*) FROM documents WHERE starts_with(id, 'well-')"
    eventually(
        lambda: ok(operator.post("/v1/sql", json={"query": query}))["rows"] == [[len(ATTACKS)]]
    )


def test_x8_a_body_beyond_the_limit_of_requests_is_not_read(operator: httpx.Client) -> None:
    answer = operator.post("/v1/documents/X", content=b"<a>" + b"x" * 11_000_000 + b"</a>")
    assert code(answer) == (413, "body_too_large")
    assert "11,000,000" in answer.json()["detail"]
    assert code(operator.post("/v1/documents/X", content=b'{"a": 1}')) == (422, "not_a_feed")


def test_x3_x4_x6_x17_what_names_other_files_is_plain_data(
    operator: httpx.Client, canary: Canary, caplog: pytest.LogCaptureFixture
) -> None:
    """All of them join as if they named nothing, and nobody opens what they name."""
    ok(operator.put("/v1/subscriptions/plain", json={"query": "plain//a[./k->x]"}))
    for name, text in ACCEPTED.items():
        body = canary.named_in(text.encode())
        ok(operator.post("/v1/documents/plain", params={"id": name}, content=body))
    at = "/v1/subscriptions/plain"

    def found() -> list[dict[str, object]]:
        matches: list[dict[str, object]] = ok(operator.get(f"{at}/matches"))["matches"]
        return matches if len(matches) == len(ACCEPTED) else []

    assert len(eventually(found)) == len(ACCEPTED)
    for path in (f"{at}/matches", f"{at}/feed.atom", "/", "/v1/rejected"):
        answer = operator.get(path)
        assert answer.status_code == 200
        assert CANARY not in answer.text
        assert "root:" not in answer.text
    tried = ok(operator.post("/v1/try", json={"query": "plain//k[./@d->x]"}))
    assert tried["total"] == 0, "a declaration gives no attribute"
    assert canary.server.count("/canary.dtd") == 0
    assert CANARY not in caplog.text


def test_x7_a_document_as_deep_as_it_may_be_goes_all_the_way(operator: httpx.Client) -> None:
    """Through the store and SQL, the API, Atom and the pages."""
    query = "deep//leaf->x FOLLOWED BY{x = y, 1 h} deep//leaf->y"
    ok(operator.put("/v1/subscriptions/deep", json={"query": query}))
    for name in ("first", "second"):
        ok(operator.post(f"/v1/documents/deep?id={name}", content=DEEPEST))
    at = "/v1/subscriptions/deep"
    eventually(lambda: ok(operator.get(f"{at}/matches"))["matches"])
    query = "SELECT count(*) FROM R_doc WHERE strVal = 'bottom'"
    # SQL may show an earlier moment
    eventually(lambda: ok(operator.post("/v1/sql", json={"query": query}))["rows"] == [[2]])
    for path in (f"{at}/matches", f"{at}/feed.atom", f"{at}/feed.json", "/"):
        answer = operator.get(path)
        assert answer.status_code == 200, answer.text
        assert "bottom" in answer.text


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/entity", b"<!DOCTYPE rss [<!ENTITY b SYSTEM '{http}'>]>" + rss("x &b;"), "xml_entities"),
        ("/dtd", b"<!DOCTYPE rss SYSTEM '{http}'>" + rss("x &c;"), None),
        ("/deep", b"<x>" * 10_000, "xml_depth"),
        ("/long", rss("x" * 11_000_000), "fetch_too_large"),
        ("/items", rss("x").replace(b"<item>", b"<i/>" * 200_000 + b"<item>"), "xml_elements"),
    ],
    ids=["entity", "dtd", "deep", "long", "elements"],
)
def test_x3_x4_x6_x7_x9_a_feed_does_no_more_than_a_document(
    operator: httpx.Client, canary: Canary, path: str, body: bytes, reason: str | None
) -> None:
    server = canary.server
    server.says(path, reply(canary.named_in(body)))
    ok(operator.post("/v1/feeds:import", content=server.url(path)))  # which keeps what it is told
    (added,) = (f for f in ok(operator.get("/v1/feeds"))["items"] if f["url"] == server.url(path))
    at = f"/v1/feeds/{added['key']}"
    eventually(lambda: ok(operator.get(at))["state"] != "new")
    shown = ok(operator.get(at))
    assert shown["code"] == reason, shown
    assert CANARY not in str(shown)
    assert server.count("/canary.dtd") == 0

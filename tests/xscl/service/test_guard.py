"""Access control: tokens, hosts, origins, sizes (rows W7, W10, W11)."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import httpx
import pytest

from tests.waiting import beside
from tests.xscl.commandline import answered
from tests.xscl.service.conftest import ANY_PORT, Running, code, eventually, ok, serving, token_of
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.app import ServiceSettings
from xscl.service.dependencies import COOKIE
from xscl.service.guard import LONGEST, STRANGER
from xscl.store.store_errors import StoreUnavailable

GUESSES = 5


@dataclass(frozen=True)
class Elsewhere:
    """A service that listens on all addresses, and a token of its operator."""

    running: Running
    token: str

    def operator(self) -> httpx.Client:
        return self.running.client(self.token)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    home = DataDirectory(tmp_path_factory.mktemp("elsewhere") / "data")
    token = json.loads(answered("token", "create", "--data", str(home.path), "--json"))["token"]
    with serving(home, replace(ANY_PORT, host="0.0.0.0", guesses=GUESSES)) as running:
        yield Elsewhere(running, token)


def test_w7_no_wrong_revoked_and_changed_tokens(elsewhere: Elsewhere) -> None:
    right = elsewhere.token
    with elsewhere.operator() as operator:
        assert ok(operator.get("/v1/me"))["name"] == "operator"
        theirs = token_of(operator, "alice")
        with elsewhere.running.client(theirs) as alice:
            assert ok(alice.get("/v1/me"))["name"] == "alice"
            assert code(alice.get("/v1/accounts")) == (403, "operator_only")
            made = alice.post("/v1/tokens", json={"user": "operator"})
            assert code(made) == (403, "operator_only")
            (one,) = ok(alice.get("/v1/tokens"))
            others = {token["id"] for token in ok(operator.get("/v1/tokens"))} - {one["id"]}
            for other in others:
                revoked = alice.delete(f"/v1/tokens/{other}")
                assert code(revoked) == (404, "unknown_token")
            assert operator.delete(f"/v1/tokens/{one['id']}").status_code == 204
            assert code(alice.get("/v1/me")) == (401, "unauthorized")
    with elsewhere.running.client() as nobody:
        refused = nobody.get("/v1/subscriptions")
        assert code(refused) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert nobody.get("/v1/health").status_code == 200
        basic = {"Authorization": "Basic eHNjbDp4c2Ns"}
        assert code(nobody.get("/v1/me", headers=basic)) == (401, "unauthorized")
    for wrong in (right[:-1], right.swapcase(), right[:-1] + "~"):
        with elsewhere.running.client(wrong) as stranger:
            assert stranger.get("/v1/me").status_code in (401, 429)


def test_while_tokens_cannot_be_read_requests_are_refused_for_now(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = StoreUnavailable(Path("secret/state.sqlite"), "Input/output error")
    monkeypatch.setattr("xscl.service.tokens.rows_of", Mock(side_effect=unread))
    with elsewhere.operator() as operator:
        for way, path in (("GET", "/v1/me"), ("GET", "/v1/me?x=1"), ("POST", "/v1/documents/s")):
            answer = operator.request(way, path, content=b"<a/>")
            assert code(answer) == (503, "store_unavailable")
            assert "secret" not in answer.text
            assert int(answer.headers["Retry-After"])


def test_w7_a_token_in_an_address_is_refused(elsewhere: Elsewhere) -> None:
    with elsewhere.operator() as operator:
        for path in ("me?access_token=", "subscriptions/"):
            refused = operator.get(f"/v1/{path}{elsewhere.token}")
            assert code(refused) == (400, "token_in_address")
            assert elsewhere.token not in refused.text


def test_w7_guessing_is_slowed_and_harms_nobody(elsewhere: Elsewhere) -> None:
    answers = []
    with elsewhere.running.client() as stranger:
        for number in range(GUESSES + 5):
            guess = f"xscl_{number:08x}_{'a' * 43}"
            answers.append(stranger.get("/v1/me", headers={"Authorization": f"Bearer {guess}"}))
    assert {answer.status_code for answer in answers} <= {401, 429}
    assert code(answers[-1]) == (429, "too_many_guesses")
    assert int(answers[-1].headers["retry-after"]) > 0
    with elsewhere.operator() as operator:
        assert ok(operator.get("/v1/me"))["name"] == "operator"


def test_w7_tokens_are_hashed_at_rest_and_in_no_log(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), elsewhere.operator() as operator:
        made = token_of(operator, "carol")
        with elsewhere.running.client(made) as carol:
            carol.put("/v1/subscriptions/bad", json={"query": "feeds//a["})
            carol.get("/v1/subscriptions/nothing")
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    written = elsewhere.running.files().values()
    assert len(written) > 2
    for secret in (text.split("_", 2)[2] for text in (elsewhere.token, made)):
        assert not any(secret.encode() in content for content in written)
        assert not any(secret in message for message in ours)


# -- Other sites ---------------------------------------------------------------------------


BAD, UNKNOWN = (400, "bad_host"), (421, "unknown_host")
HOSTS: dict[str, tuple[tuple[int, str], ...]] = {
    **dict.fromkeys(
        ("evil.example", "evil.example:8425", "127.0.0.1.evil.example", ""), (UNKNOWN,)
    ),
    **dict.fromkeys(
        (
            *("[::1].evil.example", "[::1]evil.example:80", "[::1", "::1", "localhost:80:80"),
            *("localhost:http", "localhost@evil.example", "localhost/evil.example"),
            *("localhost evil.example", "localhost, evil.example", "127.0.0.1:8425#evil.example"),
        ),
        (BAD, UNKNOWN),
    ),
    **dict.fromkeys(("localhost", "127.0.0.1:1", "[::1]:8425", "LOCALHOST."), ()),
}
"""How hosts are refused: names that were rebound, and such as are not certain; ours are not."""


@pytest.mark.parametrize("host", HOSTS)
def test_w11_a_name_that_was_rebound_is_refused(operator: httpx.Client, host: str) -> None:
    for path in ("/v1/subscriptions", "/docs", "/v1/health"):
        answer = operator.get(path, headers={"Host": host})
        if expected := HOSTS[host]:
            assert code(answer) in expected
        else:
            assert answer.status_code == 200


@pytest.mark.parametrize("hosts", [("127.0.0.1", "evil.example"), ("localhost", "localhost")])
def test_w11_two_hosts_are_refused(running: Running, hosts: tuple[str, ...]) -> None:
    for first, second in (hosts, hosts[::-1]):
        with running.connect() as peer:
            peer.sendall(
                f"GET /v1/subscriptions HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            assert peer.recv(1_000).startswith(b"HTTP/1.1 400 ")


SITES = ("Origin https://evil.example", "Origin null", "Origin http://127.0.0.1:1")


@pytest.mark.parametrize(
    "header", [*SITES, "Sec-Fetch-Site cross-site", "Sec-Fetch-Site same-site"]
)
def test_w11_what_other_sites_send_is_refused(operator: httpx.Client, header: str) -> None:
    name, _, value = header.partition(" ")
    form = {name: value, "Content-Type": "application/x-www-form-urlencoded"}
    for method, path in (
        ("POST", "/v1/tokens"),
        ("PUT", "/v1/subscriptions/x"),
        ("DELETE", "/v1/subscriptions/x"),
        ("POST", "/v1/documents/x"),
    ):
        assert code(operator.request(method, path, headers=form)) == (403, "cross_site")


def test_w11_no_answer_allows_other_sites_to_read(operator: httpx.Client) -> None:
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    for answer in (
        operator.get("/v1/subscriptions", headers={"Origin": "null"}),
        operator.options("/v1/subscriptions/x", headers=preflight),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_w11_our_own_pages_may(operator: httpx.Client, running: Running) -> None:
    headers = {"Origin": running.address, "Sec-Fetch-Site": "same-origin"}
    assert operator.put("/v1/streams/pages", json={}, headers=headers).status_code == 201


# -- Answers -------------------------------------------------------------------------------


def test_w10_nothing_of_a_request_comes_back_as_a_page(operator: httpx.Client) -> None:
    evil = "<script>alert(1)</script>"
    for answer in (
        operator.get(f"/v1/{evil}"),
        operator.get(f"/v1/subscriptions/{evil}"),
        operator.put("/v1/subscriptions/x", json={"query": evil}),
        operator.get(f"/v1/subscriptions?limit={evil}"),
        operator.post("/v1/documents/x", content=evil.replace("/", "")),
    ):
        assert code(answer)[0] in (400, 404, 422)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_description_loads_nothing(operator: httpx.Client) -> None:
    page = operator.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    linked = re.findall(r"""(?:src|href)=["']?([^\s"'>]*)""", page.text)
    assert linked
    assert [one for one in linked if not one.startswith("/") or one.startswith("//")] == []
    for path in ok(operator.get("/v1/openapi.json"))["paths"]:
        assert path in page.text


# -- Sizes ---------------------------------------------------------------------------------


def test_an_id_that_cannot_be_is_not_there(operator: httpx.Client) -> None:
    ok(operator.put("/v1/subscriptions/known", json={"query": "orders//a->x"}))
    for path, what in (
        ("tokens", "token"),
        ("addresses", "address"),
        ("subscriptions/known/addresses", "address"),
        ("subscriptions/known/endpoints", "endpoint"),
    ):
        for id_ in ("00000000", "nope", "F", "%C3%A9"):
            answer = operator.delete(f"/v1/{path}/{id_}")
            assert code(answer) == (404, f"unknown_{what}")
            assert answer.json()["detail"] == f"there is no {what} {unquote(id_)!r}"


QUERY = {"query": "orders//a->x"}


UNKNOWN_NAMES: dict[str, tuple[str, Any, str]] = {
    "POST /v1/documents/orders?id=t1&tme=1": ("query.tme", QUERY, "did you mean time?"),
    "GET /v1/subscriptions/one/matches?befor=6": ("query.befor", None, "did you mean before?"),
    "GET /v1/subscriptions/one/events?aftr=6": ("query.aftr", None, "did you mean after?"),
    "GET /v1/feed.atom?page=6": ("query.page", None, "its query parameters are before"),
    "PUT /v1/subscriptions/one?history=0": ("query.history", QUERY, "it takes no query param"),
    "PATCH /v1/subscriptions/one?query=x": ("query.query", QUERY, "it takes no query param"),
    "PUT /v1/accounts/ada/quota": ("body.feed", {"feed": 1}, "did you mean feeds?"),
    "POST /v1/try": ("body.qury", {"qury": "S//a->x"}, "did you mean query?"),
    "POST /v1/check": ("body.zzz", {**QUERY, "zzz": 1}, "there are query"),
}


@pytest.mark.parametrize("request_", UNKNOWN_NAMES)
def test_an_unknown_parameter_or_field_is_refused(operator: httpx.Client, request_: str) -> None:
    place, body, hint = UNKNOWN_NAMES[request_]
    ok(operator.put("/v1/subscriptions/one", json=QUERY))
    answer = operator.request(*request_.split(" "), json=body)
    assert code(answer) == (422, "invalid_request")
    problem = answer.json()
    reason = "unknown parameter" if place.startswith("query.") else "unknown field"
    assert problem["detail"] == f"{place}: {reason}"
    assert problem["hint"].startswith(hint)
    assert {"place": place, "reason": reason} in problem["errors"]


@pytest.mark.parametrize("body", [b'{"query": "S//\xff"}', b"[" * 100_000, b"1" * 5_000])
def test_a_body_that_cannot_be_decoded_is_refused_with_a_hint(
    operator: httpx.Client, body: bytes
) -> None:
    kind = {"Content-Type": "application/json"}
    answer = operator.put("/v1/subscriptions/one", content=body, headers=kind)
    assert code(answer) == (400, "bad_request")
    assert answer.json()["hint"].startswith("a body is JSON in UTF-8")


def test_parameters_that_others_add_are_left_alone(
    elsewhere: Elsewhere, operator: httpx.Client
) -> None:
    with elsewhere.running.client() as nobody:
        assert code(nobody.get("/v1/me?befor=6")) == (401, "unauthorized")
        assert nobody.get("/v1/health?now=1").status_code == 200
    with elsewhere.operator() as known:
        assert code(known.get("/v1/me?befor=6")) == (422, "invalid_request")
    for path in ("/?utm_source=mail", "/v1/openapi.json?now=1", "/docs?now=1"):
        assert operator.get(path).status_code == 200, path
    assert code(operator.get("/f/none.atom?utm_source=mail")) == (404, "unknown_address")
    assert operator.get("/websub/none?hub.other=1").status_code == 404
    with operator.stream("GET", "/v1/events?lastEventId=0") as events:
        assert events.status_code == 200


def test_bodies_have_a_limit(place: DataDirectory) -> None:
    """A client that sends too much may send on: it gets the whole answer."""
    with serving(place, replace(ANY_PORT, body=1_000, bulk=2_000, patience=0.3)) as running:
        with running.client() as operator:
            large = [b"<a>", b"x" * 1_000, b"</a>"]
            for body in (b"".join(large), iter(large)):
                answer = operator.post("/v1/documents/s", content=body)
                assert code(answer) == (413, "body_too_large")
            rows = b'{"name": "a", "query": "S//a"}' + b" " * 1_000
            assert ok(operator.post("/v1/subscriptions:import", content=rows))["new"] == 1
            refused = operator.post("/v1/subscriptions:import", content=rows * 2)
            assert code(refused) == (413, "body_too_large")
            long = operator.get("/v1/subscriptions?after=" + "x" * LONGEST)
            assert code(long) == (414, "address_too_long")
        post = b"POST /v1/documents/s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        with running.connect() as slow:
            slow.sendall(post + b"Content-Length: 9\r\n\r\n<a")
            assert slow.recv(1_000).startswith(b"HTTP/1.1 408 ")
        for head, end in (
            (b"Content-Length: 4000000\r\n\r\n", b""),
            (b"Transfer-Encoding: chunked\r\n\r\n3d0900\r\n", b"\r\n0\r\n\r\n"),
        ):
            with running.connect() as peer:
                peer.sendall(post + head + b"x" * 2_000_000)
                time.sleep(0.2)  # in which a server that does not read on would have closed it
                peer.sendall(b"x" * 2_000_000 + end)
                with peer.makefile("rb") as answered:
                    assert b"body_too_large" in answered.read()


def test_settings_know_what_is_loopback() -> None:
    ours, others = ("127.0.0.1", "127.8.8.8", "::1", "localhost"), ("0.0.0.0", "::", "10.0.0.1")
    assert all(ServiceSettings(host=host).is_open for host in ours)
    assert not any(ServiceSettings(host=host).is_open for host in (*others, "example.org"))
    assert not ServiceSettings(names=("feeds.example",)).is_open


# -- Those who have no token, or no longer one ---------------------------------------------


def test_without_a_token_hardly_any_body_is_read(place: DataDirectory) -> None:
    large = b"[" * (STRANGER + 1)
    with serving(place, ServiceSettings(host="0.0.0.0")) as running:
        for token in (None, "xscl_00000000_" + "x" * 43):
            with running.client(token) as stranger:
                for path in ("/v1/subscriptions:import", "/v1/documents/s", "/v1/sql"):
                    assert code(stranger.post(path, content=large)) == (413, "body_too_large")
                assert code(stranger.post("/v1/sql", content=large[:10])) == (401, "unauthorized")


def test_w7_a_revoked_token_takes_its_sessions_and_streams_along(
    running: Running, operator: httpx.Client
) -> None:
    token = token_of(operator, "carol")
    with running.client() as browser, running.client(token) as listener:
        answer = browser.post("/sign-in", data={"token": token, "next": "/"})
        assert answer.status_code == 303
        assert browser.cookies[COOKIE]
        assert ok(browser.get("/v1/subscriptions"))["next"] is None
        heard: list[str] = []

        def listen() -> None:
            with listener.stream("GET", "/v1/events") as events:
                heard.extend(events.iter_lines())

        with beside(listen):
            eventually(lambda: bool(heard))
            ok(operator.delete(f"/v1/tokens/{token.split('_')[1]}"))
            assert browser.get("/v1/subscriptions").status_code == 401
            assert running.service.app is not None
            running.service.app.delivery.notifier.notify()
    assert any("unauthorized" in line for line in heard)

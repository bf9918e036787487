"""Behind a reverse proxy nobody is the operator without a token, and clients are distinguished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import pytest

from tests.xscl.commandline import called, failed
from tests.xscl.service.conftest import ANY_PORT, Running, code, ok, serving, token_of
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.client_address import bucket_of, client_of, is_https, network_of
from xscl.service.dependencies import COOKIE

FORWARDING = (
    *("Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: feeds.example"),
    *("X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "X-Forwarded-Server: proxy"),
    *("X-Forwarded: yes", "X-Real-IP: 192.0.2.1", "x-real-ip:", "Via: 1.1 proxy"),
    *("X-Client-IP: 192.0.2.1", "True-Client-IP: 192.0.2.1", "CF-Connecting-IP: 192.0.2.1"),
    *("X-Cluster-Client-IP: 192.0.2.1", "X-Amzn-Trace-Id: Root=1-2-3"),
)
NEEDS_A_TOKEN = (
    ("GET", "/v1/me"),
    ("PUT", "/v1/subscriptions/mine"),
    ("POST", "/v1/documents/S"),
    ("POST", "/v1/backup"),
)


@pytest.mark.parametrize("header", FORWARDING)
def test_what_came_through_a_proxy_needs_a_token(
    running: Running, operator: httpx.Client, header: str
) -> None:
    name, _, value = header.partition(":")
    headers = {name: value.strip(), "Content-Type": "application/json"}
    for method, path in NEEDS_A_TOKEN:
        refused = operator.request(method, path, headers=headers, json={"query": "S//a"})
        assert code(refused) == (401, "unauthorized"), path
        assert "xscl token create" in refused.json()["hint"]
    page = operator.get("/", headers=headers)
    assert page.status_code in (303, 401), page.text
    assert ok(operator.get("/v1/me"))["name"] == "operator"
    with running.user("alice") as alice:
        assert ok(alice.get("/v1/me", headers=headers))["name"] == "alice"


def test_a_service_with_a_name_asks_for_tokens(place: DataDirectory) -> None:
    settings = replace(ANY_PORT, names=("feeds.example",))
    with serving(place, settings) as running:
        (first,) = running.first_tokens
        with running.client(first) as operator:
            assert ok(operator.get("/v1/me"))["name"] == "operator"
            ok(operator.delete(f"/v1/tokens/{first.split('_')[1]}"))
        with running.client() as nobody:
            for headers in ({}, {"Host": "feeds.example"}):
                refused = nobody.get("/v1/me", headers=headers)
                assert code(refused) == (401, "unauthorized")
                assert "none exists" in refused.json()["detail"]
                assert "xscl token create" in refused.json()["hint"]
            assert "xscl token create" in nobody.get("/sign-in").text
            guess = nobody.post("/sign-in", data={"token": "guess"})
            assert guess.status_code == 401
            assert "xscl token create" in guess.text
            assert ok(nobody.get("/v1/health", headers={"Host": "feeds.example"}))
        assert called("subscribe", "q", "S//a", "--data", str(place.path)).exit_code == 0
        token = called("token", "create", "--data", str(place.path)).stdout.strip()
        local = place.read_token()
        assert local is not None
        assert place.lock.stat().st_mode & 0o777 == 0o600
    assert place.read_token() is None
    assert local.encode() not in place.lock.read_bytes()
    with serving(place, settings) as running, running.client(token) as operator:
        assert running.first_tokens == []
        assert ok(operator.get("/v1/me"))["name"] == "operator"
        assert place.read_token() != local
        for given in (None, local):
            with running.client(given) as nobody:
                assert nobody.get("/v1/me").status_code == 401


# -- Trusted proxies -----------------------------------------------------------------------


PROXY = "127.0.0.9"


@dataclass(frozen=True)
class Proxied:
    """A service behind a proxy at 127.0.0.9 and further ones, and a token of the operator."""

    running: Running
    token: str


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    home = DataDirectory(tmp_path_factory.mktemp("proxied") / "data")
    proxies = tuple(map(network_of, (PROXY, "10.0.0.0/24")))
    settings = replace(ANY_PORT, trusted_proxies=proxies, guesses=3, connections=2)
    with serving(home, settings) as running, running.client() as operator:
        yield Proxied(running, token_of(operator, "operator"))


def test_connections_of_a_trusted_proxy_never_are_the_operators(proxied: Proxied) -> None:
    with proxied.running.client(source=PROXY) as nobody:
        assert code(nobody.get("/v1/me")) == (401, "unauthorized")
    with proxied.running.client(proxied.token, PROXY, X_Forwarded_For="192.0.2.1") as found:
        assert ok(found.get("/v1/me"))["name"] == "operator"
    with proxied.running.client(source="127.0.0.8") as local:
        assert ok(local.get("/v1/me"))["name"] == "operator"


def test_guesses_count_by_the_client_that_a_trusted_proxy_names(proxied: Proxied) -> None:
    proxy, stranger = (
        proxied.running.client(f"{proxied.token[:-2]}~~", source) for source in (PROXY, "127.0.0.7")
    )
    with proxy, stranger:

        def guess(client: httpx.Client, forwarded: str) -> int:
            return client.get("/v1/me", headers={"X-Forwarded-For": forwarded}).status_code

        assert [guess(proxy, "192.0.2.1") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert guess(proxy, "192.0.2.2") == 401
        assert guess(proxy, "192.0.2.2, 192.0.2.1") == 429, "the client wrote what comes first"
        assert guess(proxy, "192.0.2.1, 10.0.0.7") == 429, "a second proxy of ours"
        # Of a stranger the header is not believed.
        told = [guess(stranger, f"192.0.2.{number}") for number in range(10, 15)]
        assert told == [401, 401, 401, 429, 429]


def test_the_cookie_of_a_browser_behind_https_goes_over_https_only(proxied: Proxied) -> None:
    for source, forwarded, secure in (
        ("127.0.0.9", "https", True),
        ("127.0.0.9", "http", False),
        ("127.0.0.8", "https", False),
    ):
        with proxied.running.client(None, source, X_Forwarded_Proto=forwarded) as browser:
            answer = browser.post("/sign-in", data={"token": proxied.token})
            assert answer.status_code == 303
            assert COOKIE in answer.cookies
            assert ("; secure" in answer.headers["set-cookie"].lower()) is secure


def test_requests_in_progress_count_by_the_client_that_a_trusted_proxy_names(
    proxied: Proxied,
) -> None:
    with ExitStack() as stack:

        def begun(client: str) -> bytes:
            """Begin a request whose body does not come to its end; return what is answered."""
            made = stack.enter_context(proxied.running.connect(PROXY))
            head = "POST /v1/documents/S?id=x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
            made.sendall(
                f"{head}Authorization: Bearer {proxied.token}\r\nX-Forwarded-For: {client}\r\n"
                "Expect: 100-continue\r\n\r\n".encode()
            )
            return made.recv(100)[:13]

        found = [begun(f"192.0.2.{number}") for number in (30, 30, 30, 31)]
    assert found == [f"HTTP/1.1 {status} ".encode() for status in (100, 100, 429, 100)]


TRUSTED = "10.0.0.1"
CLIENTS = {
    ("192.0.2.1", "198.51.100.1"): "192.0.2.1",
    (TRUSTED, ""): TRUSTED,
    (TRUSTED, "1.1.1.1, 198.51.100.1"): "198.51.100.1",
    (TRUSTED, "198.51.100.1,10.0.0.2"): "198.51.100.1",
    (TRUSTED, "1.1.1.1 / 198.51.100.1, 10.0.0.2"): "198.51.100.1",  # two headers
    (TRUSTED, "198.51.100.1:4711"): "198.51.100.1",
    (TRUSTED, "[2001:db8::1]:4711"): "2001:db8::1",
    (TRUSTED, "::ffff:198.51.100.1"): "198.51.100.1",
    (TRUSTED, "198.51.100.1, unknown"): TRUSTED,
    (TRUSTED, "10.0.0.3, 10.0.0.2"): "10.0.0.3",
    (f"::ffff:{TRUSTED}", "198.51.100.1"): "198.51.100.1",
    ("", "198.51.100.1"): "",
}


@pytest.mark.parametrize(("peer", "forwarded"), CLIENTS)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(peer: str, forwarded: str) -> None:
    headers = [(b"x-forwarded-for", one.encode()) for one in forwarded.split(" / ") if one]
    scope = {"client": (peer, 1) if peer else None, "headers": headers, "scheme": "http"}
    assert client_of(scope, (network_of("10.0.0.0/24"),)) == CLIENTS[peer, forwarded]
    assert client_of(scope, ()) == peer
    assert not is_https(scope, ())


def test_addresses_of_one_ipv6_network_share_a_limit() -> None:
    assert bucket_of("2001:db8::1") == bucket_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert bucket_of("2001:db8:0:1::1") != bucket_of("2001:db8::1")
    assert bucket_of("::ffff:192.0.2.1") == bucket_of("192.0.2.1") == str(IPv4Address("192.0.2.1"))


def test_the_environment_and_the_settings_file_name_proxies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSCL_TRUSTED_PROXY", "10.0.0.0/24 nowhere")
    assert "'nowhere' is not a network" in failed(2, "serve", "--once")
    monkeypatch.delenv("XSCL_TRUSTED_PROXY")
    monkeypatch.chdir(tmp_path)
    for text, told in (
        ('trusted-proxy = ["::1", "somewhere"]\nconnections = 3', "'somewhere' is not a network"),
        ('trusted-proxy = ["::1"]\nconnections = 0', "--connections"),
    ):
        (tmp_path / "xscl.toml").write_text(text)
        assert told in failed(2, "serve", "--once")

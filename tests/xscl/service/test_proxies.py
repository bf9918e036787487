"""Behind a reverse proxy nobody is the operator without a token, and clients are distinguished."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import pytest

from tests.plain_http import NO_CERTIFICATES
from tests.xscl.commandline import called
from tests.xscl.service.conftest import ANY_PORT, Running, code, ok, serving, token_of
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.client_address import bucket_of, client_of, is_https, network_of
from xscl.service.dependencies import COOKIE

FORWARDING = [
    "Forwarded: for=192.0.2.1",
    "X-Forwarded-For: 192.0.2.1",
    "X-Forwarded-Host: feeds.example",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Port: 443",
    "X-Forwarded-Server: proxy",
    "X-Forwarded: yes",
    "X-Real-IP: 192.0.2.1",
    "x-real-ip:",
    "Via: 1.1 proxy",
    "X-Client-IP: 192.0.2.1",
    "True-Client-IP: 192.0.2.1",
    "CF-Connecting-IP: 192.0.2.1",
    "X-Cluster-Client-IP: 192.0.2.1",
    "X-Amzn-Trace-Id: Root=1-2-3",
]
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
    with running.client(token_of(operator, "alice")) as alice:
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


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service behind a proxy at 127.0.0.9 and further ones, and a token of the operator."""
    home = DataDirectory(tmp_path_factory.mktemp("proxied") / "data")
    proxies = tuple(map(network_of, ("127.0.0.9", "10.0.0.0/24")))
    settings = replace(ANY_PORT, trusted_proxies=proxies, guesses=3, connections=2)
    with serving(home, settings) as running, running.client() as operator:
        yield running, token_of(operator, "operator")


def through(running: Running, source: str = "127.0.0.9", **headers: str) -> httpx.Client:
    """Return a client whose connections come from an address."""
    transport = httpx.HTTPTransport(local_address=source, verify=NO_CERTIFICATES)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Client(base_url=running.address, headers=named, transport=transport, timeout=30)


def test_connections_of_a_trusted_proxy_never_are_the_operators(
    proxied: tuple[Running, str],
) -> None:
    running, token = proxied
    with through(running) as nobody:
        assert code(nobody.get("/v1/me")) == (401, "unauthorized")
    with through(running, Authorization=f"Bearer {token}", X_Forwarded_For="192.0.2.1") as found:
        assert ok(found.get("/v1/me"))["name"] == "operator"
    with through(running, "127.0.0.8") as local:
        assert ok(local.get("/v1/me"))["name"] == "operator"


def test_guesses_count_by_the_client_that_a_trusted_proxy_names(
    proxied: tuple[Running, str],
) -> None:
    running, token = proxied
    wrong = {"Authorization": f"Bearer {token[:-2]}~~"}
    with through(running) as proxy, through(running, "127.0.0.7") as stranger:

        def guess(client: httpx.Client, forwarded: str) -> int:
            headers = {**wrong, "X-Forwarded-For": forwarded}
            return client.get("/v1/me", headers=headers).status_code

        assert [guess(proxy, "192.0.2.1") for _ in range(5)] == [401, 401, 401, 429, 429]
        assert guess(proxy, "192.0.2.2") == 401
        assert guess(proxy, "192.0.2.2, 192.0.2.1") == 429, "the client wrote what comes first"
        assert guess(proxy, "192.0.2.1, 10.0.0.7") == 429, "a second proxy of ours"
        # Of a stranger the header is not believed.
        told = [guess(stranger, f"192.0.2.{number}") for number in range(10, 15)]
        assert told == [401, 401, 401, 429, 429]


def test_the_cookie_of_a_browser_behind_https_goes_over_https_only(
    proxied: tuple[Running, str],
) -> None:
    running, token = proxied
    for source, forwarded, secure in (
        ("127.0.0.9", "https", True),
        ("127.0.0.9", "http", False),
        ("127.0.0.8", "https", False),
    ):
        with through(running, source, X_Forwarded_Proto=forwarded) as browser:
            answer = browser.post("/sign-in", data={"token": token})
            assert answer.status_code == 303
            assert COOKIE in answer.cookies
            assert ("; secure" in answer.headers["set-cookie"].lower()) is secure


def test_requests_in_progress_count_by_the_client_that_a_trusted_proxy_names(
    proxied: tuple[Running, str],
) -> None:
    running, token = proxied
    host, port = running.address.removeprefix("http://").split(":")

    def begun(client: str) -> socket.socket:
        """Begin a request whose body does not come to its end."""
        made = socket.create_connection((host, int(port)), 30, ("127.0.0.9", 0))
        head = f"POST /v1/documents/S?id=x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n"
        made.sendall(
            f"{head}Authorization: Bearer {token}\r\nX-Forwarded-For: {client}\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        return made

    held = [begun("192.0.2.30") for _ in range(2)]
    try:
        for one in held:
            assert one.recv(100).startswith(b"HTTP/1.1 100 ")
        with begun("192.0.2.30") as third, begun("192.0.2.31") as other:
            assert third.recv(100).startswith(b"HTTP/1.1 429 ")
            assert other.recv(100).startswith(b"HTTP/1.1 100 ")
    finally:
        for one in held:
            one.close()


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1,10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(
    peer: str, forwarded: str | None, client: str
) -> None:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    scope = {"client": (peer, 1) if peer else None, "headers": headers, "scheme": "http"}
    assert client_of(scope, (network_of("10.0.0.0/24"),)) == client
    assert client_of(scope, ()) == peer
    assert not is_https(scope, ())


def test_several_headers_are_one_list() -> None:
    headers = [(b"x-forwarded-for", b"1.1.1.1"), (b"x-forwarded-for", b"198.51.100.1, 10.0.0.2")]
    scope = {"client": ("10.0.0.1", 1), "headers": headers}
    assert client_of(scope, (network_of("10.0.0.0/24"),)) == "198.51.100.1"


def test_addresses_of_one_ipv6_network_share_a_limit() -> None:
    assert bucket_of("2001:db8::1") == bucket_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert bucket_of("2001:db8:0:1::1") != bucket_of("2001:db8::1")
    assert bucket_of("::ffff:192.0.2.1") == bucket_of("192.0.2.1") == str(IPv4Address("192.0.2.1"))


def test_the_environment_and_the_settings_file_name_proxies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSCL_TRUSTED_PROXY", "10.0.0.0/24 nowhere")
    done = called("serve", "--once")
    assert (done.exit_code, "'nowhere' is not a network" in done.stderr) == (2, True)
    monkeypatch.delenv("XSCL_TRUSTED_PROXY")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xscl.toml").write_text('trusted-proxy = ["::1", "somewhere"]\nconnections = 3\n')
    done = called("serve", "--once")
    assert (done.exit_code, "'somewhere' is not a network" in done.stderr) == (2, True)
    (tmp_path / "xscl.toml").write_text('trusted-proxy = ["::1"]\nconnections = 0\n')
    done = called("serve", "--once")
    assert (done.exit_code, "--connections" in done.stderr) == (2, True)


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "10.0.0.0/33", "proxy.example", ""])
def test_what_is_no_network_of_a_proxy_is_refused(text: str) -> None:
    done = called("serve", "--once", "--trusted-proxy", text)
    assert done.exit_code == 2
    assert "trusted-proxy" in done.output

"""Those who have no token, or no longer one: what they can send, hold and hear."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import httpx

from tests.xscl.service.conftest import Running, code, eventually, ok, serving
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.app import ServiceSettings
from xscl.service.dependencies import COOKIE
from xscl.service.guard import STRANGER


def closed(peer: socket.socket) -> bool:
    """Return True if the other side has closed a connection."""
    peer.settimeout(0.01)
    try:
        return peer.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_without_a_token_hardly_any_body_is_read(tmp_path: Path) -> None:
    settings = ServiceSettings(host="0.0.0.0")
    with serving(DataDirectory(tmp_path / "data"), settings) as running:
        large = b"[" * (STRANGER + 1)
        for token in (None, "xscl_00000000_" + "x" * 43):
            with running.client(token) as stranger:
                for path in ("/v1/subscriptions:import", "/v1/documents/s", "/v1/sql"):
                    assert code(stranger.post(path, content=large)) == (413, "body_too_large")
                assert code(stranger.post("/v1/sql", content=large[:10])) == (401, "unauthorized")


def test_w7_a_revoked_token_takes_its_sessions_and_streams_along(
    running: Running, operator: httpx.Client
) -> None:
    made = ok(operator.post("/v1/tokens", json={"user": "carol", "label": "page"}))
    token, name = made["token"], made["id"]
    with running.client() as browser:
        answer = browser.post("/sign-in", data={"token": token, "next": "/"})
        assert answer.status_code == 303
        session = answer.cookies[COOKIE]
        browser.cookies.clear()
        browser.cookies.set(COOKIE, session)
        assert ok(browser.get("/v1/subscriptions"))["next"] is None
        heard: list[str] = []
        with running.client(token) as listener:

            def listen() -> None:
                with listener.stream("GET", "/v1/events") as events:
                    heard.extend(events.iter_lines())

            thread = threading.Thread(target=listen)
            thread.start()
            eventually(lambda: bool(heard))
            ok(operator.delete(f"/v1/tokens/{name}"))
            assert browser.get("/v1/subscriptions").status_code == 401
            assert running.service.app is not None
            running.service.app.delivery.notifier.notify()
            thread.join(30)
            assert not thread.is_alive()
    assert any("unauthorized" in line for line in heard)

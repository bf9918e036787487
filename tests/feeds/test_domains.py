"""Registrable domains."""

from __future__ import annotations

import pytest

from feeds.http.domains import registrable


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("blog.Example.org.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("someone.github.io", "someone.github.io"),
        ("x.someone.github.io", "someone.github.io"),
        ("github.io", "github.io"),
        ("a.xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_registrable(host: str, domain: str) -> None:
    assert registrable(host) == domain

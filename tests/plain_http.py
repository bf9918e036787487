"""Clients of servers on loopback, which speak plain HTTP."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The `verify` of such a client: httpx loads the system's for each one, which takes 15 ms."""


def plain_client(address: str = "", **options: Any) -> httpx.Client:
    """Return a client of a server, which the environment does not change."""
    given = {"timeout": 60, "trust_env": False, "verify": NO_CERTIFICATES, **options}
    return httpx.Client(base_url=address, **given)

"""The common part of the clients: connection settings, and waiting for a busy service."""

from __future__ import annotations

import functools
import ssl
from typing import Any

import httpx

CONNECT = 5.0
"""Seconds until a connection has to be there."""
PATIENCE = 600.0
"""Seconds until an answer has to begin; a trial or a backup takes long."""
TRIES = 60
"""How often a busy service is asked, a second or more apart."""
LONGEST_WAIT = 10
"""Seconds of `Retry-After` up to which a client waits."""

_LATER = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


def settings(address: str, token: str | None, patience: float) -> dict[str, Any]:
    """Return the settings of a connection to the service at an address.

    Proxies and passwords of the environment are not used: the token goes to this address only.
    """
    return {
        "base_url": address,
        "headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "timeout": httpx.Timeout(patience, connect=CONNECT),
        "trust_env": False,
        "verify": _trusted(address.startswith("https:")),
    }


@functools.cache
def _trusted(encrypted: bool) -> ssl.SSLContext:
    """Return the certificates to trust: none for plain HTTP, as loading them takes 15 ms."""
    if encrypted:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def base_of(address: str) -> str:
    """Return the address of a service without `/v1`; raises ValueError for no HTTP address."""
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{address!r} is no address of a service, such as http://127.0.0.1:8425")
    return address.rstrip("/").removesuffix("/v1")


def wait_of(answer: httpx.Response) -> int | None:
    """Return the seconds after which to send a request again, None to take the answer."""
    wait = answer.headers.get("retry-after", "")
    if answer.status_code not in _LATER or not wait.isdecimal() or int(wait) > LONGEST_WAIT:
        return None
    return int(wait)

"""Clients of servers on loopback, which speak plain HTTP."""

from __future__ import annotations

import ssl

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The `verify` of such a client: httpx loads the system's for each one, which takes 15 ms."""

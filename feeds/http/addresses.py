"""Which addresses may be fetched: public ones, and those that the operator lists.

A name is resolved once, *every* address that it has is checked, and the
connection goes to a checked address: a name that answers differently the next
time gains nothing.  `refused_networks` is the table of what is not public.

A name that resolves to a refused address gives the same error as a name that does
not resolve, so that nobody learns which names an internal network has.  A host that
is written as an address is refused as such: it tells nothing that was not asked.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from feeds.daemons import DaemonPool
from feeds.http.refused_networks import GLOBAL_UNICAST, REFUSED_IPV4, REFUSED_IPV6

Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""From host and port to addresses; raises OSError if there are none."""

PORTS = frozenset({80, 443, 8080, 8443})
"""The ports of web servers; any other port, behind which may be anything, must be listed."""

RESOLVING = 64
"""Names that are resolved at the same time, at most."""

_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""The upper half of an ISATAP interface identifier (RFC 5214), above an IPv4 address."""

_HOST = re.compile(rb"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST = 4_000


class RequestFailed(Exception):
    """A request that brings no whole answer, or is not made; the code is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RefusedAddress(RequestFailed):
    """An address that must not be fetched."""


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """An address to fetch: its parsed form, and the IP addresses to connect to."""

    url: httpx.URL
    addresses: tuple[str, ...]


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host by the system's resolver, in a thread of its own.

    A name server that does not answer holds a thread for half a minute.  In the
    pool that everything shares, a few such names would stop all feeds; and as the
    interpreter waits for the threads of every pool, one would hold up its end.
    """
    ask = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.wrap_future(_resolvers().submit(ask))
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))


@functools.cache
def _resolvers() -> DaemonPool:
    return DaemonPool("resolve", RESOLVING)


async def check(url: str, allowed: Container[str], resolve: Resolve) -> FetchTarget:
    """The target of an address, whose host is resolved once; raises `RefusedAddress`."""
    parsed = expect_fetchable(url, allowed)
    try:
        addresses = await resolve(parsed.raw_host.decode("ascii"), _port(parsed))
    except (OSError, UnicodeError):
        addresses = ()
    if not addresses or (_place(parsed) not in allowed and not all(map(is_public, addresses))):
        raise unreachable(url, allowed)
    return FetchTarget(parsed, addresses)


def unreachable(url: str, allowed: Container[str]) -> RefusedAddress:
    """The one error for a name that does not resolve and for a name that is refused."""
    place = _place(httpx.URL(url.strip()))
    message = "the server cannot be reached"
    if place not in allowed:
        message += f", or its address is private and {place} is not allowed"
    return RefusedAddress("fetch_unreachable", message)


def expect_fetchable(url: str, allowed: Container[str]) -> httpx.URL:
    """Parse an address; raises `RefusedAddress` if it is never fetched, whatever its name means.

    A host that is written as an address is judged, in every form that the system's resolver takes
    for one; a name is judged when it is resolved.
    """
    parsed = _parse(url)
    place = _place(parsed)
    if place in allowed:
        return parsed
    if _port(parsed) not in PORTS:
        message = f"port {_port(parsed)} is refused unless {place} is allowed"
        raise RefusedAddress("url_port", message)
    host = parsed.raw_host.decode("ascii").rstrip(".").lower()
    is_local = host == "localhost" or host.endswith(".localhost")
    with suppress(OSError):  # it is no address
        meant = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
        is_local = not is_public(meant)
    if is_local:
        message = f"the address is private and {place} is not allowed"
        raise RefusedAddress("url_private", message)
    return parsed


def _port(url: httpx.URL) -> int:
    return url.port if url.port is not None else _DEFAULT_PORTS[url.scheme]


def _place(url: httpx.URL) -> str:
    """The host and port of an address, as `allowed` lists them."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{_port(url)}"


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url.strip())
        host = parsed.host  # raises for nothing after `xn--`
    except (httpx.InvalidURL, UnicodeError, ValueError):
        parsed = None
    has_form = url.isprintable() and " " not in url.strip() and "\\" not in url
    if parsed is None or len(url) > _LONGEST or not has_form:
        raise RefusedAddress("url_invalid", "the address is not a valid URL")
    if parsed.scheme not in ("http", "https"):
        raise RefusedAddress("url_scheme", "only http and https addresses are fetched")
    if not host or not _HOST.fullmatch(parsed.raw_host):
        raise RefusedAddress("url_invalid", "the address has no valid host")
    return parsed


def is_public(address: str) -> bool:
    """Return True if an IP address is public, by `refused_networks`."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in REFUSED_IPV4)
    if parsed.scope_id is not None or parsed not in GLOBAL_UNICAST:
        return False
    # An ISATAP router of the local site forwards these to the IPv4 address inside.
    if (int(parsed) >> 32) & 0xFFFFFFFF in _ISATAP:
        return False
    return not any(parsed in network for network in REFUSED_IPV6)

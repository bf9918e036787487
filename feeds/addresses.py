"""Which addresses may be fetched: public ones, and those that the operator lists.

A name is resolved once, *every* address that it has is checked, and the
connection goes to a checked address: a name that answers differently the next
time gains nothing.  Addresses that carry an IPv4 address inside (mapped, 6to4,
NAT64, Teredo) are judged by that one as well.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from feeds.daemons import Daemons

Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""From host and port to addresses; raises OSError if there are none."""

PORTS = frozenset({80, 443, 8080, 8443})
"""The ports that are fetched from without being listed: other services live on the others."""

RESOLVING = 64
"""Names that are resolved at the same time, at most."""

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LONGEST = 4_000


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an address is not fetched."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
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
def _resolvers() -> Daemons:
    return Daemons("resolve", RESOLVING)


async def check(url: str, allowed: frozenset[str], resolve: Resolve) -> Target | Refused:
    """The target of an address, or why it is not fetched; resolves its host once."""
    parsed = _parse(url)
    if isinstance(parsed, Refused):
        return parsed
    port = _port(parsed)
    listed = f"{_in_brackets(parsed.host)}:{port}" in allowed
    if (refused := _wrong_port(parsed, allowed)) is not None:
        return refused
    try:
        addresses = await resolve(parsed.raw_host.decode("ascii"), port)
    except (OSError, UnicodeError):
        return Refused("fetch_unreachable", "the server cannot be reached")
    if not listed and not all(map(is_public, addresses)):
        return _private(parsed)
    return Target(parsed, addresses)


def refusal(url: str, allowed: frozenset[str]) -> Refused | None:
    """Why an address would never be fetched, as far as nobody has to be asked for that.

    A host that is written as an address, in whatever form the system takes for one, is judged; a
    name is when it is resolved.
    """
    parsed = _parse(url)
    if isinstance(parsed, Refused):
        return parsed
    if (refused := _wrong_port(parsed, allowed)) is not None:
        return refused
    if f"{_in_brackets(parsed.host)}:{_port(parsed)}" in allowed:
        return None
    host = parsed.raw_host.decode("ascii").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return _private(parsed)
    try:
        meant = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
    return None if is_public(meant) else _private(parsed)


def _port(url: httpx.URL) -> int:
    return url.port if url.port is not None else _DEFAULT_PORTS[url.scheme]


def _wrong_port(url: httpx.URL, allowed: frozenset[str]) -> Refused | None:
    place = f"{_in_brackets(url.host)}:{_port(url)}"
    if place in allowed or _port(url) in PORTS:
        return None
    return Refused("url_port", f"port {_port(url)} is not fetched from unless {place} is allowed")


def _private(url: httpx.URL) -> Refused:
    place = f"{_in_brackets(url.host)}:{_port(url)}"
    return Refused("url_private", f"the address is private and {place} is not allowed")


def _parse(url: str) -> httpx.URL | Refused:
    if len(url) > _LONGEST or not url.isprintable() or " " in url.strip() or "\\" in url:
        return Refused("url_invalid", "the address is not a valid URL")
    try:
        parsed = httpx.URL(url.strip())
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return Refused("url_invalid", "the address is not a valid URL")
    if parsed.scheme not in ("http", "https"):
        return Refused("url_scheme", "only http and https addresses are fetched")
    if not _HOST.fullmatch(parsed.raw_host):
        return Refused("url_invalid", "the address has no valid host")
    return parsed


def is_public(address: str) -> bool:
    """Whether anybody on the Internet could reach the IP address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(each.is_global and not each.is_multicast for each in _meant(parsed))


def _meant(address: _Address) -> tuple[_Address, ...]:
    """The address, or the IPv4 addresses that it stands for or carries."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour:
        return (address, address.sixtofour)
    return (address, *(address.teredo or ()))


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host
